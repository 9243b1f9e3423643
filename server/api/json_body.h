// The JSON of a request body: bounded and total, whatever the bytes are. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "server/api/api_error.h"

namespace engramd::server {

// An object; anything else, and what nests deeper than depth_max, is a 400.
ApiResult<nlohmann::json> parse_json_body(std::string_view body, std::int64_t depth_max);

// The value at a path of members, as text, of a body that parse_json_body() took and that has it:
// with the keys of its objects in the order sent, by which a JSON schema says in which order an
// answer is written. Quadratic in the keys of one object: for values whose size was checked.
std::string value_in_order(std::string_view body, const std::vector<std::string>& path);

}  // namespace engramd::server
