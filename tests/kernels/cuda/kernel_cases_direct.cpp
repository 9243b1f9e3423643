// Cases of kernels that no operation of the CPU backends has yet: launched by themselves, beside a
// scalar reference of their own.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/cuda/sampling.cuh"
#include "tests/kernels/cuda/case_inputs.h"
#include "tests/kernels/cuda/device_copies.h"
#include "tests/kernels/cuda/kernel_cases.h"
#include "tests/kernels/cuda/reductions_kernel.cuh"

namespace engramd::kernels::cuda {

namespace {

std::size_t index_of(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

// ---- quantized weights ----

struct QuantizedMatrix {
  WeightShape shape;
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;
  std::vector<double> values;  // what they stand for, [out, in]
};

QuantizedMatrix quantized_matrix(CaseInputs& inputs, WeightFormat format, int out, int in) {
  QuantizedMatrix m;
  m.shape = {out, in, format == WeightFormat::kF8E4M3 ? 16 : 1,
             format == WeightFormat::kF8E4M3 ? 16 : 32};
  const int n_columns = static_cast<int>(ceil_divide(in, m.shape.block_columns));
  const int n_rows = static_cast<int>(ceil_divide(out, m.shape.block_rows));
  for (const float s : inputs.floats(std::int64_t{n_rows} * n_columns)) {
    m.scales.push_back(0.01F + std::fabs(s) * 0.01F);
  }
  const int row_bytes = format == WeightFormat::kI4 ? (in + 1) / 2 : in;
  m.codes.resize(index_of(std::int64_t{out} * row_bytes));
  for (int row = 0; row < out; ++row) {
    for (int column = 0; column < in; ++column) {
      const float scale =
          m.scales[index_of(row / m.shape.block_rows * n_columns + column / m.shape.block_columns)];
      double value = 0;
      if (format == WeightFormat::kI4) {
        const auto code = static_cast<std::uint8_t>(inputs.below(16));
        m.codes[index_of(row * row_bytes + column / 2)] |=
            static_cast<std::uint8_t>(code << (column % 2 * 4));
        value = code - 8;
      } else if (format == WeightFormat::kI8) {
        const auto code = static_cast<std::int8_t>(inputs.below(255) - 127);
        m.codes[index_of(row * row_bytes + column)] = static_cast<std::uint8_t>(code);
        value = code;
      } else {
        const auto code = static_cast<std::uint8_t>(inputs.below(0x7F) | inputs.below(2) << 7);
        m.codes[index_of(row * row_bytes + column)] = code;
        value = decode_e4m3(code);
      }
      m.values.push_back(value * scale);
    }
  }
  return m;
}

template <class Kernel>
void launch_product(TestDevice& device, Kernel kernel, const QuantizedMatrix& matrix, int n,
                    const DeviceSpan<const WeightRef>& refs, const DeviceSpan<const float>& x,
                    const DeviceSpan<float>& out, const Grid& grid) {
  kernel.shape = matrix.shape;
  kernel.weights = refs;
  kernel.groups.cells_per_group = n;
  kernel.x = x;
  kernel.x_stride = matrix.shape.in_features;
  kernel.out = out;
  device.launch(kernel, grid);
}

template <WeightFormat kFormat>
KernelCase quantized_case(const std::string& name, int n, int in, int out, bool tiles) {
  CaseInputs inputs(21);
  const QuantizedMatrix matrix = quantized_matrix(inputs, kFormat, out, in);
  const auto x = inputs.floats(std::int64_t{n} * in);
  KernelCase made;
  made.name = name + (tiles ? " tiles" : " stream");
  made.tolerance = tiles ? 1e-4 : 1e-10;  // a tile holds weights rounded to bf16
  for (int t = 0; t < n; ++t) {
    for (int row = 0; row < out; ++row) {
      double sum = 0;
      for (int i = 0; i < in; ++i)
        sum += matrix.values[index_of(row * in + i)] * x[index_of(t * in + i)];
      made.expected.push_back(static_cast<float>(sum));
    }
  }
  made.run = [=](HostedBackend& backend) {
    TestDevice& device = backend.inner().device();
    DeviceCopies copies(device);
    const std::vector<WeightRef> refs = {
        {copies.in(matrix.codes).data, copies.in(matrix.scales).data, nullptr}};
    const auto ref = copies.in(refs);
    const auto from = copies.in(x);
    const auto to = copies.out<float>(std::int64_t{n} * out);
    if (tiles) {
      using Kernel = TileLinearKernel<kFormat, 3>;
      launch_product(device, Kernel{}, matrix, n, ref, from, to,
                     {.blocks_x = ceil_divide(out, Kernel::kRows),
                      .blocks_y = static_cast<int>(ceil_divide(n, Kernel::kCells))});
    } else {
      using Kernel = StreamLinearKernel<kFormat, 4>;
      launch_product(device, Kernel{}, matrix, n, ref, from, to,
                     {.blocks_x = ceil_divide(out, Kernel::kWarps),
                      .blocks_y = static_cast<int>(ceil_divide(n, 4))});
    }
    return copies.fetch(to);
  };
  return made;
}

// ---- routing ----

struct Routing {
  RouterScore score = RouterScore::kSoftmax;
  int n_experts = 8, k = 2, n_groups = 1, n_groups_kept = 1;
  bool two_best = true, normalise = true, biased = false;
  float scale = 1;
};

// chosen and weights of one token.
void route_reference(const Routing& routing, const float* logits, const std::vector<float>& bias,
                     std::vector<float>& chosen, std::vector<float>& weights) {
  const auto n = index_of(routing.n_experts);
  std::vector<double> score(n), biased(n);
  double largest = -INFINITY;
  for (std::size_t e = 0; e < n; ++e) largest = std::max<double>(largest, logits[e]);
  double total = 0;
  for (std::size_t e = 0; e < n; ++e) total += std::exp(logits[e] - largest);
  for (std::size_t e = 0; e < n; ++e) {
    score[e] = routing.score == RouterScore::kSoftmax ? std::exp(logits[e] - largest) / total
                                                      : 1 / (1 + std::exp(-double{logits[e]}));
    score[e] = static_cast<float>(score[e]);  // what is 0 in fp32 ranks by its number
    biased[e] = score[e] + (bias.empty() ? 0 : bias[e]);
  }
  const std::size_t size = n / index_of(routing.n_groups);
  std::vector<std::pair<double, std::size_t>> groups;
  for (std::size_t g = 0; g < index_of(routing.n_groups); ++g) {
    std::vector<double> best(biased.begin() + static_cast<std::ptrdiff_t>(g * size),
                             biased.begin() + static_cast<std::ptrdiff_t>((g + 1) * size));
    std::sort(best.rbegin(), best.rend());
    groups.emplace_back(-(routing.two_best && size > 1 ? best[0] + best[1] : best[0]), g);
  }
  std::sort(groups.begin(), groups.end());
  std::vector<std::size_t> kept;
  for (int i = 0; i < routing.n_groups_kept; ++i) {
    for (std::size_t e = 0; e < size; ++e) kept.push_back(groups[index_of(i)].second * size + e);
  }
  std::sort(kept.begin(), kept.end(), [&](std::size_t a, std::size_t b) {
    return biased[a] != biased[b] ? biased[a] > biased[b] : a < b;
  });
  kept.resize(index_of(routing.k));
  std::sort(kept.begin(), kept.end());
  double sum = 0;
  for (const std::size_t e : kept) sum += score[e];
  for (const std::size_t e : kept) {
    chosen.push_back(static_cast<float>(e));
    weights.push_back(
        static_cast<float>(score[e] / (routing.normalise ? sum + 1e-20 : 1) * routing.scale));
  }
}

KernelCase routing_case(const std::string& name, const Routing& routing, int n) {
  CaseInputs inputs(22);
  auto logits = inputs.floats(std::int64_t{n} * routing.n_experts, 2);
  logits.back() = 150;  // e^150 is not a float: the greatest logit has to be found
  const auto bias = routing.biased ? inputs.floats(routing.n_experts, 0.3F) : std::vector<float>();
  KernelCase made;
  made.name = "route " + name;
  std::vector<float> weights;
  for (int t = 0; t < n; ++t) {
    route_reference(routing, logits.data() + t * routing.n_experts, bias, made.expected, weights);
  }
  made.expected.insert(made.expected.end(), weights.begin(), weights.end());
  made.run = [=](HostedBackend& backend) {
    TestDevice& device = backend.inner().device();
    DeviceCopies copies(device);
    RouteKernel kernel;
    kernel.n_experts = routing.n_experts;
    kernel.n_chosen = routing.k;
    kernel.score = routing.score;
    kernel.n_groups = routing.n_groups;
    kernel.n_groups_kept = routing.n_groups_kept;
    kernel.two_best_per_group = routing.two_best;
    kernel.normalise = routing.normalise;
    kernel.scale = routing.scale;
    kernel.logits = copies.in(logits);
    if (!bias.empty()) kernel.bias = copies.in(bias);
    kernel.chosen = copies.out<std::int32_t>(std::int64_t{n} * routing.k);
    kernel.weights = copies.out<float>(std::int64_t{n} * routing.k);
    device.launch(kernel, {.blocks_x = n, .dynamic_shared_bytes = kernel.dynamic_shared_bytes()});
    const auto chosen = copies.fetch(kernel.chosen);
    std::vector<float> out(chosen.begin(), chosen.end());
    const auto found = copies.fetch(kernel.weights);
    out.insert(out.end(), found.begin(), found.end());
    return out;
  };
  return made;
}

// ---- grouped-query attention ----

struct Grouped {
  int n = 1, heads = 4, kv_heads = 2, head_dim = 16;
  bool halves = true, norms = false, fp8 = false;
};

void rotate_reference(std::vector<double>& x, std::size_t at, int width, int position,
                      bool halves) {
  for (int pair = 0; pair < width / 2; ++pair) {
    const double angle = position * std::pow(10000.0, -2.0 * pair / width);
    double& a = x[at + index_of(halves ? pair : 2 * pair)];
    double& b = x[at + index_of(halves ? pair + width / 2 : 2 * pair + 1)];
    const double p = a * std::cos(angle) - b * std::sin(angle);
    b = a * std::sin(angle) + b * std::cos(angle);
    a = p;
  }
}

void norm_reference(std::vector<double>& x, std::size_t at, int width,
                    const std::vector<float>& weight) {
  double square = 0;
  for (int i = 0; i < width; ++i) square += x[at + index_of(i)] * x[at + index_of(i)];
  for (int i = 0; i < width; ++i) {
    x[at + index_of(i)] *= weight[index_of(i)] / std::sqrt(square / width + 1e-6);
  }
}

std::vector<float> grouped_reference(const Grouped& g, const std::vector<float>& query,
                                     const std::vector<float>& key, const std::vector<float>& value,
                                     const std::vector<float>& norm) {
  std::vector<double> q(query.begin(), query.end()), k(key.begin(), key.end());
  for (int t = 0; t < g.n; ++t) {
    for (int h = 0; h < g.heads + g.kv_heads; ++h) {
      auto& x = h < g.heads ? q : k;
      const std::size_t at =
          index_of(h < g.heads ? t * g.heads + h : t * g.kv_heads + h - g.heads) *
          index_of(g.head_dim);
      if (g.norms) norm_reference(x, at, g.head_dim, norm);
      rotate_reference(x, at, g.head_dim, t, g.halves);
    }
  }
  std::vector<float> out;
  for (int t = 0; t < g.n; ++t) {
    for (int h = 0; h < g.heads; ++h) {
      const int kv = h / (g.heads / g.kv_heads);
      std::vector<double> weights;
      double largest = -INFINITY;
      for (int j = 0; j <= t; ++j) {
        double score = 0;
        for (int i = 0; i < g.head_dim; ++i) {
          score += q[index_of((t * g.heads + h) * g.head_dim + i)] *
                   k[index_of((j * g.kv_heads + kv) * g.head_dim + i)];
        }
        weights.push_back(score / std::sqrt(static_cast<double>(g.head_dim)));
        largest = std::max(largest, weights.back());
      }
      double sum = 0;
      for (double& w : weights) sum += w = std::exp(w - largest);
      for (int i = 0; i < g.head_dim; ++i) {
        double total = 0;
        for (int j = 0; j <= t; ++j) {
          total +=
              weights[index_of(j)] / sum * value[index_of((j * g.kv_heads + kv) * g.head_dim + i)];
        }
        out.push_back(static_cast<float>(total));
      }
    }
  }
  return out;
}

std::vector<float> run_grouped(TestDevice& device, const Grouped& g,
                               const std::vector<float>& query, const std::vector<float>& key,
                               const std::vector<float>& value, const std::vector<float>& norm) {
  DeviceCopies copies(device);
  std::vector<float> angles;
  std::vector<TokenSlot> slots;
  std::vector<std::int32_t> blocks;
  for (int t = 0; t < g.n; ++t) {
    slots.push_back({0, t});
    if (t % kBlockTokens == 0) blocks.push_back(t / kBlockTokens);
    for (int i = 0; i < g.head_dim; i += 2) {
      const double angle = t * std::pow(10000.0, -static_cast<double>(i) / g.head_dim);
      angles.push_back(static_cast<float>(std::cos(angle)));
      angles.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  DeviceCache cache;
  cache.width = 2 * g.kv_heads * g.head_dim;
  cache.n_entries = static_cast<std::int64_t>(blocks.size()) * kBlockTokens;
  cache.data = copies.out<float>(cache.n_entries * cache.width).data;
  if (g.fp8) {
    cache.dtype = DType::kF8E4M3;
    cache.scales = copies.out<float>(cache.n_entries).data;
  }
  cache.blocks = copies.in(blocks);
  cache.first_blocks = copies.in(std::vector<std::int32_t>{0});
  StoreGroupedKernel store;
  store.n_heads = g.heads;
  store.n_kv_heads = g.kv_heads;
  store.head_dim = g.head_dim;
  store.rms_norm_eps = 1e-6F;
  store.rotary = {copies.in(angles), g.head_dim, g.halves};
  if (g.norms) store.query_norm = store.key_norm = copies.in(norm);
  store.query = copies.inout(query);
  store.key = copies.inout(key);
  store.value = copies.in(value);
  store.slots = copies.in(slots);
  store.cache = cache;
  device.launch(store, {.blocks_x = g.n});

  const int group = g.heads / g.kv_heads;
  std::vector<AttentionTile> tiles;
  for (int row = 0; row < g.n * group; row += kTileRows) {
    const int n_rows = std::min(kTileRows, g.n * group - row);
    tiles.push_back({0, 0, row, n_rows, (row + n_rows - 1) / group + 1});
  }
  constexpr int kSplits = 2;
  AttentionKernel<1> attention;
  attention.n_heads = g.heads;
  attention.heads_per_kv = group;
  attention.key_width = g.head_dim;
  attention.row_width = 2 * g.head_dim;
  attention.value_offset = g.head_dim;
  attention.value_width = g.head_dim;
  attention.keys_per_step = 16;
  attention.keys_per_split =
      static_cast<int>(ceil_divide(ceil_divide(g.n, kSplits), attention.keys_per_step)) *
      attention.keys_per_step;
  attention.scale = 1.0F / std::sqrt(static_cast<float>(g.head_dim));
  attention.query_a = {store.query.data, store.query.size};
  attention.a_width = g.head_dim;
  attention.slots = store.slots;
  attention.tiles = copies.in(tiles);
  attention.cache = cache;
  const std::int64_t n_pairs = std::int64_t{g.n} * g.heads;
  attention.sums = copies.out<float>(n_pairs * kSplits * g.head_dim);
  attention.weights = copies.out<float>(n_pairs * kSplits * 2);
  device.launch(attention, {.blocks_x = static_cast<std::int64_t>(tiles.size()),
                            .blocks_y = kSplits,
                            .blocks_z = g.kv_heads,
                            .dynamic_shared_bytes = attention.dynamic_shared_bytes()});
  JoinSplitsKernel join;
  join.n_splits = kSplits;
  join.value_width = g.head_dim;
  join.sums = {attention.sums.data, attention.sums.size};
  join.weights = {attention.weights.data, attention.weights.size};
  join.out = copies.out<float>(n_pairs * g.head_dim);
  device.launch(join, {.blocks_x = n_pairs});
  return copies.fetch(join.out);
}

KernelCase grouped_case(const Grouped& g) {
  CaseInputs inputs(23);
  const auto query = inputs.floats(std::int64_t{g.n} * g.heads * g.head_dim, 2);
  auto key = inputs.floats(std::int64_t{g.n} * g.kv_heads * g.head_dim);
  auto value = inputs.floats(std::int64_t{g.n} * g.kv_heads * g.head_dim);
  // What fp8 is scaled by: now the last value of the entry, now a turned key.
  const int entry = g.kv_heads * g.head_dim;
  for (int t = 0; t < g.n && g.fp8; ++t) {
    if (t % 2 == 0) {
      value[index_of((t + 1) * entry - 1)] = 20;
    } else {
      const std::size_t pair = index_of((t + 1) * entry - g.head_dim);
      key[pair] = key[pair + 1] = 12;  // turned, one of them is up to 17
    }
  }
  const auto norm = inputs.floats(g.head_dim);
  KernelCase made;
  if (g.fp8) made.tolerance = 3e-3;
  made.name = g.norms ? "grouped-query attention, normed" : "grouped-query attention";
  made.expected = grouped_reference(g, query, key, value, norm);
  made.run = [=](HostedBackend& backend) {
    return run_grouped(backend.inner().device(), g, query, key, value, norm);
  };
  return made;
}

// ---- Engram ----

KernelCase hash_case(int n, bool oldest_first, int n_before) {
  CaseInputs inputs(24);
  const int widest = 3;
  const int n_heads = 4;
  std::vector<std::int32_t> classes;
  for (int i = 0; i < n_before + n; ++i) {
    classes.push_back(i % 9 == 5 ? -1 : static_cast<std::int32_t>(inputs.below(9000)));
  }
  const std::vector<std::uint64_t> multipliers = {843174290630093U, 53252609575685U,
                                                  395660209801127U};
  const std::vector<std::int64_t> primes = {20011, 20021, 20023, 20029, 20047, 20051, 20063, 20071};
  std::vector<std::int64_t> offsets(primes.size(), 0);
  std::partial_sum(primes.begin(), primes.end() - 1, offsets.begin() + 1);
  const std::int32_t blank = 77;
  KernelCase made;
  made.name = "engram hash";
  made.tolerance = 0;
  for (int p = n_before; p < n_before + n; ++p) {
    int present = 0;
    while (present < widest && present <= p && classes[index_of(p - present)] >= 0) ++present;
    for (std::size_t column = 0; column < primes.size(); ++column) {
      const int order = 2 + static_cast<int>(column) / n_heads;
      std::uint64_t mix = 0;
      for (int slot = 0; slot < order; ++slot) {
        const int back = oldest_first ? widest - 1 - slot : slot;
        const std::int64_t id = back < present ? classes[index_of(p - back)] : blank;
        mix ^= static_cast<std::uint64_t>(id) * multipliers[index_of(slot)];
      }
      made.expected.push_back(static_cast<float>(
          static_cast<std::int64_t>(mix % static_cast<std::uint64_t>(primes[column])) +
          offsets[column]));
    }
  }
  made.run = [=](HostedBackend& backend) {
    TestDevice& device = backend.inner().device();
    DeviceCopies copies(device);
    EngramHashKernel kernel;
    kernel.max_ngram_size = widest;
    kernel.n_heads = n_heads;
    kernel.n_before = n_before;
    kernel.n_positions = n;
    kernel.blank_class = blank;
    kernel.oldest_first = oldest_first;
    kernel.classes = copies.in(classes);
    kernel.multipliers = copies.in(multipliers);
    kernel.primes = copies.in(primes);
    kernel.offsets = copies.in(offsets);
    const auto n_cells = static_cast<std::int64_t>(n) * static_cast<std::int64_t>(primes.size());
    kernel.rows = copies.out<std::int64_t>(n_cells);
    device.launch(kernel, {.blocks_x = ceil_divide(n_cells, EngramHashKernel::kThreads)});
    const auto rows = copies.fetch(kernel.rows);
    return std::vector<float>(rows.begin(), rows.end());  // below 2^24, so exact
  };
  return made;
}

KernelCase table_rows_case(RowCodec codec, int n, int width) {
  CaseInputs inputs(25);
  const RowFormat format{codec, width, 0.5F};
  const std::int64_t row_bytes = format.row_bytes();
  constexpr int kRows = 9;  // few, so that most are wanted several times
  std::vector<std::uint8_t> bytes(index_of(kRows * row_bytes));
  for (auto& b : bytes) b = static_cast<std::uint8_t>(inputs.below(0x38));  // no NaN in any codec
  std::vector<std::int64_t> wanted;
  for (int i = 0; i < n * 3; ++i) wanted.push_back(inputs.below(kRows));
  KernelCase made;
  made.name = "engram rows";
  made.tolerance = 0;
  for (const std::int64_t row : wanted) {
    const std::uint8_t* codes = bytes.data() + row * row_bytes;
    std::vector<float> values(index_of(width));
    decode_row(format, {codes, codes + format.codes_bytes()}, values.data());
    made.expected.insert(made.expected.end(), values.begin(), values.end());
  }
  made.run = [=](HostedBackend& backend) {
    std::vector<RowBytes> places;
    for (const std::int64_t row : wanted) {
      const std::uint8_t* codes = bytes.data() + row * row_bytes;
      places.push_back({codes, format.scales_bytes() > 0 ? codes + format.codes_bytes() : nullptr});
    }
    std::vector<float> out(wanted.size() * index_of(width));
    backend.engram_gather(format, places.data(), n, 3, out.data());
    return out;
  };
  return made;
}

// ---- reductions, one right after another ----

KernelCase reductions_case() {
  CaseInputs inputs(27);
  constexpr int kRounds = 4;
  const auto x = inputs.floats(kRounds * ReductionsKernel::kThreads);
  double total = 0;
  for (int i = 0; i < kRounds; ++i) {
    const auto first = x.begin() + i * ReductionsKernel::kThreads;
    const auto last = first + ReductionsKernel::kThreads;
    total += std::accumulate(first, last, 0.0) + *std::max_element(first, last) -
             *std::min_element(first, last);
  }
  KernelCase made;
  made.name = "reductions";
  made.expected.assign(ReductionsKernel::kThreads, static_cast<float>(total));
  made.run = [=](HostedBackend& backend) {
    TestDevice& device = backend.inner().device();
    DeviceCopies copies(device);
    ReductionsKernel kernel;
    kernel.x = copies.in(x);
    kernel.out = copies.out<float>(ReductionsKernel::kThreads);
    kernel.n = kRounds;
    device.launch(kernel, {});
    return copies.fetch(kernel.out);
  };
  return made;
}

// ---- sampling ----

// Weights of all tokens as engine/runtime/sampler.h defines the distribution, in double precision.
std::vector<double> sampling_reference(const SamplingShape& shape,
                                       const std::vector<float>& logits) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  std::vector<double> weights(logits.size(), 0);
  if (shape.inverse_temperature == 0) {
    weights[order[0]] = 1;
    return weights;
  }
  std::size_t n = shape.top_k > 0 ? std::min(order.size(), index_of(shape.top_k)) : order.size();
  double total = 0;
  const auto weight = [&](std::size_t rank) {
    return std::exp((double{logits[order[rank]]} - logits[order[0]]) * shape.inverse_temperature);
  };
  for (std::size_t rank = 0; rank < n; ++rank) total += weight(rank);
  double sum = 0;
  for (std::size_t rank = 0; rank < n && (sum < shape.top_p * total || shape.top_p >= 1); ++rank) {
    sum += weight(rank);
    if (rank == 0 || weight(rank) >= shape.min_p) weights[order[rank]] = weight(rank);
  }
  return weights;
}

KernelCase sampling_case(int vocab_size, bool ties) {
  CaseInputs inputs(26);
  const std::vector<SamplingShape> kinds = {{0, 0, 1, 0},       {1, 0, 1, 0},
                                            {1.25F, 5, 1, 0},   {1, 0, 0.6F, 0},
                                            {0.5F, 0, 1, 0.3F}, {0.7F, 20, 0.8F, 0.05F}};
  std::vector<SamplingShape> shapes;
  std::vector<float> logits, random;
  for (int s = 0; s < 24; ++s) {
    shapes.push_back(kinds[index_of(s) % kinds.size()]);
    random.push_back(0.015F + 0.04F * static_cast<float>(s));
    for (const float x : inputs.floats(vocab_size, 3)) logits.push_back(ties ? std::round(x) : x);
    // A loop that ends early misses the last token: now the greatest, now one that is cut.
    logits.back() = s % 4 < 2 ? 12.0F : 4.0F;
  }
  KernelCase made;
  made.name = ties ? "sample, ties" : "sample";
  std::vector<float> tokens;
  for (std::size_t s = 0; s < shapes.size(); ++s) {
    const auto first = logits.begin() + static_cast<std::ptrdiff_t>(s) * vocab_size;
    const auto weights = sampling_reference(shapes[s], {first, first + vocab_size});
    for (const double w : weights) made.expected.push_back(static_cast<float>(w));
    const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    double left = random[s] * total;
    std::size_t token = 0;
    while (token + 1 < weights.size() && (left -= weights[token]) >= 0) ++token;
    tokens.push_back(static_cast<float>(token));
  }
  made.expected.insert(made.expected.end(), tokens.begin(), tokens.end());
  made.run = [=](HostedBackend& backend) {
    TestDevice& device = backend.inner().device();
    DeviceCopies copies(device);
    SampleKernel kernel;
    kernel.vocab_size = vocab_size;
    kernel.shapes = copies.in(shapes);
    kernel.logits = copies.in(logits);
    kernel.random = copies.in(random);
    kernel.weights = copies.out<float>(static_cast<std::int64_t>(logits.size()));
    kernel.tokens = copies.out<std::int32_t>(static_cast<std::int64_t>(shapes.size()));
    device.launch(kernel, {.blocks_x = static_cast<std::int64_t>(shapes.size())});
    auto out = copies.fetch(kernel.weights);
    const auto chosen = copies.fetch(kernel.tokens);
    out.insert(out.end(), chosen.begin(), chosen.end());
    return out;
  };
  return made;
}

}  // namespace

std::vector<KernelCase> quantized_cases(CaseSize size) {
  std::vector<KernelCase> cases;
  const bool small = size == CaseSize::kSmall;
  for (const int n : small ? std::vector<int>{3} : std::vector<int>{1, 7, 33}) {
    for (const int in : small ? std::vector<int>{48} : std::vector<int>{77, 256}) {
      const int out = small ? 9 : 70;
      for (const bool tiles : {false, true}) {
        cases.push_back(quantized_case<WeightFormat::kF8E4M3>("fp8", n, in, out, tiles));
        cases.push_back(quantized_case<WeightFormat::kI8>("int8", n, in, out, tiles));
        cases.push_back(quantized_case<WeightFormat::kI4>("int4", n, in, out, tiles));
      }
    }
  }
  return cases;
}

std::vector<KernelCase> routing_cases(CaseSize size) {
  const int n = size == CaseSize::kSmall ? 24 : 33;
  return {
      reductions_case(),
      routing_case("softmax", {RouterScore::kSoftmax, 60, 4, 1, 1, true, false, false, 1}, n),
      routing_case("softmax, normed", {RouterScore::kSoftmax, 40, 8}, n),
      routing_case("groups by their best", {RouterScore::kSoftmax, 64, 6, 8, 3, false, false}, n),
      routing_case("groups by their two best",
                   {RouterScore::kSigmoid, 256, 8, 8, 4, true, true, true, 2.5F}, n),
  };
}

std::vector<KernelCase> grouped_attention_cases(CaseSize size) {
  std::vector<KernelCase> cases;
  for (const int n :
       size == CaseSize::kSmall ? std::vector<int>{19} : std::vector<int>{1, 7, 33, 70}) {
    cases.push_back(grouped_case({n, 4, 2, 16, true, false}));
    cases.push_back(grouped_case({n, 6, 2, 40, false, true}));
    cases.push_back(grouped_case({n, 4, 2, 24, false, false, true}));
    if (size == CaseSize::kRagged) cases.push_back(grouped_case({n, 5, 1, 128, true, true}));
  }
  return cases;
}

std::vector<KernelCase> engram_cases(CaseSize size) {
  std::vector<KernelCase> cases;
  for (const int n :
       size == CaseSize::kSmall ? std::vector<int>{17} : std::vector<int>{1, 7, 33, 257}) {
    cases.push_back(hash_case(n, false, 0));
    cases.push_back(hash_case(n, false, 2));
    cases.push_back(hash_case(n, true, 3));
    for (const RowCodec codec :
         {RowCodec::kF32, RowCodec::kF16, RowCodec::kBF16, RowCodec::kF8E4M3,
          RowCodec::kF8E4M3TensorScale, RowCodec::kF8E4M3E8M0, RowCodec::kI8Scale}) {
      cases.push_back(table_rows_case(codec, n, 300));
    }
  }
  return cases;
}

std::vector<KernelCase> sampling_cases(CaseSize size) {
  if (size == CaseSize::kSmall) return {sampling_case(301, false), sampling_case(301, true)};
  return {sampling_case(7, false), sampling_case(1000, false), sampling_case(5003, true)};
}

}  // namespace engramd::kernels::cuda
