#include <algorithm>
#include <chrono>
#include <ctime>
#include <future>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "mcp/text.h"
#include "server/doctor/check.h"
#include "server/doctor/symptom.h"
#include "server/upstream/remote_environment.h"
#include "server/upstream/remote_json.h"
#include "server/upstream/remote_model.h"
#include "server/upstream/router.h"
#include "server/upstream/token_budget.h"

namespace engramd::server {
namespace {

using nlohmann::json;

constexpr std::size_t kListBytesMax = 4UL << 20;
// A doctor's visit is shorter than a chat.
constexpr std::chrono::milliseconds kConnectLimit{5000};
constexpr std::chrono::milliseconds kTotalLimit{20000};

// What a message that users know from elsewhere usually asks for.
std::string remedy_of(const UpstreamFailure& failure) {
  const Symptom* const symptom = recognise(failure.message);
  return symptom == nullptr ? "check the address, the network and the firewall" : symptom->remedy;
}

struct Listing {
  std::optional<UpstreamFailure> failure;
  std::vector<ConnectStep> steps;  // that were made
  std::vector<std::string> models;
  std::string where;
  std::int64_t total_ms = 0;
};

Listing list_models(UpstreamSettings settings, const std::stop_token& stop) {
  settings.timeouts.connect = kConnectLimit;
  settings.timeouts.total = std::min(settings.timeouts.total, kTotalLimit);
  Listing listing;
  std::vector<ConnectStep> steps;
  HttpClient http(settings.endpoints.front().tls, settings.proxies);
  for (const Endpoint& endpoint : settings.endpoints) {
    UpstreamAnswerHead head;
    std::string body;
    const HttpEvents events = {.on_head = [&](const UpstreamAnswerHead& got) { head = got; },
                               .on_body =
                                   [&](std::string_view bytes) {
                                     body += bytes;
                                     return body.size() < kListBytesMax;
                                   },
                               .on_step = [&](const ConnectStep& step) { steps.push_back(step); }};
    const auto started = std::chrono::steady_clock::now();
    listing = {};
    listing.where = endpoint.name();
    listing.failure =
        http.run({endpoint, "/models", settings.key, "", settings.timeouts}, events, stop);
    listing.steps = steps;
    if (listing.failure) hide_secret(listing.failure->message, settings.key);
    listing.total_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                           std::chrono::steady_clock::now() - started)
                           .count();
    if (listing.failure) return listing;
    const json parsed = parse_remote_json(body);
    const json* const data = member(parsed, "data");
    if (head.status == 200 && data != nullptr && data->is_array()) {
      for (const json& model : *data) {
        const std::string id = text_of(member(model, "id"));
        if (!id.empty()) listing.models.push_back(one_line(id));
      }
      return listing;
    }
    listing.failure = failure_of(head, body);
    hide_secret(listing.failure->message, settings.key);
    if (head.status == 200) {
      listing.failure->status = 404;
      listing.failure->message = is_web_page(body) ? "a web page came instead of the list of models"
                                                   : "what came is no list of models";
    } else if (!listing.failure->path_may_be_wrong) {
      return listing;
    }
  }
  return listing;
}

const char* name_of(ConnectStep::Kind kind) {
  switch (kind) {
    case ConnectStep::Kind::kName:
      return "remote.dns";
    case ConnectStep::Kind::kConnection:
      return "remote.tcp";
    case ConnectStep::Kind::kProxy:
      return "remote.proxy";
    case ConnectStep::Kind::kTls:
      return "remote.tls";
  }
  return "";
}

// A check for each step to the remote; the first that is missing is the one that failed.
void add_step_checks(const Listing& listing, const UpstreamSettings& settings,
                     std::vector<Check>& checks) {
  const Endpoint& endpoint = settings.endpoints.front();
  const auto proxy = proxy_for(endpoint, settings.proxies);
  const bool by_proxy = proxy.has_value() && proxy->has_value();
  bool failed = false;
  for (const auto kind : {ConnectStep::Kind::kName, ConnectStep::Kind::kConnection,
                          ConnectStep::Kind::kProxy, ConnectStep::Kind::kTls}) {
    const char* const name = name_of(kind);
    const auto made = std::find_if(listing.steps.begin(), listing.steps.end(),
                                   [kind](const ConnectStep& step) { return step.kind == kind; });
    if (kind == ConnectStep::Kind::kProxy && proxy.has_error()) {
      checks.push_back({name, CheckStatus::kFail, proxy.error().message,
                        "write it so in the variable that names it, or take it out"});
    } else if (kind == ConnectStep::Kind::kProxy && !by_proxy) {
      checks.push_back({name, CheckStatus::kPass, "none on the way", ""});
    } else if (kind == ConnectStep::Kind::kTls && !endpoint.tls) {
      checks.push_back(not_checked(name, "plain HTTP"));
    } else if (made != listing.steps.end()) {
      checks.push_back({name, CheckStatus::kPass,
                        made->detail + " in " + std::to_string(made->took.count()) + " ms", ""});
    } else if (!failed && listing.failure && !proxy.has_error()) {
      failed = true;
      checks.push_back(
          {name, CheckStatus::kFail, listing.failure->message, remedy_of(*listing.failure)});
    } else {
      checks.push_back(not_checked(name, "a step before it failed"));
    }
  }
}

bool is_connected(const Listing& listing, const Endpoint& endpoint) {
  const auto last = endpoint.tls ? ConnectStep::Kind::kTls : ConnectStep::Kind::kConnection;
  return std::any_of(listing.steps.begin(), listing.steps.end(),
                     [last](const ConnectStep& step) { return step.kind == last; });
}

Check model_check(const char* name, const std::string& model, const Listing& listing) {
  if (model.empty()) return not_checked(name, "none is named");
  const auto& models = listing.models;
  const bool listed = std::find(models.begin(), models.end(), model) != models.end();
  if (listed) return {name, CheckStatus::kPass, model, ""};
  if (listing.failure) return not_checked(name, "the list of models is not there");
  if (const auto retired = retirement_of(model)) {
    return {name, CheckStatus::kWarn,
            model + " was retired by its provider on " + retired->since +
                " and is not in the list; " + retired->successor.id + " is asked instead",
            std::string("name another one in ") + name};
  }
  return {name, CheckStatus::kFail,
          model + " is not in the list of " + std::to_string(models.size()) + " models" +
              mcp::suggest(model, models),
          std::string("name another one in ") + name};
}

// One token from the named model.
Check answer_check(const UpstreamSettings& settings, const config::Options& options, bool live,
                   const std::stop_token& stop) {
  const config::ApiOptions& api = options.api;
  const char* const name = "remote.answer";
  if (!live) return not_checked(name, "it costs a token; --live does it");
  if (api.default_model.empty()) return not_checked(name, "api.default_model is not set");
  TokenBudget budget(options.table.state_folder, api.tokens_per_day_max);
  if (const auto left = budget.check(std::time(nullptr)); left.has_error()) {
    return not_checked(name, left.error().message);
  }
  engine::ChatRequest request;
  request.messages = {{"user", "Say yes."}};
  request.max_tokens = 1;
  std::promise<UpstreamOutcome> promise;
  UpstreamClient client(settings);
  client.start(
      request, {api.default_model},
      {.on_delta = {}, .on_done = [&](UpstreamOutcome got) { promise.set_value(std::move(got)); }},
      stop);
  const UpstreamOutcome outcome = promise.get_future().get();
  if (outcome.tokens > 0) {
    const auto added = budget.add(outcome.tokens, std::time(nullptr));
    if (added.has_error()) return {name, CheckStatus::kFail, added.error().message, "repair it"};
  }
  if (outcome.failure) {
    return {name, CheckStatus::kFail, outcome.failure->message, remedy_of(*outcome.failure)};
  }
  return {name, CheckStatus::kPass,
          outcome.result.model + " answered in " +
              std::to_string(static_cast<std::int64_t>(outcome.result.total_ms)) + " ms",
          ""};
}

Check key_check(const config::ApiOptions& api, const std::string& api_key) {
  Check check = {"remote.key", CheckStatus::kPass, "", ""};
  const auto key = clean_api_key(api_key);
  if (key.has_error()) {
    check.status = CheckStatus::kFail;
    check.detail = api.api_key_env + ": " + key.error().message;
    check.remedy = "copy the key again, as one line";
  } else if (!key->empty()) {
    check.detail = api.api_key_env + " has a key of " + std::to_string(key->size()) + " characters";
  } else {
    check.detail = "the variable " + api.api_key_env + " is not set";
    check.status = api.base_url.empty() ? CheckStatus::kNotChecked : CheckStatus::kWarn;
    if (!api.base_url.empty()) check.remedy = "export " + api.api_key_env + "=...";
  }
  return check;
}

Check base_url_check(const config::ApiOptions& api) {
  const char* const name = "remote.base_url";
  if (api.base_url.empty()) return not_checked(name, "api.base_url is empty: no remote");
  const auto endpoints = parse_base_url(api.base_url);
  if (endpoints.has_error()) {
    return {name, CheckStatus::kFail, endpoints.error().message,
            "write it as https://api.example.org/v1"};
  }
  const Endpoint& endpoint = endpoints->front();
  if (!endpoint.tls && !endpoint.is_loopback) {
    return {name, CheckStatus::kWarn,
            endpoint.name() + ": key and prompts cross the network in clear",
            "write https:// in api.base_url"};
  }
  return {name, CheckStatus::kPass, endpoint.name() + "/chat/completions", ""};
}

Check listing_check(const Listing& listing, const Endpoint& endpoint) {
  const char* const name = "remote.models";
  if (!is_connected(listing, endpoint)) return not_checked(name, "there is no connection");
  if (listing.failure) {
    return {name, CheckStatus::kFail, listing.failure->message, remedy_of(*listing.failure)};
  }
  return {name, CheckStatus::kPass,
          std::to_string(listing.models.size()) + " models in " + std::to_string(listing.total_ms) +
              " ms from " + listing.where,
          ""};
}

Check budget_check(const config::Options& options) {
  const TokenBudget budget(options.table.state_folder, options.api.tokens_per_day_max);
  const std::time_t now = std::time(nullptr);
  const auto left = budget.check(now);
  if (left.has_error()) {
    return {"remote.budget", CheckStatus::kWarn, left.error().message,
            "raise api.tokens_per_day_max, or let the local model answer until then"};
  }
  const std::int64_t most = options.api.tokens_per_day_max;
  return {"remote.budget", CheckStatus::kPass,
          std::to_string(budget.used(now)) + " tokens today (UTC)" +
              (most == 0 ? ", no limit is set" : " of " + std::to_string(most)),
          ""};
}

std::string why_no_remote(const Result<std::optional<UpstreamSettings>>& settings,
                          const config::ApiOptions& api) {
  if (settings.has_error()) return settings.error().message;
  return api.allow_remote == config::AllowRemote::kFalse ? "api.allow_remote is false"
                                                         : "there is no remote";
}

}  // namespace

std::vector<Check> remote_checks(const Examination& examination) {
  const config::Options& options = examination.config.options;
  const config::ApiOptions& api = options.api;
  const RemoteEnvironment environment = remote_environment(examination.config);
  std::vector<Check> checks = {key_check(api, environment.api_key), base_url_check(api)};
  const auto settings = upstream_settings(api, environment);
  if (settings.has_error() || !settings->has_value()) {
    for (const char* name :
         {"remote.dns", "remote.tcp", "remote.proxy", "remote.tls", "remote.models",
          "api.default_model", "api.fallback_model", "remote.budget", "remote.answer"}) {
      checks.push_back(not_checked(name, why_no_remote(settings, api)));
    }
    return checks;
  }
  const Listing listing = list_models(**settings, examination.stop);
  add_step_checks(listing, **settings, checks);
  checks.push_back(listing_check(listing, (*settings)->endpoints.front()));
  checks.push_back(model_check("api.default_model", api.default_model, listing));
  checks.push_back(model_check("api.fallback_model", api.fallback_model, listing));
  checks.push_back(budget_check(options));
  checks.push_back(answer_check(**settings, options, examination.live, examination.stop));
  return checks;
}

}  // namespace engramd::server
