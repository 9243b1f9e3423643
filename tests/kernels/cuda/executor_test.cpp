// What the block executor promises to notice, one small wrong kernel each; and that correct ones
// run the same in every order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/number_formats.h"
#include "tests/kernels/cuda/block_executor.h"
#include "tests/kernels/cuda/device_copies.h"

namespace engramd::kernels::cuda {
namespace {

using ::testing::HasSubstr;

constexpr int kWidth = 96;

// A kernel whose body is a lambda, so that a test shows all of it.
template <class Body>
struct LambdaKernel {
  static constexpr int kThreads = kWidth;
  static constexpr const char* kName = "lambda";
  struct Shared {
    DeviceArray<float, kWidth> values;
  };
  DeviceSpan<float> out;
  Body body;

  template <class Thread>
  void operator()(Thread& thread, Shared& shared) const {
    body(thread, shared, out);
  }
};

class ExecutorTest : public ::testing::Test {
 protected:
  template <class Body>
  std::vector<float> run(const Body& body, Schedule schedule = Schedule::kForward,
                         const Grid& grid = {}) {
    executor_.set_schedule(schedule);
    DeviceCopies copies(executor_);
    LambdaKernel<Body> kernel{copies.out<float>(kWidth), body};
    executor_.launch(kernel, grid);
    return copies.fetch(kernel.out);
  }
  template <class Body>
  std::string fault_of(const Body& body, const Grid& grid = {}) {
    try {
      run(body, Schedule::kForward, grid);
    } catch (const Fault& fault) {
      return fault.what();
    }
    return "nothing";
  }

