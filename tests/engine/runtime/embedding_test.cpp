// The head is linear: put through it, the mean of the final hidden states is the mean of the
// logits, which the golden outputs have for every position of the short texts.
#include "engine/runtime/embedding.h"

#include <future>

#include "tests/engine/model/golden.h"
#include "tests/engine/runtime/engine_fixture.h"

namespace engramd::engine::testing {
namespace {

using Vectors = std::vector<std::vector<float>>;

Result<Vectors> embed(LocalEngine& engine, std::vector<std::vector<TokenId>> inputs,
                      std::stop_token stop = {}) {
  auto promise = std::make_shared<std::promise<Result<Vectors>>>();
  auto future = promise->get_future();
  engine.embed(
      std::move(inputs), [promise](Result<Vectors> r) { promise->set_value(std::move(r)); },
      std::move(stop));
  return future.get();
}

std::vector<float> through_head(const std::vector<float>& hidden) {
  std::vector<float> logits(static_cast<std::size_t>(bundled_model().config.vocab_size));
  const kernels::LinearTask task[] = {{&bundled_model().head, logits.data()}};
  kernels::make_reference_backend()->linear(hidden.data(), 1, task);
  return logits;
}

TEST(Embedding, IsTheMeanOfTheFinalHiddenStates) {
  const Golden golden;
  const auto engine = open_engine();
  std::vector<std::vector<TokenId>> inputs;
  std::vector<std::vector<float>> expected;  // mean logits
  for (const std::string& name : golden_cases()) {
    const auto ids = golden.values<TokenId>(name + ".input_ids");
    const auto logits = golden.values<float>(name + ".logits");
    const std::size_t vocab_size = logits.size() / ids.size();
    if (golden.shape(name + ".logits")[0] != static_cast<std::int64_t>(ids.size())) continue;
    inputs.push_back(ids);
    auto& mean = expected.emplace_back(vocab_size, 0.0F);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      mean[i % vocab_size] += logits[i] / static_cast<float>(ids.size());
    }
  }
  ASSERT_GE(inputs.size(), 4U);
  const auto vectors = embed(*engine, inputs);
  ASSERT_TRUE(vectors.has_value()) << vectors.error().message;
  ASSERT_EQ(vectors->size(), inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto logits = through_head((*vectors)[i]);
    EXPECT_LE(nmse(logits.data(), expected[i].data(), logits.size()), 1e-4) << i;
  }
}

TEST(Embedding, LongTextsAreChunkedAndChatsGoOnBeside) {
  const auto engine = open_engine();
  std::vector<TokenId> text;
  for (int i = 0; i < 500; ++i) text.push_back(100 + i);
  const auto alone = embed(*engine, {text});
  auto chat = start(*engine, endless(400));
  const auto beside = embed(*engine, {text, text});
  ASSERT_TRUE(alone.has_value() && beside.has_value());
  const std::vector<float>& expected = alone->front();
  for (const auto& vector : *beside) {
    EXPECT_LE(nmse(vector.data(), expected.data(), expected.size()), 1e-6);
  }
  EXPECT_TRUE(chat.get().has_value());
}

TEST(Embedding, BadInputsAndStopsAreAnswered) {
  auto engine = open_engine();
  EXPECT_EQ(embed(*engine, {{1, 2}, {99999}}).error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(embed(*engine, {{}}).error().kind, ErrorKind::kLimitExceeded);
  EXPECT_EQ(embed(*engine, {std::vector<TokenId>(5000, 7)}).error().kind,
            ErrorKind::kLimitExceeded);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(embed(*engine, {{1, 2}}, stop.get_token()).error().kind, ErrorKind::kCancelled);
}

}  // namespace
}  // namespace engramd::engine::testing
