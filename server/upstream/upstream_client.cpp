#include "server/upstream/upstream_client.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <random>
#include <utility>

#include <boost/asio/post.hpp>
#include <nlohmann/json.hpp>

#include "server/upstream/answer_reader.h"
#include "server/upstream/sse_parser.h"

namespace engramd::server {
namespace {

using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Chats that wait for the remote at once; more of them wait for one of these to end.
constexpr std::size_t kThreads = 16;
constexpr std::size_t kEventBytesMax = 8UL << 20;
constexpr std::size_t kFailureBytesMax = 65536;
// How the official clients wait: 0.5 s, doubled each time, at most 8 s, up to a quarter less.
constexpr double kFirstWaitMs = 500, kWaitMsMax = 8000, kJitter = 0.25;
// Attempts that may cost twice.
constexpr int kAmbiguousRetriesMax = 1;

// What the client of the HTTP API said, but for what only the local engine has; in its own order,
// by which a schema says in which order an answer is written.
ordered_json body_of_client(const engine::ChatRequest& request) {
  ordered_json body = ordered_json::parse(request.openai_request, nullptr, false);
  if (!body.is_object()) body = ordered_json::object();
  for (const char* name : {"engram", "route", "n", "stream_options"}) body.erase(name);
  return body;
}

ordered_json body_of_members(const engine::ChatRequest& request) {
  ordered_json messages = ordered_json::array();
  for (const engine::ChatMessage& message : request.messages) {
    messages.push_back({{"role", message.role}, {"content", message.content}});
  }
  const engine::SamplingOptions& sampling = request.sampling;
  ordered_json body = {{"messages", std::move(messages)},
                       {"max_tokens", request.max_tokens},
                       {"temperature", sampling.temperature}};
  if (sampling.top_p < 1) body["top_p"] = sampling.top_p;
  if (sampling.presence_penalty != 0) body["presence_penalty"] = sampling.presence_penalty;
  if (sampling.frequency_penalty != 0) body["frequency_penalty"] = sampling.frequency_penalty;
  if (sampling.seed != 0) body["seed"] = sampling.seed;
  if (!request.stop.empty()) body["stop"] = request.stop;
  return body;
}

// Words that servers are known to refuse, a bit each.
enum Word : unsigned {
  kStreamOptions = 1,
  kMaxTokens = 2,  // max_completion_tokens is taken instead
  kStrict = 4,     // of tools
};

std::string request_body(const engine::ChatRequest& request, const RemoteModel& model,
                         unsigned refused) {
  ordered_json body =
      request.openai_request.empty() ? body_of_members(request) : body_of_client(request);
  body["model"] = model.id;
  body["stream"] = true;
  if ((refused & kStreamOptions) == 0) body["stream_options"] = {{"include_usage", true}};
  if (model.thinking && !body.contains("thinking")) {
    body["thinking"] = {{"type", *model.thinking ? "enabled" : "disabled"}};
  }
  if ((refused & kMaxTokens) != 0 && body.contains("max_tokens")) {
    body["max_completion_tokens"] = body["max_tokens"];
    body.erase("max_tokens");
  }
  if (const auto tools = body.find("tools"); (refused & kStrict) != 0 && tools != body.end()) {
    for (ordered_json& tool : *tools) {
      if (tool.is_object() && tool.contains("function") && tool["function"].is_object()) {
        tool["function"].erase("strict");
      }
    }
  }
  return body.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

// What the message of a 400 is about.
unsigned words_named(const std::string& message) {
  const auto names = [&message](const char* word) {
    return message.find(word) != std::string::npos;
  };
  return (names("stream_options") ? kStreamOptions : 0U) |
         (names("max_completion_tokens") ? kMaxTokens : 0U) | (names("strict") ? kStrict : 0U);
}

// English has about four bytes to a token in the vocabularies of today.
std::int64_t estimated_tokens(std::size_t bytes) {
  return static_cast<std::int64_t>((bytes + 3) / 4);
}

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// The thread's own wait, which a stop ends.
bool wait_for(milliseconds duration, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  wake.wait_for(lock, stop, duration, [] { return false; });
  return !stop.stop_requested();
}

milliseconds backoff(int retry, std::optional<std::int64_t> asked_ms) {
  if (asked_ms) return milliseconds(*asked_ms);
  thread_local std::minstd_rand random{std::random_device{}()};
  const double part = 1 - kJitter * std::uniform_real_distribution<>()(random);
  return milliseconds(
      static_cast<std::int64_t>(std::min(kFirstWaitMs * std::exp2(retry), kWaitMsMax) * part));
}

}  // namespace

class UpstreamClient::Chat {
 public:
  Chat(UpstreamClient& client, const engine::ChatRequest& request, const RemoteModel& model,
       Events events, std::stop_token caller)
      : client_(client),
        request_(request),
        model_(model),
        events_(std::move(events)),
        caller_(std::move(caller)) {}