  BlockExecutor executor_{1 << 20};
};

TEST_F(ExecutorTest, BarriersMakeAllOrdersEqual) {
  const auto rotate = [](auto& thread, auto& shared, const auto& out) {
    shared.values[thread.index()] = static_cast<float>(thread.index());
    thread.sync();
    out[thread.index()] = shared.values[(thread.index() + 1) % kWidth];
  };
  const auto forward = run(rotate, Schedule::kForward);
  EXPECT_EQ(forward[0], 1);
  EXPECT_EQ(forward[kWidth - 1], 0);
  EXPECT_EQ(run(rotate, Schedule::kReverse), forward);
  EXPECT_EQ(run(rotate, Schedule::kShuffled), forward);
}

TEST_F(ExecutorTest, WithoutTheBarrierSharedMemoryIsNotANumber) {
  const auto rotate = [](auto& thread, auto& shared, const auto& out) {
    shared.values[thread.index()] = 1;
    out[thread.index()] = shared.values[(thread.index() + 1) % kWidth];
  };
  EXPECT_TRUE(std::isnan(run(rotate)[0]));
}

TEST_F(ExecutorTest, IndicesOutsideGlobalAndSharedMemory) {
  EXPECT_THAT(fault_of([](auto& thread, auto&, const auto& out) { out[thread.index() + 1] = 0; }),
              HasSubstr("thread 95: index 96 outside [0, 96)"));
  EXPECT_THAT(fault_of([](auto& thread, auto& shared, const auto&) {
                shared.values[thread.index() - 1] = 0;
              }),
              HasSubstr("thread 0: index -1 outside [0, 96)"));
  EXPECT_THAT(fault_of([](auto& thread, auto&, const auto&) { thread.dynamic_shared()[4] = 0; },
                       {.dynamic_shared_bytes = 16}),
              HasSubstr("index 4 outside [0, 4)"));
}

TEST_F(ExecutorTest, VectorsThatAreNotAligned) {
  EXPECT_THAT(fault_of([](auto&, auto&, const auto& out) {
                load_vector(DeviceSpan<const float>{out.data, out.size}, 2);
              }),
              HasSubstr("16 bytes is not aligned"));
  EXPECT_THAT(fault_of([](auto& thread, auto& shared, const auto& out) {
                thread.copy_async(&shared.values[1], out.data);
              }),
              HasSubstr("16 bytes is not aligned"));
}

// Bodies with two places stand outside macros, whose arguments are one line to the compiler.
TEST_F(ExecutorTest, BarriersThatDiverge) {
  const auto two_barriers = [](auto& thread, auto&, const auto&) {
    if (thread.index() < 40) {
      thread.sync();
    } else {
      thread.sync();
    }
  };
  EXPECT_THAT(fault_of(two_barriers),
              HasSubstr("divergent barrier: thread 0 waits at executor_test.cpp"));
}

TEST_F(ExecutorTest, WarpOperationsThatNotAllLanesReach) {
  EXPECT_THAT(fault_of([](auto& thread, auto&, const auto&) {
                if (thread.lane() != 5) thread.shuffle_xor(1.0F, 1);
              }),
              HasSubstr("waits for ever"));
  const auto two_shuffles = [](auto& thread, auto&, const auto&) {
    if (thread.lane() < 16) {
      thread.shuffle(1.0F, 0);
    } else {
      thread.shuffle(2.0F, 0);
    }
  };
  EXPECT_THAT(fault_of(two_shuffles), HasSubstr("warp operation at"));
  const auto some_end = [](auto& thread, auto&, const auto&) {
    thread.sync_warp();
    if (thread.warp() == 0) return;  // threads that have ended are not waited for
    thread.sync();
  };
  EXPECT_EQ(fault_of(some_end), "nothing");
}

TEST_F(ExecutorTest, CopiesLandWhenTheyAreWaitedFor) {
  const auto copy = [](bool wait) {
    return [wait](auto& thread, auto& shared, const auto& out) {
      if (thread.index() == 0) {
        for (int i = 0; i < 4; ++i) out[i] = 7;
        thread.copy_async(&shared.values[0], out.data);
      }
      if (wait) thread.wait_copies();
      thread.sync();
      out[thread.index()] = shared.values[0];
    };
  };
  EXPECT_EQ(run(copy(true))[50], 7);
  EXPECT_TRUE(std::isnan(run(copy(false))[50]));
}

TEST_F(ExecutorTest, LaunchesThatNoDeviceTakes) {
  const auto nothing = [](auto&, auto&, const auto&) {};
  EXPECT_THAT(fault_of(nothing, {.dynamic_shared_bytes = 48 * 1024}), HasSubstr("shared memory"));
  EXPECT_THAT(fault_of(nothing, {.blocks_x = 1, .blocks_y = 70000}), HasSubstr("70000"));
  EXPECT_THAT(fault_of(nothing, {.blocks_x = 0}), HasSubstr("0 x 1 x 1"));
}

TEST_F(ExecutorTest, DeviceMemoryStartsAsNotANumberAndRunsOut) {
  EXPECT_TRUE(std::isnan(run([](auto&, auto&, const auto&) {})[0]));
  EXPECT_THROW(executor_.allocate(2 << 20), DeviceError);
  void* memory = executor_.allocate(1 << 19);
  executor_.release(memory);
  EXPECT_EQ(executor_.bytes_in_use(), 0);
  EXPECT_EQ(executor_.allocate(1 << 19), memory);
}

TEST_F(ExecutorTest, TheHostCannotReadDeviceMemory) {
  auto* memory = static_cast<volatile float*>(executor_.allocate(16));
  EXPECT_DEATH({ *memory = 1; }, "");
}

// The lanes' layout of the tensor-core product against its definition, element by element.
TEST_F(ExecutorTest, MmaMultipliesWhatTheManualLaysOut) {
  const auto a_at = [](int row, int k) { return static_cast<float>(row * 3 - k % 5); };
  const auto b_at = [](int k, int n) { return static_cast<float>(k % 7 - 2 * n); };
  const auto word = [](float low, float high) {
    return static_cast<std::uint32_t>(encode_bf16(low)) |
           static_cast<std::uint32_t>(encode_bf16(high)) << 16;
  };
  for (int n = 0; n < 8; n += 1) {
    const auto got = run([&](auto& thread, auto&, const auto& out) {
      const int g = thread.lane() / 4;
      const int k = thread.lane() % 4 * 2;
      const MmaA a{{word(a_at(g, k), a_at(g, k + 1)), word(a_at(g + 8, k), a_at(g + 8, k + 1)),
                    word(a_at(g, k + 8), a_at(g, k + 9)),
                    word(a_at(g + 8, k + 8), a_at(g + 8, k + 9))}};
      const MmaB b{{word(b_at(k, g), b_at(k + 1, g)), word(b_at(k + 8, g), b_at(k + 9, g))}};
      MmaD d{{1, 1, 1, 1}};
      thread.mma(d, a, b);
      if (thread.warp() != 0) return;
      for (int i = 0; i < 4; ++i) {
        if (k + i % 2 == n) out[g + i / 2 * 8] = d.values[i];
      }
    });
    for (int row = 0; row < 16; ++row) {
      float expected = 1;
      for (int k = 0; k < 16; ++k) expected += a_at(row, k) * b_at(k, n);
      EXPECT_EQ(got[static_cast<std::size_t>(row)], expected) << row << " " << n;
    }
  }
}

}  // namespace
}  // namespace engramd::kernels::cuda
