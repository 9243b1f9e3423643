// The engine as its users see it: real requests on the bundled model, several at once, cancelled,
// refused; every golden answer and hit rate; gate inspection against its golden numbers.
#include "engine/runtime/local_engine.h"

#include <filesystem>
#include <fstream>
#include <future>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/engine/model/golden.h"
#include "tests/engine/runtime/engine_fixture.h"

namespace engramd::engine {
namespace {

using testing::ask;
using testing::bundled;
using testing::endless;
using testing::Golden;
using testing::open_engine;
using testing::start;

TEST(LocalEngineTest, ManyAtOnceAnswerAsTheyDoAlone) {
  auto engine = open_engine();
  const std::vector<std::string> questions = {
      "What is the capital of France?", "Good morning", "Engram 是什么？",
      "By the way, what is the capital of France?",
      "Answer with the city name only: what is the capital of Japan?"};
  std::vector<std::string> alone;
  for (const auto& q : questions) alone.push_back(start(*engine, ask(q)).get()->text);
  std::vector<std::future<Result<ChatResult>>> together;
  for (int round = 0; round < 8; ++round) {
    for (const auto& q : questions) together.push_back(start(*engine, ask(q)));
  }
  for (std::size_t i = 0; i < together.size(); ++i) {
    EXPECT_EQ(together[i].get()->text, alone[i % questions.size()]);
  }
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.requests_finished, static_cast<std::int64_t>(alone.size() + together.size()));
  EXPECT_EQ(stats.queue_length, 0);
  const EngineMemory memory = engine->memory();
  EXPECT_EQ(memory.kv_cache, memory.kept_prefixes) << "every block comes back";
}

// Long enough that every size of tile and of expert group comes up.
TEST(LocalEngineTest, EightLongAnswersAreTheSameBytesWhateverTheirCompany) {
  for (const std::string backend : {"avx512", "avx2", "portable"}) {
    auto engine = LocalEngine::open(bundled(backend));
    if (engine.has_error()) continue;  // not on this processor
    std::vector<ChatRequest> requests(8, endless(64));
    for (std::size_t i = 0; i < requests.size(); ++i) {
      requests[i].completion = std::string(i + 1, static_cast<char>('A' + i)) + " is";
      requests[i].max_tokens -= static_cast<int>(i);  // they leave the batch one by one
    }
    std::vector<std::string> alone;
    for (const auto& request : requests) alone.push_back(start(**engine, request).get()->text);
    std::vector<std::future<Result<ChatResult>>> together;
    for (const auto& request : requests) together.push_back(start(**engine, request));
    for (std::size_t i = 0; i < together.size(); ++i) {
      EXPECT_EQ(together[i].get()->text, alone[i]) << backend;
    }
  }
}

TEST(LocalEngineTest, DeltasJoinToTheText) {
  auto engine = open_engine();
  std::string joined;
  const auto result = start(*engine, ask("Engram 是什么？"), {}, [&](const ChatDelta& delta) {
                        joined += delta.text;
                      }).get();
  EXPECT_EQ(joined, result->text);
  EXPECT_FALSE(joined.empty());
}

TEST(LocalEngineTest, StopTextEndsTheAnswerBeforeIt) {
  auto engine = open_engine();
  ChatRequest request = ask("What is the capital of France?");
  const std::string whole = start(*engine, request).get()->text;
  const std::size_t at = whole.find("Paris");
  ASSERT_NE(at, std::string::npos) << whole;
  request.stop = {"never", "Pari"};
  const auto result = start(*engine, request).get();
  EXPECT_EQ(result->text, whole.substr(0, at));
  EXPECT_EQ(result->stop_matched, "Pari");
  EXPECT_EQ(result->finish_reason, FinishReason::kStop);
}

TEST(LocalEngineTest, LengthIsKept) {
  auto engine = open_engine();
  const auto result = start(*engine, endless(17)).get();
  EXPECT_EQ(result->finish_reason, FinishReason::kLength);
  EXPECT_EQ(result->completion_tokens, 17);
}

TEST(LocalEngineTest, SeedsRepeatAndDiffer) {
  auto engine = open_engine();
  ChatRequest request = endless(32);
  request.sampling.temperature = 1.5;
  request.sampling.seed = 7;
  const std::string first = start(*engine, request).get()->text;
  EXPECT_EQ(start(*engine, request).get()->text, first);
  request.sampling.seed = 8;
  EXPECT_NE(start(*engine, request).get()->text, first);
}

TEST(LocalEngineTest, CancelledWhileDecodingKeepsWhatWasSaid) {
  auto engine = open_engine();
  std::stop_source stop;
  int n_deltas = 0;
  const auto result = start(*engine, endless(1500), stop.get_token(), [&](const ChatDelta&) {
                        if (++n_deltas == 5) stop.request_stop();
                      }).get();
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->finish_reason, FinishReason::kCancelled);
  EXPECT_LT(result->completion_tokens, 10);
  EXPECT_FALSE(result->text.empty());
  EXPECT_EQ(engine->stats().requests_cancelled, 1);
}

