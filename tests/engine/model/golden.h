// Golden outputs of the bundled model and the pieces every test of it needs: the model, a cache, a
// backend, and one forward pass over a whole sequence.
#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/checkpoint/safetensors.h"
#include "engine/engram/live_tables.h"
#include "engine/model/model.h"
#include "engine/runtime/step.h"
#include "kernels/backend.h"

namespace engramd::engine::testing {

inline const Model& bundled_model() {
  static const std::unique_ptr<const Model> model = [] {
    auto opened = open_model(std::string(ENGRAMD_SOURCE_DIR) + "/install/models/engram-nano");
    EXPECT_TRUE(opened.has_value()) << opened.error().message;
    return std::move(*opened);
  }();
  return *model;
}

class Golden {
 public:
  Golden() {
    auto file = SafetensorsFile::open(ENGRAMD_TEST_DATA "/engram-nano/activations.safetensors");
    EXPECT_TRUE(file.has_value()) << file.error().message;
    file_ = std::make_unique<SafetensorsFile>(std::move(*file));
  }
  bool has(const std::string& name) const { return file_->find(name) != nullptr; }
  template <class T>
  std::vector<T> values(const std::string& name) const {
    const auto view = file_->tensor(name);
    EXPECT_TRUE(view.has_value()) << name;
    return {view->template as<T>(), view->template as<T>() + view->n_elements()};
  }
  std::vector<std::int64_t> shape(const std::string& name) const {
    return file_->find(name)->shape;
  }

 private:
  std::unique_ptr<SafetensorsFile> file_;
};

inline const std::vector<std::string>& golden_cases() {
  static const std::vector<std::string> names = {
      "bos",       "two",        "capital_en", "capital_zh", "chat",
      "alexander", "inventions", "mixed",      "specials",   "long"};
  return names;
}

inline double nmse(const float* got, const float* expected, std::size_t n) {
  double error = 0;
  double power = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double d = double{got[i]} - expected[i];
    error += d * d;
    power += double{expected[i]} * expected[i];
  }
  return error / power;
}

inline std::unique_ptr<kernels::Backend> make_backend(const std::string& name, int threads = 2) {
  if (name == "reference") return kernels::make_reference_backend();
  return kernels::make_cpu_backend({name, threads, false});
}

// A model, a backend and room for a few sequences.
struct Bench {
  explicit Bench(std::unique_ptr<kernels::Backend> made, const Model& opened = bundled_model(),
                 kernels::DType dtype = kernels::DType::kF32)
      : model(&opened),
        tables(std::move(*LiveTables::open(opened.layout, "", opened.engram_rows(), {}))),
        backend(std::move(made)),
        cache(std::move(*KvCache::make(opened, dtype, 256, backend.get()))),
        step(opened, *backend, cache) {}

  std::unique_ptr<Sequence> sequence(const std::vector<TokenId>& ids, bool engram = true) {
    auto made = std::make_unique<Sequence>(model->token_map, cache, engram);
    for (const TokenId id : ids) made->append(id);
    EXPECT_TRUE(made->reserve(made->size()));
    return made;
  }
  // Logits of every position, computed in chunks of `chunk` tokens (0: all at once).
  std::vector<float> logits(Sequence& sequence, std::int64_t chunk = 0,
                            ForwardTrace* trace = nullptr, EngramCounts* counts = nullptr) {
    std::vector<float> all;
    const std::int64_t size = chunk > 0 ? chunk : sequence.size();
    for (std::int64_t begin = sequence.n_cached(); begin < sequence.size(); begin += size) {
      SequenceSlice slice{&sequence, begin, std::min(sequence.size(), begin + size)};
      slice.all_logits = true;
      slice.counts = counts;
      const auto part = step.run({&slice, 1}, tables->view(), {}, trace);
      EXPECT_TRUE(part.has_value());
      all.insert(all.end(), part->begin(), part->end());
    }
    return all;
  }

  const Model* model;
  std::unique_ptr<LiveTables> tables;
  std::unique_ptr<kernels::Backend> backend;
  KvCache cache;
  Step step;
};

}  // namespace engramd::engine::testing
