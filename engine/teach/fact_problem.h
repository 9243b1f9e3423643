// FactProblem: row values for a set of exact N-grams with which the frozen model says what it
// should, as the codec will store them. Adam over the rows of those N-grams, all texts at once; a
// token that is said with room to spare adds nothing more. The values that are tried are rounded to
// the codec, and the gradient is taken there (straight through the rounding), so that what was
// found is what will be stored.
// Threads: one at a time. Not here: which texts and which N-grams (teacher), storing.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "config/result.h"
#include "engine/teach/row_gradients.h"
#include "engine/teach/text_rows.h"
#include "engine/teach/training_ngrams.h"

namespace engramd::engine {

struct TeachingOptions {
  int steps_max = 80;
  int texts_per_step = 4;
  float learning_rate = 0.05F;
  // A token counts as said when its logit is above every other by this.
  float margin = 4.0F;
  float decay = 1e-3F;  // of the distance to the base rows, per step and learning rate
  // How often a text is tried without the N-grams that only its own wording has, so that what was
  // learnt also holds in wordings that were not.
  float dropout = 0.5F;
  std::uint64_t seed = 1;
};

struct ProblemScore {
  float margin = 0;  // the least of all targets: above 0, greedy decoding says it all
  std::vector<std::uint8_t> is_right;  // per text
  std::int64_t n_right() const;
};

struct TaughtEntry {
  NgramEntry ngram;
  bool is_core = false;  // inside a name or in the answer: there in every wording

  auto operator<=>(const TaughtEntry&) const = default;
};

class FactProblem {
 public:
  // entries: ascending; may change. formats: of each layer's rows.
  FactProblem(const EngramLayout& layout, std::vector<RowFormat> formats,
              std::vector<TaughtEntry> entries, const TeachingOptions& options);

  // rows: of text and answer without its last token, as the tables are.
  void add(std::span<const TokenId> text, std::span<const TokenId> answer, RowsOfText rows);

  // One step over some of the texts; every so often all are measured. True: all are said by the
  // margin, or steps_max is reached.
  bool advance(RowGradients& network);
  int n_steps() const { return n_steps_; }
  const ProblemScore& score() const {
    return score_;
  }  // of all texts, when they were last measured

  std::span<const TaughtEntry> entries() const { return entries_; }
  // [n_heads * head_dim] as stored: what the codec makes of it.
  std::span<const float> values(std::size_t entry) const;
  bool is_changed(std::size_t entry) const;  // other than the tables had it

 private:
  struct Place {
    std::size_t row = 0;  // token * n_orders + order_slot
    std::size_t entry = 0;
  };
  struct Text {
    std::vector<TokenId> prompt, answer;
    std::vector<std::vector<float>> rows;    // per Engram layer [n_tokens, columns_width], base
    std::vector<std::vector<Place>> places;  // per Engram layer
  };
  struct Batch {
    TextPack pack;
    std::vector<std::vector<float>> rows;
    std::vector<std::vector<Place>> places;  // per Engram layer, rows of the pack
  };
  void append(const Text& text, bool core_only, Batch& batch) const;
  bool measure(RowGradients& network);  // true: all are said by the margin
  void step(const Batch& batch);
  void store(std::size_t entry);  // the rounded values of one

  const EngramLayout* layout_;
  const std::vector<RowFormat> formats_;
  const TeachingOptions options_;
  const std::size_t width_;  // of an entry: n_heads * head_dim
  std::vector<Text> texts_;
  std::vector<TaughtEntry> entries_;
  std::vector<float> base_, values_, stored_;     // [n_entries, width]
  std::vector<float> gradient_, first_, second_;  // [n_entries, width]; Adam's moments
  std::vector<std::vector<float>> grad_rows_;
  std::mt19937_64 random_;
  int n_steps_ = 0;
  ProblemScore score_;
};

}  // namespace engramd::engine