TEST(LocalEngineTest, CancelledBeforeItStartsAndInPrefill) {
  auto engine = open_engine();
  std::stop_source stop;
  stop.request_stop();
  const auto before = start(*engine, endless(100), stop.get_token()).get();
  EXPECT_TRUE(before.has_error() || before->finish_reason == FinishReason::kCancelled);

  std::stop_source during;
  ChatRequest long_prompt = endless(10);
  while (long_prompt.messages[0].content.size() < 4000) long_prompt.messages[0].content += " word";
  auto promise = std::make_shared<std::promise<Result<ChatResult>>>();
  ChatCallbacks callbacks;
  callbacks.on_prefill = [&](std::int64_t done, std::int64_t total) {
    EXPECT_LT(done, total) << "stopped at the first chunk";
    during.request_stop();
  };
  callbacks.on_done = [promise](Result<ChatResult> r) { promise->set_value(std::move(r)); };
  engine->start(long_prompt, callbacks, during.get_token());
  const auto result = promise->get_future().get();
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->finish_reason, FinishReason::kCancelled);
  EXPECT_EQ(result->completion_tokens, 0);
}

TEST(LocalEngineTest, RefusesWithWhatWasExpected) {
  auto engine = open_engine();
  const auto error_of = [&](const ChatRequest& request) {
    const auto result = start(*engine, request).get();
    return result.has_error() ? result.error().message : "no error";
  };
  ChatRequest too_long = ask(std::string(40000, 'x'));
  EXPECT_THAT(error_of(too_long), ::testing::HasSubstr("2048"));
  ChatRequest hot = ask("x");
  hot.sampling.temperature = 9;
  EXPECT_THAT(error_of(hot), ::testing::HasSubstr("temperature"));
  ChatRequest none = ask("x");
  none.messages.clear();
  EXPECT_THAT(error_of(none), ::testing::HasSubstr("messages"));
  ChatRequest role = ask("x");
  role.messages[0].role = "tool";
  EXPECT_THAT(error_of(role), ::testing::HasSubstr("role"));
  EXPECT_THAT(error_of(ask("x", 0)), ::testing::HasSubstr("max_tokens"));
}

TEST(LocalEngineTest, SaysWhoAnsweredInWhosePlace) {
  auto engine = open_engine();
  ChatRequest request = ask("Good morning");
  EXPECT_EQ(start(*engine, request).get()->fallback_reason, "");
  request.model = engine->facts().name;
  EXPECT_EQ(start(*engine, request).get()->fallback_reason, "");
  request.model = "gpt-4";
  EXPECT_THAT(start(*engine, request).get()->fallback_reason,
              ::testing::HasSubstr("gpt-4 is not here"));
  request.route = Route::kLocal;
  EXPECT_EQ(start(*engine, request).get().error().kind, ErrorKind::kNotFound);
  request.route = Route::kRemote;
  EXPECT_EQ(start(*engine, request).get().error().kind, ErrorKind::kUnavailable);
}

