#include "server/upstream/router.h"

#include <algorithm>
#include <utility>

namespace engramd::server {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kBreakersMax = 256;

// Another backend may do what this one could not. A wrong request stays wrong.
bool may_fall_back(const Error& error) {
  return error.kind != ErrorKind::kInvalidArgument && error.kind != ErrorKind::kCancelled;
}

}  // namespace

Result<std::optional<UpstreamSettings>> upstream_settings(const config::ApiOptions& api,
                                                          const RemoteEnvironment& environment) {
  using Settings = std::optional<UpstreamSettings>;
  const bool wanted = api.allow_remote == config::AllowRemote::kTrue;
  if (api.allow_remote == config::AllowRemote::kFalse) return Settings();
  if (api.base_url.empty()) {
    if (!wanted) return Settings();
    return invalid_argument("api.allow_remote is true, but api.base_url is empty");
  }
  auto endpoints = parse_base_url(api.base_url);
  if (endpoints.has_error()) return endpoints.error();
  auto key = clean_api_key(environment.api_key);
  if (key.has_error()) return invalid_argument(api.api_key_env + ": " + key.error().message);
  // A server on this machine may go without.
  if (key->empty() && !endpoints->front().is_loopback) {
    if (!wanted) return Settings();
    return invalid_argument("api.allow_remote is true, but the variable " + api.api_key_env +
                            " has no key");
  }
  UpstreamSettings settings;
  settings.endpoints = std::move(*endpoints);
  settings.key = std::move(*key);
  settings.proxies = environment.proxies;
  settings.timeouts.total = std::chrono::seconds(api.timeout_s);
  settings.timeouts.connect = std::chrono::seconds(api.connect_timeout_s);
  settings.timeouts.idle = std::chrono::seconds(api.idle_timeout_s);
  settings.retries_max = static_cast<int>(api.max_retries);
  return Settings(std::move(settings));
}

std::vector<Hop> plan_hops(const engine::ChatRequest& request, const std::string& local_model,
                           const config::ApiOptions& api) {
  std::vector<Hop> hops;
  const auto add = [&hops](Hop hop) {
    const auto same = [&hop](const Hop& other) {
      return !other.is_local && other.model.id == hop.model.id;
    };
    if (std::none_of(hops.begin(), hops.end(), same)) hops.push_back(std::move(hop));
  };
  const auto add_remote = [&add](const std::string& model) {
    if (model.empty()) return;
    add({.model = {model}});
    if (const auto retired = retirement_of(model)) {
      add({.model = retired->successor, .instead_of = model});
    }
  };
  const bool names_local = request.model.empty() || request.model == local_model;
  const bool may_local = request.route != engine::Route::kRemote;
  // Text to continue without a chat format, and exact tokens, mean this model's.
  const bool may_remote = request.route != engine::Route::kLocal && !request.messages.empty();
  const bool local_first = names_local || !may_remote;
  if (may_local && local_first) hops.push_back({.is_local = true});
  if (may_remote) {
    add_remote(names_local ? api.default_model : request.model);
    add_remote(api.fallback_model);
  }
  if (may_local && !local_first) hops.push_back({.is_local = true});
  return hops;
}

class Router::Run : public std::enable_shared_from_this<Run> {
 public:
  Run(Router& router, engine::ChatRequest request, engine::ChatCallbacks callbacks,
      std::stop_token stop)
      : router_(router),
        request_(std::move(request)),
        callbacks_(std::move(callbacks)),
        stop_(std::move(stop)) {}

  // The chain depends on the name of the local model, so its loading is waited for, unless only the
  // remote may answer.
  void begin() {
    if (request_.route == engine::Route::kRemote) return plan("");
    router_.loader_.when_ready(
        [self = shared_from_this()](const Result<engine::LocalEngine*>& engine) {
          self->plan(engine.has_value() ? (*engine)->facts().name : "");
        });
  }

 private:
  void plan(const std::string& local_model) {
    hops_ = plan_hops(request_, local_model, router_.options_.api);
    next();
  }

  void next() {
    if (stop_.stop_requested()) return callbacks_.on_done(cancelled("cancelled"));
    if (at_ == hops_.size()) return fail();
    const Hop& hop = hops_[at_++];
    if (hop.is_local) return ask_local();
    if (!hop.instead_of.empty() && !router_.gone_.contains(hop.instead_of)) return next();
    if (router_.gone_.contains(hop.model.id)) {
      add_reason(hop.model.id, "the provider retired it");
      return next();
    }
    ask_remote(hop.model);
  }

  void fail() {
    if (hops_.empty()) {
      return callbacks_.on_done(unavailable(
          request_.messages.empty()
              ? "route remote: a remote answers messages only; give prompt or messages"
              : "route remote: no model of the remote is named; set api.default_model or ask for "
                "one"));
    }
    std::string message = "nobody answered: " + reasons_;
    if (all_refused_the_request_) return callbacks_.on_done(invalid_argument(std::move(message)));
    callbacks_.on_done(asking_again_may_help_ ? unavailable(std::move(message))
                                              : remote_failed(std::move(message)));
  }

  void add_reason(const std::string& who, const std::string& what) {
    reasons_ += (reasons_.empty() ? "" : "; ") + who + ": " + what;
  }

