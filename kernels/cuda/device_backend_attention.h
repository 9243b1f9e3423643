// DeviceBackend: attention over the paged cache, and Engram. Included by what instantiates the
// template.
#pragma once

#include <cmath>
#include <unordered_map>

#include "kernels/cuda/device_backend.h"

namespace engramd::kernels::cuda {

// Every sequence's blocks up to its last position of this batch, one sequence after another.
template <KernelDevice Device>
DeviceCache DeviceBackend<Device>::cache_of(const PagedCache& cache,
                                            std::span<const TokenSlot> slots) {
  std::vector<std::int32_t> n_blocks;
  for (const TokenSlot& slot : slots) {
    const auto sequence = static_cast<std::size_t>(slot.sequence);
    if (n_blocks.size() <= sequence) n_blocks.resize(sequence + 1, 0);
    n_blocks[sequence] = std::max(n_blocks[sequence], slot.position / kBlockTokens + 1);
  }
  std::vector<std::int32_t> blocks, first_blocks;
  std::int32_t last_block = 0;
  for (std::size_t sequence = 0; sequence < n_blocks.size(); ++sequence) {
    first_blocks.push_back(static_cast<std::int32_t>(blocks.size()));
    for (std::int32_t i = 0; i < n_blocks[sequence]; ++i) {
      blocks.push_back(cache.block_tables[sequence][i]);
      last_block = std::max(last_block, blocks.back());
    }
  }
  DeviceCache view;
  view.dtype = cache.dtype;
  view.width = cache.width;
  view.n_entries = (std::int64_t{last_block} + 1) * kBlockTokens;
  view.data = cache.data;
  view.scales = cache.dtype == DType::kF8E4M3 ? cache.scales : nullptr;
  view.blocks = blocks_.send(blocks);
  view.first_blocks = first_blocks_.send(first_blocks);
  return view;
}

// Angles in double precision on the host: fp32 loses them at large positions.
template <KernelDevice Device>
Rotary DeviceBackend<Device>::rotary_of(int width, double theta, std::span<const TokenSlot> slots) {
  std::int32_t last = 0;
  for (const TokenSlot& slot : slots) last = std::max(last, slot.position);
  if (rotary_width_ != width || rotary_theta_ != theta) {
    rotary_table_.clear();
    rotary_width_ = width;
    rotary_theta_ = theta;
  }
  constexpr std::size_t kPositionsAtOnce = 256;  // the table is sent again when it grows
  const auto row = static_cast<std::size_t>(width);
  if (row > 0 && rotary_table_.size() / row <= static_cast<std::size_t>(last)) {
    const std::size_t end = static_cast<std::size_t>(last) + kPositionsAtOnce;
    for (std::size_t p = rotary_table_.size() / row; p < end; ++p) {
      for (int i = 0; i < width; i += 2) {
        const double angle =
            static_cast<double>(p) * std::pow(theta, -static_cast<double>(i) / width);
        rotary_table_.push_back(static_cast<float>(std::cos(angle)));
        rotary_table_.push_back(static_cast<float>(std::sin(angle)));
      }
    }
  }
  Rotary rotary;
  rotary.table = rotary_.send(rotary_table_);
  rotary.width = width;
  return rotary;
}

template <KernelDevice Device>
DeviceSpan<const AttentionTile> DeviceBackend<Device>::tiles_of(std::span<const TokenSlot> slots,
                                                                int heads_per_kv) {
  std::vector<AttentionTile> tiles;
  for (std::size_t begin = 0; begin < slots.size();) {
    std::size_t end = begin;  // of a run of tokens of one sequence
    while (end < slots.size() && slots[end].sequence == slots[begin].sequence) ++end;
    const auto n_rows = static_cast<std::int32_t>(end - begin) * heads_per_kv;
    for (std::int32_t row = 0; row < n_rows; row += kTileRows) {
      AttentionTile tile;
      tile.sequence = slots[begin].sequence;
      tile.first_token = static_cast<std::int32_t>(begin);
      tile.first_row = row;
      tile.n_rows = std::min(kTileRows, n_rows - row);
      for (std::int32_t r = row; r < row + tile.n_rows; ++r) {
        const auto token = begin + static_cast<std::size_t>(r / heads_per_kv);
        tile.n_keys = std::max(tile.n_keys, slots[token].position + 1);
      }
      tiles.push_back(tile);
    }
    begin = end;
  }
  return tiles_.send(tiles);
}

template <KernelDevice Device>
DeviceSpan<const std::uint16_t> DeviceBackend<Device>::transposed_keys(
    const LatentAttention& attention) {
  const std::int64_t size = std::int64_t{attention.num_attention_heads} * attention.kv_lora_rank *
                            attention.qk_nope_head_dim;
  const void* host = attention.kv_b_proj.data;
  if (void* made = weights_.find_derived(host, 0)) {
    return {static_cast<const std::uint16_t*>(made), size};
  }
  TransposeKeysKernel kernel;
  kernel.kv_b =
      weights_.span(attention.kv_b_proj.as<std::uint16_t>(), attention.kv_b_proj.n_elements());
  kernel.keys = {static_cast<std::uint16_t*>(weights_.make_derived(
                     host, 0, size * static_cast<std::int64_t>(sizeof(std::uint16_t)))),
                 size};
  kernel.qk_nope_head_dim = attention.qk_nope_head_dim;
  kernel.v_head_dim = attention.v_head_dim;
  kernel.kv_lora_rank = attention.kv_lora_rank;
  device_->launch(
      kernel, {.blocks_x = attention.qk_nope_head_dim, .blocks_y = attention.num_attention_heads});
  return {kernel.keys.data, size};
}

template <KernelDevice Device>
template <int kColumns>
void DeviceBackend<Device>::launch_attention(const AttentionKernel<1>& like, const Grid& grid) {
  AttentionKernel<kColumns> kernel;
  kernel.n_heads = like.n_heads;
  kernel.heads_per_kv = like.heads_per_kv;
  kernel.key_width = like.key_width;
  kernel.row_width = like.row_width;
  kernel.value_offset = like.value_offset;
  kernel.value_width = like.value_width;
  kernel.keys_per_step = like.keys_per_step;
  kernel.keys_per_split = like.keys_per_split;
  kernel.scale = like.scale;
  kernel.query_a = like.query_a;
  kernel.query_b = like.query_b;
  kernel.a_width = like.a_width;
  kernel.b_offset = like.b_offset;
  kernel.b_stride = like.b_stride;
  kernel.slots = like.slots;
  kernel.tiles = like.tiles;
  kernel.cache = like.cache;
  kernel.sums = like.sums;
  kernel.weights = like.weights;
  device_->launch(kernel, grid);
}

// out: [n_tokens, heads, kv_lora_rank], the weighted sums of latents.
template <KernelDevice Device>
void DeviceBackend<Device>::attend(const LatentAttention& attention,
                                   DeviceSpan<const float> absorbed, DeviceSpan<const float> query,
                                   std::span<const TokenSlot> slots, const DeviceCache& cache,
                                   DeviceSpan<float> out) {
  const int heads = attention.num_attention_heads;
  const int rank = attention.kv_lora_rank;
  const DeviceLimits limits = device_->limits();
  AttentionKernel<1> kernel;
  kernel.n_heads = kernel.heads_per_kv = heads;
  kernel.key_width = kernel.row_width = attention.latent_width();
  kernel.value_width = rank;
  kernel.scale =
      1.0F / std::sqrt(static_cast<float>(attention.qk_nope_head_dim + attention.qk_rope_head_dim));
  kernel.query_a = absorbed;
  kernel.a_width = rank;
  kernel.query_b = query;
  kernel.b_offset = attention.qk_nope_head_dim;
  kernel.b_stride = attention.qk_nope_head_dim + attention.qk_rope_head_dim;
  kernel.slots = slots_.send(slots);
  kernel.tiles = tiles_of(slots, heads);
  kernel.cache = cache;
  const auto shared_bytes = static_cast<std::int64_t>(sizeof(AttentionKernel<1>::Shared));
  while (kernel.keys_per_step > 1 &&
         kernel.dynamic_shared_bytes() + shared_bytes > limits.shared_bytes_per_block) {
    kernel.keys_per_step /= 2;
  }
  // Two blocks for each multiprocessor, but no split of less than two steps.
  std::int32_t n_keys = 0;
  for (const TokenSlot& slot : slots) n_keys = std::max(n_keys, slot.position + 1);
  const std::int64_t n_tiles = kernel.tiles.size;
  const std::int64_t n_steps = ceil_divide(n_keys, kernel.keys_per_step);
  const std::int64_t wanted = ceil_divide(2 * limits.n_multiprocessors, n_tiles);
  const std::int64_t n_splits =
      std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(1, n_steps / 2));
  const std::int64_t steps_per_split = ceil_divide(n_steps, n_splits);
  kernel.keys_per_split = static_cast<int>(steps_per_split) * kernel.keys_per_step;
  const std::int64_t n_pairs = static_cast<std::int64_t>(slots.size()) * heads;
  kernel.sums = split_sums_.grow(n_pairs * n_splits * rank);
  kernel.weights = split_weights_.grow(n_pairs * n_splits * 2);
  const Grid grid{.blocks_x = n_tiles,
                  .blocks_y = static_cast<int>(n_splits),
                  .dynamic_shared_bytes = kernel.dynamic_shared_bytes()};
  const std::int64_t columns = ceil_divide(rank, AttentionKernel<1>::kThreads);
  if (columns <= 1) {
    launch_attention<1>(kernel, grid);
  } else if (columns <= 4) {
    launch_attention<4>(kernel, grid);
  } else {
    ENGRAMD_ASSERT(columns <= 8);
    launch_attention<8>(kernel, grid);
  }
  JoinSplitsKernel join;
  join.n_splits = static_cast<int>(n_splits);
  join.value_width = rank;
  join.sums = {kernel.sums.data, kernel.sums.size};
  join.weights = {kernel.weights.data, kernel.weights.size};
  join.out = out;
  device_->launch(join, {.blocks_x = n_pairs});
}

