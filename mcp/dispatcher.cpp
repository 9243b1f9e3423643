#include "mcp/dispatcher.h"

#include <algorithm>
#include <map>
#include <utility>

#include "mcp/json_rpc.h"
#include "mcp/legacy_session.h"
#include "mcp/stateless.h"
#include "mcp/text.h"
#include "mcp/tool_call.h"

namespace engramd::mcp {
namespace {

using Time = std::chrono::steady_clock::time_point;

// What every connection of a dispatcher shares.
struct Shared {
  const Registry& registry;
  Limits limits;
  Observer observer;
  Clock now;
};

// The replies of one JSON-RPC batch, sent together when the last is there.
struct Batch {
  json replies = json::array();
  int pending = 0;
};

// Where the answer to a request goes and in which shape.
struct ReplyTo {
  json id;
  Revision revision = kLegacyNewest;
  std::shared_ptr<Batch> batch;  // null: on its own
};

// A request that is not answered yet: a running tool or an open subscription.
struct InFlight {
  ReplyTo reply_to;
  std::weak_ptr<RunningCall> call;
  const Tool* tool = nullptr;  // null: a subscription
  Time started;
};

// One connection. Calls that outlive it hold it weakly.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(std::shared_ptr<const Shared> shared, std::function<void(std::string)> send)
      : shared_(std::move(shared)), send_(std::move(send)) {}

  void receive(std::string_view text);
  void receive_oversize(std::string_view beginning);
  void end_subscriptions();
  void close();
  int tools_in_flight() const;

  bool ascii_only = false;

 private:
  void receive_batch(std::vector<Message> messages);
  void handle(Message message, const std::shared_ptr<Batch>& batch);
  void handle_request(const Message& message, ReplyTo reply_to);
  void handle_notification(const Message& message);
  void call_tool(const json& params, ReplyTo reply_to);
  void start(const Tool& tool, json arguments, json progress_token, ReplyTo reply_to);
  void finish(const std::string& key, ToolResult result);
  void listen(const json& params, ReplyTo reply_to);
  void cancel(const std::string& key);

  void observe_start(const Tool& tool) const;
  void observe_finish(const Tool& tool, const std::string& outcome, Time started) const;
  void reply_with_tool_error(const Tool& tool, const ReplyTo& reply_to, std::string text);
  json dress(const ReplyTo& reply_to, json result) const;
  void reply(const ReplyTo& reply_to, Outcome outcome);
  void settle(const std::shared_ptr<Batch>& batch);
  void send(const json& message);

