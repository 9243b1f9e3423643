// What is opened, as JSON: the model, its Engram table and its memory, with the fields that
// describe them. Used by `metrics` and the engramd://model resource. Pure.
#pragma once

#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "engine/runtime/local_engine.h"
#include "mcp/schema.h"

namespace engramd::server {

std::vector<mcp::Field> model_fields();
nlohmann::json model_json(const engine::ModelFacts& facts);
std::vector<mcp::Field> table_fields();
nlohmann::json table_json(const engine::ModelFacts& facts);

}  // namespace engramd::server
