// Overlay: the Epoch in memory. Two maps per layer (rows, N-grams) of full row images, each cut by
// hash into 16,384 shards. Shards never change once published: a commit copies the shards it
// touches and shares all others with the epoch before it, so it costs the same on one edit as on a
// million (at a million a shard holds about 61 images). Readers follow two pointers and probe;
// they take no lock.
// Threads: an Overlay is immutable, any thread reads it, and what row() and ngram() point to lives
// as long as the Overlay. An OverlayBuilder belongs to one thread.
// Not here: durability (edit_log), which epoch is the current one (table_store).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/engram/edit_log.h"
#include "engine/engram/epoch.h"

namespace engramd::engine {

class Overlay final : public Epoch {
 public:
  // Without edits. image_bytes: of one row, per layer.
  explicit Overlay(std::span<const std::int64_t> image_bytes);
  Overlay(const Overlay&) = delete;
  Overlay& operator=(const Overlay&) = delete;

  std::uint64_t number() const override { return number_; }
  bool has_edits(int layer) const override;
  RowEdit row(int layer, std::int64_t row) const override;
  RowEdit ngram(int layer, const NgramColumn& ngram) const override;
  void rows(int layer, std::span<const std::int64_t> rows, RowEdit* edits) const override;
  void ngrams(int layer, std::span<const NgramColumn> ngrams, RowEdit* edits) const override;

  RowEdit find(const EditTarget& target) const;  // of exactly this target, either scope
  std::int64_t n_edits() const;
  std::int64_t memory_bytes() const;  // walks all shards
  // Every edit once, in no particular order: for export and fold.
  void for_each(const std::function<void(const EditTarget&, const RowEdit&)>& visit) const;

 private:
  friend class OverlayBuilder;
  struct Key {
    std::int64_t id = 0;  // row index, or the bits of the mix
    std::int32_t column = -1;
    bool operator==(const Key&) const = default;
  };
  struct Entry {
    Key key;
    std::int64_t transaction = 0;
  };
  // Open addressing over small slots, dense entries and images: a miss reads one slot.
  struct Shard {
    std::uint64_t owner = 0;           // number of the epoch that made it; only its builder writes
    std::vector<std::uint32_t> slots;  // 0: empty; else 12 bits of the hash, then index + 1
    std::vector<Entry> entries;
    std::vector<std::uint8_t> images;  // [entries.size(), image_bytes]

    std::int64_t find(std::uint64_t hash, const Key& key) const;  // index, or -1
    // The slot where find() would look first, and the entry that it names: to be read soon.
    const std::uint32_t* first_slot(std::uint64_t hash) const {
      return &slots[hash & (slots.size() - 1)];
    }
    void prefetch_entry(std::uint64_t hash) const;
    void insert_slot(std::uint64_t hash, std::size_t index);
    void rebuild_slots(std::size_t n_slots);
  };
  static constexpr int kFanOutBits = 7;
  static constexpr std::size_t kFanOut = std::size_t{1} << kFanOutBits;
  struct Node {
    std::uint64_t owner = 0;
    std::array<std::shared_ptr<Shard>, kFanOut> shards;
  };
  struct Table {
    std::int64_t image_bytes = 0;
    std::int64_t n_edits = 0;
    std::array<std::shared_ptr<Node>, kFanOut> nodes;

    const std::shared_ptr<Shard>* place(std::uint64_t hash) const;  // nullptr: no node
    RowEdit find(const Key& key) const;
    // keys: [n] of any type that to_key turns into a Key.
    template <class T, class ToKey>
    void find_many(std::span<const T> keys, const ToKey& to_key, RowEdit* edits) const;
    RowEdit found(const Shard* shard, std::uint64_t hash, const Key& key) const;
  };

  Overlay(const Overlay& before, std::uint64_t number);
  static std::size_t table_index(int layer, EditScope scope) {
    return static_cast<std::size_t>(layer) * 2 + (scope == EditScope::kNgram ? 1 : 0);
  }
  static std::uint64_t hash_of(const Key& key);

  std::uint64_t number_ = 0;
  std::vector<Table> tables_;  // [n_layers * 2], see table_index
};

// The next epoch: starts as `before`, takes changes, then becomes immutable. Dropping the builder
// drops the changes.
class OverlayBuilder {
 public:
  // `number` is above that of every epoch this builder's shards could be shared with.
  OverlayBuilder(const Overlay& before, std::uint64_t number);

  // image: image_bytes of the layer; copied.
  void set(const EditTarget& target, std::span<const std::uint8_t> image, std::int64_t transaction);
  void erase(const EditTarget& target);
  std::shared_ptr<const Overlay> finish() &&;
  // The same under a number that was not known before (opening replays the history first).
  std::shared_ptr<const Overlay> finish(std::uint64_t number) &&;

 private:
  Overlay::Shard& writable_shard(Overlay::Table& table, std::uint64_t hash);

  std::shared_ptr<Overlay> overlay_;
  std::vector<Overlay::Shard*> made_;  // shards of this builder
};

}  // namespace engramd::engine
