#include "server/tools/row_selector.h"

#include <cstdio>
#include <ctime>
#include <utility>

#include "engine/engram/hex.h"
#include "server/tools/field.h"

namespace engramd::server {

using mcp::json;

std::vector<mcp::Field> selector_fields() {
  using namespace field;
  return {
      at_most(not_empty(text("text",
                             "An N-gram as text, spaces included, for example \" the capital\". It "
                             "must encode to one N-gram's tokens. Give this, token_ids or row.")),
              4096),
      at_most(not_empty(list("token_ids", "An N-gram as token ids, oldest first.",
                             mcp::FieldType::kInteger)),
              64),
      integer("row", "A row of one layer's table by its index, with layer.", {0, {}}),
      integer("layer", "An Engram layer, by layer index; leave out for all that the N-gram reads.",
              {0, {}}),
      integer("head", "One hash head of the N-gram; leave out for all.", {0, {}}),
  };
}

engine::RowSelector selector_of(const json& object, const std::string& prefix) {
  engine::RowSelector where;
  if (object.contains(prefix + "text")) where.text = object.at(prefix + "text");
  if (object.contains(prefix + "token_ids")) {
    where.tokens.emplace();
    for (const json& id : object.at(prefix + "token_ids")) {
      where.tokens->push_back(static_cast<engine::TokenId>(id.get<std::int64_t>()));
    }
  }
  if (object.contains(prefix + "row")) where.row = object.at(prefix + "row").get<std::int64_t>();
  if (object.contains("layer")) where.layer = object.at("layer").get<std::int64_t>();
  const bool one_head = object.contains("head") && !where.row;
  if (one_head) where.head = static_cast<int>(object.at("head").get<std::int64_t>());
  return where;
}

mcp::Field scope_field() {
  return field::choice("scope",
                       "ngram: bound to exactly this N-gram, nothing else changes; row: the "
                       "bucket itself, for every N-gram that shares it, as other engines would "
                       "read it. Default: ngram for an N-gram, row for a row.",
                       {"ngram", "row"});
}

std::optional<engine::EditScope> scope_of(const json& object) {
  if (!object.contains("scope")) return std::nullopt;
  return object.at("scope") == "row" ? engine::EditScope::kRow : engine::EditScope::kNgram;
}

const char* name_of(engine::EditScope scope) {
  return scope == engine::EditScope::kRow ? "row" : "ngram";
}

std::vector<mcp::Field> cell_fields() {
  using namespace field;
  return all_required(
      {integer("layer", "Layer index."), integer("order", "Tokens in the N-gram."),
       integer("head", "Hash head."),
       integer("row", "Row of the layer's table that the N-gram reads."),
       choice("scope", "What is addressed: the exact N-gram, or the row.", {"ngram", "row"})});
}

json cell_json(const engine::SelectedCell& cell) {
  return {{"layer", cell.layer_id},
          {"order", cell.order},
          {"head", cell.head},
          {"row", cell.row},
          {"scope", name_of(cell.target.scope)}};
}

std::string cell_text(const engine::SelectedCell& cell) {
  return "layer " + std::to_string(cell.layer_id) + " " + std::to_string(cell.order) +
         "-gram head " + std::to_string(cell.head) + " row " + std::to_string(cell.row) + " (" +
         name_of(cell.target.scope) + ")";
}

std::string hex_of(const std::vector<std::uint8_t>& image) {
  return engine::hex_of_bytes({reinterpret_cast<const char*>(image.data()), image.size()});
}

namespace {

const char* name_of(engine::TransactionKind kind) {
  switch (kind) {
    case engine::TransactionKind::kRollback:
      return "rollback";
    case engine::TransactionKind::kRestore:
      return "restore";
    case engine::TransactionKind::kMove:
      return "move";
    default:
      return "edit";
  }
}

}  // namespace

std::vector<mcp::Field> transaction_fields() {
  using namespace field;
  return all_required(
      {integer("number", "Its number; 0: nothing was stored (a dry run)."),
       choice("kind", "What made it.", {"edit", "rollback", "restore", "move"}),
       integer("subject", "rollback: the transaction undone; restore: the one returned to."),
       text("author", "Who."), text("reason", "Why."),
       integer("created_unix_ms", "When, milliseconds since 1970 (UTC)."),
       integer("rows", "Targets it changed."),
       text("sha256", "Of this transaction and, through its parent, of all before it.")});
}

json transaction_json(const engine::Transaction& transaction) {
  return {{"number", transaction.number},   {"kind", name_of(transaction.kind)},
          {"subject", transaction.subject}, {"author", transaction.author},
          {"reason", transaction.reason},   {"created_unix_ms", transaction.created_unix_ms},
          {"rows", transaction.n_rows},     {"sha256", transaction.sha256}};
}

std::string transaction_text(const engine::Transaction& transaction) {
  const std::time_t seconds = static_cast<std::time_t>(transaction.created_unix_ms / 1000);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char when[32];
  std::strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &utc);
  std::string text = "transaction " + std::to_string(transaction.number) + ", " + when + " UTC, " +
                     name_of(transaction.kind);
  if (transaction.kind != engine::TransactionKind::kEdit) {
    text += " of " + std::to_string(transaction.subject);
  }
  text += ", " + std::to_string(transaction.n_rows) + " rows";
  if (!transaction.author.empty()) text += ", by " + transaction.author;
  if (!transaction.reason.empty()) text += ": " + transaction.reason;
  return text;
}

std::vector<mcp::Field> change_fields() {
  using namespace field;
  std::vector<mcp::Field> fields = cell_fields();
  for (mcp::Field& more : all_required(
           {number("norm_before", "Euclidean norm of the row before."),
            number("norm_after", "Of what was stored."),
            text("image_before", "Stored bytes before, hexadecimal: codes, then scales."),
            text("image_after", "Stored bytes after."),
            integer("written_before_by", "Transaction of the image before; 0: not edited."),
            integer("written_by", "Transaction of the image after; 0: not edited.")})) {
    fields.push_back(std::move(more));
  }
  fields.push_back(list("values_after", "The row as numbers, decoded from what was stored.",
                        mcp::FieldType::kNumber));
  return fields;
}

json change_json(const engine::StoredChange& change, const engine::SelectedCell& cell,
                 bool with_values) {
  json out = cell_json(cell);
  out["norm_before"] = engine::norm_of(change.before.values);
  out["norm_after"] = engine::norm_of(change.after.values);
  out["image_before"] = hex_of(change.before.image);
  out["image_after"] = hex_of(change.after.image);
  out["written_before_by"] = change.before.writer;
  out["written_by"] = change.after.writer;
  if (with_values) out["values_after"] = change.after.values;
  return out;
}

std::string change_text(const engine::StoredChange& change, const engine::SelectedCell& cell) {
  char norms[64];
  std::snprintf(norms, sizeof norms, ": norm %.4g -> %.4g", engine::norm_of(change.before.values),
                engine::norm_of(change.after.values));
  return cell_text(cell) + norms;
}

}  // namespace engramd::server