template <KernelDevice Device>
void DeviceBackend<Device>::latent_attention(const LatentAttention& attention, float* query,
                                             const float* latent, std::span<const TokenSlot> slots,
                                             const PagedCache& cache, float* out) {
  const int heads = attention.num_attention_heads;
  const int rank = attention.kv_lora_rank;
  const int nope = attention.qk_nope_head_dim;
  const int v = attention.v_head_dim;
  ENGRAMD_ASSERT(attention.latent_width() <= kLatentWidthMax);
  const auto n_tokens = static_cast<std::int64_t>(slots.size());
  const DeviceCache paged = cache_of(cache, slots);
  StoreLatentKernel store;
  store.n_heads = heads;
  store.qk_nope_head_dim = nope;
  store.kv_lora_rank = rank;
  store.rms_norm_eps = attention.rms_norm_eps;
  store.rotary = rotary_of(attention.qk_rope_head_dim, attention.rope_theta, slots);
  store.norm = weights_.span(attention.kv_a_layernorm, rank);
  store.latent = device_span(latent, n_tokens * attention.latent_width());
  store.slots = slots_.send(slots);
  store.query = device_span(query, n_tokens * attention.query_width());
  store.cache = paged;
  device_->launch(store,
                  {.blocks_x = n_tokens, .dynamic_shared_bytes = store.dynamic_shared_bytes()});

  const DeviceSpan<const std::uint16_t> keys = transposed_keys(attention);
  const auto* kv_b = static_cast<const std::uint16_t*>(
      weights_.address(attention.kv_b_proj.data, attention.kv_b_proj.bytes()));
  const auto heads_of = [&](const std::uint16_t* first, std::int64_t step) {
    return [heads, first, step] {
      std::vector<WeightRef> refs;
      for (int head = 0; head < heads; ++head) {
        refs.push_back({first + head * step, nullptr, nullptr});
      }
      return refs;
    };
  };
  Product absorb;
  absorb.shape.out_features = rank;
  absorb.shape.in_features = nope;
  absorb.weights = table_of(keys.data, heads, heads_of(keys.data, std::int64_t{rank} * nope));
  absorb.groups.n_groups = heads;
  absorb.groups.cells_per_group = static_cast<int>(n_tokens);
  absorb.x = {store.query.data, store.query.size};
  absorb.x_stride = nope + attention.qk_rope_head_dim;
  absorb.out = absorbed_.grow(n_tokens * heads * rank);
  multiply_groups(absorb);

  const DeviceSpan<float> attended = attended_.grow(n_tokens * heads * rank);
  attend(attention, {absorb.out.data, absorb.out.size}, absorb.x, slots, paged, attended);

  Product values;
  values.shape.out_features = v;
  values.shape.in_features = rank;
  values.weights = table_of(
      kv_b, heads, heads_of(kv_b + std::int64_t{nope} * rank, std::int64_t{nope + v} * rank));
  values.groups = absorb.groups;
  values.x = {attended.data, attended.size};
  values.x_stride = rank;
  values.out = device_span(out, n_tokens * heads * v);
  multiply_groups(values);
}

