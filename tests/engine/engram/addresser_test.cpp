#include "engine/engram/addresser.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/checkpoint/safetensors.h"
#include "engine/engram/sha256.h"

namespace engramd::engine {
namespace {

using Json = nlohmann::json;
using ::testing::ElementsAre;

// One golden file: constants (JSON) and sequences (safetensors).
class Golden {
 public:
  explicit Golden(const std::string& name)
      : constants_(Json::parse(std::ifstream(folder() + name + ".json"))),
        file_(SafetensorsFile::open(folder() + name + ".safetensors")) {}

  const Json& constants() const { return constants_; }
  bool has(const std::string& name) const { return file_->find(name) != nullptr; }

  // A [T] or [B, T] tensor as B sequences.
  std::vector<std::vector<std::int32_t>> sequences(const std::string& name) const {
    const auto view = file_->tensor(name);
    const bool batched = view->n_dimensions == 2;
    const std::int64_t n = view->shape[batched ? 1 : 0];
    std::vector<std::vector<std::int32_t>> result;
    for (std::int64_t begin = 0; begin < view->n_elements(); begin += n) {
      result.emplace_back(view->as<std::int64_t>() + begin, view->as<std::int64_t>() + begin + n);
    }
    return result;
  }
  std::vector<std::int64_t> flat(const std::string& name) const {
    const auto view = file_->tensor(name);
    return {view->as<std::int64_t>(), view->as<std::int64_t>() + view->n_elements()};
  }
  // Names X for which a tensor X<suffix> exists.
  std::set<std::string> names(const std::string& suffix) const {
    std::set<std::string> found;
    for (const TensorInfo& tensor : file_->header().tensors) {
      if (tensor.name.ends_with(suffix)) {
        found.insert(tensor.name.substr(0, tensor.name.size() - suffix.size()));
      }
    }
    return found;
  }