  void run() {
    const std::stop_callback on_caller(caller_, [this] { stop_.request_stop(); });
    const std::stop_callback on_shutdown(client_.shutdown_.get_token(),
                                         [this] { stop_.request_stop(); });
    while (true) {
      std::optional<UpstreamFailure> failure = attempt();
      count_tokens(failure);
      if (failure) hide_secret(failure->message, client_.settings_.key);
      if (!failure || !may_go_on(*failure)) {
        outcome_.failure = std::move(failure);
        break;
      }
    }
    if (!outcome_.failure) fill_result();
    events_.on_done(std::move(outcome_));
  }

 private:
  // One request and its answer.
  std::optional<UpstreamFailure> attempt() {
    ++outcome_.attempts;
    reader_ = {};
    parser_.emplace(kEventBytesMax);
    problem_.reset();
    whole_body_.clear();
    head_ = {};
    sent_ = false;
    n_bytes_said_ = 0;
    used_endpoint_ = client_.endpoint_;
    refused_words_ = client_.refused_words_;
    const HttpCall call = {client_.settings_.endpoints[used_endpoint_], "/chat/completions",
                           client_.settings_.key, request_body(request_, model_, refused_words_),
                           client_.settings_.timeouts};
    n_bytes_asked_ = call.body.size();
    const HttpEvents events = {.on_head = [this](const UpstreamAnswerHead& head) { head_ = head; },
                               .on_body = [this](std::string_view bytes) { return take(bytes); },
                               .on_step = {},
                               .on_sent = [this] { sent_ = true; }};
    auto failure = client_.machinery_->http.run(call, events, stop_.get_token());
    if (failure && reader_.is_complete()) failure.reset();  // all was said before it broke
    if (failure || problem_) return failure ? failure : problem_;
    if (head_.status == 200 && !head_.content_encoding.empty()) return compressed();
    if (head_.status != 200) return failure_of(head_, whole_body_);
    if (!is_stream()) return read_whole();
    parser_->finish();
    if (!read_events()) return problem_;
    if (reader_.is_complete()) return std::nullopt;
    return cut_off();
  }

  bool is_stream() const { return head_.content_type.starts_with("text/event-stream"); }

  bool take(std::string_view bytes) {
    if (!head_.content_encoding.empty()) return false;
    if (head_.status != 200 || !is_stream()) {
      const std::size_t bytes_max = head_.status == 200 ? kEventBytesMax : kFailureBytesMax;
      whole_body_ += bytes.substr(0, bytes_max - whole_body_.size());
      return whole_body_.size() < bytes_max;
    }
    if (!parser_->push(bytes)) {
      problem_ = cut_off();
      problem_->message = "an event of the remote's answer is larger than 8 MiB";
      return false;
    }
    return read_events() && !reader_.is_done();
  }

  bool read_events() {
    while (const auto event = parser_->next()) {
      auto piece = reader_.read(*event);
      if (piece.has_error()) {
        problem_ = piece.error();
        return false;
      }
      say(std::move(*piece));
    }
    return true;
  }

  // A server that does not stream answers with one object.
  std::optional<UpstreamFailure> read_whole() {
    const bool is_empty = whole_body_.find_first_not_of(" \t\r\n") == std::string::npos;
    if (is_empty || is_web_page(whole_body_)) {
      UpstreamFailure failure = failure_of(head_, whole_body_);
      failure.which = FailureClass::kFinal;
      failure.path_may_be_wrong = true;
      failure.message = is_empty
                            ? "the remote's answer is empty"
                            : "a web page came instead of JSON; is the path of the base URL right?";
      return failure;
    }
    auto piece = reader_.read({"", whole_body_});
    if (piece.has_error()) return piece.error();
    if (!reader_.has_begun()) {
      UpstreamFailure failure = cut_off();
      failure.message = "the remote's answer has no choices";
      return failure;
    }
    say(std::move(*piece));
    return reader_.is_complete() ? std::nullopt : std::optional(cut_off());
  }

  UpstreamFailure compressed() const {
    return failed_because(FailureClass::kFinal, "the remote's answer is compressed (" +
                                                    one_line(head_.content_encoding) +
                                                    "), which was not asked for");
  }

  UpstreamFailure cut_off() const {
    UpstreamFailure failure =
        failed_because(FailureClass::kAmbiguous, "the remote's answer broke off");
    failure.status = head_.status;
    return failure;
  }

  void say(engine::ChatDelta piece) {
    n_bytes_said_ += piece.text.size() + piece.reasoning.size();
    for (const engine::ToolCallDelta& call : piece.tool_calls) {
      n_bytes_said_ += call.piece.arguments.size();
    }
    if (piece.text.empty() && piece.reasoning.empty() && piece.tool_calls.empty()) return;
    if (!std::exchange(outcome_.spoke, true)) {
      outcome_.result.first_token_ms = milliseconds_since(started_);
    }
    outcome_.result.text += piece.text;
    outcome_.result.reasoning += piece.reasoning;
    if (events_.on_delta) events_.on_delta(piece);
  }