  void ask_local() {
    if (!request_.local_refusal.empty()) {
      if (hops_.size() == 1) return callbacks_.on_done(invalid_argument(request_.local_refusal));
      add_reason("local", request_.local_refusal);
      return next();
    }
    router_.loader_.when_ready([self = shared_from_this()](Result<engine::LocalEngine*> engine) {
      // Whatever is wrong with the model, it is not the request.
      if (engine.has_error()) return self->local_done(unavailable(engine.error().message));
      engine::ChatRequest request = self->request_;
      // A name that is not its own was the remote's, which has been tried.
      if (!request.model.empty() && request.route != engine::Route::kLocal) request.model.clear();
      engine::ChatCallbacks callbacks;
      callbacks.on_prefill = self->callbacks_.on_prefill;
      callbacks.on_delta = self->callbacks_.on_delta;
      callbacks.on_done = [self](Result<engine::ChatResult> result) {
        auto shared = std::make_shared<Result<engine::ChatResult>>(std::move(result));
        self->router_.post_([self, shared] { self->local_done(std::move(*shared)); });
      };
      (*engine)->start(std::move(request), std::move(callbacks), self->stop_);
    });
  }

  void local_done(Result<engine::ChatResult> result) {
    if (result.has_error()) {
      if (!may_fall_back(result.error()) || hops_.size() == 1) {
        return callbacks_.on_done(std::move(result));
      }
      add_reason("local", result.error().message);
      all_refused_the_request_ = false;
      return next();
    }
    result->attempts += attempts_;
    if (!reasons_.empty()) result->fallback_reason = reasons_;
    callbacks_.on_done(std::move(result));
  }

  void ask_remote(const RemoteModel& model) {
    if (const auto left = router_.budget_.check(std::time(nullptr)); left.has_error()) {
      all_refused_the_request_ = false;
      add_reason(model.id, left.error().message);
      return next();
    }
    CircuitBreaker& breaker = router_.breaker_of(model.id);
    const auto now = router_.now_();
    if (!breaker.allow(now)) {
      const auto wait_s = (breaker.remaining(now).count() + 999) / 1000;
      all_refused_the_request_ = false;
      add_reason(model.id, "kept failing, asked again in " +
                               std::to_string(std::max<std::int64_t>(wait_s, 1)) + " s");
      return next();
    }
    UpstreamClient::Events events;
    events.on_delta = callbacks_.on_delta;
    events.on_done = [self = shared_from_this(), model = model.id](UpstreamOutcome outcome) {
      auto shared = std::make_shared<UpstreamOutcome>(std::move(outcome));
      self->router_.post_([self, model, shared] { self->remote_done(model, std::move(*shared)); });
    };
    router_.upstream_.start(request_, model, std::move(events), stop_);
  }

  void remote_done(const std::string& model, UpstreamOutcome outcome) {
    attempts_ += outcome.attempts;
    count_tokens(outcome.tokens);
    CircuitBreaker& breaker = router_.breaker_of(model);
    if (!outcome.failure) {
      breaker.succeeded(router_.now_());
      outcome.result.attempts = attempts_;
      outcome.result.fallback_reason = reasons_;
      return callbacks_.on_done(std::move(outcome.result));
    }
    const UpstreamFailure& failure = *outcome.failure;
    if (failure.counts_for_breaker) {
      breaker.failed(router_.now_(), failure.retry_after_ms
                                         ? std::optional(milliseconds(*failure.retry_after_ms))
                                         : std::nullopt);
    } else {
      breaker.ended();
    }
    const Error error = to_error(failure);
    // What was said cannot be taken back, so nobody else says it again.
    if (outcome.spoke || failure.which == FailureClass::kCancelled) {
      return callbacks_.on_done(error);
    }
    add_reason(model, failure.message);
    all_refused_the_request_ = all_refused_the_request_ && failure.is_bad_request;
    asking_again_may_help_ = asking_again_may_help_ && error.kind == ErrorKind::kUnavailable;
    if (failure.is_unknown_model) note_retirement(model);
    if (failure.is_bad_request && hops_.size() == 1) return callbacks_.on_done(error);
    next();
  }

  void count_tokens(std::int64_t tokens) {
    if (tokens == 0) return;
    if (const auto added = router_.budget_.add(tokens, std::time(nullptr)); added.has_error()) {
      router_.warn_(added.error().message);
    }
  }

  void note_retirement(const std::string& model) {
    const auto retired = retirement_of(model);
    if (!retired || !router_.gone_.insert(model).second) return;
    router_.warn_(model + " was retired by its provider on " + retired->since +
                  " and is not known there: " + retired->successor.id + " is asked instead");
  }

  Router& router_;
  const engine::ChatRequest request_;
  const engine::ChatCallbacks callbacks_;
  const std::stop_token stop_;
  std::vector<Hop> hops_;
  std::size_t at_ = 0;
  std::string reasons_;  // why those before did not answer
  int attempts_ = 0;
  bool all_refused_the_request_ = true;
  bool asking_again_may_help_ = true;
};

Router::Router(const config::Options& options, ModelLoader& loader, UpstreamSettings upstream,
               Post post, Warn warn, Now now)
    : options_(options),
      loader_(loader),
      post_(std::move(post)),
      warn_(std::move(warn)),
      now_(std::move(now)),
      aliases_(to_aliases(options.server.aliases)),
      budget_(options.table.state_folder, options.api.tokens_per_day_max),
      upstream_(std::move(upstream)) {}

CircuitBreaker& Router::breaker_of(const std::string& model) {
  // Names come from clients: those of models that are well are forgotten when there are many.
  if (breakers_.size() > kBreakersMax) {
    std::erase_if(breakers_, [](const auto& entry) { return entry.second.is_closed(); });
  }
  return breakers_[model];
}

void Router::start(engine::ChatRequest request, engine::ChatCallbacks callbacks,
                   std::stop_token stop) {
  const auto alias = aliases_.find(request.model);
  if (alias != aliases_.end()) request.model = alias->second;
  auto run =
      std::make_shared<Run>(*this, std::move(request), std::move(callbacks), std::move(stop));
  post_([run] { run->begin(); });
}

}  // namespace engramd::server
