#include "engine/engram/ngram_list.h"

#include <utility>

#include "engine/engram/addresser.h"

namespace engramd::engine {

Result<NgramList> NgramList::open(const std::string& path, const EngramLayout& layout) {
  auto file = SafetensorsFile::open(path);
  if (!file) return file.error();
  NgramList list(std::move(*file), layout);
  for (int order = 2; order <= layout.config.max_ngram_size; ++order) {
    const std::string name = "order" + std::to_string(order);
    const auto classes = list.file_.tensor(name + ".classes");
    if (!classes) return classes.error();
    const auto count = list.file_.tensor(name + ".count");
    if (!count) return count.error();
    const std::int64_t n = count->n_elements();
    if (classes->dtype != kernels::DType::kU16 || count->dtype != kernels::DType::kU32 ||
        classes->n_elements() != n * order) {
      return invalid_argument(path + ": " + name + ": expected classes [n, " +
                              std::to_string(order) + "] of U16 and count [n] of U32, got " +
                              std::to_string(classes->n_elements()) + " classes and " +
                              std::to_string(n) + " counts");
    }
    list.orders_.push_back({n, classes->as<std::uint16_t>(), count->as<std::uint32_t>()});
  }
  return list;
}

std::int64_t NgramList::size(int order) const {
  return this->order(order).n;
}

ListedNgram NgramList::at(int order, std::int64_t index) const {
  const Order& listed = this->order(order);
  const std::uint16_t* classes = listed.classes + index * order;
  return {{classes, classes + order}, listed.count[index]};
}

std::vector<std::int64_t> NgramList::readers(int layer, int column, std::int64_t row) const {
  const EngramLayer& address = layout_->layers[static_cast<std::size_t>(layer)];
  const int n = layout_->order_of(column);
  const Order& listed = order(n);
  std::vector<std::int32_t> classes(static_cast<std::size_t>(n));
  std::vector<std::int64_t> found;
  for (std::int64_t i = 0; i < listed.n; ++i) {
    const std::uint16_t* first = listed.classes + i * n;
    classes.assign(first, first + n);
    if (row_of(address, column, mix_of(address, classes)) == row) found.push_back(i);
  }
  return found;
}

}  // namespace engramd::engine