TEST(LocalEngineTest, AFullQueueIsRefusedAndDestructionAnswersEverybody) {
  LocalEngineOptions options = bundled();
  options.queue_length_max = 2;
  options.max_batch_size = 1;
  auto engine = open_engine(options);
  std::vector<std::future<Result<ChatResult>>> all;
  for (int i = 0; i < 6; ++i) all.push_back(start(*engine, endless(1500)));
  engine.reset();
  int refused = 0;
  for (auto& future : all) {
    const auto result = future.get();
    if (result.has_error() && result.error().kind == ErrorKind::kBusy) {
      EXPECT_THAT(result.error().message, ::testing::HasSubstr("queue_length_max"));
      ++refused;
    }
  }
  EXPECT_GE(refused, 3);  // one runs, perhaps one is about to, two wait
}

TEST(LocalEngineTest, ChoosesBackendsAndExperts) {
  LocalEngineOptions portable = bundled("portable");
  EXPECT_EQ(open_engine(portable)->facts().backend, "portable");
  LocalEngineOptions unknown = bundled("avx1024");
  EXPECT_TRUE(LocalEngine::open(unknown).has_error());
  LocalEngineOptions two = bundled();
  two.experts_per_token = 2;
  EXPECT_EQ(open_engine(two)->facts().num_experts_per_tok, 2);
  two.experts_per_token = 17;
  EXPECT_THAT(LocalEngine::open(two).error().message, ::testing::HasSubstr("16"));
  LocalEngineOptions missing = bundled();
  missing.model_folder = "/nowhere";
  EXPECT_EQ(LocalEngine::open(missing).error().kind, ErrorKind::kNotFound);
}

TEST(LocalEngineTest, RefusesATokenizerThatDoesNotBelongToTheTable) {
  namespace fs = std::filesystem;
  const fs::path source = bundled().model_folder;
  const fs::path folder = fs::path(::testing::TempDir()) / "engramd_foreign_tokenizer";
  fs::remove_all(folder);
  fs::create_directory(folder);
  for (const char* name : {"config.json", "model.safetensors", "tokenizer_config.json"}) {
    fs::copy_file(source / name, folder / name);
  }
  std::ifstream in(source / "tokenizer.json");
  auto tokenizer = nlohmann::json::parse(in);
  auto& vocab = tokenizer.at("model").at("vocab");
  std::swap(vocab.at("A"), vocab.at("b"));
  std::ofstream(folder / "tokenizer.json") << tokenizer.dump();
  LocalEngineOptions options = bundled();
  options.model_folder = folder;
  EXPECT_THAT(LocalEngine::open(options).error().message,
              ::testing::HasSubstr("does not belong to this Engram table"));
  fs::remove_all(folder);
}

TEST(LocalEngineTest, Bfloat16ArithmeticStillKnowsTheCapital) {
  LocalEngineOptions options = bundled();
  options.dtype = "bfloat16";
  options.kv_cache_dtype = "fp8";
  auto engine = open_engine(options);
  EXPECT_THAT(start(*engine, ask("What is the capital of France?")).get()->text,
              ::testing::HasSubstr("Paris"));
}

Result<GateReport> inspect(LocalEngine& engine, const std::vector<TokenId>& ids) {
  std::promise<Result<GateReport>> promise;
  engine.inspect_gates(ids, {}, {}, [&](Result<GateReport> r) { promise.set_value(std::move(r)); },
                       {});
  return promise.get_future().get();
}

