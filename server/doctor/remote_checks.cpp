#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <mutex>
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
  const TlsTrust trust(settings.endpoints.front().tls);
  for (const Endpoint& endpoint : settings.endpoints) {
    UpstreamAnswerHead head;
    std::string body;
    const HttpEvents events = {.on_head =
                                   [&](const UpstreamAnswerHead& got) {
                                     head = got;
                                     return true;
                                   },
                               .on_body =
                                   [&](std::string_view bytes) {
                                     body += bytes;
                                     return body.size() < kListBytesMax;
                                   }};
    const auto started = std::chrono::steady_clock::now();
    listing = {};
    listing.where = endpoint.name();
    listing.failure = run_http_call({endpoint, "/models", settings.key, "", settings.timeouts},
                                    events, trust, {});
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
      listing.failure->message = body.find('<') != std::string::npos
                                     ? "a web page came instead of the list of models"
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
  std::mutex mutex;
  std::condition_variable done;
  std::optional<UpstreamOutcome> outcome;
  UpstreamClient client(settings);
  client.start(request, api.default_model,
               {.on_delta = {},
                .on_done =
                    [&](UpstreamOutcome got) {
                      const std::lock_guard lock(mutex);
                      outcome = std::move(got);
                      done.notify_one();
                    }},
               {});
  std::unique_lock lock(mutex);
  done.wait(lock, [&] { return outcome.has_value(); });
  if (outcome->failure) {
    return {name, CheckStatus::kFail, outcome->failure->message, remedy_of(*outcome->failure, api)};
  }
  return {name, CheckStatus::kPass,
          outcome->result.model + " answered in " +
              std::to_string(static_cast<std::int64_t>(outcome->result.total_ms)) + " ms",
          ""};
}

}  // namespace

std::vector<Check> remote_checks(const config::EffectiveConfig& config, const std::string& api_key,
                                 bool live) {
  const config::ApiOptions& api = config.options.api;
  std::vector<Check> checks;
  const auto key = clean_api_key(api_key);
  if (key.has_error()) {
    checks.push_back({"remote.key", CheckStatus::kFail,
                      api.api_key_env + ": " + key.error().message,
                      "copy the key again, as one line"});
  } else if (key->empty()) {
    checks.push_back({"remote.key",
                      api.base_url.empty() ? CheckStatus::kNotChecked : CheckStatus::kWarn,
                      "the variable " + api.api_key_env + " is not set",
                      api.base_url.empty() ? "" : "export " + api.api_key_env + "=..."});
  } else {
    checks.push_back(
        {"remote.key", CheckStatus::kPass,
         api.api_key_env + " has a key of " + std::to_string(key->size()) + " characters", ""});
  }
  const auto endpoints = parse_base_url(api.base_url);
  if (api.base_url.empty()) {
    checks.push_back(not_checked("remote.base_url", "api.base_url is empty: no remote"));
  } else if (endpoints.has_error()) {
    checks.push_back({"remote.base_url", CheckStatus::kFail, endpoints.error().message,
                      "write it as https://api.example.org/v1"});
  } else if (!endpoints->front().tls && !endpoints->front().is_loopback) {
    checks.push_back({"remote.base_url", CheckStatus::kWarn,
                      endpoints->front().name() + ": key and prompts cross the network in clear",
                      "write https:// in api.base_url"});
  } else {
    checks.push_back({"remote.base_url", CheckStatus::kPass,
                      endpoints->front().name() + "/chat/completions", ""});
  }
  const auto settings = upstream_settings(api, api_key);
  if (settings.has_error() || !settings->has_value()) {
    const std::string why = settings.has_error() ? settings.error().message
                            : api.allow_remote == config::AllowRemote::kFalse
                                ? "api.allow_remote is false"
                                : "there is no remote";
    for (const char* name :
         {"remote.models", "api.default_model", "api.fallback_model", "remote.answer"}) {
      checks.push_back(not_checked(name, why));
    }
    return checks;
  }
  const Listing listing = list_models(**settings);
  if (listing.failure) {
    checks.push_back({"remote.models", CheckStatus::kFail, listing.failure->message,
                      remedy_of(*listing.failure, api)});
  } else {
    checks.push_back({"remote.models", CheckStatus::kPass,
                      std::to_string(listing.models.size()) + " models in " +
                          std::to_string(listing.total_ms) + " ms from " + listing.where,
                      ""});
  }
  checks.push_back(model_check("api.default_model", api.default_model, listing));
  checks.push_back(model_check("api.fallback_model", api.fallback_model, listing));
  checks.push_back(answer_check(**settings, api, live));
  return checks;
}

}  // namespace engramd::server
