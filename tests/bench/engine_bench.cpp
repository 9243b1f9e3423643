// engine_bench: how fast a model loads, answers and decodes, beside what the memory of this machine
// allows. Everything in one run, so that the ratios mean something on a shared machine.
//   engine_bench [--model DIR] [--threads N] [--backend NAME] [--dtype NAME] [--tokens N] [--runs
//   N]
// With --table FILE --host-memory-limit-gb N instead: decoding with the table in that row file, in
// memory and read past the page cache under the limit, in turns.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/model/model.h"
#include "engine/runtime/local_engine.h"

namespace {

using namespace engramd::engine;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Bytes of weights that one decoded token reads: all dense matrices, the chosen experts, the head.
std::int64_t weight_bytes_per_token(const Model& model) {
  const auto bytes = [](const engramd::kernels::Linear& linear) { return linear.weight.bytes(); };
  std::int64_t total = model.head.weight.bytes();
  for (const ModelLayer& layer : model.layers) {
    total += bytes(layer.q_proj) + bytes(layer.kv_a_proj_with_mqa) + bytes(layer.o_proj) +
             layer.attention.kv_b_proj.bytes();
    const std::int64_t hc = std::int64_t{layer.hc_attn.n_streams} * layer.hc_attn.hidden_size *
                            (2 + layer.hc_attn.n_streams) * layer.hc_attn.n_streams;
    total += 2 * hc * static_cast<std::int64_t>(sizeof(float));
    const auto feed_forward = [&](const engramd::kernels::FeedForward& f) {
      return bytes(f.gate_proj) + bytes(f.up_proj) + bytes(f.down_proj);
    };
    if (layer.dense) total += feed_forward(*layer.dense);
    if (!layer.experts.empty()) {
      total += bytes(layer.mixture.gate) +
               model.config.num_experts_per_tok * feed_forward(layer.experts.front());
      if (layer.shared_experts) total += feed_forward(*layer.shared_experts);
    }
    if (layer.engram) total += bytes(layer.engram->key_proj) + bytes(layer.engram->value_proj);
  }
  return total;
}

// Of those, what the Engram modules read; their rows are a few kilobytes.
std::int64_t engram_bytes_per_token(const Model& model) {
  std::int64_t total = 0;
  for (const ModelLayer& layer : model.layers) {
    if (!layer.engram) continue;
    total += layer.engram->key_proj.weight.bytes() + layer.engram->value_proj.weight.bytes();
  }
  return total;
}

// Seconds per decoded token to hash its N-grams, find their rows and decode them, in all layers.
double row_seconds_per_token(const Model& model, LocalEngine& engine,
                             const LocalEngineOptions& options) {
  const EngramLayout& layout = model.layout;
  const auto ids = *engine.encode_text(
      "The capital of France is Paris. The capital of Japan is Tokyo. Water is wet and the sky is "
      "blue, and Alexander the Great tamed the horse Bucephalus.");
  const auto classes = *compress_tokens(model.token_map, ids);
  const Addresser addresser(layout, model.pad_class());
  const auto backend =
      engramd::kernels::make_cpu_backend({options.backend, options.threads, false});
  const TableView view = engine.editor().tables().view();
  Prefetcher prefetcher(layout, true);
  std::vector<std::vector<std::int64_t>> rows(layout.layers.size());
  std::vector<std::vector<NgramKey>> keys(layout.layers.size());
  for (auto& of_layer : rows) of_layer.resize(static_cast<std::size_t>(layout.n_columns()));
  for (auto& of_layer : keys) of_layer.resize(static_cast<std::size_t>(layout.n_orders()));
  std::vector<float> decoded(static_cast<std::size_t>(layout.columns_width()));
  std::vector<double> seconds;
  for (int run = 0; run < 2000; ++run) {
    const auto at = static_cast<std::int64_t>(static_cast<std::size_t>(run) % ids.size());
    const auto start = Clock::now();
    for (std::size_t layer = 0; layer < rows.size(); ++layer) {
      addresser.rows(static_cast<int>(layer), classes, at, at + 1, rows[layer].data(),
                     keys[layer].data());
    }
    prefetcher.begin(view, rows, keys, {});
    for (int layer = 0; layer < static_cast<int>(rows.size()); ++layer) {
      const auto places = prefetcher.wait(layer);
      backend->engram_gather(prefetcher.format(layer), places->data(), 1, layout.n_columns(),
                             decoded.data());
    }
    seconds.push_back(seconds_since(start));
  }
  return median(std::move(seconds));
}

// Reads `bytes` per pass with plain vectorised sums, split over threads; best of several passes.
double read_bandwidth(std::int64_t bytes, int threads) {
  const auto n = static_cast<std::size_t>(bytes) / sizeof(std::uint64_t);
  std::vector<std::uint64_t> buffer(n, 1);
  double best = 0;
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(threads) * 8);
  const int passes = static_cast<int>(std::max<std::int64_t>(1, (std::int64_t{256} << 20) / bytes));
  for (int run = 0; run < 5; ++run) {
    const auto start = Clock::now();
    std::vector<std::thread> workers;
    for (int t = 0; t < threads; ++t) {
      workers.emplace_back([&, t] {
        const std::size_t begin =
            n * static_cast<std::size_t>(t) / static_cast<std::size_t>(threads);
        const std::size_t end =
            n * static_cast<std::size_t>(t + 1) / static_cast<std::size_t>(threads);
        std::uint64_t sum[8] = {};
        for (int pass = 0; pass < passes; ++pass) {
          for (std::size_t i = begin; i + 8 <= end; i += 8) {
            for (std::size_t j = 0; j < 8; ++j)
              sum[j] += buffer[i + j] ^ static_cast<unsigned>(pass);
          }
        }
        for (const std::uint64_t s : sum) sums[static_cast<std::size_t>(t) * 8] += s;
      });
    }
    for (std::thread& worker : workers) worker.join();
    best = std::max(best, static_cast<double>(bytes) * passes / seconds_since(start));
  }
  return sums[0] == 42 ? 0 : best;  // the sums must be used
}

