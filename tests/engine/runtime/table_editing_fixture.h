// The bundled model with tables that a test edits, one pass at a time; and what a process computes
// that knew the tables so from the start.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/runtime/prefix_cache.h"
#include "engine/runtime/table_editor.h"
#include "tests/engine/engram/table_fixture.h"
#include "tests/engine/model/golden.h"
#include "tests/engine/runtime/engine_fixture.h"

namespace engramd::engine::testing {

class TableEditingTest : public ::testing::Test {
 protected:
  TableEditingTest()
      : tokenizer_(*Tokenizer::from_file(bundled().model_folder + "/tokenizer.json")) {
    reopen();
  }

  void reopen() {
    editor_.reset();
    tables_.reset();
    auto opened = open_tables();
    ASSERT_TRUE(opened.has_value()) << opened.error().message;
    tables_ = std::move(*opened);
    editor_ = std::make_unique<TableEditor>(model_, *tables_, tokenizer_,
                                            bundled().model_folder + "/ngrams.safetensors");
  }

  Result<std::unique_ptr<LiveTables>> open_tables() const {
    LiveTablesOptions options;
    options.edits_file = folder_ / "edits";
    return LiveTables::open(model_.layout, sha256_hex(model_.token_map), model_.engram_rows(),
                            options);
  }

  static EditRequest request(std::vector<TokenId> tokens, EditOperation operation,
                             float factor = 1.0F) {
    EditRequest made;
    made.where.tokens = std::move(tokens);
    made.operation = operation;
    made.factor = factor;
    return made;
  }
  StoredTransaction commit(const EditRequest& edit) {
    auto outcome = editor_->edit({edit}, "test", "", false);
    EXPECT_TRUE(outcome.has_value()) << outcome.error().message;
    return outcome->stored;
  }

  // 150 tokens of text, the same every time.
  std::vector<TokenId> prompt() const {
    std::string text;
    while (true) {
      text += "The capital of France is Paris and the capital of Japan is Tokyo. Water is wet. ";
      auto ids = *tokenizer_.encode(text);
      if (ids.size() < 150) continue;
      ids.resize(150);
      return ids;
    }
  }

  std::vector<float> logits(Step& step, Sequence& sequence) const {
    SequenceSlice slice{&sequence, sequence.n_cached(), sequence.size()};
    const auto out = step.run({&slice, 1}, tables_->view(), {});
    EXPECT_TRUE(out.has_value());
    return {out->begin(), out->end()};
  }
  std::unique_ptr<Sequence> sequence(KvCache& cache, const std::vector<TokenId>& ids) const {
    auto made = std::make_unique<Sequence>(model_.token_map, cache, true);
    for (const TokenId id : ids) made->append(id);
    return made;
  }
  // As a process computes it that has nothing cached.
  std::vector<float> fresh_logits(const std::vector<TokenId>& ids) {
    Step step(model_, *backend_, cache_);
    auto made = sequence(cache_, ids);
    EXPECT_TRUE(made->reserve(made->size()));
    return logits(step, *made);
  }

  TemporaryFolder folder_;
  const Model& model_ = bundled_model();
  const Tokenizer tokenizer_;
  std::unique_ptr<LiveTables> tables_;
  std::unique_ptr<TableEditor> editor_;
  std::unique_ptr<kernels::Backend> backend_ = make_backend("auto");
  KvCache cache_ = std::move(*KvCache::make(bundled_model(), kernels::DType::kF32, 64));
};

}  // namespace engramd::engine::testing
