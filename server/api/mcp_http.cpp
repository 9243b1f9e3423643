#include "server/api/mcp_http.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "mcp/http_rules.h"
#include "mcp/text.h"
#include "server/api/api_call.h"

namespace engramd::server {
namespace {

using Clock = std::chrono::steady_clock;

// Proxies and clients cut a silent stream after minutes (undici: 300 s); this is also how often
// sessions are looked through.
constexpr std::chrono::milliseconds kKeepAlive{15'000};
constexpr std::uint64_t kListening = 0;  // the stream of what belongs to no request

mcp::http::Header headers_of(const std::shared_ptr<HttpExchange>& exchange) {
  return [exchange](std::string_view name) { return exchange->request().header(name); };
}

std::string error_body(int code, const std::string& message) {
  return mcp::serialise({{"jsonrpc", "2.0"}, {"error", {{"code", code}, {"message", message}}}});
}

void refuse(const std::shared_ptr<HttpExchange>& exchange, int status, int code,
            const std::string& message) {
  exchange->respond({status, "application/json", error_body(code, message)});
}

bool accepts(const HttpRequest& request, std::string_view type) {
  const auto accept = request.header("Accept");
  return accept && (accept->find(type) != std::string_view::npos ||
                    accept->find("*/*") != std::string_view::npos);
}

struct EventId {
  std::uint64_t stream = 0;
  std::uint64_t number = 0;
};

// Of McpStream: "7-3".
std::optional<EventId> parse_event_id(std::string_view text) {
  EventId id;
  const char* end = text.data() + text.size();
  const auto stream = std::from_chars(text.data(), end, id.stream);
  if (stream.ec != std::errc() || stream.ptr == end || *stream.ptr != '-') return std::nullopt;
  const auto number = std::from_chars(stream.ptr + 1, end, id.number);
  if (number.ec != std::errc() || number.ptr != end) return std::nullopt;
  return id;
}

}  // namespace

struct McpHttp::Session {
  std::string id;
  std::unique_ptr<mcp::Connection> connection;
  std::map<std::uint64_t, std::shared_ptr<McpStream>> streams;
  std::uint64_t n_streams = 0;
  Clock::time_point last_used = Clock::now();

