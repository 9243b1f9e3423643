// Multi-head latent attention, expanded: keys and values are rebuilt per head from the cached
// latent, as the paper writes it. The fast backend uses the absorbed form; the two must agree.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/reference/reference_backend.h"
#include "kernels/cpu/scalar_math.h"
#include "kernels/number_formats.h"

namespace engramd::kernels {

namespace {

// Keys (no-position part), values and rotated key parts of one sequence's cache, as one head sees
// them: rows of [qk_nope + v + qk_rope].
struct ExpandedCache {
  std::int32_t sequence = -1;
  int width = 0;
  std::vector<double> rows;

  const double* row(std::int32_t position) const {
    return rows.data() + static_cast<std::size_t>(position) * static_cast<std::size_t>(width);
  }
};

ExpandedCache expand(const LatentAttention& attention, int head, std::int32_t sequence,
                     std::int32_t n_keys, const PagedCache& cache) {
  const int rank = attention.kv_lora_rank;
  const int n_projected = attention.qk_nope_head_dim + attention.v_head_dim;
  const auto* kv_b =
      attention.kv_b_proj.as<std::uint16_t>() + std::int64_t{head} * n_projected * rank;
  ExpandedCache expanded{sequence, n_projected + attention.qk_rope_head_dim, {}};
  std::vector<float> entry(static_cast<std::size_t>(attention.latent_width()));
  for (std::int32_t position = 0; position < n_keys; ++position) {
    load_entry(cache, cache.entry(sequence, position), entry.data());
    for (int row = 0; row < n_projected; ++row) {
      double sum = 0;
      for (int i = 0; i < rank; ++i) {
        sum += double{decode_bf16(kv_b[row * rank + i])} * entry[static_cast<std::size_t>(i)];
      }
      expanded.rows.push_back(sum);
    }
    expanded.rows.insert(expanded.rows.end(), entry.begin() + rank, entry.end());
  }
  return expanded;
}

// One token of one head over positions 0 .. position. query: [qk_nope + qk_rope], out: [v].
void attend(const LatentAttention& attention, const float* query, std::int32_t position,
            const ExpandedCache& cache, float* out) {
  const int nope = attention.qk_nope_head_dim;
  const int rope = attention.qk_rope_head_dim;
  const double scale = 1.0 / std::sqrt(static_cast<double>(nope + rope));
  std::vector<double> weights;
  for (std::int32_t key = 0; key <= position; ++key) {
    const double* row = cache.row(key);
    double score = 0;
    for (int i = 0; i < nope; ++i) score += query[i] * row[i];
    for (int i = 0; i < rope; ++i) score += query[nope + i] * row[nope + attention.v_head_dim + i];
    weights.push_back(score * scale);
  }
  const double largest = *std::max_element(weights.begin(), weights.end());
  double sum = 0;
  for (double& w : weights) sum += w = std::exp(w - largest);
  for (int i = 0; i < attention.v_head_dim; ++i) {
    double value = 0;
    for (std::int32_t key = 0; key <= position; ++key) {
      value += weights[static_cast<std::size_t>(key)] / sum * cache.row(key)[nope + i];
    }
    out[i] = static_cast<float>(value);
  }
}

}  // namespace

void ReferenceBackend::latent_attention(const LatentAttention& attention, float* query,
                                        const float* latent, std::span<const TokenSlot> slots,
                                        const PagedCache& cache, float* out) {
  const int rank = attention.kv_lora_rank;
  const int rope = attention.qk_rope_head_dim;
  const int head_width = attention.qk_nope_head_dim + rope;
  std::vector<float> entry(static_cast<std::size_t>(attention.latent_width()));
  for (std::size_t t = 0; t < slots.size(); ++t) {
    const float* row = latent + t * entry.size();
    rms_norm(row, attention.kv_a_layernorm, attention.rms_norm_eps, 1, rank, entry.data());
    std::copy(row + rank, row + rank + rope, entry.begin() + rank);
    rotate_pairs(entry.data() + rank, rope, slots[t].position, attention.rope_theta);
    store_entry(cache, cache.entry(slots[t]), entry.data());
  }
  for (int head = 0; head < attention.num_attention_heads; ++head) {
    ExpandedCache expanded;
    for (std::size_t t = 0; t < slots.size(); ++t) {
      const TokenSlot& slot = slots[t];
      if (expanded.sequence != slot.sequence) {
        std::int32_t n_keys = 0;
        for (const TokenSlot& other : slots) {
          if (other.sequence == slot.sequence) n_keys = std::max(n_keys, other.position + 1);
        }
        expanded = expand(attention, head, slot.sequence, n_keys, cache);
      }
      float* q = query + t * static_cast<std::size_t>(attention.query_width()) + head * head_width;
      rotate_pairs(q + attention.qk_nope_head_dim, rope, slot.position, attention.rope_theta);
      attend(attention, q, slot.position, expanded,
             out + t * static_cast<std::size_t>(attention.output_width()) +
                 head * attention.v_head_dim);
    }
  }
}

}  // namespace engramd::kernels
