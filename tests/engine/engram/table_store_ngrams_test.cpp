// The bundled model: an edit of one N-gram changes no other N-gram of the training text, though
// many share its rows; an edit of its row changes exactly those.

#include <gtest/gtest.h>

#include "engine/checkpoint/safetensors.h"
#include "tests/engine/engram/table_fixture.h"

namespace engramd::engine {
namespace {

// The layout with one head's worth of rows from memory: images differ from row to row.
struct Bundled {
  Bundled() {
    EngramLayoutConfig config;
    config.variant = EngramVariant::kBundled;
    config.layer_ids = {1, 3};
    config.n_heads = 4;
    config.head_dim = 32;
    config.vocab_size = {20011, 20011};
    config.hashed_vocab_size = 9006;
    layout = make_layout(config).value();
    for (const EngramLayer& layer : layout.layers) {
      rows.emplace_back(RowFormat{RowCodec::kF8E4M3E8M0, 32}, layer.n_rows);
    }
  }
  EngramLayout layout;
  std::vector<MemoryRows> rows;
};

struct Ngram {
  int order = 0;
  std::uint64_t mix = 0;
};

// All N-grams of one order, as the addresser keys them in one layer.
std::vector<Ngram> ngrams(const SafetensorsFile& file, const Addresser& addresser, int layer) {
  std::vector<Ngram> found;
  for (const int order : {2, 3}) {
    const auto classes = file.tensor("order" + std::to_string(order) + ".classes").value();
    const auto* ids = classes.as<std::uint16_t>();
    std::vector<std::int64_t> rows(static_cast<std::size_t>(addresser.layout().n_columns()));
    std::vector<NgramKey> keys(2);
    for (std::int64_t i = 0; i < classes.shape[0]; ++i) {
      const std::vector<std::int32_t> sequence(ids + i * order, ids + (i + 1) * order);
      addresser.rows(layer, sequence, order - 1, order, rows.data(), keys.data());
      found.push_back({order, keys[static_cast<std::size_t>(order - 2)].mix});
    }
  }
  return found;
}

TEST(TableStoreNgrams, AnEditOfOneChangesNoOther) {
  Bundled model;
  const TemporaryFolder folder;
  auto opened = TableStore::open(folder / "edits.sqlite", {"layout", "map", 1}, model.layout,
                                 {&model.rows[0], &model.rows[1]});
  ASSERT_TRUE(opened) << opened.error().message;
  TableStore& store = **opened;
  auto file =
      SafetensorsFile::open(ENGRAMD_SOURCE_DIR "/install/models/engram-nano/ngrams.safetensors");
  ASSERT_TRUE(file);
  const Addresser addresser(model.layout, 2);
  const std::vector<Ngram> all = ngrams(*file, addresser, 1);
  ASSERT_GT(all.size(), 400000U);
  // What the forward pass would read: the N-gram's image, else the row's, else the base row.
  const auto effective = [&](const Epoch& epoch, int column, std::uint64_t mix) {
    const std::int64_t row = row_of(model.layout.layers[1], column, mix);
    if (const RowEdit edit = epoch.ngram(1, {column, mix}); edit.image) return edit.image;
    if (const RowEdit edit = epoch.row(1, row); edit.image) return edit.image;
    return model.rows[1].resident(row).codes;
  };
  const EpochPointer before = store.current();
  for (const std::size_t chosen : {std::size_t{3}, all.size() / 3, all.size() - 5}) {
    for (int head : {0, 3}) {
      const int column = (all[chosen].order - 2) * 4 + head;
      const std::uint64_t mix = all[chosen].mix;
      const auto done = store.commit({set_edit(ngram_target(1, column, mix), 9.0F)}, "t", "");
      ASSERT_TRUE(done);
      const EpochPointer after = store.current();
      const std::int64_t row = row_of(model.layout.layers[1], column, mix);
      std::int64_t n_changed = 0, n_sharing = 0;
      for (const Ngram& ngram : all) {
        for (int c = (ngram.order - 2) * 4; c < (ngram.order - 1) * 4; ++c) {
          const std::uint8_t* image = effective(*after, c, ngram.mix);
          const bool is_chosen = c == column && ngram.mix == mix;
          const bool is_same = std::memcmp(image, effective(*before, c, ngram.mix), 33) == 0;
          ASSERT_EQ(is_same, !is_chosen);
          n_changed += !is_same;
          n_sharing += row_of(model.layout.layers[1], c, ngram.mix) == row;
        }
      }
      EXPECT_EQ(n_changed, 1);
      EXPECT_GT(n_sharing, 1) << "the bucket is shared, or this proves nothing";
      ASSERT_TRUE(store.rollback(done->transaction.number, "t", ""));
    }
  }
}

}  // namespace
}  // namespace engramd::engine
