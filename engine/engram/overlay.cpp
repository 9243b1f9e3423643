#include "engine/engram/overlay.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "config/assert.h"

namespace engramd::engine {
namespace {

constexpr std::uint32_t kIndexBits = 20;  // of a slot: 2^20 images in each of 16,384 shards
constexpr std::uint32_t kIndexMask = (1U << kIndexBits) - 1;
constexpr std::size_t kMinSlots = 4;

// The hash's top bits choose node and shard, the low ones the slot, bits 20..31 the fingerprint.
std::size_t node_of(std::uint64_t hash, int bits) {
  return hash >> (64 - bits);
}
std::size_t shard_of(std::uint64_t hash, int bits) {
  return (hash >> (64 - 2 * bits)) & ((std::size_t{1} << bits) - 1);
}

std::uint32_t fingerprint_of(std::uint64_t hash) {
  return static_cast<std::uint32_t>(hash) & ~kIndexMask;
}

}  // namespace

// splitmix64's finalizer: rows are consecutive numbers and mixes share low bits.
std::uint64_t Overlay::hash_of(const Key& key) {
  std::uint64_t hash = static_cast<std::uint64_t>(key.id) +
                       static_cast<std::uint64_t>(key.column + 2) * 0x9E3779B97F4A7C15U;
  hash = (hash ^ (hash >> 30)) * 0xBF58476D1CE4E5B9U;
  hash = (hash ^ (hash >> 27)) * 0x94D049BB133111EBU;
  return hash ^ (hash >> 31);
}

std::int64_t Overlay::Shard::find(std::uint64_t hash, const Key& key) const {
  const std::size_t mask = slots.size() - 1;
  for (std::size_t at = hash & mask; slots[at] != 0; at = (at + 1) & mask) {
    if ((slots[at] & ~kIndexMask) != fingerprint_of(hash)) continue;
    const std::size_t index = (slots[at] & kIndexMask) - 1;
    if (entries[index].key == key) return static_cast<std::int64_t>(index);
  }
  return -1;
}

void Overlay::Shard::insert_slot(std::uint64_t hash, std::size_t index) {
  ENGRAMD_ASSERT(index < kIndexMask);
  const std::size_t mask = slots.size() - 1;
  std::size_t at = hash & mask;
  while (slots[at] != 0) at = (at + 1) & mask;
  slots[at] = fingerprint_of(hash) | static_cast<std::uint32_t>(index + 1);
}

void Overlay::Shard::rebuild_slots(std::size_t n_slots) {
  slots.assign(n_slots, 0);
  for (std::size_t index = 0; index < entries.size(); ++index) {
    insert_slot(hash_of(entries[index].key), index);
  }
}

void Overlay::Shard::prefetch_entry(std::uint64_t hash) const {
  const std::uint32_t slot = *first_slot(hash);
  if (slot == 0 || (slot & ~kIndexMask) != fingerprint_of(hash)) return;
  __builtin_prefetch(&entries[(slot & kIndexMask) - 1]);
}

const std::shared_ptr<Overlay::Shard>* Overlay::Table::place(std::uint64_t hash) const {
  const Node* node = nodes[node_of(hash, kFanOutBits)].get();
  return node != nullptr ? &node->shards[shard_of(hash, kFanOutBits)] : nullptr;
}

RowEdit Overlay::Table::found(const Shard* shard, std::uint64_t hash, const Key& key) const {
  const std::int64_t index = shard != nullptr ? shard->find(hash, key) : -1;
  if (index < 0) return {};
  return {shard->images.data() + index * image_bytes,
          shard->entries[static_cast<std::size_t>(index)].transaction};
}

RowEdit Overlay::Table::find(const Key& key) const {
  if (n_edits == 0) return {};
  const std::uint64_t hash = hash_of(key);
  const auto* shard = place(hash);
  return found(shard != nullptr ? shard->get() : nullptr, hash, key);
}

// A look-up is a chain of reads that miss the cache: pointer, shard, slot, entry. Going down the
// chains of a group step by step, every read of a step waits together with the others.
template <class T, class ToKey>
void Overlay::Table::find_many(std::span<const T> keys, const ToKey& to_key, RowEdit* edits) const {
  if (n_edits == 0) {
    std::fill_n(edits, keys.size(), RowEdit{});
    return;
  }
  constexpr std::size_t kGroup = 48;
  std::uint64_t hashes[kGroup];
  const std::shared_ptr<Shard>* places[kGroup];
  const Shard* shards[kGroup];
  for (std::size_t begin = 0; begin < keys.size(); begin += kGroup) {
    const std::size_t n = std::min(kGroup, keys.size() - begin);
    for (std::size_t i = 0; i < n; ++i) {
      hashes[i] = hash_of(to_key(keys[begin + i]));
      places[i] = place(hashes[i]);
      __builtin_prefetch(places[i]);
    }
    for (std::size_t i = 0; i < n; ++i) {
      shards[i] = places[i] != nullptr ? places[i]->get() : nullptr;
      __builtin_prefetch(shards[i]);
    }
    for (std::size_t i = 0; i < n; ++i) {
      if (shards[i] != nullptr) __builtin_prefetch(shards[i]->first_slot(hashes[i]));
    }
    for (std::size_t i = 0; i < n; ++i) {
      if (shards[i] != nullptr) shards[i]->prefetch_entry(hashes[i]);
    }
    for (std::size_t i = 0; i < n; ++i) {
      edits[begin + i] = found(shards[i], hashes[i], to_key(keys[begin + i]));
    }
  }
}

Overlay::Overlay(std::span<const std::int64_t> image_bytes) : tables_(image_bytes.size() * 2) {
  for (std::size_t i = 0; i < tables_.size(); ++i) tables_[i].image_bytes = image_bytes[i / 2];
}

Overlay::Overlay(const Overlay& before, std::uint64_t number)
    : number_(number), tables_(before.tables_) {}

bool Overlay::has_edits(int layer) const {
  return tables_[table_index(layer, EditScope::kRow)].n_edits > 0 ||
         tables_[table_index(layer, EditScope::kNgram)].n_edits > 0;
}

RowEdit Overlay::row(int layer, std::int64_t row) const {
  return tables_[table_index(layer, EditScope::kRow)].find({row, -1});
}

RowEdit Overlay::ngram(int layer, const NgramColumn& ngram) const {
  return tables_[table_index(layer, EditScope::kNgram)].find(
      {static_cast<std::int64_t>(ngram.mix), ngram.column});
}

void Overlay::rows(int layer, std::span<const std::int64_t> rows, RowEdit* edits) const {
  tables_[table_index(layer, EditScope::kRow)].find_many(
      rows,
      [](std::int64_t row) {
        return Key{row, -1};
      },
      edits);
}

void Overlay::ngrams(int layer, std::span<const NgramColumn> ngrams, RowEdit* edits) const {
  tables_[table_index(layer, EditScope::kNgram)].find_many(
      ngrams,
      [](const NgramColumn& ngram) {
        return Key{static_cast<std::int64_t>(ngram.mix), ngram.column};
      },
      edits);
}

RowEdit Overlay::find(const EditTarget& target) const {
  return tables_[table_index(target.layer, target.scope)].find({target.id, target.column});
}

std::int64_t Overlay::n_edits() const {
  std::int64_t n = 0;
  for (const Table& table : tables_) n += table.n_edits;
  return n;
}

std::int64_t Overlay::memory_bytes() const {
  std::size_t bytes = sizeof(Overlay) + tables_.size() * sizeof(Table);
  for (const Table& table : tables_) {
    for (const auto& node : table.nodes) {
      if (!node) continue;
      bytes += sizeof(Node);
      for (const auto& shard : node->shards) {
        if (!shard) continue;
        bytes += sizeof(Shard) + shard->slots.capacity() * sizeof(std::uint32_t) +
                 shard->entries.capacity() * sizeof(Entry) + shard->images.capacity();
      }
    }
  }
  return static_cast<std::int64_t>(bytes);
}

void Overlay::for_each(const std::function<void(const EditTarget&, const RowEdit&)>& visit) const {
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    for (const auto& node : tables_[t].nodes) {
      if (!node) continue;
      for (const auto& shard : node->shards) {
        if (!shard) continue;
        for (std::size_t i = 0; i < shard->entries.size(); ++i) {
          const Entry& entry = shard->entries[i];
          const auto offset = static_cast<std::size_t>(tables_[t].image_bytes) * i;
          visit({static_cast<int>(t / 2), t % 2 == 0 ? EditScope::kRow : EditScope::kNgram,
                 entry.key.column, entry.key.id},
                {shard->images.data() + offset, entry.transaction});
        }
      }
    }
  }
}

