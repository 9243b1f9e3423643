// batch_bench: greedy chats at the same time against the same chats one after the other, in turns
// in one run. Every text must be the same in both; the exit status is 1 when one is not.
//   batch_bench [--model DIR] [--threads N] [--backend NAME] [--chats N] [--tokens N] [--runs N]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <future>
#include <string>
#include <vector>

#include "engine/model/model.h"
#include "engine/runtime/local_engine.h"

namespace {

using namespace engramd::engine;
using Clock = std::chrono::steady_clock;

const char* const kBeginnings[] = {
    "The capital of France is",   "Once upon a time there was a horse that",
    "Water boils when",           "The quick brown fox",
    "Some cities: Rome, Oslo,",   "Alexander the Great",
    "In the beginning there was", "Two and two make four; three and three make",
};

// Never ends by itself: end-of-sentence is biased away.
std::vector<ChatRequest> requests(const Model& model, int n_chats, int tokens) {
  std::vector<ChatRequest> all(static_cast<std::size_t>(n_chats));
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].completion = std::string(kBeginnings[i % std::size(kBeginnings)]);
    if (i >= std::size(kBeginnings)) *all[i].completion += ' ' + std::to_string(i);
    all[i].max_tokens = tokens;
    all[i].sampling.temperature = 0;
    for (const std::int64_t eos : model.config.eos_token_ids) {
      all[i].sampling.logit_bias.emplace_back(static_cast<TokenId>(eos), -100.0F);
    }
  }
  return all;
}

std::future<ChatResult> start(LocalEngine& engine, ChatRequest request) {
  auto promise = std::make_shared<std::promise<ChatResult>>();
  ChatCallbacks callbacks;
  callbacks.on_done = [promise](engramd::Result<ChatResult> result) {
    if (result.has_error()) {
      std::fprintf(stderr, "batch_bench: %s\n", result.error().message.c_str());
      std::exit(1);
    }
    promise->set_value(std::move(*result));
  };
  auto future = promise->get_future();
  engine.start(std::move(request), std::move(callbacks), {});
  return future;
}

struct Round {
  double seconds = 0;
  std::vector<std::string> texts;
};

Round one_by_one(LocalEngine& engine, const std::vector<ChatRequest>& all) {
  Round round;
  const auto begin = Clock::now();
  for (const ChatRequest& request : all) round.texts.push_back(start(engine, request).get().text);
  round.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return round;
}

Round together(LocalEngine& engine, const std::vector<ChatRequest>& all) {
  Round round;
  std::vector<std::future<ChatResult>> answers;
  const auto begin = Clock::now();
  for (const ChatRequest& request : all) answers.push_back(start(engine, request));
  for (auto& answer : answers) round.texts.push_back(answer.get().text);
  round.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return round;
}

}  // namespace

int main(int argc, char** argv) {
  LocalEngineOptions options;
  options.model_folder = ENGRAMD_SOURCE_DIR "/install/models/engram-nano";
  int chats = 8;
  int tokens = 64;
  int runs = 15;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--model") options.model_folder = argv[i + 1];
    if (flag == "--threads") options.threads = std::atoi(argv[i + 1]);
    if (flag == "--backend") options.backend = argv[i + 1];
    if (flag == "--chats") chats = std::atoi(argv[i + 1]);
    if (flag == "--tokens") tokens = std::atoi(argv[i + 1]);
    if (flag == "--runs") runs = std::atoi(argv[i + 1]);
  }
  options.max_batch_size = chats;
  const auto model = open_model(options.model_folder);
  auto engine = LocalEngine::open(options);
  if (engine.has_error()) {
    std::fprintf(stderr, "batch_bench: %s\n", engine.error().message.c_str());
    return 1;
  }
  const auto all = requests(**model, chats, tokens);
  together(**engine, all);  // warms the code, the clock and the buffers
  std::vector<double> alone, batched, ratios;
  for (int run = 0; run < runs; ++run) {
    const Round first = together(**engine, all);
    const Round second = together(**engine, all);
    if (first.texts != second.texts) {
      std::fprintf(stderr, "batch_bench: an answer depends on its company\n");
      return 1;
    }
    alone.push_back(first.seconds);
    batched.push_back(second.seconds);
    ratios.push_back(second.seconds / first.seconds);
  }
  for (auto* values : {&alone, &batched, &ratios}) std::sort(values->begin(), values->end());
  const std::size_t middle = ratios.size() / 2;
  const double n_tokens = static_cast<double>(chats) * tokens;
  std::printf("%s, %d threads, %d chats of %d tokens, median of %d\n",
              (*engine)->facts().backend.c_str(), (*engine)->facts().threads, chats, tokens, runs);
  std::printf("one by one  %.1f ms  %.0f tokens/s\n", alone[middle] * 1e3,
              n_tokens / alone[middle]);
  std::printf("together    %.1f ms  %.0f tokens/s\n", batched[middle] * 1e3,
              n_tokens / batched[middle]);
  std::printf("ratio       %.1f %% (%.1f to %.1f)\n", 100 * ratios[middle], 100 * ratios.front(),
              100 * ratios.back());
  return 0;
}