  const std::shared_ptr<const Shared> shared_;
  const std::function<void(std::string)> send_;
  LegacySession legacy_;
  std::map<std::string, InFlight> in_flight_;  // by the id as JSON text: 1 and "1" differ
  bool closed_ = false;
};

void Session::receive(std::string_view text) {
  if (closed_) return;
  if (static_cast<std::int64_t>(text.size()) > shared_->limits.message_bytes_max) {
    return receive_oversize(text);
  }
  Incoming incoming = parse_incoming(text, shared_->limits.json_depth_max);
  if (incoming.is_batch) return receive_batch(std::move(incoming.messages));
  for (Message& message : incoming.messages) handle(std::move(message), nullptr);
}

void Session::receive_oversize(std::string_view beginning) {
  reply({recover_id(beginning), legacy_.revision(), nullptr},
        Outcome::failure(kInvalidRequest, "message is longer than the limit of " +
                                              std::to_string(shared_->limits.message_bytes_max) +
                                              " bytes"));
}

// basic/index#batching of 2025-03-26, the only revision that has it.
void Session::receive_batch(std::vector<Message> messages) {
  const int messages_max = shared_->limits.batch_messages_max;
  const bool too_long = messages.size() > static_cast<std::size_t>(messages_max);
  if (!legacy_.accepts_batches() || too_long) {
    return reply({nullptr, legacy_.revision(), nullptr},
                 Outcome::failure(kInvalidRequest,
                                  too_long ? "a batch holds at most " +
                                                 std::to_string(messages_max) + " messages"
                                           : "batches exist only in revision 2025-03-26; send one "
                                             "message at a time"));
  }
  const auto batch = std::make_shared<Batch>();
  ++batch->pending;  // ours, so that nothing is sent before the last message was looked at
  for (Message& message : messages) {
    if (message.kind == MessageKind::kRequest || message.kind == MessageKind::kInvalid) {
      ++batch->pending;
    }
    handle(std::move(message), batch);
  }
  settle(batch);
}

void Session::handle(Message message, const std::shared_ptr<Batch>& batch) {
  if (closed_) return;  // the answer to an earlier message of a batch can end the connection
  switch (message.kind) {
    case MessageKind::kResponse:
      return;  // the server asks nothing, so nothing is awaited
    case MessageKind::kNotification:
      return handle_notification(message);
    case MessageKind::kInvalid:
      return reply({std::move(message.id), legacy_.revision(), batch},
                   {nullptr, std::move(message.error)});
    case MessageKind::kRequest:
      break;
  }
  if (message.params.is_null()) message.params = json::object();
  const bool modern = stateless::is_modern(message.method, message.params);
  ReplyTo reply_to = {message.id, modern ? kModern : legacy_.revision(), batch};
  if (in_flight_.count(serialise(message.id)) > 0) {
    return reply(reply_to, Outcome::failure(kInvalidRequest,
                                            "id is already in use by a request "
                                            "that is not answered yet"));
  }
  if (!message.params.is_object()) {
    return reply(reply_to, Outcome::failure(kInvalidParams, "params must be an object"));
  }
  if (batch && (modern || message.method == kInitialize)) {
    return reply(reply_to, Outcome::failure(kInvalidRequest,
                                            quote(message.method) + " cannot be part of a batch"));
  }
  handle_request(message, std::move(reply_to));
}

void Session::handle_request(const Message& message, ReplyTo reply_to) {
  const bool modern = reply_to.revision == kModern;
  if (modern) {
    if (auto error = stateless::check_meta(message.params)) {
      return reply(reply_to, {nullptr, std::move(error)});
    }
  }
  if (message.method == kToolsCall) return call_tool(message.params, std::move(reply_to));
  if (message.method == kSubscriptionsListen) return listen(message.params, std::move(reply_to));
  reply(reply_to, modern ? stateless::answer(shared_->registry, message.method, message.params)
                         : legacy_.answer(shared_->registry, message.method, message.params));
}

void Session::handle_notification(const Message& message) {
  if (message.method != kCancelled || !message.params.is_object()) return;
  const auto id = message.params.find("requestId");
  if (id != message.params.end()) cancel(serialise(*id));
}

// Wrong shape and unknown tool are protocol errors; everything that a model can mend in its next
// call is a tool error. Up to 2025-06-18 the specification names bad arguments under both heads, so
// the rule of 2025-11-25 serves all revisions.
void Session::call_tool(const json& params, ReplyTo reply_to) {
  const auto refuse = [&](std::string why) {
    reply(reply_to, Outcome::failure(kInvalidParams, std::move(why)));
  };
  const auto name = params.find("name");
  if (name == params.end() || !name->is_string()) return refuse("name must be a string");
  const auto& tools = shared_->registry.tools;
  const auto tool = std::find_if(tools.begin(), tools.end(),
                                 [&](const Tool& each) { return each.name == *name; });
  if (tool == tools.end()) {
    std::vector<std::string> known;
    for (const Tool& each : tools) known.push_back(each.name);
    const auto& unknown = name->get_ref<const std::string&>();
    return refuse("unknown tool " + quote(unknown) + suggest(unknown, known) + "; see tools/list");
  }
  json arguments = params.value("arguments", json());
  if (arguments.is_null()) arguments = json::object();
  if (!arguments.is_object()) return refuse("arguments must be an object");
  const json meta = params.value(kMeta, json::object());
  if (!meta.is_object()) return refuse("_meta must be an object");
  json token = meta.value(kProgressToken, json());
  if (!token.is_null() && !is_valid_id(token)) {
    return refuse("progressToken must be a string or an integer");
  }
  if (static_cast<int>(in_flight_.size()) >= shared_->limits.in_flight_max) {
    return reply_with_tool_error(*tool, reply_to,
                                 "too many calls at once: " + std::to_string(in_flight_.size()) +
                                     " are running on this connection, which is the limit; wait "
                                     "for one to end, then call again");
  }
  Result<json> checked = validate(tool->input, arguments);
  if (!checked.has_value()) {
    return reply_with_tool_error(
        *tool, reply_to, "invalid arguments for " + tool->name + ": " + checked.error().message);
  }
  start(*tool, std::move(*checked), std::move(token), std::move(reply_to));
}

void Session::start(const Tool& tool, json arguments, json progress_token, ReplyTo reply_to) {
  const std::string key = serialise(reply_to.id);
  RunningCall::Owner owner;
  owner.finish = [weak = weak_from_this(), key](ToolResult result) {
    if (const auto session = weak.lock()) session->finish(key, std::move(result));
  };
  owner.notify = [weak = weak_from_this(), revision = reply_to.revision](json params) {
    if (revision < Revision::k2025_03_26) params.erase("message");
    if (const auto session = weak.lock()) {
      session->send(make_notification(kProgress, std::move(params)));
    }
  };
  owner.now = shared_->now;
  owner.progress_interval = std::chrono::milliseconds(shared_->limits.progress_interval_ms);
  const auto call = std::make_shared<RunningCall>(std::move(owner), std::move(arguments),
                                                  std::move(progress_token));
  in_flight_[key] = {std::move(reply_to), call, &tool, shared_->now()};
  observe_start(tool);
  tool.handler(call);
}

void Session::finish(const std::string& key, ToolResult result) {
  auto node = in_flight_.extract(key);
  ENGRAMD_ASSERT(!node.empty());  // cancelling and closing end the call before they forget it
  const auto& [reply_to, call, tool, started] = node.mapped();
  if (!result.is_error && !tool->output.empty()) {
    const Result<json> conforming = validate(tool->output, result.structured);
    if (!conforming.has_value()) {
      result = ToolResult::error(tool->name + " produced a result that breaks its own schema: " +
                                 conforming.error().message + "; this is a bug in engramd");
    }
  }
  observe_finish(*tool, result.is_error ? "error" : "ok", started);
  reply(reply_to,
        Outcome::success(dress(reply_to, tool_result(std::move(result), reply_to.revision))));
}

// 2026-07-28 basic/patterns/subscriptions. Lists never change and no resource announces updates, so
// the honest subset is empty, whatever was asked for; the subscription still lives until cancelled.
void Session::listen(const json& params, ReplyTo reply_to) {
  if (!params.value("notifications", json()).is_object()) {
    return reply(reply_to, Outcome::failure(kInvalidParams, "notifications must be an object"));
  }
  if (static_cast<int>(in_flight_.size()) >= shared_->limits.in_flight_max) {
    return reply(reply_to, Outcome::failure(kTooManyRequests,
                                            "too many requests on this "
                                            "connection; cancel one first"));
  }
  const json meta = {{kMetaSubscriptionId, reply_to.id}};
  const std::string key = serialise(reply_to.id);  // before reply_to moves
  in_flight_[key] = {std::move(reply_to), {}, nullptr, shared_->now()};
  send(make_notification(kSubscriptionsAcknowledged,
                         {{kMeta, meta}, {"notifications", json::object()}}));
}

void Session::end_subscriptions() {
  std::vector<ReplyTo> ended;
  for (auto each = in_flight_.begin(); each != in_flight_.end();) {
    if (each->second.tool) {
      ++each;
    } else {
      ended.push_back(std::move(each->second.reply_to));
      each = in_flight_.erase(each);
    }
  }
  for (const ReplyTo& reply_to : ended) {
    json result = dress(reply_to, json::object());
    result[kMeta][kMetaSubscriptionId] = reply_to.id;
    reply(reply_to, Outcome::success(std::move(result)));
  }
}

// The client expects no answer, so none is sent; a batch no longer waits for it either.
void Session::cancel(const std::string& key) {
  const auto node = in_flight_.extract(key);
  if (node.empty()) return;
  const InFlight& request = node.mapped();
  if (request.tool) {
    observe_finish(*request.tool, "cancelled", request.started);
    if (const auto call = request.call.lock()) call->cancel();
  }
  if (request.reply_to.batch) settle(request.reply_to.batch);
}

void Session::close() {
  closed_ = true;
  while (!in_flight_.empty()) cancel(std::string(in_flight_.begin()->first));
}

int Session::tools_in_flight() const {
  return static_cast<int>(std::count_if(in_flight_.begin(), in_flight_.end(),
                                        [](const auto& each) { return each.second.tool; }));
}

void Session::observe_start(const Tool& tool) const {
  if (shared_->observer.tool_started) shared_->observer.tool_started(tool.name);
}

void Session::observe_finish(const Tool& tool, const std::string& outcome, Time started) const {
  if (!shared_->observer.tool_finished) return;
  const std::chrono::duration<double, std::milli> elapsed = shared_->now() - started;
  shared_->observer.tool_finished(tool.name, outcome, elapsed.count());
}

// A call that never started: refused arguments, too many at once.
void Session::reply_with_tool_error(const Tool& tool, const ReplyTo& reply_to, std::string text) {
  observe_start(tool);
  observe_finish(tool, "error", shared_->now());
  reply(reply_to, Outcome::success(dress(reply_to, tool_result(ToolResult::error(std::move(text)),
                                                               reply_to.revision))));
}

json Session::dress(const ReplyTo& reply_to, json result) const {
  if (reply_to.revision != kModern) return result;
  return stateless::complete(std::move(result), shared_->registry);
}

void Session::reply(const ReplyTo& reply_to, Outcome outcome) {
  json response = make_response(reply_to.id, std::move(outcome));
  if (reply_to.id.is_null() && !legacy_.writes_null_ids()) response.erase("id");
  if (!reply_to.batch) return send(response);
  reply_to.batch->replies.push_back(std::move(response));
  settle(reply_to.batch);
}

void Session::settle(const std::shared_ptr<Batch>& batch) {
  if (--batch->pending == 0 && !batch->replies.empty()) send(batch->replies);
}

void Session::send(const json& message) {
  if (!closed_) send_(serialise(message, ascii_only));
}

// Every function keeps the session alive while it runs: `send` may destroy the connection.
class SessionConnection final : public Connection {
 public:
  explicit SessionConnection(std::shared_ptr<Session> session) : session_(std::move(session)) {}
  ~SessionConnection() override { close(); }
  SessionConnection(const SessionConnection&) = delete;
  SessionConnection& operator=(const SessionConnection&) = delete;

