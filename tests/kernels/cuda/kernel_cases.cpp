#include "tests/kernels/cuda/kernel_cases.h"

#include "tests/kernels/cuda/case_inputs.h"

namespace engramd::kernels::cuda {

namespace {

std::vector<float> sized(std::int64_t n) {
  return std::vector<float>(static_cast<std::size_t>(n));
}

void append(std::vector<float>& to, const std::vector<float>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

std::vector<std::int64_t> token_counts(CaseSize size) {
  if (size == CaseSize::kSmall) return {3, 10};
  if (size == CaseSize::kMiddle) return {7, 33};
  return {1, 7, 33, 257};
}

// A case through an operation of the backend: the reference says what is expected.
template <class Operation>
KernelCase operation_case(std::string name, const Operation& operation, double tolerance = 1e-10) {
  const auto reference = make_reference_backend();
  return {std::move(name), tolerance, operation(*reference),
          [operation](HostedBackend& backend) { return operation(backend); }};
}

// Pages of one sequence of up to `n_tokens` tokens, in no order.
struct CasePages {
  CasePages(DType dtype, int width, std::int64_t n_tokens) {
    const std::int64_t n_blocks = (n_tokens + kBlockTokens - 1) / kBlockTokens;
    for (std::int64_t i = 0; i < n_blocks; ++i) {
      table.push_back(static_cast<std::int32_t>((i * 7 + 3) % n_blocks));
      if (n_blocks % 7 == 0) table.back() = static_cast<std::int32_t>(n_blocks - 1 - i);
    }
    bytes.resize(static_cast<std::size_t>(n_blocks * kBlockTokens * width) * sizeof(float));
    scales.resize(static_cast<std::size_t>(n_blocks * kBlockTokens));
    first = table.data();
    cache = {bytes.data(), scales.data(), dtype, width, &first};
  }
  CasePages(const CasePages&) = delete;
  CasePages& operator=(const CasePages&) = delete;

  std::vector<std::int32_t> table;
  std::vector<std::uint8_t> bytes;
  std::vector<float> scales;
  const std::int32_t* first = nullptr;
  PagedCache cache;
};

std::vector<TokenSlot> slots_of(std::int64_t n_tokens) {
  std::vector<TokenSlot> slots;
  for (std::int32_t p = 0; p < n_tokens; ++p) slots.push_back({0, p});
  return slots;
}

KernelCase dense_case(std::int64_t n, std::int64_t width) {
  CaseInputs inputs(11);
  const CaseMatrix table(inputs, 19, width);
  const auto weight = inputs.floats(width);
  std::vector<std::int32_t> tokens, rows;
  for (std::int64_t i = 0; i < n; ++i) {
    tokens.push_back(static_cast<std::int32_t>(inputs.below(19)));
    if (i % 2 == 0) rows.push_back(static_cast<std::int32_t>(i));
  }
  return operation_case("dense", [=](Backend& b) {
    auto h = sized(n * 2 * width);
    b.embed(table.linear().weight, tokens, 2, h.data());
    auto out = sized(n * 2 * width);
    b.rms_norm(h.data(), weight.data(), 1e-6F, n * 2, width, out.data());
    auto gathered = sized(static_cast<std::int64_t>(rows.size()) * 2 * width);
    b.gather_rows(out.data(), rows, 2 * width, gathered.data());
    b.round_values(DType::kBF16, n * width, out.data());
    b.round_values(DType::kF16, n * width, out.data() + n * width);
    append(out, h);
    append(out, gathered);
    return out;
  });
}

KernelCase linear_case(std::int64_t n, std::int64_t in, std::int64_t out) {
  CaseInputs inputs(12);
  const CaseMatrix a(inputs, out, in, true);
  const auto x = inputs.floats(n * in);
  return operation_case("linear " + std::to_string(in), [=](Backend& b) {
    auto y = sized(n * out);
    const Linear linear = a.linear();
    const LinearTask tasks[] = {{&linear, y.data()}};
    b.linear(x.data(), n, tasks);
    return y;
  });
}

KernelCase hyper_case(std::int64_t n_tokens, int n, int width) {
  CaseInputs inputs(13);
  const int rows = (2 + n) * n;
  const auto fn = inputs.floats(std::int64_t{rows} * n * width, 0.1F);
  const auto base = inputs.floats(rows);
  const auto scale = inputs.floats(3);
  const auto streams = inputs.floats(n_tokens * n * width);
  const auto y = inputs.floats(n_tokens * width);
  return operation_case("hyper-connections", [=](Backend& b) {
    const HyperConnection hc{n, width, 4, 1e-6F, 1e-6F, fn.data(), base.data(), scale.data()};
    auto h = streams;
    auto out = sized(n_tokens * (2 * width + n + n * n));
    float* post = out.data() + n_tokens * width;
    float* comb = post + n_tokens * n;
    b.hyper_read(hc, h.data(), n_tokens, out.data(), post, comb);
    b.hyper_head(hc, h.data(), n_tokens, comb + n_tokens * n * n);
    b.hyper_write(hc, y.data(), post, comb, n_tokens, h.data());
    append(out, h);
    return out;
  });
}

KernelCase latent_attention_case(std::int64_t n, int heads, int rank, int rope, DType dtype) {
  CaseInputs inputs(14);
  const int nope = 16;
  const int v = 12;
  const auto norm = inputs.floats(rank);
  const CaseMatrix kv_b(inputs, heads * (nope + v), rank);
  const auto query = inputs.floats(n * heads * (nope + rope), 2);
  auto latent = inputs.floats(n * (rank + rope));
  // What fp8 is scaled by: the last column of an entry, where a loop that ends early misses it.
  for (std::size_t i = 0; i < latent.size(); ++i) {
    if ((i + 1) % static_cast<std::size_t>(rank + rope) == 0) latent[i] *= 20;
  }
  const double tolerance = dtype == DType::kF32 ? 1e-10 : 1e-4;  // one step of a narrow format
  return operation_case(
      "latent attention",
      [=](Backend& b) {
        LatentAttention attention;
        attention.num_attention_heads = heads;
        attention.qk_nope_head_dim = nope;
        attention.qk_rope_head_dim = rope;
        attention.v_head_dim = v;
        attention.kv_lora_rank = rank;
        attention.rms_norm_eps = 1e-6F;
        attention.kv_a_layernorm = norm.data();
        attention.kv_b_proj = kv_b.linear().weight;
        CasePages pages(dtype, attention.latent_width(), n);
        const auto slots = slots_of(n);
        auto q = query;
        auto out = sized(n * attention.output_width());
        // All but the last token as a prompt, then one alone: its keys are split over blocks.
        const std::span<const TokenSlot> all(slots);
        const auto prompt = static_cast<std::size_t>(n - 1);
        if (prompt > 0) {
          b.latent_attention(attention, q.data(), latent.data(), all.first(prompt), pages.cache,
                             out.data());
        }
        b.latent_attention(attention, q.data() + (n - 1) * attention.query_width(),
                           latent.data() + (n - 1) * attention.latent_width(), all.subspan(prompt),
                           pages.cache, out.data() + (n - 1) * attention.output_width());
        return out;
      },
      tolerance);
}

KernelCase experts_case(std::int64_t n, int n_experts, int k, std::int64_t hidden_size,
                        std::int64_t width, bool one_takes_all, bool with_shared) {
  CaseInputs inputs(15);
  std::vector<CaseMatrix> matrices;
  for (int e = 0; e <= n_experts; ++e) {
    matrices.emplace_back(inputs, width, hidden_size);
    matrices.emplace_back(inputs, width, hidden_size);
    matrices.emplace_back(inputs, hidden_size, width);
  }
  const auto gate = inputs.floats(n_experts * hidden_size);
  auto bias = inputs.floats(n_experts, 0.1F);
  if (one_takes_all) bias[static_cast<std::size_t>(n_experts) - 2] = 100;  // and others stay empty
  const auto x = inputs.floats(n * hidden_size);
  return operation_case(one_takes_all ? "experts, one for all" : "experts", [=](Backend& b) {
    std::vector<FeedForward> experts;
    for (std::size_t e = 0; e < matrices.size(); e += 3) {
      experts.push_back({matrices[e].linear(), matrices[e + 1].linear(), matrices[e + 2].linear()});
    }
    MixtureOfExperts weights;
    weights.num_experts_per_tok = k;
    weights.routed_scaling_factor = 2.5F;
    weights.gate.weight = {gate.data(), DType::kF32, 2, {n_experts, hidden_size}};
    weights.e_score_correction_bias = bias.data();
    weights.experts = {experts.data(), static_cast<std::size_t>(n_experts)};
    weights.shared = with_shared ? &experts.back() : nullptr;
    auto out = sized(n * hidden_size);
    std::vector<std::int32_t> chosen(static_cast<std::size_t>(n * k));
    b.mixture_of_experts(weights, x.data(), n, out.data(), chosen.data());
    out.insert(out.end(), chosen.begin(), chosen.end());
    return out;
  });
}

KernelCase engram_update_case(std::int64_t n, int n_streams, int width, bool one_hidden_state) {
  CaseInputs inputs(16);
  const std::int64_t update = n_streams * width;
  const auto key_norm = inputs.floats(update), query_norm = inputs.floats(update);
  const auto conv_norm = inputs.floats(update), conv = inputs.floats(update * 4);
  const auto key = inputs.floats(n * update), value = inputs.floats(n * width);
  const auto streams = inputs.floats(n * (one_hidden_state ? width : update));
  std::vector<std::uint8_t> enabled(static_cast<std::size_t>(n), 1);
  enabled[static_cast<std::size_t>(n) / 2] = 0;
  return operation_case("engram update", [=](Backend& b) {
    EngramGate gate;
    gate.n_streams = n_streams;
    gate.hidden_size = width;
    gate.rms_norm_eps = 1e-6F;
    gate.one_hidden_state = one_hidden_state;
    gate.key_norm = key_norm.data();
    gate.query_norm = query_norm.data();
    gate.conv_norm = conv_norm.data();
    gate.conv = conv.data();
    CasePages history(DType::kF32, static_cast<int>(update), n);
    auto h = streams;
    auto seen = sized(n * (3 * n_streams + 1));
    const EngramGateTrace trace{seen.data(), seen.data() + n * n_streams,
                                seen.data() + 3 * n * n_streams, seen.data() + 2 * n * n_streams};
    b.engram_update(gate, key.data(), value.data(), slots_of(n), history.cache, enabled.data(),
                    h.data(), trace);
    append(h, seen);
    return h;
  });
}

}  // namespace

double normalised_error(const std::vector<float>& got, const std::vector<float>& expected) {
  if (got.size() != expected.size()) return INFINITY;
  const double error = test::nmse(got, expected);
  return std::isnan(error) ? INFINITY : error;
}

std::vector<KernelCase> backend_cases(CaseSize size) {
  std::vector<KernelCase> cases;
  const bool small = size == CaseSize::kSmall;
  for (const std::int64_t n : token_counts(size)) {
    cases.push_back(dense_case(n, small ? 131 : 300));
    cases.push_back(linear_case(n, 40, 70));
    cases.push_back(linear_case(n, small ? 35 : 77, 70));
    cases.push_back(hyper_case(n, small ? 2 : 4, small ? 70 : 100));
    cases.push_back(experts_case(n, 5, 3, 24, small ? 20 : 50, false, true));
    cases.push_back(experts_case(n, 6, 2, 40, 33, true, false));
    cases.push_back(engram_update_case(n, 3, small ? 40 : 150, false));
    cases.push_back(engram_update_case(n, 2, 33, true));
    if (small) continue;
    cases.push_back(latent_attention_case(n, 4, 96, 16, DType::kF32));
    cases.push_back(latent_attention_case(n, 3, 21, 6, DType::kF8E4M3));
  }
  if (small) {
    cases.push_back(latent_attention_case(10, 3, 24, 8, DType::kF32));
    cases.push_back(latent_attention_case(70, 1, 24, 8, DType::kF8E4M3));
  } else {  // a latent as wide as DeepSeek's, and the widest
    cases.push_back(latent_attention_case(9, 2, 512, 64, DType::kBF16));
    cases.push_back(latent_attention_case(3, 2, 960, 64, DType::kF32));
  }
  return cases;
}

std::vector<KernelCase> all_cases(CaseSize size) {
  std::vector<KernelCase> cases;
  for (auto&& part : {backend_cases(size), quantized_cases(size), routing_cases(size),
                      grouped_attention_cases(size), engram_cases(size), sampling_cases(size)}) {
    cases.insert(cases.end(), part.begin(), part.end());
  }
  return cases;
}

}  // namespace engramd::kernels::cuda
