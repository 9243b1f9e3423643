#include "server/tools/table_history.h"

#include <algorithm>
#include <utility>

#include "mcp/text.h"
#include "server/tools/bounded_text.h"
#include "server/tools/field.h"
#include "server/tools/row_selector.h"
#include "server/tools/table_tool.h"

namespace engramd::server {
namespace {

using mcp::json;

constexpr char kHistoryDescription[] =
    "List the edits of the Engram tables: transactions, newest first, with author and reason, and "
    "snapshots. With transaction: what it changed. With from and to (transaction numbers or "
    "snapshot names): the rows that differ between those two states.";
constexpr char kRollbackDescription[] =
    "Undo Engram table edits: transaction undoes that one alone; to returns all tables to a "
    "snapshot or transaction number (0: as shipped). Both are new transactions that can be undone "
    "too. snapshot gives the present state a name.";

// A snapshot's name or a transaction's number.
Result<std::int64_t> state_named(engine::TableStore& store, const std::string& name) {
  const bool is_number =
      !name.empty() && name.size() < 18 &&
      std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (is_number) return std::stoll(name);
  const auto snapshots = store.snapshots();
  if (!snapshots) return snapshots.error();
  for (const engine::Snapshot& snapshot : *snapshots) {
    if (snapshot.name == name) return snapshot.transaction;
  }
  return not_found("there is no snapshot " + mcp::quote(name) +
                   "; expected a snapshot's name or a transaction's number");
}

// Nothing was edited yet: no file is made for looking.
Result<std::shared_ptr<engine::TableStore>> store_for_reading(engine::TableEditor& editor) {
  if (!editor.tables().edits_error().empty()) return unavailable(editor.tables().edits_error());
  return editor.tables().opened_store();
}

json changes_json(const std::vector<engine::StoredChange>& changes,
                  const engine::TableEditor& editor, BoundedText& text) {
  json out = json::array();
  for (const engine::StoredChange& change : changes) {
    const engine::SelectedCell cell = editor.describe(change.target);
    out.push_back(change_json(change, cell, false));
    text.line(change_text(change, cell));
  }
  return out;
}

json snapshots_json(const std::vector<engine::Snapshot>& snapshots, BoundedText& text) {
  json out = json::array();
  for (const engine::Snapshot& snapshot : snapshots) {
    out.push_back({{"name", snapshot.name},
                   {"transaction", snapshot.transaction},
                   {"created_unix_ms", snapshot.created_unix_ms}});
    text.line("snapshot " + snapshot.name + ": after transaction " +
              std::to_string(snapshot.transaction));
  }
  return out;
}

mcp::ToolResult answer(json structured, BoundedText text) {
  return {std::move(text).finish("raise the limit, or read the structured output"),
          std::move(structured), false};
}

Result<mcp::ToolResult> difference(const json& arguments, engine::TableEditor& editor,
                                   engine::TableStore& store, json structured) {
  const std::string newest = std::to_string(store.current()->number());
  const auto from = state_named(store, arguments.value("from", std::string("0")));
  if (!from) return from.error();
  const auto to = state_named(store, arguments.value("to", newest));
  if (!to) return to.error();
  const auto changes = store.diff(*from, *to, arguments.at("limit").get<std::int64_t>());
  if (!changes) return changes.error();
  BoundedText text;
  text.line(std::to_string(changes->size()) + " rows differ between transaction " +
            std::to_string(*from) + " and " + std::to_string(*to));
  structured["changes"] = changes_json(*changes, editor, text);
  return answer(std::move(structured), std::move(text));
}

Result<mcp::ToolResult> history(const json& arguments, engine::TableEditor& editor) {
  const auto opened = store_for_reading(editor);
  if (!opened) return opened.error();
  json structured = {{"edits_file", editor.tables().edits_file()},
                     {"transactions", json::array()},
                     {"snapshots", json::array()},
                     {"changes", json::array()}};
  if (*opened == nullptr) {
    BoundedText text;
    text.line("Nothing was edited yet.");
    return answer(std::move(structured), std::move(text));
  }
  engine::TableStore& store = **opened;
  if (arguments.contains("from") || arguments.contains("to")) {
    return difference(arguments, editor, store, std::move(structured));
  }
  const auto limit = arguments.at("limit").get<std::int64_t>();
  BoundedText text;
  if (arguments.contains("transaction")) {
    const auto number = arguments.at("transaction").get<std::int64_t>();
    const auto transaction = store.transaction(number);
    if (!transaction) return transaction.error();
    const auto changes = store.changes(number, limit);
    if (!changes) return changes.error();
    structured["transactions"].push_back(transaction_json(*transaction));
    text.line(transaction_text(*transaction));
    structured["changes"] = changes_json(*changes, editor, text);
    return answer(std::move(structured), std::move(text));
  }
  engine::HistoryFilter filter;
  if (arguments.contains("before")) filter.before = arguments.at("before").get<std::int64_t>();
  if (arguments.contains("author")) filter.author = arguments.at("author").get<std::string>();
  const auto transactions = store.history(filter, limit);
  if (!transactions) return transactions.error();
  for (const engine::Transaction& transaction : *transactions) {
    structured["transactions"].push_back(transaction_json(transaction));
    text.line(transaction_text(transaction));
  }
  if (transactions->empty()) text.line("No transactions.");
  const auto snapshots = store.snapshots();
  if (!snapshots) return snapshots.error();
  structured["snapshots"] = snapshots_json(*snapshots, text);
  return answer(std::move(structured), std::move(text));
}

Result<mcp::ToolResult> roll_back(const json& arguments, engine::TableEditor& editor) {
  const int n_ways = static_cast<int>(arguments.contains("transaction")) +
                     static_cast<int>(arguments.contains("to")) +
                     static_cast<int>(arguments.contains("snapshot"));
  if (n_ways != 1) return invalid_argument("expected exactly one of transaction, to and snapshot");
  const auto opened = editor.tables().store();
  if (!opened) return opened.error();
  engine::TableStore& store = **opened;
  json structured = {{"snapshots", json::array()}, {"transactions", json::array()}};
  BoundedText text;
  if (arguments.contains("snapshot")) {
    const auto snapshot = store.snapshot(arguments.at("snapshot"));
    if (!snapshot) return snapshot.error();
    structured["snapshots"] = snapshots_json({*snapshot}, text);
    return answer(std::move(structured), std::move(text));
  }
  const std::string author = arguments.at("author");
  const std::string reason = arguments.at("reason");
  Result<engine::Transaction> done = invalid_argument("");
  if (arguments.contains("to")) {
    const auto state = state_named(store, arguments.at("to"));
    if (!state) return state.error();
    done = store.restore(*state, author, reason);
  } else {
    done = store.rollback(arguments.at("transaction").get<std::int64_t>(), author, reason);
  }
  if (!done) return done.error();
  structured["transactions"].push_back(transaction_json(*done));
  text.line("Stored " + transaction_text(*done));
  return answer(std::move(structured), std::move(text));
}

std::vector<mcp::Field> snapshot_fields() {
  using namespace field;
  return all_required({text("name", "Its name."),
                       integer("transaction", "The newest transaction in it."),
                       integer("created_unix_ms", "When, milliseconds since 1970 (UTC).")});
}

}  // namespace

mcp::Tool make_table_history_tool(const Services& services) {
  using namespace field;
  mcp::Tool tool;
  tool.name = "table_history";
  tool.description = kHistoryDescription;
  tool.annotations.title = "History of Engram table edits";
  tool.input = {
      integer("transaction", "Show what this transaction changed.", {1, {}}),
      at_most(text("from", "Difference: the earlier state. Default: the tables as shipped."), 128),
      at_most(text("to", "Difference: the later state. Default: now."), 128),
      integer("before", "List transactions with smaller numbers only.", {1, {}}),
      at_most(text("author", "List this author's transactions only."), 256),
      with_default(integer("limit", "How many transactions or changes at most.",
                           {1, static_cast<double>(engine::TableStore::kListMax)}),
                   50),
  };
  tool.output = all_required({
      text("edits_file", "Where edits are kept; empty: there is no place for them."),
      objects("transactions", "Newest first.", transaction_fields()),
      objects("snapshots", "By name.", snapshot_fields()),
      objects("changes", "Of the transaction or difference asked for.", change_fields()),
  });
  tool.handler = table_handler(services, history);
  return tool;
}

mcp::Tool make_table_rollback_tool(const Services& services) {
  using namespace field;
  mcp::Tool tool;
  tool.name = "table_rollback";
  tool.description = kRollbackDescription;
  tool.annotations = {.title = "Undo Engram table edits",
                      .read_only = false,
                      .destructive = true,
                      .idempotent = false};
  tool.input = {
      integer("transaction", "Undo this transaction alone.", {1, {}}),
      at_most(not_empty(text("to", "Return to this snapshot or transaction number.")), 128),
      at_most(not_empty(text("snapshot", "Give the present state this name.")), 128),
      with_default(at_most(text("author", "Who asks for this, kept in the history."), 200),
                   "mcp client"),
      with_default(at_most(text("reason", "Why, kept in the history."), 4000), ""),
  };
  tool.output = all_required({
      objects("transactions", "What was stored.", transaction_fields()),
      objects("snapshots", "What was named.", snapshot_fields()),
  });
  tool.handler = table_handler(services, roll_back);
  return tool;
}

}  // namespace engramd::server
