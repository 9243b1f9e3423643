// One running tools/call as the session sees it: ends once (with a result, a protocol error or
// questions to the client), reports progress at a bounded rate, can be cancelled. Lives as long as
// its handler keeps it; the session holds it weakly. On the dispatcher's thread (only stop_token()
// and the constant arguments() may be used elsewhere). Not here: the messages themselves, which the
// owner's functions write.
#pragma once

#include <chrono>
#include <functional>
#include <variant>

#include "mcp/registry.h"

namespace engramd::mcp {

using Clock = std::function<std::chrono::steady_clock::time_point()>;

// Questions to the client, and what the handler wants to find again with the answers.
struct Questions {
  json requests;  // {key: {method, params}}
  json state;     // null: none
};

using CallEnd = std::variant<ToolResult, RpcError, Questions>;

// What a request says about itself beside its arguments.
struct CallContext {
  json progress_token;  // a string or an integer; null: none
  json client_capabilities = json::object();
  std::string log_level;  // the least that the client wants; empty: no log
  json request;           // the tool and its arguments as they were sent; a state belongs to it
  Inputs inputs;
};

class RunningCall final : public ToolCall {
 public:
  struct Owner {
    std::function<void(CallEnd)> end;                                  // at most once
    std::function<void(std::string_view method, json params)> notify;  // progress and log
    Clock now;
    std::chrono::milliseconds progress_interval;
  };

  RunningCall(Owner owner, json arguments, CallContext context);
  ~RunningCall() override;
  RunningCall(const RunningCall&) = delete;
  RunningCall& operator=(const RunningCall&) = delete;

  const json& arguments() const override { return arguments_; }
  std::stop_token stop_token() const override { return stop_.get_token(); }
  bool wants_progress() const override { return !context_.progress_token.is_null(); }
  void progress(double done, std::optional<double> total, const std::string& message) override;
  void log(std::string_view level, json data) override;
  void finish(ToolResult result) override { end(std::move(result)); }
  void refuse(RpcError error) override { end(std::move(error)); }
  bool client_can(std::string_view capability) const override;
  void require_input(json questions, json state) override;
  const Inputs& inputs() const override { return context_.inputs; }

  const CallContext& context() const { return context_; }
  // From now on nothing is reported and no end is told.
  void cancel();

 private:
  void end(CallEnd how);

  Owner owner_;
  const json arguments_;
  const CallContext context_;
  std::stop_source stop_;
  bool done_ = false;
  std::optional<double> reported_;  // the last progress sent
  std::chrono::steady_clock::time_point reported_at_;
};

}  // namespace engramd::mcp
