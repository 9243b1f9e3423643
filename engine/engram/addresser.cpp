#include "engine/engram/addresser.h"

#include <cstddef>

#include "config/assert.h"

namespace engramd::engine {
namespace {

std::int64_t floor_modulo(std::uint64_t mix, std::int64_t prime) {
  const std::int64_t remainder = static_cast<std::int64_t>(mix) % prime;
  return remainder < 0 ? remainder + prime : remainder;
}

}  // namespace

Addresser::Addresser(const EngramLayout& layout, std::int32_t pad_class)
    : layout_(&layout), blank_class_(pad_class), cut_class_(kDeadClass) {
  for (const EngramLayer& layer : layout.layers) {
    ENGRAMD_ASSERT(layer.oldest_first == (layout.config.variant == EngramVariant::kPeft));
  }
  if (layout.config.variant == EngramVariant::kQwen4Exp) {
    blank_class_ = cut_class_ = static_cast<std::int32_t>(layout.config.eos_token_ids.front());
  }
}

int Addresser::n_readable(std::span<const std::int32_t> classes, std::int64_t position,
                          std::span<const std::int32_t> documents) const {
  const auto current = static_cast<std::size_t>(position);
  ENGRAMD_ASSERT(position >= 0 && current < classes.size());
  ENGRAMD_ASSERT(documents.empty() || documents.size() == classes.size());
  const auto readable = [&](std::size_t slot) {
    if (slot > current) return false;
    const std::int32_t id = classes[current - slot];
    if (id < 0 || (slot > 0 && id == cut_class_)) return false;
    return documents.empty() || documents[current - slot] == documents[current];
  };
  int n = 0;
  while (n < layout_->config.max_ngram_size && readable(static_cast<std::size_t>(n))) ++n;
  return n;
}

void Addresser::rows(int layer, std::span<const std::int32_t> classes, std::int64_t begin,
                     std::int64_t end, std::int64_t* rows, NgramKey* keys,
                     std::span<const std::int32_t> documents) const {
  ENGRAMD_ASSERT(layer >= 0 && static_cast<std::size_t>(layer) < layout_->layers.size());
  ENGRAMD_ASSERT(begin >= 0 && begin <= end && end <= static_cast<std::int64_t>(classes.size()));
  const EngramLayer& address = layout_->layers[static_cast<std::size_t>(layer)];
  const int n_heads = layout_->config.n_heads;
  const int widest = layout_->config.max_ngram_size;
  for (std::int64_t position = begin; position < end; ++position) {
    const int present = n_readable(classes, position, documents);
    // Sign extension makes the unsigned product that of two's complement int64.
    const auto product = [&](int slot) {
      const int back = address.oldest_first ? widest - 1 - slot : slot;
      const std::int32_t id =
          back < present ? classes[static_cast<std::size_t>(position - back)] : blank_class_;
      return static_cast<std::uint64_t>(id) * address.multipliers[static_cast<std::size_t>(slot)];
    };
    std::uint64_t mix = product(0);
    int column = 0;
    for (int order = 2; order <= widest; ++order) {
      mix ^= product(order - 1);
      if (keys) *keys++ = {mix, present < (address.oldest_first ? widest : order)};
      for (int head = 0; head < n_heads; ++head, ++column) {
        *rows++ = row_of(address, column, mix);
      }
    }
  }
}

std::uint64_t mix_of(const EngramLayer& layer, std::span<const std::int32_t> classes) {
  std::uint64_t mix = 0;
  for (std::size_t slot = 0; slot < classes.size(); ++slot) {
    const std::size_t at = layer.oldest_first ? slot : classes.size() - 1 - slot;
    mix ^= static_cast<std::uint64_t>(classes[at]) * layer.multipliers[slot];
  }
  return mix;
}

std::int64_t row_of(const EngramLayer& layer, int column, std::uint64_t mix) {
  const auto at = static_cast<std::size_t>(column);
  return floor_modulo(mix, layer.primes[at]) + layer.offsets[at];
}

std::uint16_t owner_tag(std::uint64_t mix) {
  const auto tag = static_cast<std::uint16_t>((mix * 0x9E3779B97F4A7C15u) >> 48);
  return tag == 0 ? std::uint16_t{1} : tag;
}

}  // namespace engramd::engine
