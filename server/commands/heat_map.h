// The gate matrix as lines for a terminal: one row per token, one column per layer and stream, and
// a last line that counts the tokens that the matrix leaves out.
// Pure: gate_inspect's structured result in, text out.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace engramd::server {

std::string heat_map(const nlohmann::json& gates, bool colour);

}  // namespace engramd::server
