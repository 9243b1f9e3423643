#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "mcp/text.h"
#include "server/doctor/check.h"
#include "server/upstream/router.h"

namespace engramd::server {
namespace {

using nlohmann::json;

constexpr std::size_t kListBytesMax = 4UL << 20;
// Gone since 2026-07-24, says DeepSeek's own change log; a gateway may still map them.
constexpr std::array kRetired = {"deepseek-chat", "deepseek-reasoner"};

Check not_checked(const char* name, const std::string& why) {
  return {name, CheckStatus::kNotChecked, why, ""};
}

// What a message that users know from elsewhere usually means.
std::string remedy_of(const UpstreamFailure& failure, const config::ApiOptions& api) {
  switch (failure.status) {
    case 401:
      return "is " + api.api_key_env + " the key of this very server, and complete?";
    case 402:
      return "top up the account, or use another key";
    case 403:
      return "the key may not do this; ask whoever gave it";
    case 404:
    case 405:
      return "does api.base_url have the right path? Try it with and without /v1";
    case 429:
      return "wait, or raise the limit of the account";
    case 0:
      break;
    default:
      return "ask again later, or the server's status page";
  }
  if (failure.message.find("certificate") != std::string::npos) {
    return "name the authority with SSL_CERT_FILE, and check this machine's clock";
  }
  if (failure.message.find("agreeing on TLS") != std::string::npos) {
    return "is it https at all? Try http:// or the right port";
  }
  return "check the address, the network and the firewall";
}

struct Listing {
  std::optional<UpstreamFailure> failure;
  std::vector<std::string> models;
  std::string where;
  std::int64_t total_ms = 0;
};

Listing list_models(const UpstreamSettings& settings) {
  Listing listing;
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
                               .on_step = {}};
    const auto started = std::chrono::steady_clock::now();
    listing = {};
    listing.where = endpoint.name();
    listing.failure =
        http.run({endpoint, "/models", settings.key, "", settings.timeouts}, events, {});
    listing.total_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                           std::chrono::steady_clock::now() - started)
                           .count();
    if (listing.failure) return listing;
    const json parsed = json::parse(body, nullptr, false);
    const bool is_list = parsed.is_object() && parsed.contains("data") && parsed["data"].is_array();
    if (head.status == 200 && is_list) {
      for (const json& model : parsed["data"]) {
        if (model.is_object() && model.contains("id") && model["id"].is_string()) {
          listing.models.push_back(model["id"]);
        }
      }
      return listing;
    }
    listing.failure = failure_of(head, body);
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

Check model_check(const char* name, const std::string& model, const Listing& listing) {
  if (model.empty()) return not_checked(name, "none is named");
  const auto& models = listing.models;
  const bool listed = std::find(models.begin(), models.end(), model) != models.end();
  if (listed) return {name, CheckStatus::kPass, model, ""};
  if (listing.failure) return not_checked(name, "the list of models is not there");
  const bool retired = std::find(kRetired.begin(), kRetired.end(), model) != kRetired.end();
  const std::string nearest = mcp::suggest(model, models);
  return {name, retired ? CheckStatus::kWarn : CheckStatus::kFail,
          model + (retired ? " was retired by its provider and is not in the list"
                           : " is not in the list of " + std::to_string(models.size()) + " models" +
                                 nearest),
          std::string("name another one in ") + name};
}

// One token from the named model.
Check answer_check(const UpstreamSettings& settings, const config::ApiOptions& api, bool live) {
  const char* const name = "remote.answer";
  if (!live) return not_checked(name, "it costs a token; --live does it");
  if (api.default_model.empty()) return not_checked(name, "api.default_model is not set");
  engine::ChatRequest request;
  request.messages = {{"user", "Say yes."}};
  request.max_tokens = 1;
  std::promise<UpstreamOutcome> promise;
  UpstreamClient client(settings);
  client.start(
      request, {api.default_model},
      {.on_delta = {}, .on_done = [&](UpstreamOutcome got) { promise.set_value(std::move(got)); }},
      {});
  const UpstreamOutcome outcome = promise.get_future().get();
  if (outcome.failure) {
    return {name, CheckStatus::kFail, outcome.failure->message, remedy_of(*outcome.failure, api)};
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

Check listing_check(const Listing& listing, const config::ApiOptions& api) {
  const char* const name = "remote.models";
  if (listing.failure) {
    return {name, CheckStatus::kFail, listing.failure->message, remedy_of(*listing.failure, api)};
  }
  return {name, CheckStatus::kPass,
          std::to_string(listing.models.size()) + " models in " + std::to_string(listing.total_ms) +
              " ms from " + listing.where,
          ""};
}

std::string why_no_remote(const Result<std::optional<UpstreamSettings>>& settings,
                          const config::ApiOptions& api) {
  if (settings.has_error()) return settings.error().message;
  return api.allow_remote == config::AllowRemote::kFalse ? "api.allow_remote is false"
                                                         : "there is no remote";
}

}  // namespace

std::vector<Check> remote_checks(const config::EffectiveConfig& config,
                                 const RemoteEnvironment& environment, bool live) {
  const config::ApiOptions& api = config.options.api;
  std::vector<Check> checks = {key_check(api, environment.api_key), base_url_check(api)};
  const auto settings = upstream_settings(api, environment);
  if (settings.has_error() || !settings->has_value()) {
    for (const char* name :
         {"remote.models", "api.default_model", "api.fallback_model", "remote.answer"}) {
      checks.push_back(not_checked(name, why_no_remote(settings, api)));
    }
    return checks;
  }
  const Listing listing = list_models(**settings);
  checks.push_back(listing_check(listing, api));
  checks.push_back(model_check("api.default_model", api.default_model, listing));
  checks.push_back(model_check("api.fallback_model", api.fallback_model, listing));
  checks.push_back(answer_check(**settings, api, live));
  return checks;
}

}  // namespace engramd::server
