#include <algorithm>

#include "server/commands/client_settings.h"
#include "server/doctor/check.h"
#include "server/upstream/endpoint.h"
#include "server/upstream/remote_environment.h"

namespace engramd::server {
namespace {

Check launch_check(const ClientSettings& client) {
  Check check = {"client." + client.client, CheckStatus::kPass, client.path, ""};
  if (!client.problem.empty()) {
    check.status = CheckStatus::kWarn;
    check.detail = client.problem;
    check.remedy = "repair the file; the client cannot read it either";
  } else if (!client.launches_engramd) {
    check.status = CheckStatus::kNotChecked;
    check.detail += " does not name engramd";
  } else if (!client.program_exists) {
    check.status = CheckStatus::kFail;
    check.detail += " launches " + client.command + ", which is not there";
    check.remedy = "engramd client-config " + client.client + " --write";
  } else {
    check.detail += " launches " + client.command;
  }
  return check;
}

// A value in one spelling, so that only real differences differ.
std::string plain_url(const std::string& text) {
  const auto endpoints = parse_base_url(text);
  return endpoints.has_error() ? text : endpoints->back().name();
}

std::string plain_key(const std::string& text) {
  const auto key = clean_api_key(text);
  return key.has_error() ? text : *key;
}

// Who has what: key, base URL and model stand in several files, and people change one of them.
std::vector<std::string> differences(const RemoteValues& ours, const RemoteValues& theirs) {
  std::vector<std::string> all;
  const auto compare = [&all](const char* what, const std::string& a, const std::string& b) {
    if (!a.empty() && !b.empty() && a != b) all.emplace_back(what);
  };
  compare("key", plain_key(ours.key), plain_key(theirs.key));
  compare("base URL", plain_url(ours.base_url), plain_url(theirs.base_url));
  compare("model", ours.model, theirs.model);
  return all;
}

// With engramd's own configuration, or among each other where that names no remote.
Check values_check(const config::EffectiveConfig& config) {
  const char* const name = "client.values";
  std::vector<RemoteValues> all = find_remote_values(config);
  // A client of engramd itself has engramd's token and address, as it should.
  std::erase_if(all, [](const RemoteValues& values) {
    const auto endpoints = parse_base_url(values.base_url);
    return endpoints.has_value() && endpoints->front().is_loopback;
  });
  const config::ApiOptions& api = config.options.api;
  RemoteValues ours = {"engramd", remote_environment(config).api_key, api.base_url,
                       api.default_model};
  if (ours.base_url.empty() && !all.empty()) {
    ours = all.front();
    all.erase(all.begin());
  }
  if (all.empty()) return not_checked(name, "key, base URL and model are named once at most");
  std::string different;
  for (const RemoteValues& theirs : all) {
    for (const std::string& what : differences(ours, theirs)) {
      different += (different.empty() ? "" : "; ") + what + " of " + theirs.where;
    }
  }
  if (different.empty()) {
    return {name, CheckStatus::kPass,
            "key, base URL and model of " + std::to_string(all.size() + 1) + " places agree", ""};
  }
  return {name, CheckStatus::kWarn, "other than " + ours.where + ": " + different,
          "change them where they are old"};
}

}  // namespace

std::vector<Check> client_checks(const config::EffectiveConfig& config) {
  std::vector<Check> checks;
  for (const ClientSettings& client : find_client_settings(config)) {
    checks.push_back(launch_check(client));
  }
  checks.push_back(values_check(config));
  return checks;
}

}  // namespace engramd::server
