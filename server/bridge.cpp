#include "server/bridge.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "mcp/json_rpc.h"
#include "mcp/protocol.h"

namespace engramd::server {
namespace {

using mcp::json;
using mcp::Message;
using mcp::MessageKind;

// Answered here: what the daemon would say word for word.
constexpr std::array kAnsweredHere = {mcp::kInitialize,           mcp::kPing,
                                      mcp::kServerDiscover,       mcp::kToolsList,
                                      mcp::kPromptsList,          mcp::kLoggingSetLevel,
                                      mcp::kResourceTemplatesList};
// What a daemon has to know of a legacy client before it can serve it.
constexpr std::array kRemembered = {mcp::kInitialize, mcp::kLoggingSetLevel,
                                    mcp::kResourcesSubscribe, mcp::kResourcesUnsubscribe};
constexpr std::string_view kInitialized = "notifications/initialized";
constexpr int kDaemonDepthMax = 1024;  // of what the daemon sends: it is trusted
constexpr char kOwnIdPrefix[] = "engramd-bridge-";
constexpr char kGreetingId[] = "engramd-bridge-greeting";

template <class Names>
bool is_one_of(const Names& names, const std::string& method) {
  return std::find(names.begin(), names.end(), method) != names.end();
}

bool is_own_id(const json& id) {
  return id.is_string() && id.get_ref<const std::string&>().starts_with(kOwnIdPrefix);
}

std::string text_of(const Message& message) {
  json value = {{"jsonrpc", "2.0"}, {"method", message.method}};
  if (!message.id.is_null()) value["id"] = message.id;
  if (!message.params.is_null()) value["params"] = message.params;
  return mcp::serialise(value);
}

}  // namespace

struct Bridge::State {
  State(mcp::Dispatcher& given, Limits given_limits) : local(given), limits(given_limits) {}

  mcp::Dispatcher& local;
  const Limits limits;
  std::unique_ptr<mcp::Connection> handshake;         // of the client, to `local`
  mcp::Sink to_client;                                // null: the client has gone
  std::function<void(const std::string&)> greeting;   // to one that has not answered yet
  std::function<void(const std::string&)> to_daemon;  // null: not connected
  std::deque<std::string> waiting;                    // for the daemon
  std::vector<std::string> remembered;                // for the next daemon: with ids of ours
  std::map<std::string, Message> in_flight;           // forwarded requests, by the id as JSON text
  std::uint64_t n_own_ids = 0;
  bool here = false;             // serve_here()
  bool accepts_batches = false;  // the client has asked for 2025-03-26
  bool ascii_only = false;