ChatResult chat(LocalEngine& engine, ChatRequest request) {
  std::mutex mutex;
  std::condition_variable ready;
  std::optional<engramd::Result<ChatResult>> answer;
  ChatCallbacks callbacks;
  callbacks.on_done = [&](engramd::Result<ChatResult> result) {
    const std::lock_guard lock(mutex);
    answer = std::move(result);
    ready.notify_one();
  };
  engine.start(std::move(request), std::move(callbacks), {});
  std::unique_lock lock(mutex);
  ready.wait(lock, [&] { return answer.has_value(); });
  if (answer->has_error()) {
    std::fprintf(stderr, "engine_bench: %s\n", answer->error().message.c_str());
    std::exit(1);
  }
  return **answer;
}

ChatRequest endless(const Model& model, int max_tokens) {
  ChatRequest request;
  request.completion =
      "The capital of France is Paris. The capital of Japan is Tokyo. The capital of";
  request.max_tokens = max_tokens;
  for (const std::int64_t eos : model.config.eos_token_ids) {
    request.sampling.logit_bias.emplace_back(static_cast<TokenId>(eos), -100.0F);
  }
  return request;
}

// Bytes that this process has read from drives (proc_pid_io(5)); what a page cache gave does not
// count.
std::int64_t drive_bytes_read() {
  std::ifstream io("/proc/self/io");
  std::string name;
  std::int64_t bytes = 0;
  while (io >> name >> bytes) {
    if (name == "read_bytes:") return bytes;
  }
  return -1;
}

struct Arm {
  const char* name;
  std::unique_ptr<LocalEngine> engine;
  std::vector<double> tokens_per_s = {};
  std::vector<double> stall_us = {};  // per generated token, of each run
  std::int64_t bytes_read = 0, n_tokens = 0, n_stalls = 0;
};