  void receive(std::string_view message) override {
    const auto session = session_;
    session->receive(message);
  }
  void receive_oversize(std::string_view beginning) override {
    const auto session = session_;
    session->receive_oversize(beginning);
  }
  void set_ascii_only(bool ascii_only) override { session_->ascii_only = ascii_only; }
  void end_subscriptions() override {
    const auto session = session_;
    session->end_subscriptions();
  }
  void close() override {
    const auto session = session_;
    session->close();
  }
  int in_flight() const override { return session_->tools_in_flight(); }

 private:
  const std::shared_ptr<Session> session_;
};

class SessionDispatcher final : public Dispatcher {
 public:
  explicit SessionDispatcher(std::shared_ptr<const Shared> shared) : shared_(std::move(shared)) {}

  std::unique_ptr<Connection> connect(std::function<void(std::string)> send) override {
    return std::make_unique<SessionConnection>(std::make_shared<Session>(shared_, std::move(send)));
  }

 private:
  const std::shared_ptr<const Shared> shared_;
};

}  // namespace

std::unique_ptr<Dispatcher> make_dispatcher(const Registry& registry, Limits limits,
                                            Observer observer, std::function<Time()> now) {
  return std::make_unique<SessionDispatcher>(std::make_shared<const Shared>(
      Shared{registry, limits, std::move(observer), std::move(now)}));
}

}  // namespace engramd::mcp