  void from_client(std::string_view text);
  void handle(Message message, const std::string& text);
  void remember(Message message);
  void forward(std::string text);
  void answer(const json& id, mcp::Outcome outcome);
  void refuse(const Message& request, const std::string& why);
  void refuse_all(const std::string& why);
  void deliver(const std::string& message);
  void greeted();
};

void Bridge::State::from_client(std::string_view text) {
  mcp::Incoming incoming = mcp::parse_incoming(text, limits.json_depth_max);
  if (here || incoming.messages.empty() || (incoming.is_batch && !accepts_batches) ||
      incoming.messages.front().kind == MessageKind::kInvalid) {
    return handshake->receive(text);
  }
  if (!incoming.is_batch) return handle(std::move(incoming.messages.front()), std::string(text));
  for (Message& message : incoming.messages) {
    if (message.kind == MessageKind::kRequest) {
      in_flight[mcp::serialise(message.id)] = std::move(message);
    }
  }
  forward(std::string(text));
}

void Bridge::State::handle(Message message, const std::string& text) {
  if (message.kind == MessageKind::kRequest) {
    if (is_one_of(kRemembered, message.method)) remember(message);
    if (is_one_of(kAnsweredHere, message.method)) return handshake->receive(text);
    const std::string key = mcp::serialise(message.id);
    if (in_flight.count(key) > 0) {
      return refuse(message, "id is already in use by a request that is not answered yet");
    }
    if (!to_daemon && static_cast<std::int64_t>(waiting.size()) >= limits.waiting_max) {
      return refuse(message, "too many requests wait for the engramd daemon to start");
    }
    in_flight[key] = std::move(message);
    return forward(text);
  }
  if (message.method == mcp::kCancelled && message.params.is_object()) {
    in_flight.erase(mcp::serialise(message.params.value("requestId", json())));
  }
  if (message.method == kInitialized) remembered.push_back(text_of(message));
  forward(text);
}

// The daemon's answer to it is nobody's: the client gets (or got) the one from here.
void Bridge::State::remember(Message message) {
  if (message.method == mcp::kInitialize) {
    remembered.clear();
    accepts_batches =
        message.params.is_object() && message.params.value("protocolVersion", json()) ==
                                          mcp::to_string(mcp::Revision::k2025_03_26);
  }
  message.id = kOwnIdPrefix + std::to_string(++n_own_ids);
  const bool answered_here = is_one_of(kAnsweredHere, message.method);
  remembered.push_back(text_of(message));
  // Others are forwarded anyway, under the client's id.
  if (answered_here && to_daemon) to_daemon(remembered.back());
}

void Bridge::State::forward(std::string text) {
  if (to_daemon) return to_daemon(text);
  waiting.push_back(std::move(text));
}

void Bridge::State::answer(const json& id, mcp::Outcome outcome) {
  if (!to_client) return;
  to_client({mcp::serialise(mcp::make_response(id, std::move(outcome)), ascii_only), 0, true});
}

// A failed call is the tool's: clients show that to the model, which can try again.
void Bridge::State::refuse(const Message& request, const std::string& why) {
  if (request.method == mcp::kToolsCall) {
    return answer(request.id, mcp::Outcome::success(
                                  {{"content", json::array({{{"type", "text"}, {"text", why}}})},
                                   {"isError", true}}));
  }
  answer(request.id, mcp::Outcome::failure(mcp::kInternalError, why));
}

void Bridge::State::refuse_all(const std::string& why) {
  for (const auto& [key, request] : std::exchange(in_flight, {})) refuse(request, why);
}

void Bridge::State::deliver(const std::string& message) {
  const mcp::Incoming incoming = mcp::parse_incoming(message, kDaemonDepthMax);
  if (incoming.messages.empty() || !to_client) return;
  const bool is_answer = incoming.messages.front().kind == MessageKind::kResponse;
  if (is_answer && is_own_id(incoming.messages.front().id)) {
    if (greeting && incoming.messages.front().id == kGreetingId) greeted();
    return;
  }
  for (const Message& each : incoming.messages) {
    if (each.kind == MessageKind::kResponse) in_flight.erase(mcp::serialise(each.id));
  }
  // As it came, unless this client's frames have to be ASCII.
  to_client({ascii_only ? mcp::serialise(json::parse(message, nullptr, false), true) : message, 0,
             is_answer});
}

void Bridge::State::greeted() {
  to_daemon = std::exchange(greeting, nullptr);
  for (const std::string& message : remembered) to_daemon(message);
  for (const std::string& message : std::exchange(waiting, {})) to_daemon(message);
}

class Bridge::Client final : public mcp::Connection {
 public:
  explicit Client(std::shared_ptr<State> state) : state_(std::move(state)) {}
  ~Client() override { close(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void receive(std::string_view message, std::uint64_t) override {
    const auto state = state_;
    if (!state->to_client) return;
    if (static_cast<std::int64_t>(message.size()) > state->limits.message_bytes_max) {
      return state->handshake->receive_oversize(message);
    }
    state->from_client(message);
  }
  void receive(mcp::Incoming incoming, std::uint64_t) override {
    for (Message& message : incoming.messages) {
      const std::string text = text_of(message);
      state_->handle(std::move(message), text);
    }
  }
  void receive_oversize(std::string_view beginning) override {
    state_->handshake->receive_oversize(beginning);
  }
  void set_ascii_only(bool ascii_only) override {
    state_->ascii_only = ascii_only;
    state_->handshake->set_ascii_only(ascii_only);
  }
  // Those at the daemon end with the connection to it.
  void end_subscriptions() override {
    std::erase_if(state_->in_flight,
                  [](const auto& each) { return each.second.method == mcp::kSubscriptionsListen; });
    state_->handshake->end_subscriptions();
  }
  void close() override {
    state_->to_client = nullptr;
    state_->in_flight.clear();
    state_->handshake->close();
  }
  int in_flight() const override {
    return static_cast<int>(state_->in_flight.size()) + state_->handshake->in_flight();
  }

 private:
  const std::shared_ptr<State> state_;
};

Bridge::Bridge(mcp::Dispatcher& local, Limits limits)
    : state_(std::make_shared<State>(local, limits)) {}

Bridge::~Bridge() = default;

std::unique_ptr<mcp::Connection> Bridge::connect(mcp::Sink send) {
  state_->to_client = std::move(send);
  state_->handshake = state_->local.connect([state = state_.get()](mcp::Outgoing outgoing) {
    if (state->to_client) state->to_client(std::move(outgoing));
  });
  return std::make_unique<Client>(state_);
}

// A socket can still be there while its daemon goes: nothing is entrusted to it before it has
// answered once.
void Bridge::daemon_connected(std::function<void(const std::string&)> send) {
  state_->greeting = std::move(send);
  state_->greeting(
      mcp::serialise(mcp::make_request(kGreetingId, mcp::kServerDiscover,
                                       {{mcp::kMeta,
                                         {{mcp::kMetaProtocolVersion, mcp::to_string(mcp::kModern)},
                                          {mcp::kMetaClientCapabilities, json::object()}}}})));
}

void Bridge::daemon_message(const std::string& message) {
  state_->deliver(message);
}

void Bridge::daemon_lost() {
  state_->greeting = nullptr;
  if (!std::exchange(state_->to_daemon, nullptr)) return;  // nothing was sent to it
  state_->refuse_all(
      "the engramd daemon ended while it worked on this; it is started again, call "
      "again");
}

void Bridge::serve_here() {
  state_->greeting = state_->to_daemon = nullptr;
  state_->here = true;
  state_->waiting.clear();
  for (const auto& [key, request] : std::exchange(state_->in_flight, {})) {
    state_->handshake->receive(text_of(request));
  }
}

}  // namespace engramd::server
