#include "engine/teach/taught_facts.h"

#include <algorithm>
#include <map>
#include <utility>

namespace engramd::engine {

namespace {

// Ascending.
Result<std::vector<Transaction>> all_transactions(TableStore& store) {
  std::vector<Transaction> all;
  HistoryFilter filter;
  for (;;) {
    auto page = store.history(filter, TableStore::kListMax);
    if (page.has_error()) return page.error();
    if (page->empty()) break;
    filter.before = page->back().number;
    for (Transaction& transaction : *page) all.push_back(std::move(transaction));
  }
  std::reverse(all.begin(), all.end());
  return all;
}

using InEffect = std::map<std::int64_t, const Transaction*>;  // edits that were not undone

// After the first n of `all`.
InEffect in_effect(const std::vector<Transaction>& all, std::size_t n) {
  InEffect edits;
  for (std::size_t i = 0; i < n; ++i) {
    const Transaction& transaction = all[i];
    if (transaction.kind == TransactionKind::kEdit) edits[transaction.number] = &transaction;
    if (transaction.kind == TransactionKind::kRollback) edits.erase(transaction.subject);
    if (transaction.kind == TransactionKind::kRestore) {
      edits = in_effect(all, static_cast<std::size_t>(transaction.subject));
    }
  }
  return edits;
}

}  // namespace

Result<std::vector<TaughtFact>> taught_facts(TableStore& store) {
  const auto all = all_transactions(store);
  if (all.has_error()) return all.error();
  std::vector<TaughtFact> facts;
  for (const auto& [number, transaction] : in_effect(*all, all->size())) {
    auto fact = from_reason(transaction->reason);
    if (!fact) continue;
    std::erase_if(facts,
                  [&](const TaughtFact& older) { return older.fact.questions == fact->questions; });
    facts.push_back({std::move(*fact), number, transaction->created_unix_ms, transaction->n_rows,
                     transaction->author});
  }
  return facts;
}

std::optional<Fact> fact_of(TableStore& store, std::int64_t transaction) {
  const auto found = store.transaction(transaction);
  if (found.has_error()) return std::nullopt;
  return from_reason(found->reason);
}

const TaughtFact* find_question(const std::vector<TaughtFact>& facts, std::string_view question) {
  const auto found = std::find_if(facts.begin(), facts.end(), [&](const TaughtFact& taught) {
    const auto& known = taught.fact.questions;
    return std::any_of(known.begin(), known.end(), [&](const std::string& wording) {
      return is_same_question(wording, question);
    });
  });
  return found == facts.end() ? nullptr : &*found;
}

}  // namespace engramd::engine
