#include "server/doctor/check.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <nlohmann/json.hpp>

#include "mcp/text.h"

namespace engramd::server {
namespace {

constexpr std::size_t kStatusColumns = 13;
constexpr std::size_t kNameColumns = 24;

std::string padded(std::string text, std::size_t columns) {
  text.resize(std::max(columns, text.size() + 1), ' ');
  return text;
}

const char* shade_of(CheckStatus status) {
  switch (status) {
    case CheckStatus::kPass:
      return "\x1b[32m";
    case CheckStatus::kWarn:
      return "\x1b[33m";
    case CheckStatus::kFail:
      return "\x1b[31m";
    case CheckStatus::kNotChecked:
      return "\x1b[2m";
  }
  return "";
}

}  // namespace

const char* name_of(CheckStatus status) {
  switch (status) {
    case CheckStatus::kPass:
      return "pass";
    case CheckStatus::kWarn:
      return "warn";
    case CheckStatus::kFail:
      return "fail";
    case CheckStatus::kNotChecked:
      return "not checked";
  }
  return "";
}

Check not_checked(std::string name, std::string why) {
  return {std::move(name), CheckStatus::kNotChecked, std::move(why), ""};
}

std::vector<Check> examine(const Examination& examination) {
  std::vector<Check> checks = configuration_checks(examination.config);
  const auto add = [&checks](std::vector<Check> more) {
    std::move(more.begin(), more.end(), std::back_inserter(checks));
  };
  add(local_checks(examination));
  add(remote_checks(examination));
  add(client_checks(examination.config));
  return checks;
}

nlohmann::json to_json(const std::vector<Check>& checks) {
  nlohmann::json list = nlohmann::json::array();
  for (const Check& check : checks) {
    list.push_back({{"name", check.name},
                    {"status", name_of(check.status)},
                    {"detail", mcp::sanitise_text(check.detail)},
                    {"remedy", mcp::sanitise_text(check.remedy)}});
  }
  return {{"checks", std::move(list)}};
}

std::string text_of(const std::vector<Check>& checks, bool colour) {
  std::string text;
  for (const Check& check : checks) {
    const std::string status = padded(name_of(check.status), kStatusColumns);
    text += colour ? shade_of(check.status) + status + "\x1b[0m" : status;
    text += padded(check.name, kNameColumns) + mcp::sanitise_text(check.detail) + "\n";
    if (check.remedy.empty()) continue;
    text += std::string(kStatusColumns + kNameColumns, ' ') + "-> " +
            mcp::sanitise_text(check.remedy) + "\n";
  }
  return text;
}

}  // namespace engramd::server
