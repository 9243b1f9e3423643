// DeviceBackend: embedding, normalisation, products, hyper-connections and experts. Included by
// what instantiates the template.
#pragma once

#include "kernels/cuda/device_backend.h"

namespace engramd::kernels::cuda {

template <KernelDevice Device>
DeviceBackend<Device>::DeviceBackend(std::unique_ptr<Device> device, bool bfloat16_activations)
    : device_(std::move(device)), bfloat16_activations_(bfloat16_activations), weights_(*device_) {}

template <KernelDevice Device>
DeviceBackend<Device>::~DeviceBackend() {
  for (const PinnedRows& rows : pinned_) {
    if (rows.data != nullptr) device_->release_pinned(rows.data);
  }
}

template <KernelDevice Device>
void DeviceBackend<Device>::gather_rows(const float* x, std::span<const std::int32_t> rows,
                                        std::int64_t width, float* out) {
  if (rows.empty()) return;
  const auto n_rows = static_cast<std::int64_t>(rows.size());
  GatherRowsKernel kernel;
  kernel.x = device_span(x, (std::int64_t{rows.back()} + 1) * width);
  kernel.rows = rows_.send(rows);
  kernel.out = gathered_.grow(n_rows * width);  // out may be x
  kernel.width = static_cast<int>(width);
  device_->launch(kernel, {.blocks_x = n_rows});
  device_->copy(out, kernel.out.data, n_rows * width * static_cast<std::int64_t>(sizeof(float)));
}

template <KernelDevice Device>
void DeviceBackend<Device>::round_values(DType dtype, std::int64_t n, float* x) {
  RoundKernel kernel;
  kernel.x = device_span(x, n);
  kernel.n = n;
  kernel.to_f16 = dtype == DType::kF16;
  device_->launch(kernel, {.blocks_x = ceil_divide(n, RoundKernel::kThreads)});
}

template <KernelDevice Device>
void DeviceBackend<Device>::embed(const TensorView& table, std::span<const std::int32_t> tokens,
                                  int n_streams, float* streams) {
  const std::int64_t width = table.shape[1];
  const auto n_tokens = static_cast<std::int64_t>(tokens.size());
  EmbedKernel kernel;
  kernel.table = weights_.span(table.as<std::uint16_t>(), table.n_elements());
  kernel.tokens = tokens_.send(tokens);
  kernel.streams = device_span(streams, n_tokens * n_streams * width);
  kernel.n_streams = n_streams;
  kernel.hidden_size = static_cast<int>(width);
  device_->launch(kernel, {.blocks_x = n_tokens});
}

template <KernelDevice Device>
void DeviceBackend<Device>::rms_norm(const float* x, const float* weight, float eps,
                                     std::int64_t n_rows, std::int64_t width, float* out) {
  RmsNormKernel kernel;
  kernel.x = device_span(x, n_rows * width);
  kernel.weight = weights_.span(weight, width);
  kernel.out = device_span(out, n_rows * width);
  kernel.width = static_cast<int>(width);
  kernel.eps = eps;
  device_->launch(kernel, {.blocks_x = n_rows});
}

// ---- products ----

template <KernelDevice Device>
WeightRef DeviceBackend<Device>::ref_of(const Linear& linear) {
  WeightRef ref;
  ref.weight = weights_.address(linear.weight.data, linear.weight.bytes());
  ref.bias = weights_.span(linear.bias, linear.out_features()).data;
  return ref;
}

// The device's array of n refs, made by `make` when it is first asked for.
template <KernelDevice Device>
template <class Make>
DeviceSpan<const WeightRef> DeviceBackend<Device>::table_of(const void* first, std::int64_t n,
                                                            const Make& make) {
  void* table = weights_.find_derived(first, n);
  if (table == nullptr) {
    const std::vector<WeightRef> refs = make();
    const auto bytes = n * static_cast<std::int64_t>(sizeof(WeightRef));
    table = weights_.make_derived(first, n, bytes);
    device_->upload(table, refs.data(), bytes);
  }
  return {static_cast<const WeightRef*>(table), n};
}

template <KernelDevice Device>
void DeviceBackend<Device>::multiply_groups(const Product& product) {
  const int n = product.groups.cells_per_group;
  const bool tiles =
      n > kStreamTokensMax && product.dtype == DType::kBF16 && device_->limits().bf16_mma;
  if (tiles) {
    multiply_tiles(product, ceil_divide(n, kTileCells) * product.groups.n_groups);
    return;
  }
  const auto launch = [&](auto kernel) {
    kernel.shape = product.shape;
    kernel.weights = product.weights;
    kernel.groups = product.groups;
    kernel.x = product.x;
    kernel.x_stride = product.x_stride;
    kernel.out = product.out;
    device_->launch(kernel, {.blocks_x = ceil_divide(product.shape.out_features, kernel.kWarps),
                             .blocks_y = static_cast<int>(ceil_divide(n, kStreamCells)) *
                                         product.groups.n_groups});
  };
  if (product.dtype == DType::kF32) {
    launch(StreamLinearKernel<WeightFormat::kF32, kStreamCells>{});
  } else {
    launch(StreamLinearKernel<WeightFormat::kBF16, kStreamCells>{});
  }
}

template <KernelDevice Device>
void DeviceBackend<Device>::multiply_tiles(const Product& product, std::int64_t n_tiles) {
  const auto launch = [&](auto kernel) {
    static_assert(kernel.kCells == kTileCells);
    kernel.shape = product.shape;
    kernel.weights = product.weights;
    kernel.groups = product.groups;
    kernel.x = product.x;
    kernel.x_stride = product.x_stride;
    kernel.out = product.out;
    device_->launch(kernel, {.blocks_x = ceil_divide(product.shape.out_features, kernel.kRows),
                             .blocks_y = static_cast<int>(n_tiles)});
  };
  if (bfloat16_activations_) {
    launch(TileLinearKernel<WeightFormat::kBF16, 1>{});
  } else {
    launch(TileLinearKernel<WeightFormat::kBF16, 3>{});
  }
}

template <KernelDevice Device>
void DeviceBackend<Device>::linear(const float* x, std::int64_t n_tokens,
                                   std::span<const LinearTask> tasks) {
  for (const LinearTask& task : tasks) {
    const Linear& linear = *task.linear;
    Product product;
    product.shape.out_features = static_cast<int>(linear.out_features());
    product.shape.in_features = static_cast<int>(linear.in_features());
    product.dtype = linear.weight.dtype;
    product.weights = table_of(linear.weight.data, 1, [&] { return std::vector{ref_of(linear)}; });
    product.groups.cells_per_group = static_cast<int>(n_tokens);
    product.x = device_span(x, n_tokens * linear.in_features());
    product.x_stride = product.shape.in_features;
    product.out = device_span(task.out, n_tokens * linear.out_features());
    multiply_groups(product);
  }
}

template <KernelDevice Device>
void DeviceBackend<Device>::silu_multiply(DeviceSpan<float> gate, DeviceSpan<float> up) {
  SiluMultiplyKernel kernel;
  kernel.gate = gate;
  kernel.up = {up.data, up.size};
  kernel.n = gate.size;
  device_->launch(kernel, {.blocks_x = ceil_divide(gate.size, SiluMultiplyKernel::kThreads)});
}

template <KernelDevice Device>
void DeviceBackend<Device>::feed_forward(const FeedForward& weights, const float* x,
                                         std::int64_t n_tokens, float* out) {
  const std::int64_t n = n_tokens * weights.gate_proj.out_features();
  const DeviceSpan<float> hidden = hidden_.grow(n);
  const DeviceSpan<float> up = up_.grow(n);
  const LinearTask inputs[] = {{&weights.gate_proj, hidden.data}, {&weights.up_proj, up.data}};
  linear(x, n_tokens, inputs);
  silu_multiply(hidden, up);
  const LinearTask output[] = {{&weights.down_proj, out}};
  linear(hidden.data, n_tokens, output);
}

// ---- experts ----

template <KernelDevice Device>
auto DeviceBackend<Device>::expert_product(const MixtureOfExperts& weights,
                                           Linear FeedForward::*which) -> Product {
  Product product;
  const Linear& first = weights.experts.front().*which;
  product.shape.out_features = static_cast<int>(first.out_features());
  product.shape.in_features = static_cast<int>(first.in_features());
  product.dtype = first.weight.dtype;
  const auto n_experts = static_cast<std::int64_t>(weights.experts.size());
  product.weights = table_of(first.weight.data, n_experts, [&] {
    std::vector<WeightRef> refs;
    for (const FeedForward& expert : weights.experts) refs.push_back(ref_of(expert.*which));
    return refs;
  });
  product.x_stride = product.shape.in_features;
  return product;
}

template <KernelDevice Device>
void DeviceBackend<Device>::stream_cells(const Product& product,
                                         DeviceSpan<const std::int32_t> group_of_cell,
                                         DeviceSpan<const std::int32_t> x_rows) {
  const auto launch = [&](auto kernel) {
    kernel.shape = product.shape;
    kernel.weights = product.weights;
    kernel.group_of_cell = group_of_cell;
    kernel.x_rows = x_rows;
    kernel.x = product.x;
    kernel.x_stride = product.x_stride;
    kernel.out = product.out;
    device_->launch(kernel, {.blocks_x = ceil_divide(product.shape.out_features, kernel.kWarps),
                             .blocks_y = static_cast<int>(group_of_cell.size)});
  };
  if (product.dtype == DType::kF32) {
    launch(StreamLinearKernel<WeightFormat::kF32, 1>{});
  } else {
    launch(StreamLinearKernel<WeightFormat::kBF16, 1>{});
  }
}

template <KernelDevice Device>
void DeviceBackend<Device>::stream_experts(const MixtureOfExperts& weights, const float* x,
                                           std::int64_t n_tokens) {
  const std::int64_t k = weights.num_experts_per_tok;
  const std::int64_t n_cells = n_tokens * k;
  std::vector<std::int32_t> token_of_cell;
  for (std::int64_t cell = 0; cell < n_cells; ++cell) {
    token_of_cell.push_back(static_cast<std::int32_t>(cell / k));
  }
  const DeviceSpan<const std::int32_t> tokens = token_of_cell_.send(token_of_cell);
  const DeviceSpan<const std::int32_t> chosen{chosen_.data(), n_cells};
  const DeviceSpan<const float> input =
      device_span(x, n_tokens * weights.experts.front().gate_proj.in_features());
  Product gate = expert_product(weights, &FeedForward::gate_proj);
  Product up = expert_product(weights, &FeedForward::up_proj);
  gate.x = up.x = input;
  gate.out = hidden_.grow(n_cells * gate.shape.out_features);
  up.out = up_.grow(n_cells * gate.shape.out_features);
  stream_cells(gate, chosen, tokens);
  stream_cells(up, chosen, tokens);
  silu_multiply(gate.out, up.out);
  Product down = expert_product(weights, &FeedForward::down_proj);
  down.x = {gate.out.data, gate.out.size};
  down.out = cell_outputs_.grow(n_cells * down.shape.out_features);
  stream_cells(down, chosen, {});
}

template <KernelDevice Device>
void DeviceBackend<Device>::tile_experts(const MixtureOfExperts& weights, const float* x,
                                         std::int64_t n_tokens) {
  const auto n_experts = static_cast<std::int64_t>(weights.experts.size());
  const std::int64_t n_cells = n_tokens * weights.num_experts_per_tok;
  SortCellsKernel sort;
  sort.n_experts = static_cast<int>(n_experts);
  sort.n_chosen = weights.num_experts_per_tok;
  sort.n_cells = static_cast<int>(n_cells);
  sort.cells_per_tile = kTileCells;
  sort.chosen = {chosen_.data(), n_cells};
  sort.cell_offsets = cell_offsets_.grow(n_experts + 1);
  sort.tile_offsets = tile_offsets_.grow(n_experts + 1);
  sort.cells = cells_.grow(n_cells);
  sort.tokens = cell_tokens_.grow(n_cells);
  device_->launch(sort, {.dynamic_shared_bytes = sort.dynamic_shared_bytes()});
  const std::int64_t n_tiles_max = ceil_divide(n_cells, kTileCells) + n_experts;
  CellGroups groups;
  groups.n_groups = sort.n_experts;
  groups.cell_offsets = {sort.cell_offsets.data, n_experts + 1};
  groups.tile_offsets = {sort.tile_offsets.data, n_experts + 1};
  Product gate = expert_product(weights, &FeedForward::gate_proj);
  Product up = expert_product(weights, &FeedForward::up_proj);
  gate.groups = up.groups = groups;
  gate.groups.x_rows = up.groups.x_rows = {sort.tokens.data, n_cells};
  gate.x = up.x = device_span(x, n_tokens * gate.shape.in_features);
  gate.out = hidden_.grow(n_cells * gate.shape.out_features);
  up.out = up_.grow(n_cells * gate.shape.out_features);
  multiply_tiles(gate, n_tiles_max);
  multiply_tiles(up, n_tiles_max);
  silu_multiply(gate.out, up.out);
  Product down = expert_product(weights, &FeedForward::down_proj);
  down.groups = groups;
  down.groups.out_rows = {sort.cells.data, n_cells};
  down.x = {gate.out.data, gate.out.size};
  down.out = cell_outputs_.grow(n_cells * down.shape.out_features);
  multiply_tiles(down, n_tiles_max);
}

template <KernelDevice Device>
void DeviceBackend<Device>::mixture_of_experts(const MixtureOfExperts& weights, const float* x,
                                               std::int64_t n_tokens, float* out,
                                               std::int32_t* chosen) {
  const std::int64_t hidden_size = weights.gate.in_features();
  const auto n_experts = static_cast<std::int64_t>(weights.experts.size());
  const std::int64_t k = weights.num_experts_per_tok;
  const DeviceSpan<float> logits = router_logits_.grow(n_tokens * n_experts);
  const LinearTask router[] = {{&weights.gate, logits.data}};
  linear(x, n_tokens, router);
  RouteKernel route;
  route.n_experts = static_cast<int>(n_experts);
  route.n_chosen = static_cast<int>(k);
  route.normalise = weights.norm_topk_prob;
  route.scale = weights.routed_scaling_factor;
  route.logits = {logits.data, logits.size};
  route.bias = weights_.span(weights.e_score_correction_bias, n_experts);
  route.chosen = chosen_.grow(n_tokens * k);
  route.weights = cell_weights_.grow(n_tokens * k);
  device_->launch(route,
                  {.blocks_x = n_tokens, .dynamic_shared_bytes = route.dynamic_shared_bytes()});
  CombineCellsKernel combine;
  if (weights.shared != nullptr) {
    const DeviceSpan<float> shared = shared_output_.grow(n_tokens * hidden_size);
    feed_forward(*weights.shared, x, n_tokens, shared.data);
    combine.shared_expert = {shared.data, shared.size};
  }
  const bool tiles = n_tokens > kStreamTokensMax && device_->limits().bf16_mma &&
                     weights.experts.front().gate_proj.weight.dtype == DType::kBF16;
  if (tiles) {
    tile_experts(weights, x, n_tokens);
  } else {
    stream_experts(weights, x, n_tokens);
  }
  combine.n_chosen = static_cast<int>(k);
  combine.hidden_size = static_cast<int>(hidden_size);
  combine.cells = {cell_outputs_.data(), n_tokens * k * hidden_size};
  combine.weights = {route.weights.data, route.weights.size};
  combine.out = device_span(out, n_tokens * hidden_size);
  device_->launch(combine, {.blocks_x = n_tokens});
  if (chosen == nullptr) return;
  device_->download(chosen, chosen_.data(),
                    n_tokens * k * static_cast<std::int64_t>(sizeof(std::int32_t)));
}

// ---- hyper-connections ----

inline HyperShape shape_of(const HyperConnection& hc) {
  return {hc.n_streams, hc.hidden_size, hc.sinkhorn_iterations, hc.hc_eps, hc.rms_norm_eps};
}

template <KernelDevice Device>
void DeviceBackend<Device>::hyper_read(const HyperConnection& hc, const float* streams,
                                       std::int64_t n_tokens, float* x, float* post, float* comb) {
  const std::int64_t n = hc.n_streams;
  const std::int64_t width = n * hc.hidden_size;
  HyperReadKernel kernel;
  kernel.hc = shape_of(hc);
  kernel.fn = weights_.span(hc.fn, (2 + n) * n * width);
  kernel.base = weights_.span(hc.base, (2 + n) * n);
  kernel.scale = weights_.span(hc.scale, 3);
  kernel.streams = device_span(streams, n_tokens * width);
  kernel.x = device_span(x, n_tokens * hc.hidden_size);
  kernel.post = device_span(post, n_tokens * n);
  kernel.comb = device_span(comb, n_tokens * n * n);
  device_->launch(kernel, {.blocks_x = n_tokens});
}

template <KernelDevice Device>
void DeviceBackend<Device>::hyper_write(const HyperConnection& hc, const float* y,
                                        const float* post, const float* comb, std::int64_t n_tokens,
                                        float* streams) {
  const std::int64_t n = hc.n_streams;
  HyperWriteKernel kernel;
  kernel.hc = shape_of(hc);
  kernel.y = device_span(y, n_tokens * hc.hidden_size);
  kernel.post = device_span(post, n_tokens * n);
  kernel.comb = device_span(comb, n_tokens * n * n);
  kernel.streams = device_span(streams, n_tokens * n * hc.hidden_size);
  device_->launch(kernel, {.blocks_x = n_tokens});
}

template <KernelDevice Device>
void DeviceBackend<Device>::hyper_head(const HyperConnection& hc, const float* streams,
                                       std::int64_t n_tokens, float* x) {
  const std::int64_t n = hc.n_streams;
  const std::int64_t width = n * hc.hidden_size;
  HyperHeadKernel kernel;
  kernel.hc = shape_of(hc);
  kernel.fn = weights_.span(hc.fn, n * width);
  kernel.base = weights_.span(hc.base, n);
  kernel.scale = weights_.span(hc.scale, 1);
  kernel.streams = device_span(streams, n_tokens * width);
  kernel.x = device_span(x, n_tokens * hc.hidden_size);
  device_->launch(kernel, {.blocks_x = n_tokens});
}

}  // namespace engramd::kernels::cuda
