#include "server/tools/taught_marks.h"

#include "server/tools/field.h"

namespace engramd::server {

mcp::Field taught_marks_field() {
  using namespace field;
  return required(
      objects("taught", "Taught facts whose rows are read here (table_taught).",
              all_required({integer("transaction", "As edited_by names it."),
                            text("question", "Of the fact."), text("answer", "Of the fact.")})));
}

void add_taught_marks(const std::set<std::int64_t>& transactions, engine::LocalEngine& engine,
                      mcp::ToolResult& result) {
  mcp::json taught = mcp::json::array();
  const auto store = engine.editor().tables().opened_store();
  for (const std::int64_t transaction : transactions) {
    const auto fact = store ? engine::fact_of(*store, transaction) : std::nullopt;
    if (!fact) continue;
    taught.push_back({{"transaction", transaction},
                      {"question", fact->questions.front()},
                      {"answer", fact->answer}});
    result.text += "\nreads rows taught by transaction " + std::to_string(transaction) + ": " +
                   fact->questions.front() + " -> " + fact->answer;
  }
  result.structured["taught"] = std::move(taught);
}

}  // namespace engramd::server