OverlayBuilder::OverlayBuilder(const Overlay& before, std::uint64_t number)
    : overlay_(new Overlay(before, number)) {}

// A node or shard of this builder's own number is seen by nobody else yet; any other is copied.
Overlay::Shard& OverlayBuilder::writable_shard(Overlay::Table& table, std::uint64_t hash) {
  const std::uint64_t owner = overlay_->number_;
  auto& node = table.nodes[node_of(hash, Overlay::kFanOutBits)];
  if (!node || node->owner != owner) {
    node = node ? std::make_shared<Overlay::Node>(*node) : std::make_shared<Overlay::Node>();
    node->owner = owner;
  }
  auto& shard = node->shards[shard_of(hash, Overlay::kFanOutBits)];
  if (shard && shard->owner == owner) return *shard;
  auto copy = std::make_shared<Overlay::Shard>();
  copy->owner = owner;
  if (shard) {
    // One place more than now: the usual commit adds one, and a vector that grows doubles.
    copy->entries.reserve(shard->entries.size() + 1);
    copy->images.reserve(shard->images.size() + static_cast<std::size_t>(table.image_bytes));
    copy->slots = shard->slots;
    copy->entries.insert(copy->entries.end(), shard->entries.begin(), shard->entries.end());
    copy->images.insert(copy->images.end(), shard->images.begin(), shard->images.end());
  } else {
    copy->slots.assign(kMinSlots, 0);
  }
  shard = std::move(copy);
  made_.push_back(shard.get());
  return *shard;
}

