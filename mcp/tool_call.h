// One running tools/call as the dispatcher sees it: finishes once, reports progress at a bounded
// rate, can be cancelled. Lives as long as its handler keeps it; the dispatcher holds it weakly.
// On the dispatcher's thread (only stop_token() and the constant arguments() may be used
// elsewhere). Not here: the reply itself, which the owner's functions write.
#pragma once

#include <chrono>
#include <functional>

#include "mcp/registry.h"

namespace engramd::mcp {

using Clock = std::function<std::chrono::steady_clock::time_point()>;

class RunningCall final : public ToolCall {
 public:
  struct Owner {
    std::function<void(ToolResult)> finish;   // at most once
    std::function<void(json params)> notify;  // a progress notification; null: no token was given
    Clock now;
    std::chrono::milliseconds progress_interval;
  };

  // progress_token: a string or an integer; null: none.
  RunningCall(Owner owner, json arguments, json progress_token);
  ~RunningCall() override;
  RunningCall(const RunningCall&) = delete;
  RunningCall& operator=(const RunningCall&) = delete;

  const json& arguments() const override { return arguments_; }
  std::stop_token stop_token() const override { return stop_.get_token(); }
  bool wants_progress() const override { return !progress_token_.is_null(); }
  void progress(double done, std::optional<double> total, const std::string& message) override;
  void finish(ToolResult result) override;

  // From now on finish() and progress() do nothing.
  void cancel();

 private:
  Owner owner_;
  const json arguments_;
  const json progress_token_;
  std::stop_source stop_;
  bool done_ = false;
  std::optional<double> reported_;  // the last progress sent
  std::chrono::steady_clock::time_point reported_at_;
};

}  // namespace engramd::mcp