// ---- Engram ----

// Distinct rows are told apart by the address of their bytes.
template <KernelDevice Device>
void DeviceBackend<Device>::engram_gather(const RowFormat& format, const RowBytes* rows,
                                          std::int64_t n_tokens, int n_columns, float* out) {
  const std::int64_t n_places = n_tokens * n_columns;
  std::unordered_map<const std::uint8_t*, std::int32_t> number_of;
  std::vector<std::int32_t> use_of_place;
  std::vector<const RowBytes*> distinct;
  std::vector<RowUse> uses;
  for (std::int64_t place = 0; place < n_places; ++place) {
    const auto [found, fresh] =
        number_of.emplace(rows[place].codes, static_cast<std::int32_t>(distinct.size()));
    if (fresh) {
      distinct.push_back(&rows[place]);
      uses.emplace_back();
    }
    use_of_place.push_back(found->second);
    ++uses[static_cast<std::size_t>(found->second)].n_places;
  }
  const std::int64_t codes_bytes = format.codes_bytes();
  const std::int64_t scales_bytes = format.scales_bytes();
  const std::int64_t row_bytes = codes_bytes + scales_bytes;
  const auto n_rows = static_cast<std::int64_t>(distinct.size());
  if (n_gathers_ > 0 && n_gathers_ % kPinnedBuffers == 0) device_->synchronize();
  PinnedRows& pinned = pinned_[n_gathers_++ % kPinnedBuffers];
  if (pinned.capacity < n_rows * row_bytes) {
    if (pinned.data != nullptr) device_->release_pinned(pinned.data);
    pinned.data = static_cast<std::uint8_t*>(device_->allocate_pinned(n_rows * row_bytes));
    pinned.capacity = n_rows * row_bytes;
  }
  std::int32_t first_place = 0;
  for (std::size_t i = 0; i < distinct.size(); ++i) {
    uses[i].codes = static_cast<std::int64_t>(i) * row_bytes;
    uses[i].scales = uses[i].codes + codes_bytes;
    uses[i].first_place = std::exchange(first_place, first_place + uses[i].n_places);
    std::uint8_t* to = pinned.data + uses[i].codes;
    std::memcpy(to, distinct[i]->codes, static_cast<std::size_t>(codes_bytes));
    if (scales_bytes > 0) {
      std::memcpy(to + codes_bytes, distinct[i]->scales, static_cast<std::size_t>(scales_bytes));
    }
  }
  std::vector<std::int32_t> places(static_cast<std::size_t>(n_places));
  std::vector<std::int32_t> next;
  for (const RowUse& use : uses) next.push_back(use.first_place);
  for (std::int64_t place = 0; place < n_places; ++place) {
    const auto use = static_cast<std::size_t>(use_of_place[static_cast<std::size_t>(place)]);
    places[static_cast<std::size_t>(next[use]++)] = static_cast<std::int32_t>(place);
  }
  GatherTableRowsKernel kernel;
  kernel.codec = format.codec;
  kernel.n_columns = format.n_columns;
  kernel.tensor_scale = format.tensor_scale;
  kernel.bytes = {pinned.data, n_rows * row_bytes};
  kernel.uses = row_uses_.send(uses);
  kernel.places = row_places_.send(places);
  kernel.out = device_span(out, n_places * format.n_columns);
  device_->launch(kernel, {.blocks_x = n_rows});
}

