#include "server/tools/table_update.h"

#include <utility>

#include "server/tools/bounded_text.h"
#include "server/tools/field.h"
#include "server/tools/row_selector.h"
#include "server/tools/table_tool.h"
#include "server/tools/text_source.h"

namespace engramd::server {
namespace {

using mcp::json;

constexpr char kUpdateDescription[] =
    "Edit Engram table rows while the model serves: set, add, scale, zero, or copy from another "
    "N-gram. All edits of a call are one transaction: durable and visible to the next forward "
    "pass once this returns, kept with author and reason, undone by table_rollback. dry_run "
    "stores nothing and says which frequent N-grams share the rows.";

const std::vector<std::string> kOperations = {"set", "add", "scale", "zero", "copy"};

std::vector<mcp::Field> edit_fields() {
  using namespace field;
  std::vector<mcp::Field> fields = selector_fields();
  fields.push_back(scope_field());
  fields.push_back(
      required(choice("operation", "What to do with each selected row.", kOperations)));
  fields.push_back(at_most(
      not_empty(list("values",
                     "set, add: the row's numbers; for several selected rows one row's after the "
                     "other's, in the order of table_get.",
                     mcp::FieldType::kNumber)),
      65536));
  fields.push_back(number("factor", "scale: what every number is multiplied with."));
  fields.push_back(
      at_most(not_empty(text("from_text", "copy: the N-gram to copy, as text.")), 4096));
  fields.push_back(at_most(not_empty(list("from_token_ids", "copy: the N-gram, as token ids.",
                                          mcp::FieldType::kInteger)),
                           64));
  fields.push_back(integer("from_row", "copy: a row of the same layer.", {0, {}}));
  fields.push_back(at_most(
      text("expected_image",
           "Compare and swap: the rows' present bytes in hexadecimal, as table_get gives them. "
           "The call is refused when they are others by now."),
      1 << 20));
  return fields;
}

engine::EditOperation operation_of(const std::string& name) {
  for (std::size_t i = 0; i < kOperations.size(); ++i) {
    if (kOperations[i] == name) return static_cast<engine::EditOperation>(i);
  }
  ENGRAMD_ASSERT(false);
  return engine::EditOperation::kSet;
}

Result<engine::EditRequest> request_of(const json& edit) {
  engine::EditRequest request;
  request.where = selector_of(edit);
  request.scope = scope_of(edit);
  request.operation = operation_of(edit.at("operation"));
  request.values = edit.value("values", std::vector<float>());
  const bool scales = request.operation == engine::EditOperation::kScale;
  if (scales != edit.contains("factor")) {
    return invalid_argument("factor: expected with the operation scale, and only there");
  }
  if (scales) request.factor = edit.at("factor").get<float>();
  if (edit.contains("from_text") || edit.contains("from_token_ids") || edit.contains("from_row")) {
    request.from = selector_of(edit, "from_");
  }
  if (edit.contains("expected_image")) request.expected_image = edit.at("expected_image");
  return request;
}

json shared_json(const engine::SharedRow& shared) {
  json out = cell_json(shared.cell);
  out["shared_by"] = shared.n_listed;
  out["readers"] = json::array();
  for (const auto& reader : shared.readers) {
    out["readers"].push_back(
        {{"text", reader.text}, {"count", reader.count}, {"is_selected", reader.is_selected}});
  }
  return out;
}

std::string shared_text(const engine::SharedRow& shared) {
  std::string text = cell_text(shared.cell) + " is read by " + std::to_string(shared.n_listed) +
                     " N-grams of the training text";
  for (std::size_t i = 0; i < shared.readers.size(); ++i) {
    const auto& reader = shared.readers[i];
    text += (i == 0 ? ": " : ", ") + quoted(reader.text) + " x" + std::to_string(reader.count) +
            (reader.is_selected ? " (selected)" : "");
  }
  return text;
}

mcp::ToolResult result_of(const engine::EditOutcome& outcome, bool is_dry_run) {
  BoundedText text;
  text.line(is_dry_run ? "Dry run: nothing was stored. It would change " +
                             std::to_string(outcome.stored.changes.size()) + " rows."
                       : "Stored " + transaction_text(outcome.stored.transaction));
  json changes = json::array();
  json shared = json::array();
  for (std::size_t i = 0; i < outcome.stored.changes.size(); ++i) {
    changes.push_back(change_json(outcome.stored.changes[i], outcome.cells[i], false));
    text.line(change_text(outcome.stored.changes[i], outcome.cells[i]));
  }
  for (const engine::SharedRow& row : outcome.shared) {
    shared.push_back(shared_json(row));
    text.line(shared_text(row));
  }
  json structured = {{"stored", !is_dry_run},
                     {"transaction", transaction_json(outcome.stored.transaction)},
                     {"changes", std::move(changes)},
                     {"shared_rows", std::move(shared)}};
  return {std::move(text).finish("structured output has them all"), std::move(structured), false};
}

Result<mcp::ToolResult> update(const json& arguments, engine::TableEditor& editor) {
  std::vector<engine::EditRequest> requests;
  for (const json& edit : arguments.at("edits")) {
    auto request = request_of(edit);
    if (!request) {
      return Error{request.error().kind,
                   "edit " + std::to_string(requests.size()) + ": " + request.error().message};
    }
    requests.push_back(std::move(*request));
  }
  const bool is_dry_run = arguments.at("dry_run");
  const auto outcome =
      editor.edit(requests, arguments.at("author"), arguments.at("reason"), is_dry_run);
  if (!outcome) return outcome.error();
  return result_of(*outcome, is_dry_run);
}

}  // namespace

mcp::Tool make_table_update_tool(const Services& services) {
  using namespace field;
  mcp::Tool tool;
  tool.name = "table_update";
  tool.description = kUpdateDescription;
  tool.annotations = {.title = "Edit Engram tables",
                      .read_only = false,
                      .destructive = true,  // it changes answers; every change can be undone
                      .idempotent = false};
  tool.input = {
      at_most(
          required(not_empty(objects("edits", "What to change; each row once.", edit_fields()))),
          static_cast<std::int64_t>(engine::TableEditor::kRequestsMax)),
      with_default(at_most(text("author", "Who asks for this, kept in the history."), 200),
                   "mcp client"),
      with_default(at_most(text("reason", "Why, kept in the history."), 4000), ""),
      with_default(boolean("dry_run", "Check and report, store nothing."), false),
  };
  std::vector<mcp::Field> shared = cell_fields();
  shared.push_back(required(integer("shared_by", "N-grams of the training text that read it.")));
  shared.push_back(required(
      objects("readers", "The most frequent of them.",
              all_required({text("text", "The N-gram."), integer("count", "Times in the text."),
                            boolean("is_selected", "It is the one to be edited.")}))));
  tool.output = all_required({
      boolean("stored", "False for a dry run."),
      object("transaction", "What was stored.", transaction_fields()),
      objects("changes", "One per changed row or N-gram.", change_fields()),
      objects("shared_rows", "Dry run, scope row: whom else an edit touches.", std::move(shared)),
  });
  tool.handler = table_handler(services, update);
  return tool;
}

}  // namespace engramd::server