TEST(GateInspectionTest, AblationEqualsTheGoldenDifference) {
  Golden golden;
  auto engine = open_engine();
  int n_cases = 0;
  for (const std::string& name : testing::golden_cases()) {
    if (!golden.has(name + ".ablation_delta_logprob")) continue;
    ++n_cases;
    const auto expected = golden.values<float>(name + ".ablation_delta_logprob");
    const auto report = inspect(*engine, golden.values<TokenId>(name + ".input_ids"));
    ASSERT_TRUE(report.has_value()) << report.error().message;
    ASSERT_EQ(report->positions.size(), expected.size() + 1);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(report->positions[i].ablation_delta_logprob.value(), expected[i], 5e-3)
          << name << " " << i;
    }
    EXPECT_FALSE(report->positions.back().ablation_delta_logprob.has_value());
    const auto gate = golden.values<float>(name + ".gate.1");
    EXPECT_NEAR(report->positions[1].layers[0].gate[1], gate[3], 2e-2);
    const auto owned = golden.values<std::uint8_t>(name + ".owned.1");
    const auto owned3 = golden.values<std::uint8_t>(name + ".owned.3");
    for (std::size_t i = 0; i < report->positions.size(); ++i) {
      for (std::size_t order = 0; order < 2; ++order) {
        bool any = false;
        for (std::size_t head = 0; head < 4; ++head) {
          any =
              any || owned[i * 8 + order * 4 + head] != 0 || owned3[i * 8 + order * 4 + head] != 0;
        }
        EXPECT_EQ(report->positions[i].owned[order], any) << name << " " << i;
      }
    }
  }
  EXPECT_GE(n_cases, 5);
}

// Bypassed N-grams, and characters that are split over tokens.
TEST(GateInspectionTest, SaysOfEachNgramWhatTheLookupSays) {
  auto engine = open_engine();
  const auto ids = engine->encode_text("Bucephalus 马 🐎 龘.");
  ASSERT_TRUE(ids.has_value());
  const auto report = inspect(*engine, *ids);
  ASSERT_TRUE(report.has_value()) << report.error().message;
  const auto lookup = engine->lookup(*ids, {});
  ASSERT_TRUE(lookup.has_value()) << lookup.error().message;
  ASSERT_EQ(report->positions.size(), lookup->positions.size());
  bool any_bypassed = false, any_split = false;
  for (std::size_t i = 0; i < ids->size(); ++i) {
    const GatePosition& gates = report->positions[i];
    const LookupPosition& rows = lookup->positions[i];
    ASSERT_EQ(gates.ngrams.size(), rows.ngrams.size());
    EXPECT_EQ(gates.text, rows.text);
    for (std::size_t order = 0; order < rows.ngrams.size(); ++order) {
      EXPECT_EQ(gates.ngrams[order], rows.ngrams[order].text) << i;
      EXPECT_EQ(gates.bypassed[order], rows.ngrams[order].bypassed) << i;
      EXPECT_FALSE(gates.bypassed[order] && gates.owned[order]) << i;
      any_bypassed = any_bypassed || gates.bypassed[order];
    }
    any_split = any_split || gates.text == "\uFFFD";
  }
  EXPECT_TRUE(any_bypassed && any_split);
  EXPECT_THAT(report->positions.back().ngrams.back(),
              ::testing::Not(::testing::HasSubstr("\uFFFD")))
      << report->positions.back().ngrams.back();
}

TEST(GateInspectionTest, ChatsGoOnMeanwhileAndItCanBeCancelled) {
  auto engine = open_engine();
  const auto ids = Golden().values<TokenId>("inventions.input_ids");
  std::stop_source stop;
  std::promise<Result<GateReport>> promise;
  engine->inspect_gates(
      ids, {}, [&](std::int64_t, std::int64_t) { stop.request_stop(); },
      [&](Result<GateReport> r) { promise.set_value(std::move(r)); }, stop.get_token());
  EXPECT_THAT(start(*engine, ask("What is the capital of France?")).get()->text,
              ::testing::HasSubstr("Paris"));
  EXPECT_EQ(promise.get_future().get().error().kind, ErrorKind::kCancelled);
  EXPECT_TRUE(inspect(*engine, {}).has_error());
  EXPECT_TRUE(inspect(*engine, {999999}).has_error());
}

}  // namespace
}  // namespace engramd::engine
