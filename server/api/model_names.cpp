#include "server/api/model_names.h"

#include <algorithm>

#include "mcp/text.h"

namespace engramd::server {

ModelAliases to_aliases(const std::vector<std::string>& items) {
  ModelAliases aliases;
  for (const std::string& item : items) {
    const std::size_t equals = item.rfind('=');
    if (equals != std::string::npos) aliases[item.substr(0, equals)] = item.substr(equals + 1);
  }
  return aliases;
}

std::vector<std::string> model_names(const std::string& open_model, const ModelAliases& aliases) {
  std::vector<std::string> names = {open_model};
  for (const auto& [alias, local] : aliases) {
    if (local == open_model && alias != open_model) names.push_back(alias);
  }
  return names;
}

ApiResult<void> check_model_name(const std::string& asked, const std::string& open_model,
                                 const ModelAliases& aliases) {
  const std::vector<std::string> names = model_names(open_model, aliases);
  if (asked.empty() || std::find(names.begin(), names.end(), asked) != names.end()) return {};
  const std::string nearest = mcp::suggest(asked, names);
  ApiError error;
  error.status = 404;
  error.param = "model";
  error.code = "model_not_found";
  error.message = "model " + mcp::quote(asked) + " is not here" +
                  (nearest.empty() ? "; " + mcp::quote(open_model) + " is" : nearest) +
                  "; an entry of [aliases] can lead other names to it";
  return error;
}

}  // namespace engramd::server
