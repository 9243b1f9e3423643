// gpu_bench: what the GPU backend reaches, beside what the card can do. One JSON object on stdout.
//   gpu_bench [MODEL_FOLDER]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "engine/engram/live_tables.h"
#include "engine/model/model.h"
#include "engine/runtime/step.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/number_formats.h"

namespace {

using namespace engramd;
using Clock = std::chrono::steady_clock;

// Seconds of one run, the best of several; `run` has to wait for the device.
double seconds_of(int n_runs, const std::function<void()>& run) {
  run();
  double best = 1e30;
  for (int i = 0; i < n_runs; ++i) {
    const auto start = Clock::now();
    run();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

// Bytes per second that a copy on the device reads and writes.
double copy_bandwidth(kernels::Backend& backend) {
  constexpr std::size_t kBytes = std::size_t{256} << 20;
  void* from = backend.allocate(kBytes);
  void* to = backend.allocate(kBytes);
  const double seconds = seconds_of(10, [&] {
    static_cast<void>(cudaMemcpy(to, from, kBytes, cudaMemcpyDeviceToDevice));
    static_cast<void>(cudaDeviceSynchronize());
  });
  backend.release(from);
  backend.release(to);
  return 2.0 * kBytes / seconds;
}

// Seconds of one product of `n_tokens` tokens with a [size, size] bf16 matrix.
double product_seconds(kernels::Backend& backend, std::int64_t size, std::int64_t n_tokens) {
  const std::vector<std::uint16_t> weights(static_cast<std::size_t>(size * size),
                                           kernels::encode_bf16(0.01F));
  kernels::Linear linear;
  linear.weight = {weights.data(), kernels::DType::kBF16, 2, {size, size}};
  const std::int64_t bytes = n_tokens * size * static_cast<std::int64_t>(sizeof(float));
  auto* x = static_cast<float*>(backend.allocate(bytes));
  auto* y = static_cast<float*>(backend.allocate(bytes));
  const std::vector<float> ones(static_cast<std::size_t>(n_tokens * size), 1);
  backend.upload(x, ones.data(), bytes);
  const kernels::LinearTask tasks[] = {{&linear, y}};
  constexpr int kRounds = 20;  // queued together, so that one launch does not wait for the host
  const double seconds = seconds_of(5, [&] {
    for (int i = 0; i < kRounds; ++i) backend.linear(x, n_tokens, tasks);
    static_cast<void>(cudaDeviceSynchronize());
  });
  backend.release(x);
  backend.release(y);
  return seconds / kRounds;
}

struct ModelSpeed {
  double prefill_tokens_per_s = 0, decode_tokens_per_s = 0;
};

ModelSpeed model_speed(const engine::Model& model, kernels::Backend& backend, bool engram) {
  constexpr std::int64_t kPrompt = 512;
  constexpr std::int64_t kAnswer = 64;
  auto tables = engine::LiveTables::open(model.layout, "", model.engram_rows(), {});
  auto cache = engine::KvCache::make(model, kernels::DType::kBF16, 32, &backend);
  engine::Step step(model, backend, *cache);
  const auto run = [&](std::int64_t n_prompt, std::int64_t n_answer) {
    engine::Sequence sequence(model.token_map, *cache, engram);
    const auto append = [&] {
      sequence.append(
          static_cast<std::int32_t>((sequence.size() * 7919 + 11) % model.config.vocab_size));
    };
    while (sequence.size() < n_prompt) append();
    for (std::int64_t i = 0; i <= n_answer; ++i) {
      if (!sequence.reserve(sequence.size())) std::abort();
      engine::SequenceSlice slice{&sequence, sequence.n_cached(), sequence.size()};
      if (!step.run({&slice, 1}, (*tables)->view(), {})) std::abort();  // logits are downloaded
      append();
    }
  };
  ModelSpeed speed;
  const double prompt = seconds_of(5, [&] { run(kPrompt, 0); });
  const double both = seconds_of(5, [&] { run(kPrompt, kAnswer); });
  speed.prefill_tokens_per_s = static_cast<double>(kPrompt) / prompt;
  speed.decode_tokens_per_s = static_cast<double>(kAnswer) / (both - prompt);
  return speed;
}

}  // namespace

int main(int argc, char** argv) {
  const kernels::GpuList list = kernels::list_gpus();
  if (list.gpus.empty()) {
    std::fprintf(stderr, "gpu_bench: %s\n", list.problem.c_str());
    return 3;
  }
  const kernels::GpuFacts& gpu = list.gpus.front();
  const auto exact = kernels::make_cuda_backend(gpu.index, false);
  const auto rounded = kernels::make_cuda_backend(gpu.index, true);
  const double bandwidth = copy_bandwidth(*exact);
  constexpr std::int64_t kSize = 8192;
  constexpr std::int64_t kTokens = 1024;
  const double matrix_bytes = 2.0 * kSize * kSize;
  const double flop = 2.0 * kSize * kSize * kTokens;
  const double stream = matrix_bytes / product_seconds(*exact, kSize, 1);
  std::printf(
      "{\"gpu\": \"%s\", \"compute_capability\": %d, \"memory_gb\": %.1f,\n"
      " \"copy_gb_per_s\": %.1f, \"decode_product_gb_per_s\": %.1f, "
      "\"decode_product_share_of_copy\": %.3f,\n"
      " \"prefill_product_tflops\": %.2f, \"prefill_product_rounded_tflops\": %.2f,\n"
      " \"models\": [",
      gpu.name.c_str(), gpu.compute_capability, static_cast<double>(gpu.total_bytes) / 1e9,
      bandwidth / 1e9, stream / 1e9, stream / bandwidth,
      flop / product_seconds(*exact, kSize, kTokens) / 1e12,
      flop / product_seconds(*rounded, kSize, kTokens) / 1e12);
  for (int i = 1; i < argc; ++i) {
    const auto model = engine::open_model(argv[i]);
    if (!model) {
      std::fprintf(stderr, "gpu_bench: %s\n", model.error().message.c_str());
      return 1;
    }
    const auto backend = kernels::make_cuda_backend(gpu.index, false);
    const ModelSpeed on = model_speed(**model, *backend, true);
    const ModelSpeed off = model_speed(**model, *backend, false);
    std::printf(
        "%s\n  {\"folder\": \"%s\", \"prefill_tokens_per_s\": %.1f, "
        "\"decode_tokens_per_s\": %.1f,\n   \"prefill_tokens_per_s_without_engram\": %.1f, "
        "\"decode_tokens_per_s_without_engram\": %.1f}",
        i > 1 ? "," : "", argv[i], on.prefill_tokens_per_s, on.decode_tokens_per_s,
        off.prefill_tokens_per_s, off.decode_tokens_per_s);
  }
  std::printf("]}\n");
  return 0;
}
