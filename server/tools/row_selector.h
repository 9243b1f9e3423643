// How the table tools point at rows, as fields and as engine types, and how they show what they
// found. Pure; io thread.
#pragma once

#include <string>
#include <vector>

#include "engine/runtime/table_editor.h"
#include "mcp/registry.h"

namespace engramd::server {

// text, token_ids, row, layer, head.
std::vector<mcp::Field> selector_fields();
// text, token_ids and row with their own prefix: "from_text" ...; used by copies.
engine::RowSelector selector_of(const mcp::json& object, const std::string& prefix = {});

mcp::Field scope_field();
std::optional<engine::EditScope> scope_of(const mcp::json& object);  // nothing when left out
const char* name_of(engine::EditScope scope);

// layer, order, head, row, scope.
std::vector<mcp::Field> cell_fields();
mcp::json cell_json(const engine::SelectedCell& cell);
std::string cell_text(const engine::SelectedCell& cell);

std::string hex_of(const std::vector<std::uint8_t>& image);

// number, kind, subject, author, reason, created_unix_ms, rows, sha256.
std::vector<mcp::Field> transaction_fields();
mcp::json transaction_json(const engine::Transaction& transaction);
std::string transaction_text(const engine::Transaction& transaction);

// One changed target: its cell, norms before and after, the transactions that wrote both.
std::vector<mcp::Field> change_fields();
mcp::json change_json(const engine::StoredChange& change, const engine::SelectedCell& cell,
                      bool with_values);
std::string change_text(const engine::StoredChange& change, const engine::SelectedCell& cell);

}  // namespace engramd::server
