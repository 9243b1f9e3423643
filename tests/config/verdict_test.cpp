#include "config/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/config/generated.h"

namespace engramd::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Verdict judge_flags(const std::vector<std::string>& flags, const ModelFacts& facts) {
  ConfigRequest request;
  request.arguments = flags;
  const EffectiveConfig config = load_effective_config(request);
  EXPECT_THAT(config.problems, IsEmpty());
  const std::vector<Verdict> verdicts = judge(config, facts);
  EXPECT_FALSE(verdicts.empty());
  return verdicts.empty() ? Verdict{} : verdicts.front();
}

Verdict judge_flag(const std::string& flag) {
  return judge_flags({flag}, bundled_facts());
}

// configs/README: every key of every set ends in a verdict, and none of them is refused.
TEST(Verdict, TheUsersFilesLoadUnchanged) {
  std::size_t keys = 0;
  for (const std::string set : {"engram-toml", "lookup-and-routing", "demo-json", "experiment"}) {
    const EffectiveConfig config = load_user_set(set);
    EXPECT_THAT(config.problems, IsEmpty()) << set;
    const std::vector<Verdict> verdicts = judge(config, bundled_facts());
    EXPECT_THAT(refusals(verdicts), IsEmpty()) << set;
    keys += verdicts.size();
  }
  EXPECT_EQ(keys, 25u + (17u + 12u + 8u) + 13u + 11u);
}

TEST(Verdict, DefaultsGetNoVerdict) {
  EXPECT_THAT(judge(load_effective_config({}), bundled_facts()), IsEmpty());
}

TEST(Verdict, TopKIsUsedWithinTheRoutedExperts) {
  EXPECT_EQ(judge_flag("--moe-top-k=4").kind, VerdictKind::kChecked);
  EXPECT_EQ(judge_flag("--moe-top-k=1").kind, VerdictKind::kUsed);
  EXPECT_EQ(judge_flag("--moe-top-k=16").kind, VerdictKind::kUsed);
  EXPECT_THAT(judge_flag("--moe-top-k=16").note, HasSubstr("quality changes"));
  const Verdict more = judge_flag("--moe-top-k=17");
  EXPECT_EQ(more.kind, VerdictKind::kChecked);
  EXPECT_TRUE(more.differs);
  EXPECT_THAT(more.note, HasSubstr("17"));
}

TEST(Verdict, ImpossibleSettingsAreRefusedWithTheRemedy) {
  for (const char* flag :
       {"--moe-expert-parallel=true", "--moe-routing-strategy=shared_only",
        "--engram-deterministic-addressing=false", "--engram-gate-activation=relu",
        "--engram-shared-value-projection=false", "--engram-branch-specific-key-projection=false",
        "--scaling-optimal-rho-range=0.8,0.7", "--scaling-optimal-rho-range=0.8"}) {
    const Verdict verdict = judge_flag(flag);
    EXPECT_EQ(verdict.kind, VerdictKind::kRefused) << flag;
  }
  EXPECT_THAT(refusals({judge_flag("--moe-expert-parallel=true")}),
              ElementsAre("flag --moe-expert-parallel: --moe-expert-parallel = true is refused: "
                          "expected at least two devices, got one; set it to false"));
}

TEST(Verdict, NotesAndDifferencesAreWarnings) {
  ConfigRequest request;
  request.arguments = {"--moe-num-experts=17", "--engram-ngram-order=3", "--device=cuda:0"};
  request.environment["ENGRAMD_THREADZ"] = {"1", "environment ENGRAMD_THREADZ"};
  const EffectiveConfig config = load_effective_config(request);
  EXPECT_THAT(warnings(config, judge(config, bundled_facts())),
              ElementsAre(HasSubstr("environment ENGRAMD_THREADZ: no option has this name"),
                          "flag --moe-num-experts: --moe-num-experts = 17: routed experts: the "
                          "file says 17, the model has 16"));
}

TEST(Verdict, FactsOfTheMachineDecide) {
  ModelFacts facts = bundled_facts();
  facts.has_gpu = [] { return true; };
  facts.n_devices = 2;
  facts.table_exists = true;
  facts.can_route_shared_only = true;
  facts.tokenizer_exists = true;
  for (const char* flag :
       {"--device=cuda:0", "--moe-expert-parallel=true", "--moe-routing-strategy=shared_only",
        "--inference-gpu-memory-utilization=0.5", "--engram-offload-to-host=true", "--table=t",
        "--engram-layout-tokenizer-name-or-path=t", "--model=engram-nano"}) {
    EXPECT_EQ(judge_flags({flag}, facts).kind, VerdictKind::kUsed) << flag;
  }
  facts = bundled_facts();
  for (const char* flag : {"--device=cuda:0", "--inference-gpu-memory-utilization=0.5",
                           "--engram-offload-to-host=true", "--table=t", "--model=other",
                           "--engram-layout-tokenizer-name-or-path=t", "--moe-router-jitter=0.1",
                           "--model-trust-remote-code=true"}) {
    EXPECT_EQ(judge_flags({flag}, facts).kind, VerdictKind::kReported) << flag;
  }
}

TEST(Verdict, AgreementIsToldApartFromDifference) {
  for (const char* flag :
       {"--moe-num-experts=16", "--engram-ngram-orders=2,3", "--engram-insertion-layer=4",
        "--engram-vocab-compression-ratio=0.88", "--engram-layout-layer-ids=1,3",
        "--engram-multi-branch=true", "--engram-rms-norm-eps=1e-6"}) {
    const Verdict verdict = judge_flag(flag);
    EXPECT_EQ(verdict.kind, VerdictKind::kChecked) << flag;
    EXPECT_FALSE(verdict.differs) << flag;
  }
  for (const char* flag : {"--moe-num-experts=17", "--engram-ngram-orders=2,3,4",
                           "--engram-insertion-layer=3", "--engram-vocab-compression-ratio=0.77",
                           "--engram-layout-layer-ids=1", "--engram-multi-branch=false",
                           "--engram-rms-norm-eps=1e-5", "--moe-normalize-gates=false"}) {
    EXPECT_TRUE(judge_flag(flag).differs) << flag;
  }
}

TEST(Verdict, PlannerArithmeticIsChecked) {
  const auto total = [](const char* value) {
    return judge_flags(
        {std::string("--sparse-allocation-total-params-b=") + value,
         "--sparse-allocation-activated-params-b=3.8", "--sparse-allocation-sparse-params-b=23.2"},
        bundled_facts());
  };
  EXPECT_FALSE(total("27.0").differs);
  EXPECT_TRUE(total("28.0").differs);
  EXPECT_THAT(total("27.0").note, HasSubstr("sparse 23.2 + activated 3.8 = 27.0"));
}

TEST(Verdict, AModelWithoutEngramReportsItsKeys) {
  ModelFacts facts = bundled_facts();
  facts.has_engram = false;
  const Verdict verdict = judge_flags({"--engram-ngram-order=3"}, facts);
  EXPECT_EQ(verdict.kind, VerdictKind::kReported);
  EXPECT_EQ(verdict.note, "the model has no Engram");
  EXPECT_EQ(judge_flags({"--engram=off"}, facts).kind, VerdictKind::kUsed);
}

}  // namespace
}  // namespace engramd::config
