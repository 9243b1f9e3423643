// Step: slices of sequences in, logits out. Hashes the slices' N-grams, asks for their rows, runs
// one forward pass over all of them together, and counts what the rows held. Engine thread only.
// Not here: who goes next (scheduler), which token follows (sampler).
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "engine/engram/prefetcher.h"
#include "engine/model/forward.h"
#include "engine/runtime/chat_backend.h"
#include "engine/runtime/sequence.h"

namespace engramd::engine {

struct SequenceSlice {
  Sequence* sequence = nullptr;
  std::int64_t begin = 0, end = 0;  // positions; everything before `begin` is cached
  bool leave_engram_out = false;    // for these positions only, whatever the sequence says
  bool all_logits = false;          // of every position, not only of the last
  bool no_logits = false;           // a prompt chunk that is not the last one
  EngramCounts* counts = nullptr;   // where look-ups are counted
  std::int64_t count_from = 0;      // earlier positions were counted before
};

// Positions that a later pass will compute; their rows are read meanwhile.
struct ReadAhead {
  const Sequence* sequence = nullptr;  // nullptr: nothing
  std::int64_t begin = 0, end = 0;
};

class Step {
 public:
  Step(const Model& model, kernels::Backend& backend, KvCache& cache,
       bool asynchronous_reads = true);

  // Logits in slice order, [n_logits, vocab_size]; empty after a requested stop. The sequences'
  // n_cached moves to their slice's end; after a stop or an error (a row that cannot be read) it
  // stays. Blocks must be reserved, and what is cached must hold under the view
  // (PrefixCache::refresh).
  Result<std::span<const float>> run(std::span<const SequenceSlice> slices, const TableView& view,
                                     std::stop_token stop, ForwardTrace* trace = nullptr,
                                     const ReadAhead& ahead = {});

  // Of positions [begin, end) of a sequence that reads tables; empty for others.
  std::vector<EditedRead> edited_reads(const Sequence& sequence, const TableView& view,
                                       std::int64_t begin, std::int64_t end) const;

  // Counts positions that are not computed because their blocks were found.
  Result<void> count_only(const SequenceSlice& slice, const TableView& view);

  std::int64_t activation_bytes() const { return forward_.activation_bytes(); }
  RowReadStats row_reads() const { return prefetcher_.stats(); }  // any thread

 private:
  std::vector<EditedRead> reads_of_pass(const SequenceSlice& slice, std::size_t first_token) const;
  void clear_addresses();
  void address(const Sequence& sequence, std::int64_t begin, std::int64_t end);
  void read_ahead(const ReadAhead& ahead, const TableView& view);
  Result<void> count(std::span<const SequenceSlice> slices, const TableView& view);
  Result<void> count_layer(std::span<const SequenceSlice> slices, const TableView& view, int layer);

  const Model* model_;
  KvCache* cache_;
  Addresser addresser_;
  Forward forward_;
  Prefetcher prefetcher_;
  KvCache::Views views_;
  std::vector<const BlockId*> block_tables_;
  std::vector<TokenId> tokens_;
  std::vector<kernels::TokenSlot> slots_;
  std::vector<std::uint8_t> engram_enabled_;
  std::vector<std::int32_t> logits_of_;
  std::vector<std::vector<std::int64_t>> rows_;        // per Engram layer [n_tokens, n_columns]
  std::vector<std::vector<NgramKey>> keys_;            // per Engram layer [n_tokens, n_orders]
  std::vector<std::vector<std::int64_t>> ahead_rows_;  // as rows_
};

}  // namespace engramd::engine
