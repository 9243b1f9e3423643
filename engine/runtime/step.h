// Step: slices of sequences in, logits out. Hashes the slices' N-grams, counts what their rows
// hold, and runs one forward pass over all of them together. Engine thread only.
// Not here: who goes next (scheduler), which token follows (sampler).
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

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
  EngramCounts* counts = nullptr;   // where the slice's look-ups are counted
};

class Step {
 public:
  Step(const Model& model, kernels::Backend& backend, KvCache& cache);

  // Logits in slice order, [n_logits, vocab_size]; empty after a requested stop. The sequences'
  // n_cached moves to their slice's end. Blocks must be reserved.
  std::span<const float> run(std::span<const SequenceSlice> slices, std::stop_token stop,
                             ForwardTrace* trace = nullptr);

  std::int64_t activation_bytes() const { return forward_.activation_bytes(); }

 private:
  void address(const SequenceSlice& slice);
  void count(const SequenceSlice& slice, int layer, const std::int64_t* rows,
             std::span<const NgramKey> keys);

  const Model* model_;
  KvCache* cache_;
  Addresser addresser_;
  Forward forward_;
  KvCache::Views views_;
  std::vector<const BlockId*> block_tables_;
  std::vector<TokenId> tokens_;
  std::vector<kernels::TokenSlot> slots_;
  std::vector<std::uint8_t> engram_enabled_;
  std::vector<std::int32_t> logits_of_;
  std::vector<std::vector<std::int64_t>> rows_;  // per Engram layer [n_tokens, n_columns]
  std::vector<NgramKey> keys_;
};

}  // namespace engramd::engine
