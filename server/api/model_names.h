// The names under which the open model answers: its own, and the aliases that lead to it. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "server/api/api_error.h"

namespace engramd::server {

using ModelAliases = std::map<std::string, std::string>;  // name in a request -> local name

// Of server.aliases, whose items are "name=local name".
ModelAliases to_aliases(const std::vector<std::string>& items);

// A 404 that names the nearest when `asked` is neither; empty is any.
ApiResult<void> check_model_name(const std::string& asked, const std::string& open_model,
                                 const ModelAliases& aliases);

// Own name first, then the aliases.
std::vector<std::string> model_names(const std::string& open_model, const ModelAliases& aliases);

}  // namespace engramd::server