  // Whether to ask again, after the time that has to pass before it.
  bool may_go_on(const UpstreamFailure& failure) {
    if (outcome_.spoke || stop_.stop_requested()) return false;
    if (failure.path_may_be_wrong && next_endpoint()) {
      --outcome_.attempts;
      return true;
    }
    if (failure.is_bad_request && reword(failure.message)) {
      --outcome_.attempts;
      return true;
    }
    if (retries_ >= client_.settings_.retries_max) return false;
    switch (failure.which) {
      case FailureClass::kSafe:
      case FailureClass::kRefused:
        break;
      case FailureClass::kAmbiguous:
        if (++ambiguous_retries_ > kAmbiguousRetriesMax) return false;
        break;
      case FailureClass::kFinal:
      case FailureClass::kCancelled:
        return false;
    }
    const bool at_once = failure.which == FailureClass::kSafe && retries_ == 0;
    const milliseconds pause = backoff(retries_++, failure.retry_after_ms);
    return at_once || wait_for(pause, stop_.get_token());
  }

  // Whether there are other words than were used, which all chats use from here on.
  bool reword(const std::string& message) {
    const unsigned named = words_named(message);
    client_.refused_words_ |= named;
    return (named & ~refused_words_) != 0;
  }

  // The other place where the API may be, tried once. Counted from the one that this attempt used,
  // since chats beside it find out the same.
  bool next_endpoint() {
    if (client_.settings_.endpoints.size() < 2 || std::exchange(other_tried_, true)) return false;
    client_.endpoint_ = 1 - used_endpoint_;
    return true;
  }

  // Of an attempt that has ended; what was refused costs nothing.
  void count_tokens(const std::optional<UpstreamFailure>& failure) {
    const bool may_have_run = !failure || outcome_.spoke ||
                              (sent_ && (failure->which == FailureClass::kAmbiguous ||
                                         failure->which == FailureClass::kCancelled));
    if (!may_have_run) return;
    engine::ChatResult usage;
    fill_usage(usage);
    outcome_.tokens += usage.prompt_tokens + usage.completion_tokens;
  }

  // What the remote reports, else what the texts' lengths tell.
  void fill_usage(engine::ChatResult& result) const {
    const bool reported = reader_.prompt_tokens() && reader_.completion_tokens();
    result.usage_source =
        reported ? engine::UsageSource::kReported : engine::UsageSource::kEstimated;
    result.prompt_tokens = reader_.prompt_tokens().value_or(estimated_tokens(n_bytes_asked_));
    result.cached_prompt_tokens = reader_.cached_prompt_tokens().value_or(0);
    result.completion_tokens =
        reader_.completion_tokens().value_or(estimated_tokens(n_bytes_said_));
  }

  void fill_result() {
    engine::ChatResult& result = outcome_.result;
    result.tool_calls = reader_.take_tool_calls();
    result.finish_reason = reader_.finish_reason();
    fill_usage(result);
    result.total_ms = milliseconds_since(started_);
    if (!outcome_.spoke) result.first_token_ms = result.total_ms;
    const double said_s = (result.total_ms - result.first_token_ms) / 1000;
    if (result.completion_tokens > 1 && said_s > 0) {
      result.decode_tokens_per_s = static_cast<double>(result.completion_tokens - 1) / said_s;
    }
    result.served_by = "remote";
    result.model = reader_.model().empty() ? model_.id : reader_.model();
  }

  UpstreamClient& client_;
  const engine::ChatRequest request_;
  const RemoteModel model_;
  const Events events_;
  const std::stop_token caller_;
  const Clock::time_point started_ = Clock::now();
  std::stop_source stop_;
  UpstreamOutcome outcome_;
  std::size_t n_bytes_asked_ = 0;
  int retries_ = 0;
  int ambiguous_retries_ = 0;
  bool other_tried_ = false;
  // Of the attempt that runs:
  std::size_t used_endpoint_ = 0;
  unsigned refused_words_ = 0;
  AnswerReader reader_;
  std::optional<SseParser> parser_;
  std::optional<UpstreamFailure> problem_;
  UpstreamAnswerHead head_;
  std::string whole_body_;
  bool sent_ = false;  // all of the request
  std::size_t n_bytes_said_ = 0;
};

UpstreamClient::UpstreamClient(UpstreamSettings settings) : settings_(std::move(settings)) {}

UpstreamClient::Machinery::Machinery(const UpstreamSettings& settings)
    : http(settings.endpoints.front().tls, settings.proxies), threads(kThreads) {}

UpstreamClient::~UpstreamClient() {
  shutdown_.request_stop();
  if (machinery_) machinery_->threads.join();
}

void UpstreamClient::start(const engine::ChatRequest& request, const RemoteModel& model,
                           Events events, std::stop_token stop) {
  auto chat = std::make_shared<Chat>(*this, request, model, std::move(events), std::move(stop));
  std::call_once(started_, [this] { machinery_ = std::make_unique<Machinery>(settings_); });
  boost::asio::post(machinery_->threads, [chat] { chat->run(); });
}

}  // namespace engramd::server
