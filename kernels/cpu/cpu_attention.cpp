// Multi-head latent attention of the CPU backend, in the absorbed form: a head's key projection is
// applied to its query once, so that a cached token costs one dot product with its latent, and the
// value projection is applied to the weighted sum of latents.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/scalar_math.h"

namespace engramd::kernels {

void CpuBackend::latent_attention(const LatentAttention& attention, float* query,
                                  const float* latent, std::span<const TokenSlot> slots,
                                  const PagedCache& cache, float* out) {
  const int rank = attention.kv_lora_rank;
  const int nope = attention.qk_nope_head_dim;
  const int rope = attention.qk_rope_head_dim;
  const int heads = attention.num_attention_heads;
  ENGRAMD_ASSERT(attention.latent_width() <= kLatentWidthMax);
  std::int32_t last = 0;
  for (const TokenSlot& slot : slots) last = std::max(last, slot.position);
  // Grown before anything runs in parallel.
  const float* table = rotary_.rows(rope, attention.rope_theta, last);
  const auto n_tokens = static_cast<std::int64_t>(slots.size());
  for_each_token(n_tokens, [&](std::int64_t t) {
    const TokenSlot& slot = slots[static_cast<std::size_t>(t)];
    const float* rotary = table + std::int64_t{slot.position} * rope;
    const float* row = latent + t * attention.latent_width();
    float entry[kLatentWidthMax];
    vector_->scale_by(row, inverse_rms(*vector_, row, rank, attention.rms_norm_eps),
                      attention.kv_a_layernorm, rank, entry);
    std::copy(row + rank, row + rank + rope, entry + rank);
    rotate(entry + rank, rope, rotary);
    store_entry(cache, cache.entry(slot), entry);
    for (int head = 0; head < heads; ++head) {
      rotate(query + t * attention.query_width() + head * (nope + rope) + nope, rope, rotary);
    }
  });
  // Few tokens: split the heads as well. Otherwise one read of an entry serves all heads.
  const int heads_per_item =
      n_tokens >= pool_.n_threads() ? heads : std::max(1, heads / pool_.n_threads());
  const std::int64_t items_per_token = n_chunks(heads, heads_per_item);
  pool_.parallel(n_tokens * items_per_token, [&](std::int64_t item) {
    const std::int64_t t = item / items_per_token;
    const int begin = static_cast<int>(item % items_per_token) * heads_per_item;
    attend_heads(attention, query + t * attention.query_width(), slots[static_cast<std::size_t>(t)],
                 cache, begin, std::min(heads, begin + heads_per_item),
                 out + t * attention.output_width());
  });
}

void CpuBackend::attend_heads(const LatentAttention& attention, const float* query,
                              const TokenSlot& slot, const PagedCache& cache, int head_begin,
                              int head_end, float* out) const {
  const int rank = attention.kv_lora_rank;
  const int nope = attention.qk_nope_head_dim;
  const int rope = attention.qk_rope_head_dim;
  const int width = attention.latent_width();
  const int v = attention.v_head_dim;
  const auto* kv_b = attention.kv_b_proj.as<std::uint16_t>();
  const float scale = 1.0F / std::sqrt(static_cast<float>(nope + rope));
  const auto n_heads = static_cast<std::size_t>(head_end - head_begin);
  thread_local std::vector<float> scratch;  // absorbed queries and sums of latents, then a block
  scratch.resize(n_heads * static_cast<std::size_t>(width + rank) +
                 static_cast<std::size_t>(kBlockTokens * width));
  float* absorbed = scratch.data();                                    // [n_heads, width]
  float* sums = absorbed + n_heads * static_cast<std::size_t>(width);  // [n_heads, rank]
  float* block = sums + n_heads * static_cast<std::size_t>(rank);      // [kBlockTokens, width]
  std::fill(sums, block, 0.0F);
  float largest[kHeadsMax];
  float weight[kHeadsMax];
  ENGRAMD_ASSERT(n_heads <= kHeadsMax);
  for (int head = head_begin; head < head_end; ++head) {
    const float* q = query + head * (nope + rope);
    float* a = absorbed + (head - head_begin) * width;
    vector_->weighted_rows_bf16(kv_b + std::int64_t{head} * (nope + v) * rank, q, nope, rank, a);
    std::copy(q + nope, q + nope + rope, a + rank);
    for (int i = 0; i < width; ++i) a[i] *= scale;
    largest[head - head_begin] = -1e30F;
    weight[head - head_begin] = 0;
  }
  for (std::int32_t first = 0; first <= slot.position; first += kBlockTokens) {
    const int n_keys = std::min(kBlockTokens, slot.position + 1 - first);
    const std::int64_t entry = cache.entry(slot.sequence, first);  // a block is contiguous
    const float* entries = block;
    if (cache.dtype == DType::kF32) {
      entries = static_cast<const float*>(cache.data) + entry * width;
    } else {
      for (int key = 0; key < n_keys; ++key) load_entry(cache, entry + key, block + key * width);
    }
    for (std::size_t h = 0; h < n_heads; ++h) {
      vector_->attend_block({entries, n_keys, width, rank,
                             absorbed + h * static_cast<std::size_t>(width),
                             sums + h * static_cast<std::size_t>(rank), &largest[h], &weight[h]});
    }
  }
  for (int head = head_begin; head < head_end; ++head) {
    float* sum = sums + (head - head_begin) * rank;
    const float factor = 1.0F / weight[head - head_begin];
    for (int i = 0; i < rank; ++i) sum[i] *= factor;
    MatmulRows rows;
    rows.weight = kv_b + (std::int64_t{head} * (nope + v) + nope) * rank;
    rows.in_features = rank;
    rows.row_end = v;
    rows.x = sum;
    rows.n_tokens = 1;
    rows.out = out + head * v;
    rows.out_stride = v;
    vector_->matmul_bf16(rows);
  }
}

}  // namespace engramd::kernels
