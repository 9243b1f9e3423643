#include "mcp/session.h"

#include <algorithm>
#include <utility>

#include "mcp/stateless.h"
#include "mcp/text.h"

namespace engramd::mcp {

Session::Session(std::shared_ptr<const SharedParts> shared, Sink send)
    : shared_(std::move(shared)), send_(std::move(send)) {}

void Session::receive(std::string_view text, std::uint64_t stream) {
  if (closed_) return;
  if (static_cast<std::int64_t>(text.size()) > shared_->limits.message_bytes_max) {
    return receive_oversize(text);
  }
  receive(parse_incoming(text, shared_->limits.json_depth_max), stream);
}

void Session::receive(Incoming incoming, std::uint64_t stream) {
  if (closed_) return;
  if (incoming.is_batch) return receive_batch(std::move(incoming.messages), stream);
  for (Message& message : incoming.messages) handle(std::move(message), stream, nullptr);
}

void Session::receive_oversize(std::string_view beginning) {
  reply({recover_id(beginning), legacy_.revision(), 0, nullptr},
        Outcome::failure(kInvalidRequest, "message is longer than the limit of " +
                                              std::to_string(shared_->limits.message_bytes_max) +
                                              " bytes"));
}

// basic/index#batching of 2025-03-26, the only revision that has it.
void Session::receive_batch(std::vector<Message> messages, std::uint64_t stream) {
  const int messages_max = shared_->limits.batch_messages_max;
  const bool too_long = messages.size() > static_cast<std::size_t>(messages_max);
  if (!legacy_.accepts_batches() || too_long) {
    return reply({nullptr, legacy_.revision(), stream, nullptr},
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
    handle(std::move(message), stream, batch);
  }
  settle({nullptr, legacy_.revision(), stream, batch});
}

void Session::handle(Message message, std::uint64_t stream, const std::shared_ptr<Batch>& batch) {
  if (closed_) return;  // the answer to an earlier message of a batch can end the connection
  switch (message.kind) {
    case MessageKind::kResponse:
      return handle_response(std::move(message));
    case MessageKind::kNotification:
      return handle_notification(message);
    case MessageKind::kInvalid:
      return reply({std::move(message.id), legacy_.revision(), stream, batch},
                   {nullptr, std::move(message.error)});
    case MessageKind::kRequest:
      break;
  }
  if (message.params.is_null()) message.params = json::object();
  const bool modern = stateless::is_modern(message.method, message.params);
  ReplyTo reply_to = {message.id, modern ? kModern : legacy_.revision(), stream, batch};
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
  CallContext context;
  context.request = {*name, arguments};
  if (auto outcome = read_context(params, reply_to, context); outcome.error) {
    return reply(reply_to, std::move(outcome));
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
  start(*tool, std::move(*checked), std::move(context), std::move(reply_to));
}

// What belongs to a call beside its arguments; an error outcome says what is wrong with it.
Outcome Session::read_context(const json& params, const ReplyTo& reply_to,
                              CallContext& context) const {
  const auto refuse = [](const char* why) { return Outcome::failure(kInvalidParams, why); };
  const json meta = params.value(kMeta, json::object());
  if (!meta.is_object()) return refuse("_meta must be an object");
  context.progress_token = meta.value(kProgressToken, json());
  if (!context.progress_token.is_null() && !is_valid_id(context.progress_token)) {
    return refuse("progressToken must be a string or an integer");
  }
  if (reply_to.revision != kModern) {
    context.client_capabilities = legacy_.client_capabilities();
    context.log_level = legacy_.log_level();
    return Outcome::success(nullptr);
  }
  context.client_capabilities = meta[kMetaClientCapabilities];
  context.log_level = meta.value(kMetaLogLevel, std::string());
  context.inputs.responses = params.value("inputResponses", json::object());
  if (!context.inputs.responses.is_object()) return refuse("inputResponses must be an object");
  const json state = params.value("requestState", json());
  if (state.is_null()) return Outcome::success(nullptr);
  auto opened = state.is_string()
                    ? shared_->seal.open(state.get<std::string>(), context.request, shared_->now())
                    : std::nullopt;
  if (!opened) {
    return refuse(
        "requestState is not one that this server gave out for this call, or it is too "
        "old; call again without it");
  }
  context.inputs.state = std::move(*opened);
  return Outcome::success(nullptr);
}

void Session::start(const Tool& tool, json arguments, CallContext context, ReplyTo reply_to) {
  const std::string key = serialise(reply_to.id);
  InFlight& request = in_flight_[key];
  request.reply_to = std::move(reply_to);
  request.tool = &tool;
  request.started = shared_->now();
  observe_start(tool);
  run(key, std::move(arguments), std::move(context));
}

void Session::run(const std::string& key, json arguments, CallContext context) {
  InFlight& request = in_flight_[key];
  RunningCall::Owner owner;
  owner.end = [weak = weak_from_this(), key](CallEnd how) {
    if (const auto session = weak.lock()) session->end_call(key, std::move(how));
  };
  owner.notify = [weak = weak_from_this(), revision = request.reply_to.revision,
                  stream = request.reply_to.stream](std::string_view method, json params) {
    if (method == kProgress && revision < Revision::k2025_03_26) params.erase("message");
    if (const auto session = weak.lock()) {
      session->send(make_notification(method, std::move(params)), stream);
    }
  };
  owner.now = shared_->now;
  owner.progress_interval = std::chrono::milliseconds(shared_->limits.progress_interval_ms);
  const auto call =
      std::make_shared<RunningCall>(std::move(owner), std::move(arguments), std::move(context));
  request.call = call;
  request.tool->handler(call);
}

void Session::end_call(const std::string& key, CallEnd how) {
  if (auto* questions = std::get_if<Questions>(&how)) return ask(key, std::move(*questions));
  if (auto* result = std::get_if<ToolResult>(&how)) return finish(key, std::move(*result));
  auto node = in_flight_.extract(key);
  ENGRAMD_ASSERT(!node.empty());
  observe_finish(*node.mapped().tool, "error", node.mapped().started);
  reply(node.mapped().reply_to, {nullptr, std::move(std::get<RpcError>(how))});
}

void Session::finish(const std::string& key, ToolResult result) {
  auto node = in_flight_.extract(key);
  ENGRAMD_ASSERT(!node.empty());  // cancelling and closing end the call before they forget it
  const InFlight& request = node.mapped();
  if (!result.is_error && !request.tool->output.empty()) {
    const Result<json> conforming = validate(request.tool->output, result.structured);
    if (!conforming.has_value()) {
      result =
          ToolResult::error(request.tool->name + " produced a result that breaks its own schema: " +
                            conforming.error().message + "; this is a bug in engramd");
    }
  }
  observe_finish(*request.tool, result.is_error ? "error" : "ok", request.started);
  reply(request.reply_to,
        Outcome::success(
            dress(request.reply_to, tool_result(std::move(result), request.reply_to.revision))));
}

// A modern client gets the questions as the result and calls again; a legacy one gets requests of
// ours while its call stays open (2025-11-25 client/sampling, client/elicitation, client/roots).
void Session::ask(const std::string& key, Questions questions) {
  InFlight& request = in_flight_[key];
  const auto call = request.call.lock();
  if (request.reply_to.revision == kModern) {
    const auto node = in_flight_.extract(key);
    json result = {{"resultType", "input_required"},
                   {"inputRequests", std::move(questions.requests)}};
    if (!questions.state.is_null()) {
      result["requestState"] =
          shared_->seal.seal(questions.state, call->context().request, shared_->now());
    }
    observe_finish(*node.mapped().tool, "ok", node.mapped().started);
    return reply(node.mapped().reply_to,
                 Outcome::success(dress(node.mapped().reply_to, std::move(result))));
  }
  request.arguments = call->arguments();
  request.context = call->context();
  request.context.inputs.state = std::move(questions.state);
  request.n_open_questions = static_cast<int>(questions.requests.size());
  const std::uint64_t stream = request.reply_to.stream;
  for (const auto& [name, question] : questions.requests.items()) {
    const std::string id = "engramd-" + std::to_string(++n_questions_);
    questions_[id] = {key, name};
    send(make_request(id, question["method"].get<std::string>(), question["params"]), stream);
  }
}

void Session::handle_response(Message message) {
  if (!message.id.is_string()) return;
  auto asked = questions_.extract(message.id.get<std::string>());
  if (asked.empty()) return;  // of a call that was cancelled meanwhile
  const auto found = in_flight_.find(asked.mapped().call);
  if (found == in_flight_.end()) return;
  InFlight& request = found->second;
  if (message.error.code != 0) {
    std::erase_if(questions_, [&](const auto& each) { return each.second.call == found->first; });
    return finish(std::string(found->first),
                  ToolResult::error("the client did not answer " + quote(asked.mapped().key) +
                                    ": " + message.error.message));
  }
  request.context.inputs.responses[asked.mapped().key] = std::move(message.params);
  if (--request.n_open_questions > 0) return;
  run(std::string(found->first), std::move(request.arguments), std::move(request.context));
}

// 2026-07-28 basic/patterns/subscriptions. Lives until it is cancelled or the daemon ends.
void Session::listen(const json& params, ReplyTo reply_to) {
  const json wanted = params.value("notifications", json());
  if (!wanted.is_object()) {
    return reply(reply_to, Outcome::failure(kInvalidParams, "notifications must be an object"));
  }
  if (static_cast<int>(in_flight_.size()) >= shared_->limits.in_flight_max) {
    return reply(reply_to, Outcome::failure(kTooManyRequests,
                                            "too many requests on this "
                                            "connection; cancel one first"));
  }
  auto subscription = Subscription::of_listen(wanted, shared_->registry);
  if (subscription.has_error()) {
    return reply(reply_to, Outcome::failure(kInvalidParams, subscription.error().message));
  }
  const json meta = {{kMetaSubscriptionId, reply_to.id}};
  const std::uint64_t stream = reply_to.stream;
  json honoured = subscription->to_json();
  InFlight& request = in_flight_[serialise(reply_to.id)];
  request.reply_to = std::move(reply_to);
  request.started = shared_->now();
  request.subscription = std::move(*subscription);
  send(make_notification(kSubscriptionsAcknowledged,
                         {{kMeta, meta}, {"notifications", std::move(honoured)}}),
       stream);
}

void Session::announce(const Change& change) {
  const json notification = change_notification(change);
  std::vector<std::pair<json, std::uint64_t>> told;  // sending may change in_flight_
  for (const auto& [key, request] : in_flight_) {
    if (request.tool || !request.subscription.wants(change)) continue;
    json own = notification;
    own["params"][kMeta] = {{kMetaSubscriptionId, request.reply_to.id}};
    told.emplace_back(std::move(own), request.reply_to.stream);
  }
  if (legacy_.wants(change)) told.emplace_back(notification, 0);
  for (const auto& [message, stream] : told) send(message, stream);
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
    std::erase_if(questions_, [&](const auto& each) { return each.second.call == key; });
  }
  if (closed_) return;
  if (request.reply_to.batch) return settle(request.reply_to);
  send_({.stream = request.reply_to.stream, .last = true});
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
  const int error_code = outcome.error ? outcome.error->code : 0;
  json response = make_response(reply_to.id, std::move(outcome));
  if (reply_to.id.is_null() && !legacy_.writes_null_ids()) response.erase("id");
  if (!reply_to.batch) return send(response, reply_to.stream, true, error_code);
  reply_to.batch->replies.push_back(std::move(response));
  settle(reply_to);
}

void Session::settle(const ReplyTo& reply_to) {
  if (--reply_to.batch->pending > 0 || closed_) return;
  const json& replies = reply_to.batch->replies;
  if (replies.empty()) return send_({.stream = reply_to.stream, .last = true});
  send(replies, reply_to.stream, true);
}

void Session::send(const json& message, std::uint64_t stream, bool last, int error_code) {
  if (!closed_) send_({serialise(message, ascii_only), stream, last, error_code});
}

}  // namespace engramd::mcp