// Random text, so that rows do not come back: a greedy answer of a random model turns in circles.
std::string decode(Arm& arm, const Model& model, int tokens, int run) {
  ChatRequest request = endless(model, tokens);
  request.sampling.temperature = 1.0F;
  request.sampling.seed = static_cast<std::uint64_t>(run);
  const std::int64_t bytes_before = drive_bytes_read();
  const RowReadStats before = arm.engine->stats().row_reads;
  const ChatResult result = chat(*arm.engine, std::move(request));
  const RowReadStats after = arm.engine->stats().row_reads;
  arm.bytes_read += drive_bytes_read() - bytes_before;
  arm.n_tokens += result.completion_tokens;
  arm.n_stalls += after.n_stalls - before.n_stalls;
  arm.tokens_per_s.push_back(result.decode_tokens_per_s);
  arm.stall_us.push_back(static_cast<double>(after.stall_ns - before.stall_ns) / 1e3 /
                         static_cast<double>(result.completion_tokens));
  return result.text;
}

int compare_tables(LocalEngineOptions options, double limit_gb, int tokens, int runs) {
  const auto model = open_model(options.model_folder);
  std::vector<Arm> arms;
  for (const bool in_memory : {true, false}) {
    options.tables.edits_folder = "";
    options.tables.open.map = false;
    options.tables.open.host_memory_bytes_max =
        in_memory ? 0 : static_cast<std::int64_t>(limit_gb * 1e9);
    auto engine = LocalEngine::open(options);
    if (engine.has_error()) {
      std::fprintf(stderr, "engine_bench: %s\n", engine.error().message.c_str());
      return 1;
    }
    arms.push_back({in_memory ? "in memory" : "from the file", std::move(*engine)});
    const auto plan = arms.back().engine->editor().tables().view().base->file->plan();
    std::printf("%-14s %s, %s in memory%s\n", arms.back().name, name_of(plan.mode),
                gigabytes(plan.total_bytes()).c_str(),
                plan.direct_io ? ", read with O_DIRECT" : "");
  }
  for (int run = 0; run < runs + 1; ++run) {
    std::string texts[2];
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
      const std::size_t arm = (i + static_cast<std::size_t>(run)) % 2;  // first in turns
      texts[arm] = decode(arms[arm], **model, tokens, run);
      if (run == 0) {  // a first run to warm the code and the clock, not the rows
        arms[arm] = Arm{arms[arm].name, std::move(arms[arm].engine)};
      }
    }
    if (texts[0] != texts[1]) {
      std::fprintf(stderr, "engine_bench: the two answers differ\n");
      return 1;
    }
  }
  std::vector<double> ratios;
  for (std::size_t i = 0; i < arms[0].tokens_per_s.size(); ++i) {
    ratios.push_back(arms[1].tokens_per_s[i] / arms[0].tokens_per_s[i]);
  }
  for (const Arm& arm : arms) {
    std::printf(
        "%-14s %.1f tokens/s (%.1f to %.1f), stall %.1f us a token (%lld waits in %lld "
        "tokens), read from the drive %.2f MB, %.1f KB a token\n",
        arm.name, median(arm.tokens_per_s),
        *std::min_element(arm.tokens_per_s.begin(), arm.tokens_per_s.end()),
        *std::max_element(arm.tokens_per_s.begin(), arm.tokens_per_s.end()), median(arm.stall_us),
        static_cast<long long>(arm.n_stalls), static_cast<long long>(arm.n_tokens),
        static_cast<double>(arm.bytes_read) / 1e6,
        static_cast<double>(arm.bytes_read) / 1e3 / static_cast<double>(arm.n_tokens));
  }
  std::printf("from the file / in memory: %.2f %% (median of %zu pairs)\n", 100 * median(ratios),
              ratios.size());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  LocalEngineOptions options;
  options.model_folder = ENGRAMD_SOURCE_DIR "/install/models/engram-nano";
  int tokens = 512;
  int runs = 5;
  double limit_gb = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--model") options.model_folder = argv[i + 1];
    if (flag == "--threads") options.threads = std::atoi(argv[i + 1]);
    if (flag == "--backend") options.backend = argv[i + 1];
    if (flag == "--dtype") options.dtype = argv[i + 1];
    if (flag == "--tokens") tokens = std::atoi(argv[i + 1]);
    if (flag == "--runs") runs = std::atoi(argv[i + 1]);
    if (flag == "--table") options.tables.row_file = argv[i + 1];
    if (flag == "--host-memory-limit-gb") limit_gb = std::atof(argv[i + 1]);
  }
  if (limit_gb > 0) return compare_tables(options, limit_gb, tokens, runs);
  std::vector<double> load_ms;
  std::unique_ptr<LocalEngine> engine;
  for (int run = 0; run < runs; ++run) {
    engine.reset();
    const auto start = Clock::now();
    auto opened = LocalEngine::open(options);
    if (opened.has_error()) {
      std::fprintf(stderr, "engine_bench: %s\n", opened.error().message.c_str());
      return 1;
    }
    engine = std::move(*opened);
    load_ms.push_back(seconds_since(start) * 1e3);
  }
  const auto model = open_model(options.model_folder);
  const int threads =
      options.threads > 0 ? options.threads : static_cast<int>(std::thread::hardware_concurrency());
  std::vector<double> first_ms, decode, off;
  for (int run = 0; run < runs; ++run) {
    first_ms.push_back(chat(*engine, endless(**model, 1)).first_token_ms);
    decode.push_back(chat(*engine, endless(**model, tokens)).decode_tokens_per_s);
    ChatRequest without = endless(**model, tokens);
    without.engram_enabled = false;
    off.push_back(chat(*engine, std::move(without)).decode_tokens_per_s);
  }
  const ChatResult probe = chat(*engine, endless(**model, 1));
  ChatRequest long_prompt = endless(**model, 1);
  while (long_prompt.completion->size() < 4000) *long_prompt.completion += *long_prompt.completion;
  const ChatResult prefill = chat(*engine, std::move(long_prompt));
  const std::int64_t bytes = weight_bytes_per_token(**model);
  const double cached = read_bandwidth(bytes, threads);
  const double memory = read_bandwidth(std::int64_t{512} << 20, threads);
  const double speed = median(decode);
  const double row_seconds = row_seconds_per_token(**model, *engine, options);
  const double used = speed * static_cast<double>(bytes);
  std::printf("model                    %s (%s, %d threads, %s)\n", engine->facts().name.c_str(),
              engine->facts().backend.c_str(), threads, engine->facts().dtype.c_str());
  std::printf("load                     %.1f ms (median of %d)\n", median(load_ms), runs);
  std::printf("first token              %.2f ms for a prompt of %lld tokens\n", median(first_ms),
              static_cast<long long>(probe.prompt_tokens));
  std::printf("prefill                  %.0f tokens/s for a prompt of %lld tokens\n",
              static_cast<double>(prefill.prompt_tokens) / prefill.first_token_ms * 1e3,
              static_cast<long long>(prefill.prompt_tokens));
  std::printf("decode                   %.0f tokens/s (min %.0f, max %.0f), %d tokens\n", speed,
              *std::min_element(decode.begin(), decode.end()),
              *std::max_element(decode.begin(), decode.end()), tokens);
  std::printf("decode without Engram    %.0f tokens/s\n", median(off));
  std::printf(
      "Engram of a token        %.1f %% of its time, %.1f %% of its bytes\n",
      100 * (1 - speed / median(off)),
      100 * static_cast<double>(engram_bytes_per_token(**model)) / static_cast<double>(bytes));
  std::printf("hash, find, decode rows  %.2f us a token: %.2f %% of its time\n", row_seconds * 1e6,
              100 * row_seconds * speed);
  std::printf("weights read per token   %.2f MB\n", static_cast<double>(bytes) / 1e6);
  std::printf("weights read per second  %.2f GB/s\n", used / 1e9);
  std::printf("roofline, same bytes     %.2f GB/s read again and again: %.0f %% reached\n",
              cached / 1e9, 100 * used / cached);
  std::printf("roofline, memory         %.2f GB/s over 512 MiB: %.0f %% reached\n", memory / 1e9,
              100 * used / memory);
  return 0;
}
