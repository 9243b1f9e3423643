#include "engine/engram/overlay.h"

#include <map>
#include <random>

#include <gtest/gtest.h>

namespace engramd::engine {
namespace {

using State = std::map<EditTarget, std::pair<std::uint8_t, std::int64_t>>;

// Image of 5 bytes, all `value`.
void set(OverlayBuilder& builder, State& state, const EditTarget& target, std::uint8_t value,
         std::int64_t transaction) {
  builder.set(target, std::vector<std::uint8_t>(5, value), transaction);
  state[target] = {value, transaction};
}

void expect_equal(const Overlay& overlay, const State& state) {
  ASSERT_EQ(overlay.n_edits(), static_cast<std::int64_t>(state.size()));
  for (const auto& [target, expected] : state) {
    const RowEdit edit = overlay.find(target);
    ASSERT_NE(edit.image, nullptr);
    ASSERT_EQ(edit.image[0], expected.first);
    ASSERT_EQ(edit.image[4], expected.first);
    ASSERT_EQ(edit.transaction, expected.second);
  }
  std::size_t n = 0;
  overlay.for_each([&](const EditTarget& target, const RowEdit& edit) {
    ++n;
    ASSERT_EQ(state.at(target).first, edit.image[2]);
  });
  ASSERT_EQ(n, state.size());
}

// Random commits of sets and erases against a plain map; every epoch must keep its own state after
// all later ones.
TEST(Overlay, EveryEpochStaysAsItWas) {
  std::mt19937 random(7);
  const std::vector<std::int64_t> image_bytes = {5, 5};
  std::vector<std::pair<std::shared_ptr<const Overlay>, State>> epochs;
  epochs.emplace_back(std::make_shared<const Overlay>(image_bytes), State{});
  for (std::uint64_t number = 1; number <= 60; ++number) {
    State state = epochs.back().second;
    OverlayBuilder builder(*epochs.back().first, number);
    const unsigned n = number % 10 == 0 ? 4000 : 20;
    for (unsigned i = 0; i < n; ++i) {
      const bool is_row = random() % 2 == 0;
      const EditTarget target{
          static_cast<int>(random() % 2), is_row ? EditScope::kRow : EditScope::kNgram,
          is_row ? -1 : static_cast<int>(random() % 3), static_cast<int>(random() % 3000)};
      if (random() % 4 == 0) {
        builder.erase(target);
        state.erase(target);
      } else {
        set(builder, state, target, static_cast<std::uint8_t>(random()),
            static_cast<std::int64_t>(number));
      }
    }
    epochs.emplace_back(std::move(builder).finish(), state);
  }
  for (std::size_t i = 0; i < epochs.size(); ++i) {
    EXPECT_EQ(epochs[i].first->number(), i);
    expect_equal(*epochs[i].first, epochs[i].second);
  }
}

TEST(Overlay, ManyLookUpsAtOnceEqualSingleOnes) {
  std::mt19937_64 random(3);
  const Overlay empty(std::vector<std::int64_t>{5});
  OverlayBuilder builder(empty, 1);
  State state;
  for (int i = 0; i < 20000; ++i) {
    const bool is_row = i % 2 == 0;
    set(builder, state,
        {0, is_row ? EditScope::kRow : EditScope::kNgram, is_row ? -1 : i % 3,
         static_cast<std::int64_t>(random() % 60000)},
        static_cast<std::uint8_t>(i), 1);
  }
  const auto overlay = std::move(builder).finish();
  std::vector<std::int64_t> rows;
  std::vector<NgramColumn> ngrams;
  for (int i = 0; i < 5003; ++i) {  // no multiple of a group
    rows.push_back(static_cast<std::int64_t>(random() % 60000));
    ngrams.push_back({i % 4, random() % 60000});
  }
  for (const Overlay* epoch : {&empty, overlay.get()}) {
    std::vector<RowEdit> edits(rows.size(), {nullptr, -1});
    std::vector<RowEdit> exact = edits;
    epoch->rows(0, rows, edits.data());
    epoch->ngrams(0, ngrams, exact.data());
    std::int64_t found = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(edits[i].image, epoch->row(0, rows[i]).image);
      EXPECT_EQ(edits[i].transaction, epoch->row(0, rows[i]).transaction);
      EXPECT_EQ(exact[i].image, epoch->ngram(0, ngrams[i]).image);
      found += edits[i].image != nullptr ? 1 : 0;
    }
    EXPECT_EQ(found > 0, epoch != &empty);
  }
}

TEST(Overlay, ScopesColumnsAndLayersAreApart) {
  const Overlay empty(std::vector<std::int64_t>{5, 5});
  EXPECT_FALSE(empty.has_edits(0));
  OverlayBuilder builder(empty, 1);
  State state;
  set(builder, state, {0, EditScope::kNgram, 1, -5}, 9, 1);
  const auto overlay = std::move(builder).finish();
  EXPECT_TRUE(overlay->has_edits(0));
  EXPECT_FALSE(overlay->has_edits(1));
  EXPECT_NE(overlay->ngram(0, {1, static_cast<std::uint64_t>(-5)}).image, nullptr);
  EXPECT_EQ(overlay->ngram(0, {0, static_cast<std::uint64_t>(-5)}).image, nullptr);
  EXPECT_EQ(overlay->ngram(1, {1, static_cast<std::uint64_t>(-5)}).image, nullptr);
  EXPECT_EQ(overlay->row(0, -5).image, nullptr);
}

// A commit on many edits copies only what it touches.
TEST(Overlay, SharesUntouchedShards) {
  const Overlay empty(std::vector<std::int64_t>{5});
  OverlayBuilder many(empty, 1);
  const std::vector<std::uint8_t> image(5, 1);
  for (std::int64_t row = 0; row < 20000; ++row) many.set({0, EditScope::kRow, -1, row}, image, 1);
  const auto before = std::move(many).finish();
  OverlayBuilder one(*before, 2);
  one.set({0, EditScope::kRow, -1, 77}, image, 2);
  const auto after = std::move(one).finish();
  int moved = 0;
  for (std::int64_t row = 0; row < 20000; ++row) {
    moved += before->row(0, row).image != after->row(0, row).image;
  }
  EXPECT_GE(moved, 1);
  EXPECT_LE(moved, 20);
  EXPECT_EQ(before->row(0, 77).transaction, 1);
  EXPECT_EQ(after->row(0, 77).transaction, 2);
}

}  // namespace
}  // namespace engramd::engine
