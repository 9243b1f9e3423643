// Session: one connection of the dispatcher: which requests are not answered yet, where each answer
// goes, what the client was asked. Both eras come through here, chosen per request; what a method
// means is features, legacy_session and stateless.
// On the dispatcher's thread. `send` may close or destroy the connection inside any function, so
// callers hold the session while they call it. Not here: parsing (json_rpc), transports.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mcp/dispatcher.h"
#include "mcp/legacy_session.h"
#include "mcp/sealed_state.h"
#include "mcp/tool_call.h"

namespace engramd::mcp {

// What every session of a dispatcher shares.
struct SharedParts {
  const Registry& registry;
  Limits limits;
  Observer observer;
  Clock now;
  StateSeal seal = {};
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(std::shared_ptr<const SharedParts> shared, Sink send);

  void receive(std::string_view text, std::uint64_t stream);
  void receive(Incoming incoming, std::uint64_t stream);
  void receive_oversize(std::string_view beginning);
  void announce(const Change& change);
  void end_subscriptions();
  void close();
  int tools_in_flight() const;

  bool ascii_only = false;

 private:
  using Time = std::chrono::steady_clock::time_point;

  // The replies of one JSON-RPC batch, sent together when the last is there.
  struct Batch {
    json replies = json::array();
    int pending = 0;
  };

  // Where the answer to a request goes and in which shape.
  struct ReplyTo {
    json id;
    Revision revision = kLegacyNewest;
    std::uint64_t stream = 0;
    std::shared_ptr<Batch> batch;  // null: on its own
  };

  // A request that is not answered yet: a tool that runs or waits for the client's answers, or an
  // open subscription.
  struct InFlight {
    ReplyTo reply_to;
    std::weak_ptr<RunningCall> call;
    const Tool* tool = nullptr;  // null: a subscription
    Time started;
    Subscription subscription;
    // While the client of a legacy session is asked: what the handler runs with once all is there.
    json arguments;
    CallContext context;
    int n_open_questions = 0;
  };

  // A request of ours that the client has not answered yet.
  struct Question {
    std::string call;  // key in in_flight_
    std::string key;   // of the answer
  };

  void receive_batch(std::vector<Message> messages, std::uint64_t stream);
  void handle(Message message, std::uint64_t stream, const std::shared_ptr<Batch>& batch);
  void handle_request(const Message& message, ReplyTo reply_to);
  void handle_notification(const Message& message);
  void handle_response(Message message);
  void call_tool(const json& params, ReplyTo reply_to);
  Outcome read_context(const json& params, const ReplyTo& reply_to, CallContext& context) const;
  void start(const Tool& tool, json arguments, CallContext context, ReplyTo reply_to);
  void run(const std::string& key, json arguments, CallContext context);
  void end_call(const std::string& key, CallEnd how);
  void finish(const std::string& key, ToolResult result);
  void ask(const std::string& key, Questions questions);
  void listen(const json& params, ReplyTo reply_to);
  void cancel(const std::string& key);

  void observe_start(const Tool& tool) const;
  void observe_finish(const Tool& tool, const std::string& outcome, Time started) const;
  void reply_with_tool_error(const Tool& tool, const ReplyTo& reply_to, std::string text);
  json dress(const ReplyTo& reply_to, json result) const;
  void reply(const ReplyTo& reply_to, Outcome outcome);
  void settle(const ReplyTo& reply_to);
  void send(const json& message, std::uint64_t stream, bool last = false, int error_code = 0);

  const std::shared_ptr<const SharedParts> shared_;
  const Sink send_;
  LegacySession legacy_;
  std::map<std::string, InFlight> in_flight_;  // by the id as JSON text: 1 and "1" differ
  std::map<std::string, Question> questions_;  // by our id
  std::uint64_t n_questions_ = 0;
  bool closed_ = false;
};

}  // namespace engramd::mcp
