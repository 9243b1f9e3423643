// Teacher: makes a serving model say facts, by finding rows for exact N-grams (fact_problem),
// checking them as they will be served (serving_check) and storing them, one transaction a fact.
// Works on threads of its own that give way to everything else, with kernels of its own: chats go
// on meanwhile, and a fact appears with its transaction.
// Threads: one call at a time (a second one is refused with kBusy), from any thread; it blocks.
// Not here: JSON, what a fact's texts look like in a file.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "config/result.h"
#include "engine/engram/live_tables.h"
#include "engine/runtime/prompt.h"
#include "engine/teach/fact_problem.h"
#include "engine/teach/taught_facts.h"

namespace engramd::engine {

struct TeacherOptions {
  std::string backend = "auto";  // as the engine's
  bool bfloat16_activations = false;
  kernels::DType kv_cache_dtype = kernels::DType::kF32;
  int threads = 1;
  std::string ngram_list;    // of the training text; may be absent
  std::string heldout_text;  // to count what facts touch; may be absent
};

struct TeachJob {
  std::vector<Fact> facts;
  bool is_dry_run = false;  // everything but storing
  bool replaces = false;    // a taught fact with the same question and another answer goes
  std::string author;
  TeachingOptions options;
  std::function<void(std::int64_t n_done, std::int64_t n_facts)> on_progress;  // any thread
  std::stop_token stop;
};

struct TeachReport {  // of one fact
  Fact fact;          // with the names that were found
  bool is_taught = false;
  std::string why_not;           // when it is not
  std::string before, after;     // greedy answers to the first question
  std::int64_t transaction = 0;  // 0: a dry run, or not taught
  std::int64_t replaced = 0;     // the transaction that was undone for it
  int n_steps = 0;
  float margin = 0;  // the least logit distance of a right token, over all wordings
  std::int64_t n_entries = 0, bytes = 0;  // N-grams, and row images stored for them
  std::int64_t n_wordings = 0, n_wordings_right = 0;
  std::vector<std::string> kept;  // questions of other facts about the same names, still right
  // Positions of the held-out text that read an entry; -1: there is no such text.
  std::int64_t n_touched = -1, n_heldout = 0;
  double seconds = 0;
};

struct ForgetReport {
  std::vector<TaughtFact> forgotten;
  // Facts about the same names that were taught later: taught anew without the forgotten one.
  std::vector<TeachReport> taught_again;
};

class Teacher {
 public:
  static constexpr std::size_t kFactsMax = 1024;  // of one call

  // All outlive this.
  Teacher(const Model& model, const Tokenizer& tokenizer, const PromptEncoder& prompts,
          LiveTables& tables, TeacherOptions options);

  // A report for every fact, in order. Fails as a whole: malformed facts, no tables to edit, a
  // stop (facts that were stored stay).
  Result<std::vector<TeachReport>> teach(const TeachJob& job);
  // Undoes the fact's transaction; the tables are then as if it had never been taught.
  Result<ForgetReport> forget(const std::string& question_or_transaction, const std::string& author,
                              std::stop_token stop);
  Result<std::vector<TaughtFact>> taught();

 private:
  struct Session;  // of one teach()
  Result<void> ready();
  Result<std::vector<TeachReport>> teach_in_turn(const TeachJob& job);

  const Model* model_;
  const Tokenizer* tokenizer_;
  const PromptEncoder* prompts_;
  LiveTables* tables_;
  const TeacherOptions options_;
  std::mutex turn_;                            // held by the one call; guards what follows
  std::unique_ptr<kernels::Backend> decoder_;  // of rows; planning computes nothing else
  std::unique_ptr<TextRows> rows_;
  std::vector<std::pair<NgramEntry, std::int64_t>> heldout_;  // ascending; position
  std::int64_t n_heldout_ = 0;
};

}  // namespace engramd::engine