  bool is_read() const {
    return std::any_of(streams.begin(), streams.end(),
                       [](const auto& each) { return each.second->is_open(); });
  }
  // Streams that are over are kept for a client that lost the connection, but not all of them.
  void forget_old_streams() {
    constexpr std::size_t kDoneStreamsMax = 16;
    std::size_t n_done = 0;
    for (auto each = streams.end(); each != streams.begin();) {
      --each;
      if (each->second->is_done() && ++n_done > kDoneStreamsMax) each = streams.erase(each);
    }
  }
};

struct McpHttp::Call {
  std::unique_ptr<mcp::Connection> connection;
  std::shared_ptr<McpStream> stream;
};

McpHttp::McpHttp(mcp::Dispatcher& dispatcher, Limits limits, Later later)
    : dispatcher_(dispatcher), limits_(limits), later_(std::move(later)) {
  tick();
}

McpHttp::~McpHttp() = default;

void McpHttp::handle(const std::shared_ptr<HttpExchange>& exchange) {
  const std::string& method = exchange->request().method;
  if (method == "POST") return post(exchange);
  if (method == "GET") return get(exchange);
  if (method == "DELETE") return end_session(exchange);
  exchange->respond({405,
                     "application/json",
                     error_body(mcp::kInvalidRequest, "use POST, or GET and DELETE in a session"),
                     {{"Allow", "GET, POST, DELETE"}}});
}

void McpHttp::post(const std::shared_ptr<HttpExchange>& exchange) {
  const HttpRequest& request = exchange->request();
  if (!accepts(request, "application/json") || !accepts(request, "text/event-stream")) {
    return refuse(exchange, 406, mcp::kInvalidRequest,
                  "the Accept header must list application/json and text/event-stream");
  }
  const auto type = request.header("Content-Type");
  if (!type || !type->starts_with("application/json")) {
    return refuse(exchange, 415, mcp::kInvalidRequest, "Content-Type must be application/json");
  }
  mcp::Incoming incoming = mcp::parse_incoming(request.body, limits_.json_depth_max);
  if (incoming.messages.empty()) {
    return refuse(exchange, 400, mcp::kParseError, "the body is empty; send one JSON-RPC message");
  }
  const bool modern = mcp::http::is_modern(incoming, headers_of(exchange));
  modern ? post_modern(exchange, std::move(incoming)) : post_legacy(exchange, std::move(incoming));
}

void McpHttp::post_modern(const std::shared_ptr<HttpExchange>& exchange, mcp::Incoming incoming) {
  if (incoming.is_batch || !mcp::http::expects_answer(incoming)) {
    if (!incoming.is_batch) return exchange->respond({.status = 202});
    return refuse(exchange, 400, mcp::kInvalidRequest, "send one message at a time");
  }
  const mcp::Message& message = incoming.messages.front();
  if (auto error = mcp::http::check_headers(message, headers_of(exchange))) {
    const int code = error->code;
    const auto answer = mcp::make_response(message.id, {nullptr, std::move(error)});
    return exchange->respond(
        {mcp::http::status(true, code), "application/json", mcp::serialise(answer)});
  }
  const std::uint64_t number = ++n_calls_;
  const auto call = calls_[number] = std::make_shared<Call>();
  call->stream = std::make_shared<McpStream>(exchange, std::string(), false);
  const auto stream = call->stream;
  call->connection = dispatcher_.connect([this, number, stream](mcp::Outgoing outgoing) {
    if (outgoing.message.empty()) {
      stream->end();
    } else {
      stream->send(std::move(outgoing.message), outgoing.last,
                   mcp::http::status(true, outgoing.error_code));
    }
    if (outgoing.last) calls_.erase(number);
  });
  call->connection->receive(std::move(incoming), 1);
  if (stream->is_done()) return;
  stream->open_events();
  stream->on_gone([this, number] {  // the client cancels by going
    const auto gone = calls_.extract(number);
    if (!gone.empty()) gone.mapped()->stream->reader_gone();
  });
}

void McpHttp::post_legacy(const std::shared_ptr<HttpExchange>& exchange, mcp::Incoming incoming) {
  const bool opens = mcp::http::opens_session(incoming);
  const auto session = opens ? open_session() : find_session(exchange);
  if (!session) return;
  session->last_used = Clock::now();
  if (!mcp::http::expects_answer(incoming)) {
    session->connection->receive(std::move(incoming), kListening);
    return exchange->respond({.status = 202});
  }
  const std::uint64_t number = ++session->n_streams;
  // Older clients choke on an event without data, so only those get one that know it.
  const auto version = exchange->request().header(mcp::http::kVersionHeader);
  const bool priming = version && *version >= mcp::to_string(mcp::Revision::k2025_11_25);
  const auto stream = std::make_shared<McpStream>(exchange, std::to_string(number), priming);
  if (opens) stream->headers.emplace_back(mcp::http::kSessionHeader, session->id);
  session->streams[number] = stream;
  session->connection->receive(std::move(incoming), number);
  if (stream->is_done()) return;
  stream->open_events();
  stream->on_gone([stream] { stream->reader_gone(); });  // not a cancel: it may come back
}

void McpHttp::get(const std::shared_ptr<HttpExchange>& exchange) {
  const HttpRequest& request = exchange->request();
  if (!accepts(request, "text/event-stream")) {
    return refuse(exchange, 406, mcp::kInvalidRequest,
                  "the Accept header must list text/event-stream");
  }
  const auto session = find_session(exchange);
  if (!session) return;
  session->last_used = Clock::now();
  std::uint64_t number = kListening;
  std::uint64_t after = 0;
  if (const auto last_event = request.header(mcp::http::kLastEventHeader)) {
    const auto id = parse_event_id(*last_event);
    if (!id || session->streams.count(id->stream) == 0) {
      return refuse(exchange, 400, mcp::kInvalidRequest,
                    "Last-Event-ID names no stream of this session that is still kept");
    }
    number = id->stream;
    after = id->number;
  }
  auto& stream = session->streams[number];
  if (!stream) {
    const auto version = request.header(mcp::http::kVersionHeader);
    const bool priming = version && *version >= mcp::to_string(mcp::Revision::k2025_11_25);
    stream = std::make_shared<McpStream>(exchange, std::to_string(number), priming);
    stream->open_events();
  } else {
    stream->resume(exchange, request.header(mcp::http::kLastEventHeader) ? after : UINT64_MAX);
  }
  stream->on_gone([kept = stream] { kept->reader_gone(); });
}

void McpHttp::end_session(const std::shared_ptr<HttpExchange>& exchange) {
  const auto session = find_session(exchange);
  if (!session) return;
  sessions_.erase(session->id);
  session->connection->close();
  for (const auto& [number, stream] : session->streams) stream->end();
  exchange->respond({.status = 204});
}

// The session that a request names; null: the exchange has its answer.
std::shared_ptr<McpHttp::Session> McpHttp::find_session(
    const std::shared_ptr<HttpExchange>& exchange) {
  const HttpRequest& request = exchange->request();
  const auto version = request.header(mcp::http::kVersionHeader);
  if (version && !mcp::parse_revision(*version)) {
    refuse(exchange, 400, mcp::kInvalidRequest,
           "unsupported MCP-Protocol-Version " + mcp::quote(*version));
    return nullptr;
  }
  const auto id = request.header(mcp::http::kSessionHeader);
  if (!id) {
    refuse(exchange, 400, mcp::kInvalidRequest,
           "no Mcp-Session-Id header; open a session with initialize, or send modern requests with "
           "params._meta");
    return nullptr;
  }
  const auto found = sessions_.find(std::string(*id));
  if (found != sessions_.end()) return found->second;
  refuse(exchange, 404, mcp::kInvalidRequest, "no such session; open a new one with initialize");
  return nullptr;
}

std::shared_ptr<McpHttp::Session> McpHttp::open_session() {
  if (static_cast<std::int64_t>(sessions_.size()) >= limits_.sessions_max) {
    const auto oldest =
        std::min_element(sessions_.begin(), sessions_.end(), [](const auto& a, const auto& b) {
          return std::pair(a.second->is_read(), a.second->last_used) <
                 std::pair(b.second->is_read(), b.second->last_used);
        });
    for (const auto& [number, stream] : oldest->second->streams) stream->end();
    sessions_.erase(oldest);
  }
  auto session = std::make_shared<Session>();
  session->id = make_id("");
  session->connection =
      dispatcher_.connect([this, weak = std::weak_ptr<Session>(session)](mcp::Outgoing outgoing) {
        if (const auto alive = weak.lock()) deliver(*alive, std::move(outgoing));
      });
  sessions_[session->id] = session;
  return session;
}

void McpHttp::deliver(Session& session, mcp::Outgoing outgoing) {
  const auto found = session.streams.find(outgoing.stream);
  if (found == session.streams.end()) return;  // nobody has ever listened
  const auto stream = found->second;
  if (outgoing.message.empty()) {
    stream->end();
  } else {
    stream->send(std::move(outgoing.message), outgoing.last && outgoing.stream != kListening,
                 mcp::http::status(false, outgoing.error_code));
  }
  session.last_used = Clock::now();
  session.forget_old_streams();
}

void McpHttp::end_subscriptions() {
  const auto calls = calls_;  // ending one erases it
  for (const auto& [number, call] : calls) call->connection->end_subscriptions();
  for (const auto& [id, session] : sessions_) {
    const auto listening = session->streams.find(kListening);
    if (listening != session->streams.end()) listening->second->end();
  }
}

void McpHttp::expire_sessions() {
  const auto oldest = Clock::now() - limits_.session_idle;
  std::erase_if(sessions_, [&](const auto& each) {
    const Session& session = *each.second;
    return !session.is_read() && session.last_used < oldest && session.connection->in_flight() == 0;
  });
}

void McpHttp::tick() {
  timer_ = later_(kKeepAlive, [this] {
    for (const auto& [number, call] : calls_) call->stream->keep_alive();
    for (const auto& [id, session] : sessions_) {
      for (const auto& [number, stream] : session->streams) stream->keep_alive();
    }
    expire_sessions();
    tick();
  });
}

}  // namespace engramd::server