 private:
  static std::string folder() { return ENGRAMD_TEST_DATA "/engram/addressing/"; }
  Json constants_;
  Result<SafetensorsFile> file_;
};

EngramLayout layout_of(EngramVariant variant, const Json& constants, std::int64_t base) {
  EngramLayoutConfig config;
  config.variant = variant;
  config.layer_ids = {1, variant == EngramVariant::kDemo      ? 15
                         : variant == EngramVariant::kBundled ? 3
                                                              : 14};
  config.max_ngram_size = constants["orders"].back();
  config.n_heads = constants["heads"];
  config.head_dim = constants["row_width"];
  config.vocab_size.assign(constants["orders"].size(), base);
  config.pad_token_id = constants["pad_raw"];
  config.seed = constants["seed"];
  config.hashed_vocab_size = constants["compressed_size"];
  const auto layout = make_layout(config);
  EXPECT_TRUE(layout.has_value());
  return *layout;
}

void expect_constants(const EngramLayer& layer, const Json& golden) {
  EXPECT_EQ(layer.multipliers, golden["multipliers"].get<std::vector<std::uint64_t>>());
  std::vector<std::int64_t> primes;
  for (const Json& heads : golden["primes"]) {
    for (const Json& prime : heads) primes.push_back(prime);
  }
  EXPECT_EQ(layer.primes, primes);
  EXPECT_EQ(layer.offsets, golden["offsets"].get<std::vector<std::int64_t>>());
  EXPECT_EQ(layer.n_rows, golden["rows"].get<std::int64_t>());
}

std::vector<std::int64_t> rows_of(const Addresser& addresser, int layer,
                                  const std::vector<std::int32_t>& classes, std::int64_t begin,
                                  std::int64_t end,
                                  const std::vector<std::int32_t>& documents = {}) {
  std::vector<std::int64_t> rows(
      static_cast<std::size_t>((end - begin) * addresser.layout().n_columns()));
  addresser.rows(layer, classes, begin, end, rows.data(), nullptr, documents);
  return rows;
}

std::vector<std::int64_t> rows_of_all(
    const Addresser& addresser, int layer, const std::vector<std::vector<std::int32_t>>& batch,
    const std::vector<std::vector<std::int32_t>>& documents = {}) {
  std::vector<std::int64_t> rows;
  for (std::size_t b = 0; b < batch.size(); ++b) {
    const auto part =
        rows_of(addresser, layer, batch[b], 0, static_cast<std::int64_t>(batch[b].size()),
                documents.empty() ? std::vector<std::int32_t>{} : documents[b]);
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

struct Case {
  EngramVariant variant;
  const char* file;
  std::int64_t base;
  std::size_t n_sequences;
};

class EveryLayout : public ::testing::TestWithParam<Case> {};

TEST_P(EveryLayout, ConstantsAndRowsEqualTheOracle) {
  const Golden golden(GetParam().file);
  const EngramLayout layout = layout_of(GetParam().variant, golden.constants(), GetParam().base);
  const Addresser addresser(layout, golden.constants()["pad_compressed"]);
  const std::set<std::string> names = golden.names(".compressed");
  EXPECT_EQ(names.size(), GetParam().n_sequences);
  for (int layer = 0; layer < 2; ++layer) {
    const std::string id = std::to_string(layout.layers[static_cast<std::size_t>(layer)].layer_id);
    expect_constants(layout.layers[static_cast<std::size_t>(layer)],
                     golden.constants()["layers"][id]);
    for (const std::string& name : names) {
      std::vector<std::vector<std::int32_t>> documents;
      if (golden.has(name + ".doc")) documents = golden.sequences(name + ".doc");
      EXPECT_EQ(rows_of_all(addresser, layer, golden.sequences(name + ".compressed"), documents),
                golden.flat(name + ".rows." + id))
          << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, EveryLayout,
                         ::testing::Values(Case{EngramVariant::kDemo, "demo", 646400, 11},
                                           Case{EngramVariant::kDeepSeekV41, "v41", 16000000, 13},
                                           Case{EngramVariant::kBundled, "bundled", 20011, 12},
                                           Case{EngramVariant::kPeft, "peft_deepseek_v3", 1131200,
                                                11},
                                           Case{EngramVariant::kPeft, "peft_qwen3", 1131200, 11}),
                         [](const auto& parameter) { return std::string(parameter.param.file); });

EngramLayoutConfig qwen_config(const Json& constants) {
  EngramLayoutConfig config;
  config.variant = EngramVariant::kQwen4Exp;
  config.layer_ids = {1};
  config.head_dim = 160;
  config.vocab_size = {20000000, 20000000};
  config.seed = constants["seed"];
  config.hashed_vocab_size = constants["vocab"];
  config.eos_token_ids = {constants["eos"].get<std::int64_t>(), 248046};
  return config;
}

TEST(Qwen4Exp, RowsEqualTheOracle) {
  const Golden golden("qwen4_exp");
  const auto layout = make_layout(qwen_config(golden.constants()));
  ASSERT_TRUE(layout.has_value());
  expect_constants(layout->layers[0], golden.constants());
  const Addresser addresser(*layout, 0);
  int n_sequences = 0;
  for (const std::string& name : golden.names(".rows")) {
    if (name == "wrap") continue;
    const bool padded = golden.has(name + ".effective");
    EXPECT_EQ(rows_of_all(addresser, 0, golden.sequences(name + (padded ? ".effective" : ".ids"))),
              golden.flat(name + ".rows"))
        << name;
    ++n_sequences;
  }
  EXPECT_EQ(n_sequences, 11);
}

TEST(Qwen4Exp, ProductsWrapAndTheRemainderIsTheFloorOne) {
  const Golden golden("qwen4_exp");
  EngramLayoutConfig config = qwen_config(golden.constants());
  config.multipliers.emplace_back();
  for (const Json& decimal : golden.constants()["wrap"]["multipliers"]) {
    config.multipliers[0].push_back(std::stoull(decimal.get<std::string>()));
  }
  const auto layout = make_layout(config);
  ASSERT_TRUE(layout.has_value());
  EXPECT_EQ(rows_of_all(Addresser(*layout, 0), 0, golden.sequences("wrap.ids")),
            golden.flat("wrap.rows"));
}

TEST(Qwen4Exp, PrimesRunOnFromLayerToLayer) {
  const Golden golden("qwen4_exp");
  const Json& two = golden.constants()["two_layers"];
  EngramLayoutConfig config = qwen_config(golden.constants());
  config.layer_ids = {1, 2};
  config.max_ngram_size = 4;
  config.n_heads = two["heads"];
  config.seed = two["seed"];
  config.vocab_size.assign(3, two["base"].get<std::int64_t>());
  const auto layout = make_layout(config);
  ASSERT_TRUE(layout.has_value());
  for (int layer = 0; layer < 2; ++layer) {
    const std::string index = std::to_string(layer);
    expect_constants(layout->layers[static_cast<std::size_t>(layer)], two["layers"][index]);
    EXPECT_EQ(rows_of_all(Addresser(*layout, 0), layer, golden.sequences("two_layers.ids")),
              golden.flat("two_layers.rows." + index));
  }
}

// SHA-256 of the rows as little-endian uint32, position-major: published for V4.1.
std::string digest_of(const std::vector<std::int64_t>& rows) {
  std::vector<std::uint32_t> words(rows.begin(), rows.end());
  return sha256_hex({reinterpret_cast<const char*>(words.data()), words.size() * 4});
}

class V41 : public ::testing::Test {
 protected:
  const Golden golden_{"v41"};
  const EngramLayout layout_ =
      layout_of(EngramVariant::kDeepSeekV41, golden_.constants(), 16000000);
  const Addresser addresser_{layout_, 2};
};

TEST_F(V41, PublishedRowDigests) {
  const std::vector<std::int32_t> classes{0, 3, 2, 99091, 12345, 777, kDeadClass, 777, 12345};
  const auto first = rows_of(addresser_, 0, classes, 0, 9);
  const auto second = rows_of(addresser_, 1, classes, 0, 9);
  EXPECT_EQ(first[0], 5702652);
  EXPECT_EQ(first[23], 380066193);
  EXPECT_EQ(first[8 * 24 + 23], 370810599);
  EXPECT_EQ(second[4 * 24 + 23], 381605593);
  EXPECT_EQ(digest_of(first), "1592659c1b894470e02b8b2826a8f2f1bf96005f4f829fe264a466d2374654ef");
  EXPECT_EQ(digest_of(second), "8ca024d2cda19d76dc427a225156e7b0b2ae0f596e92b81b44799cdca87b9e29");
}

TEST_F(V41, ChunksEqualOneShot) {
  const auto classes = golden_.sequences("image.compressed")[0];
  const auto n = static_cast<std::int64_t>(classes.size());
  const auto one_shot = rows_of(addresser_, 0, classes, 0, n);
  for (std::int64_t chunk = 1; chunk <= n; ++chunk) {
    std::vector<std::int64_t> chunked;
    for (std::int64_t begin = 0; begin < n; begin += chunk) {
      const std::int64_t end = std::min(n, begin + chunk);
      // Only what is before `end` exists yet.
      const auto part =
          rows_of(addresser_, 0, {classes.begin(), classes.begin() + end}, begin, end);
      chunked.insert(chunked.end(), part.begin(), part.end());
    }
    ASSERT_EQ(chunked, one_shot) << "chunks of " << chunk;
  }
}

TEST_F(V41, ADeadTokenChangesItsOwnAndTheNextThreePositions) {
  const std::vector<std::int32_t> alive{5, 6, 7, 8, 9, 10, 11, 12, 13};
  std::vector<std::int32_t> dead = alive;
  dead[3] = kDeadClass;
  for (std::int64_t position = 0; position < 9; ++position) {
    const bool changed = rows_of(addresser_, 0, alive, position, position + 1) !=
                         rows_of(addresser_, 0, dead, position, position + 1);
    EXPECT_EQ(changed, position >= 3 && position <= 6) << position;
  }
}

TEST_F(V41, KeysIdentifyTheNgramAndSayWhenThereIsNone) {
  const std::vector<std::int32_t> classes{5, 6, 7, 8, kDeadClass, 7, 8};
  std::vector<std::int64_t> rows(7 * 24);
  std::vector<NgramKey> keys(7 * 3);
  addresser_.rows(0, classes, 0, 7, rows.data(), keys.data());
  std::vector<std::string> bypassed;
  for (std::size_t position = 0; position < 7; ++position) {
    std::string orders;
    for (std::size_t order = 0; order < 3; ++order) {
      const NgramKey& key = keys[position * 3 + order];
      orders += key.bypassed ? 'b' : '-';
      const std::size_t column = order * 8 + 2;
      EXPECT_EQ(static_cast<std::int64_t>(key.mix) % layout_.layers[0].primes[column] +
                    layout_.layers[0].offsets[column],
                rows[position * 24 + column]);
    }
    bypassed.push_back(orders);
  }
  EXPECT_THAT(bypassed, ElementsAre("bbb", "-bb", "--b", "---", "bbb", "bbb", "-bb"));
  EXPECT_EQ(keys[3 * 3].mix, keys[6 * 3].mix) << "both are the bigram (7, 8)";
  EXPECT_NE(keys[3 * 3 + 1].mix, keys[6 * 3 + 1].mix);
}

class Peft : public ::testing::Test {
 protected:
  const Golden golden_{"peft_qwen3"};
  const EngramLayout layout_ = layout_of(EngramVariant::kPeft, golden_.constants(), 1131200);
  const Addresser addresser_{layout_, 151643};
};

TEST_F(Peft, EveryOrderBeginsWhereTheWidestBegins) {
  const auto rows = rows_of(addresser_, 0, {5, 6, 7, 8}, 0, 4);
  const auto other_last = rows_of(addresser_, 0, {5, 6, 7, 9}, 0, 4);
  for (std::size_t column = 0; column < 16; ++column) {
    EXPECT_EQ(rows[3 * 16 + column] == other_last[3 * 16 + column], column < 8) << column;
  }
}

TEST_F(Peft, KeysIdentifyTheNgramAndNeedTheWidestWindow) {
  const std::vector<std::int32_t> classes{5, 6, 7, 8};
  std::vector<std::int64_t> rows(4 * 16);
  std::vector<NgramKey> keys(4 * 2);
  addresser_.rows(0, classes, 0, 4, rows.data(), keys.data());
  for (std::size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(keys[i].bypassed, i < 4) << i;
  const EngramLayer& layer = layout_.layers[0];
  EXPECT_EQ(keys[6].mix, mix_of(layer, std::vector<std::int32_t>{6, 7}));
  EXPECT_EQ(keys[7].mix, mix_of(layer, std::vector<std::int32_t>{6, 7, 8}));
  EXPECT_EQ(rows[3 * 16], row_of(layer, 0, keys[6].mix));
}

TEST(OwnerTag, IsTheTopOfAFibonacciHashAndNeverZero) {
  EXPECT_EQ(owner_tag(1), 0x9E37);
  EXPECT_EQ(owner_tag(0), 1);
}

}  // namespace
}  // namespace engramd::engine
