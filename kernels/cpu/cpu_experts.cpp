// Mixture of experts of the CPU backend. Tokens are grouped by expert, so that an expert's weights
// are read once per batch; each token's outputs are then added in one fixed order (shared expert,
// then ascending expert number), so grouping never shows in the result.
#include <algorithm>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/scalar_math.h"

namespace engramd::kernels {

void CpuBackend::group_by_expert(const MixtureOfExperts& weights, const float* x,
                                 std::int64_t n_tokens, std::int32_t* chosen) {
  const auto n_experts = static_cast<std::int64_t>(weights.experts.size());
  const int k = weights.num_experts_per_tok;
  const std::int64_t hidden_size = weights.gate.in_features();
  grow(cell_weights_, n_tokens * (k + 1));
  for_each_token(n_tokens, [&](std::int64_t t) {
    thread_local std::vector<float> logits;
    thread_local std::vector<double> wide;
    logits.resize(static_cast<std::size_t>(n_experts));
    MatmulRows rows;
    rows.row_end = n_experts;
    rows.x = x + t * hidden_size;
    rows.n_tokens = 1;
    rows.out = logits.data();
    rows.out_stride = n_experts;
    matmul(weights.gate, rows);
    wide.assign(logits.begin(), logits.end());
    float* cell_weights = cell_weights_.data() + t * (k + 1);
    cell_weights[0] = 1;  // the shared expert's
    route(weights, wide.data(), chosen + t * k, cell_weights + 1);
  });
  groups_.resize(weights.experts.size() + 1);
  for (ExpertGroup& group : groups_) {
    group.weights = nullptr;
    group.cells.clear();
    group.tokens.clear();
  }
  const auto put = [&](std::size_t group, const FeedForward* expert, std::int64_t t, int slot) {
    groups_[group].weights = expert;
    groups_[group].cells.push_back(static_cast<std::int32_t>(t * (k + 1) + slot));
    groups_[group].tokens.push_back(static_cast<std::int32_t>(t));
  };
  for (std::int64_t t = 0; t < n_tokens; ++t) {
    if (weights.shared != nullptr) put(weights.experts.size(), weights.shared, t, 0);
    for (int slot = 0; slot < k; ++slot) {
      const auto expert = static_cast<std::size_t>(chosen[t * k + slot]);
      put(expert, &weights.experts[expert], t, slot + 1);
    }
  }
  std::erase_if(groups_, [](const ExpertGroup& group) { return group.weights == nullptr; });
}

void CpuBackend::mixture_of_experts(const MixtureOfExperts& weights, const float* x,
                                    std::int64_t n_tokens, float* out, std::int32_t* chosen) {
  const int k = weights.num_experts_per_tok;
  const std::int64_t hidden_size = weights.gate.in_features();
  if (chosen == nullptr) {
    chosen_.resize(static_cast<std::size_t>(n_tokens * k));
    chosen = chosen_.data();
  }
  group_by_expert(weights, x, n_tokens, chosen);
  x = rounded(x, n_tokens * hidden_size);

  // gate and up projections, split into items of (expert, rows)
  struct Item {
    const ExpertGroup* group;
    std::int64_t row_begin, row_end;
  };
  std::vector<Item> items;
  std::int64_t n_hidden = 0;
  for (ExpertGroup& group : groups_) {
    const std::int64_t width = group.weights->gate_proj.out_features();
    group.first_row = n_hidden;
    n_hidden += width * static_cast<std::int64_t>(group.cells.size());
    constexpr std::int64_t kRowsPerItem = 48;  // half of a bundled expert
    for (std::int64_t row = 0; row < width; row += kRowsPerItem) {
      items.push_back({&group, row, std::min(width, row + kRowsPerItem)});
    }
  }
  grow(hidden_, n_hidden);
  grow(up_, n_hidden);
  pool_.parallel(static_cast<std::int64_t>(items.size()), [&](std::int64_t i) {
    const Item& item = items[static_cast<std::size_t>(i)];
    const ExpertGroup& group = *item.group;
    MatmulRows rows;
    rows.row_begin = item.row_begin;
    rows.row_end = item.row_end;
    rows.x = x;
    rows.x_rows = group.tokens.data();
    rows.n_tokens = static_cast<std::int64_t>(group.cells.size());
    rows.out_stride = group.weights->gate_proj.out_features();
    rows.out = hidden_.data() + group.first_row;
    matmul(group.weights->gate_proj, rows);
    rows.out = up_.data() + group.first_row;
    matmul(group.weights->up_proj, rows);
    for (std::int64_t row = 0; row < rows.n_tokens; ++row) {
      const std::int64_t at = group.first_row + row * rows.out_stride + item.row_begin;
      vector_->silu_multiply(hidden_.data() + at, up_.data() + at, item.row_end - item.row_begin);
    }
  });
  const float* hidden = rounded(hidden_.data(), n_hidden);

  // down projections and the weighted sum, split over the output's columns
  grow(cell_outputs_, n_tokens * (k + 1) * hidden_size);
  const std::int64_t columns = n_tokens == 1
                                   ? std::max<std::int64_t>(8, hidden_size / pool_.n_threads())
                                   : rows_per_work_item(n_tokens);
  pool_.parallel(n_chunks(hidden_size, columns), [&](std::int64_t item) {
    const std::int64_t begin = item * columns;
    const std::int64_t end = std::min(hidden_size, begin + columns);
    down_and_combine(hidden, n_tokens, k, weights.shared != nullptr ? 0 : 1, begin, end, out);
  });
}

void CpuBackend::down_and_combine(const float* hidden, std::int64_t n_tokens, int k, int first_slot,
                                  std::int64_t begin, std::int64_t end, float* out) {
  for (const ExpertGroup& group : groups_) {
    const Linear& down = group.weights->down_proj;
    MatmulRows rows;
    rows.row_begin = begin;
    rows.row_end = end;
    rows.x = hidden + group.first_row;
    rows.n_tokens = static_cast<std::int64_t>(group.cells.size());
    rows.out_rows = group.cells.data();
    rows.out = cell_outputs_.data();
    rows.out_stride = down.out_features();
    matmul(down, rows);
  }
  const std::int64_t hidden_size = groups_.front().weights->down_proj.out_features();
  for (std::int64_t t = 0; t < n_tokens; ++t) {
    const float* cell_weights = cell_weights_.data() + t * (k + 1);
    const float* cells = cell_outputs_.data() + t * (k + 1) * hidden_size;
    for (std::int64_t i = begin; i < end; ++i) {
      float sum = 0;
      for (int slot = first_slot; slot <= k; ++slot) {
        sum += cell_weights[slot] * cells[slot * hidden_size + i];
      }
      out[t * hidden_size + i] = sum;
    }
  }
}

}  // namespace engramd::kernels
