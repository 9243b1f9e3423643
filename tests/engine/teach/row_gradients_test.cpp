// The whole backward pass against the recipe's network (tests/data/engram-nano), ten texts.
#include "engine/teach/row_gradients.h"

#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/teach/text_rows.h"
#include "tests/engine/model/golden.h"

namespace engramd::engine {
namespace {

using testing::bundled_model;
using testing::golden_cases;

struct Direction {  // of two vectors
  double cosine = 0;
  double norm_ratio = 0;
};

Direction compare(std::span<const float> got, std::span<const float> expected) {
  double dot = 0;
  double got_square = 0;
  double expected_square = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    dot += double{got[i]} * expected[i];
    got_square += double{got[i]} * got[i];
    expected_square += double{expected[i]} * expected[i];
  }
  return {dot / std::sqrt(got_square * expected_square), std::sqrt(got_square / expected_square)};
}

struct Golden {
  std::vector<TokenId> text, answer;
  float loss = 0;                             // mean over the answer
  std::vector<std::vector<float>> grad_rows;  // of that, per Engram layer
};

std::vector<Golden> goldens() {
  const auto file =
      SafetensorsFile::open(ENGRAMD_TEST_DATA "/engram-nano/row_gradients.safetensors");
  EXPECT_TRUE(file.has_value());
  const auto values = [&]<class T>(const std::string& name, T) {
    const auto tensor = file->tensor(name);
    EXPECT_TRUE(tensor.has_value()) << name;
    return std::vector<T>(tensor->template as<T>(),
                          tensor->template as<T>() + tensor->n_elements());
  };
  std::vector<Golden> all;
  for (const std::string& name : golden_cases()) {
    Golden& golden = all.emplace_back();
    golden.text = values(name + ".text", TokenId{});
    golden.answer = values(name + ".answer", TokenId{});
    golden.loss = values(name + ".loss", 0.0F)[0];
    for (const EngramLayer& layer : bundled_model().layout.layers) {
      golden.grad_rows.push_back(
          values(name + ".grad_rows." + std::to_string(layer.layer_id), 0.0F));
    }
  }
  return all;
}

class RowGradientsTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    backend_ = testing::make_backend(GetParam(), 1);
    gradients_ = std::string(GetParam()) == "reference" ? kernels::make_reference_gradients()
                                                        : kernels::make_cpu_gradients(GetParam());
    if (!backend_) GTEST_SKIP() << "this processor lacks " << GetParam();
    ASSERT_TRUE(gradients_);
    tables_ =
        std::move(*LiveTables::open(bundled_model().layout, "", bundled_model().engram_rows(), {}));
  }
  // Per Engram layer, of the pack's texts one after the other.
  std::vector<std::vector<float>> rows_of(const TextPack& pack) {
    TextRows reader(bundled_model(), *backend_);
    std::vector<std::vector<float>> rows(bundled_model().layout.layers.size());
    for (std::size_t i = 0; i + 1 < pack.starts.size(); ++i) {
      const auto text =
          reader.read(std::span(pack.tokens)
                          .subspan(static_cast<std::size_t>(pack.starts[i]),
                                   static_cast<std::size_t>(pack.starts[i + 1] - pack.starts[i])),
                      tables_->view());
      EXPECT_TRUE(text.has_value());
      for (std::size_t layer = 0; layer < rows.size(); ++layer) {
        rows[layer].insert(rows[layer].end(), text->rows[layer].begin(), text->rows[layer].end());
      }
    }
    return rows;
  }

  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<kernels::Gradients> gradients_;
  std::unique_ptr<LiveTables> tables_;
};

TEST_P(RowGradientsTest, EqualTheRecipesNetworkAlsoWhenPackedTogether) {
  const std::vector<Golden> all = goldens();
  TextPack pack;
  for (const Golden& golden : all) pack.append(golden.text, golden.answer);
  const auto rows = rows_of(pack);
  RowGradients network(bundled_model(), *backend_, *gradients_);
  const auto scores = network.forward(pack, rows);
  std::vector<float> weights;
  for (const Golden& golden : all) {
    weights.insert(weights.end(), golden.answer.size(),
                   1.0F / static_cast<float>(golden.answer.size()));
  }
  ASSERT_EQ(scores.size(), weights.size());
  std::vector<std::vector<float>> grad_rows(rows.size());
  network.backward(pack, rows, weights, grad_rows);
  std::size_t target = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    double loss = 0;
    for (std::size_t j = 0; j < all[i].answer.size(); ++j) {
      loss += scores[target].loss * weights[target];
      if (golden_cases()[i] != "long") {  // that one was cut: its answer is another text's
        EXPECT_GT(scores[target].margin, 0) << golden_cases()[i];
      }
      ++target;
    }
    EXPECT_NEAR(loss, all[i].loss, 1e-5 + 1e-4 * all[i].loss) << golden_cases()[i];
    const auto width = static_cast<std::size_t>(bundled_model().layout.columns_width());
    for (std::size_t layer = 0; layer < grad_rows.size(); ++layer) {
      const auto got = std::span(grad_rows[layer])
                           .subspan(static_cast<std::size_t>(pack.starts[i]) * width,
                                    all[i].grad_rows[layer].size());
      const Direction direction = compare(got, all[i].grad_rows[layer]);
      EXPECT_GE(direction.cosine, 0.9999) << golden_cases()[i] << ", layer " << layer;
      EXPECT_NEAR(direction.norm_ratio, 1, 1e-3) << golden_cases()[i] << ", layer " << layer;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, RowGradientsTest,
                         ::testing::Values("reference", "avx512", "avx2", "portable"),
                         [](const auto& instance) { return std::string(instance.param); });

}  // namespace
}  // namespace engramd::engine
