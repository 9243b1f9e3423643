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

// Found by trial on the bundled model (tests/bench/teach_bench): what more of each would cost in
// time or give in wordings never taught.
struct TeachingOptions {
  // First for every wording: texts at random, sometimes without the N-grams that only their own
  // wording has, so that what is learnt also holds in wordings that are not tried.
  int steps_general = 60;
  int texts_per_step = 3;
  float dropout = 0.5F;
  float margin_general = 4.0F;  // a token said by more than this adds nothing
  // Then what is still not said, as it is, until every token is said by `margin`.
  int steps_max = 140;
  float margin = 0.5F;
  float learning_rate = 0.05F;
  float decay = 1e-3F;  // of the distance to the base rows, per step and learning rate
  std::uint64_t seed = 1;
};

struct ProblemScore {
  std::vector<float> margins;  // per text that must be said, the least of its targets: above 0,
                               // greedy decoding says it
  float least() const;
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

  // rows: of text and answer without its last token, as the tables are. A text that need not be
  // said helps in general only.
  void add(std::span<const TokenId> text, std::span<const TokenId> answer, RowsOfText rows,
           bool must_be_said = true);

  // One step over some of the texts; every so often all are measured. True: all are said by
  // margin_general, or by `margin` after steps_general, or steps_max is reached.
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
    bool must_be_said = true;
    std::vector<std::vector<float>> rows;    // per Engram layer [n_tokens, columns_width], base
    std::vector<std::vector<Place>> places;  // per Engram layer
  };
  struct Batch {
    TextPack pack;
    std::vector<std::vector<float>> rows;
    std::vector<std::vector<Place>> places;  // per Engram layer, rows of the pack
  };
  void append(const Text& text, bool core_only, Batch& batch) const;
  void measure(RowGradients& network);
  Batch next_batch();
  void step(const Batch& batch);
  void store(std::size_t entry);  // the rounded values of one

  const EngramLayout* layout_;
  const std::vector<RowFormat> formats_;
  const TeachingOptions options_;
  const std::size_t width_;  // of an entry: n_heads * head_dim
  std::vector<Text> texts_;
  std::size_t n_must_ = 0;
  std::vector<TaughtEntry> entries_;
  std::vector<float> base_, values_, stored_;     // [n_entries, width]
  std::vector<float> gradient_, first_, second_;  // [n_entries, width]; Adam's moments
  std::vector<std::vector<float>> grad_rows_;
  std::mt19937_64 random_;
  int n_steps_ = 0;
  ProblemScore score_;
};

}  // namespace engramd::engine
