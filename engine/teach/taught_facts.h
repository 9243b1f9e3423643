// What was taught: facts whose transactions are in effect, read from the history of the tables,
// which holds each fact's texts as its reason.
// Pure functions; threads as TableStore's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/result.h"
#include "engine/engram/table_store.h"
#include "engine/teach/fact.h"

namespace engramd::engine {

struct TaughtFact {
  Fact fact;
  std::int64_t transaction = 0;
  std::int64_t created_unix_ms = 0;
  std::int64_t n_rows = 0;
  std::string author;
};

// Oldest first. A fact that was taught again under the same question counts once.
Result<std::vector<TaughtFact>> taught_facts(TableStore& store);
// The fact of a transaction, whether or not it is in effect.
std::optional<Fact> fact_of(TableStore& store, std::int64_t transaction);
// The fact with this question in any of its wordings; case and punctuation at the end do not count.
const TaughtFact* find_question(const std::vector<TaughtFact>& facts, std::string_view question);

}  // namespace engramd::engine