void OverlayBuilder::set(const EditTarget& target, std::span<const std::uint8_t> image,
                         std::int64_t transaction) {
  Overlay::Table& table = overlay_->tables_[Overlay::table_index(target.layer, target.scope)];
  ENGRAMD_ASSERT(static_cast<std::int64_t>(image.size()) == table.image_bytes);
  const Overlay::Key key{target.id, target.column};
  const std::uint64_t hash = Overlay::hash_of(key);
  Overlay::Shard& shard = writable_shard(table, hash);
  const std::int64_t found = shard.find(hash, key);
  if (found >= 0) {
    std::memcpy(shard.images.data() + found * table.image_bytes, image.data(), image.size());
    shard.entries[static_cast<std::size_t>(found)].transaction = transaction;
    return;
  }
  shard.entries.push_back({key, transaction});
  shard.images.insert(shard.images.end(), image.begin(), image.end());
  ++table.n_edits;
  if (shard.entries.size() * 2 > shard.slots.size()) {
    shard.rebuild_slots(shard.slots.size() * 2);
  } else {
    shard.insert_slot(hash, shard.entries.size() - 1);
  }
}

void OverlayBuilder::erase(const EditTarget& target) {
  Overlay::Table& table = overlay_->tables_[Overlay::table_index(target.layer, target.scope)];
  const Overlay::Key key{target.id, target.column};
  if (!table.find(key).image) return;
  const std::uint64_t hash = Overlay::hash_of(key);
  Overlay::Shard& shard = writable_shard(table, hash);
  const auto index = static_cast<std::size_t>(shard.find(hash, key));
  const auto bytes = static_cast<std::size_t>(table.image_bytes);
  shard.entries[index] = shard.entries.back();
  shard.entries.pop_back();
  std::memmove(shard.images.data() + index * bytes,
               shard.images.data() + shard.entries.size() * bytes, bytes);
  shard.images.resize(shard.entries.size() * bytes);
  shard.rebuild_slots(std::max(kMinSlots, std::bit_ceil(shard.entries.size() * 2)));
  --table.n_edits;
}

std::shared_ptr<const Overlay> OverlayBuilder::finish() && {
  for (Overlay::Shard* shard : made_) {  // what a bulk import let grow by doubling
    shard->entries.shrink_to_fit();
    shard->images.shrink_to_fit();
  }
  return std::move(overlay_);
}

std::shared_ptr<const Overlay> OverlayBuilder::finish(std::uint64_t number) && {
  overlay_->number_ = number;
  return std::move(*this).finish();
}

}  // namespace engramd::engine