template <KernelDevice Device>
void DeviceBackend<Device>::engram_update(const EngramGate& gate, const float* key,
                                          const float* value, std::span<const TokenSlot> slots,
                                          const PagedCache& history, const std::uint8_t* enabled,
                                          float* streams, const EngramGateTrace& trace) {
  const std::int64_t n = gate.n_streams;
  const std::int64_t width = gate.hidden_size;
  const auto n_tokens = static_cast<std::int64_t>(slots.size());
  const std::int64_t n_cells = n_tokens * n;
  EngramGateKernel open;
  EngramGateShape& shape = open.shape;
  shape = {gate.n_streams,       gate.hidden_size, gate.rms_norm_eps,
           gate.conv_norm_eps,   gate.kernel_size, gate.dilation,
           gate.conv != nullptr, gate.signed_zero, gate.one_hidden_state};
  open.key_norm = weights_.span(gate.key_norm, n * width);
  open.query_norm = weights_.span(gate.query_norm, n * width);
  open.conv_norm = weights_.span(gate.conv_norm, n * width);
  open.key = device_span(key, n_cells * width);
  open.value = device_span(value, n_tokens * width);
  const DeviceSpan<float> hidden =
      device_span(streams, gate.one_hidden_state ? n_tokens * width : n_cells * width);
  open.streams = {hidden.data, hidden.size};
  open.slots = slots_.send(slots);
  if (shape.convolves) open.history = cache_of(history, slots);
  open.updates = updates_.grow(n_cells * width);
  const DeviceSpan<float> seen = trace_.grow(3 * n_cells + n_tokens);
  const auto part = [&](bool wanted, std::int64_t first, std::int64_t size) {
    return wanted ? DeviceSpan<float>{seen.data + first, size} : DeviceSpan<float>{};
  };
  open.gates = part(trace.gate != nullptr, 0, n_cells);
  open.dots = part(trace.dot != nullptr, n_cells, n_cells);
  open.value_norms = part(trace.value_norm != nullptr, 3 * n_cells, n_tokens);
  device_->launch(open, {.blocks_x = n_tokens, .blocks_y = gate.n_streams});
  EngramConvolveKernel convolve;
  convolve.shape = shape;
  convolve.conv = weights_.span(gate.conv, n * width * gate.kernel_size);
  convolve.slots = open.slots;
  convolve.history = open.history;
  convolve.enabled = enabled_.send({enabled, slots.size()});
  convolve.updates = open.updates;
  convolve.streams = hidden;
  convolve.residual_share = part(trace.residual_share != nullptr, 2 * n_cells, n_cells);
  device_->launch(convolve, {.blocks_x = n_tokens});
  const auto fetch = [&](float* to, const DeviceSpan<float>& from) {
    if (to == nullptr) return;
    device_->download(to, from.data, from.size * static_cast<std::int64_t>(sizeof(float)));
  };
  fetch(trace.gate, open.gates);
  fetch(trace.dot, open.dots);
  fetch(trace.value_norm, open.value_norms);
  fetch(trace.residual_share, convolve.residual_share);
}

}  // namespace engramd::kernels::cuda
