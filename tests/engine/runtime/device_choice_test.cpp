// Which device a model is given for which settings and machines, and that a GPU which computes
// something else is found out.
#include "engine/runtime/device_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/runtime/device_check.h"
#include "tests/engine/model/golden.h"
#include "tests/kernels/cuda/executor_backend.h"

namespace engramd::engine {
namespace {

using testing::bundled_model;
using ::testing::HasSubstr;

constexpr std::int64_t kGigabyte = 1'000'000'000;

LocalEngineOptions options_for(const std::string& device) {
  LocalEngineOptions options;
  options.device = device;
  return options;
}

kernels::GpuList two_gpus() {
  return {{{0, "Small", 75, 2 * kGigabyte, 1 * kGigabyte},
           {1, "Large", 90, 80 * kGigabyte, 70 * kGigabyte}},
          ""};
}

const DeviceMemoryPlan kPlan = {2 * kGigabyte, 3 * kGigabyte, kGigabyte};

TEST(DeviceChoice, AutoTakesTheFirstGpuWithRoom) {
  EXPECT_EQ(decide_device(options_for("auto"), two_gpus(), kPlan)->gpu, 1);
  EXPECT_EQ(decide_device(options_for("auto"), two_gpus(), {1000, 1000, 1000})->gpu, 0);
  EXPECT_EQ(decide_device(options_for("cuda:1"), two_gpus(), kPlan)->gpu, 1);
}

TEST(DeviceChoice, AutoFallsBackAndSaysWhy) {
  const kernels::GpuList none = {{}, "no NVIDIA GPU was found"};
  const auto without = decide_device(options_for("auto"), none, kPlan);
  EXPECT_EQ(without->gpu, -1);
  EXPECT_EQ(without->note, "model.device is auto, but no NVIDIA GPU was found");
  auto options = options_for("auto");
  options.gpu_memory_utilization = 0.05;  // 4 of 80 GB
  const auto full = decide_device(options, two_gpus(), kPlan);
  EXPECT_EQ(full->gpu, -1);
  EXPECT_THAT(full->note, HasSubstr("cuda:1 (Large) has room for 4.000 GB, the model needs 6.000"));
}

TEST(DeviceChoice, ANamedGpuThatCannotServeIsAnError) {
  EXPECT_THAT(decide_device(options_for("cuda:0"), two_gpus(), kPlan).error().message,
              HasSubstr("cuda:0 (Small) has room for 1.000 GB, the model needs 6.000 GB: weights "
                        "2.000 GB, KV cache 3.000 GB"));
  EXPECT_EQ(decide_device(options_for("cuda:7"), two_gpus(), kPlan).error().message,
            "model.device: expected cuda:0 to cuda:1, got cuda:7");
}

TEST(DeviceChoice, TheProcessorWhereItIsAskedFor) {
  const auto cpu = decide_device(options_for("cpu"), two_gpus(), {});
  EXPECT_EQ(cpu->gpu, -1);
  EXPECT_EQ(cpu->note, "");
  auto reference = options_for("auto");  // a CPU implementation is named: for comparison
  reference.backend = "reference";
  EXPECT_EQ(decide_device(reference, two_gpus(), {})->gpu, -1);
}

TEST(DeviceChoice, ThePlanHoldsWeightsCacheAndActivationsButNoTable) {
  const DeviceMemoryPlan plan = plan_device_memory(bundled_model(), options_for("auto"), 1234);
  std::int64_t tables = 0;
  for (const CheckpointRows& rows : bundled_model().engram_rows()) tables += rows.bytes();
  EXPECT_EQ(plan.weights, bundled_model().checkpoint.bytes() - tables);
  EXPECT_EQ(plan.kv_cache, 1234);
  EXPECT_GT(plan.activations, 256 * 256 * 4);  // a chunk of one hidden state
  EXPECT_EQ(plan.total(), plan.weights + plan.kv_cache + plan.activations);
}

// The plan against what the backend really takes, on a device that counts.
TEST(DeviceChoice, ThePlanCoversWhatAPassTakes) {
  auto backend = kernels::cuda::make_executor_backend();
  backend->device().keep_memory_open();
  auto options = options_for("auto");
  options.prefill_chunk_tokens = 40;
  options.max_batch_size = 1;
  const std::int64_t cache_bytes =
      2 * KvCache::bytes_per_block(bundled_model(), kernels::DType::kF32);
  const DeviceMemoryPlan plan = plan_device_memory(bundled_model(), options, cache_bytes);
  auto tables = LiveTables::open(bundled_model().layout, "", bundled_model().engram_rows(), {});
  auto cache = KvCache::make(bundled_model(), kernels::DType::kF32, 2, backend.get());
  Step step(bundled_model(), *backend, *cache);
  Sequence sequence(bundled_model().token_map, *cache, true);
  for (TokenId i = 0; i < 40; ++i) sequence.append(100 + 7 * i);
  ASSERT_TRUE(sequence.reserve(40));
  SequenceSlice slice{&sequence, 0, 40};
  ASSERT_TRUE(step.run({&slice, 1}, (*tables)->view(), {}).has_value());
  EXPECT_LE(backend->device().bytes_in_use(), plan.total() + plan.total() / 20);
  EXPECT_GE(backend->device().bytes_in_use(), plan.total() / 2);
}

TEST(DeviceCheck, AGoodDevicePassesAndABrokenOneDoesNot) {
  const auto tables =
      LiveTables::open(bundled_model().layout, "", bundled_model().engram_rows(), {});
  const auto cpu = kernels::make_cpu_backend({"auto", 1, false});
  const auto error_with = [&](const kernels::cuda::Mutation& mutation, bool rounded) {
    auto backend = kernels::cuda::make_executor_backend(kernels::cuda::Schedule::kForward, rounded);
    backend->device().keep_memory_open();
    backend->device().record_sites(true);
    backend->device().set_mutation(mutation);
    const double error = *device_error(bundled_model(), **tables, *backend, *cpu);
    return std::pair(error, backend->device().sites());
  };
  const auto [error, sites] = error_with({}, false);
  EXPECT_LE(error, kDeviceErrorMax / 100);
  EXPECT_LE(error_with({}, true).first, kRoundedDeviceErrorMax);
  for (const auto& site : sites) {
    if (site.kind != kernels::cuda::SiteKind::kMma) continue;
    const kernels::cuda::Mutation mutation{kernels::cuda::Mutation::Kind::kSwapOperands, site};
    EXPECT_GT(error_with(mutation, false).first, 10 * kDeviceErrorMax);
  }
}

TEST(DeviceCheck, ADeviceThatFailsIsAnErrorAndNotAnException) {
  auto backend = kernels::cuda::make_executor_backend(kernels::cuda::Schedule::kForward, false,
                                                      std::int64_t{12} << 20);
  const auto tables =
      LiveTables::open(bundled_model().layout, "", bundled_model().engram_rows(), {});
  const auto cpu = kernels::make_cpu_backend({"auto", 1, false});
  const auto error = device_error(bundled_model(), **tables, *backend, *cpu);
  ASSERT_TRUE(error.has_error());
  EXPECT_THAT(error.error().message, HasSubstr("out of device memory"));
}

}  // namespace
}  // namespace engramd::engine
