// NgramList: the N-grams of the training text with their counts (ngrams.safetensors beside a
// model), most frequent first. Says whom an edit of a shared row touches.
// Immutable after open: any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/result.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/engram/layout.h"

namespace engramd::engine {

struct ListedNgram {
  std::vector<std::int32_t> classes;  // compressed ids, oldest first
  std::int64_t count = 0;
};

class NgramList {
 public:
  // Tensors orderN.classes [n, N] u16 and orderN.count [n] u32 for every order of the layout.
  static Result<NgramList> open(const std::string& path, const EngramLayout& layout);

  std::int64_t size(int order) const;
  ListedNgram at(int order, std::int64_t index) const;
  // Indices of the N-grams of a column's order that read `row` of that layer, most frequent first.
  // Hashes the whole list of that order: milliseconds.
  std::vector<std::int64_t> readers(int layer, int column, std::int64_t row) const;

 private:
  struct Order {
    std::int64_t n = 0;
    const std::uint16_t* classes = nullptr;  // [n, order]
    const std::uint32_t* count = nullptr;    // [n]
  };
  explicit NgramList(SafetensorsFile file, const EngramLayout& layout)
      : file_(std::move(file)), layout_(&layout) {}
  const Order& order(int order) const { return orders_[static_cast<std::size_t>(order - 2)]; }

  SafetensorsFile file_;
  const EngramLayout* layout_;
  std::vector<Order> orders_;  // index 0 is order 2
};

}  // namespace engramd::engine
