#include "kernels/cpu/thread_pool.h"

#include <atomic>
#include <vector>

#include <gtest/gtest.h>

namespace engramd::kernels {
namespace {

TEST(ThreadPoolTest, EveryItemOnceOverManyJobsOfAllSizes) {
  ThreadPool pool(4);
  std::vector<int> counts(300);  // an item is one thread's: plain ints, TSan watches
  std::int64_t total = 0;
  for (int job = 0; job < 5000; ++job) {
    const std::int64_t n = job % 300;
    pool.parallel(n, [&](std::int64_t item) { ++counts[static_cast<std::size_t>(item)]; });
    total += n;
  }
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    sum += counts[i];
    if (i > 0) {
      EXPECT_LE(counts[i], counts[i - 1]);
    }
  }
  EXPECT_EQ(sum, total);
}

TEST(ThreadPoolTest, WorkersThatFellAsleepComeBack) {
  ThreadPool pool(3);
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> n_done{0};
    // Each item outlasts the spinning of the idle workers.
    pool.parallel(6, [&](std::int64_t) {
      volatile int sink = 0;
      for (int i = 0; i < 200000; ++i) sink = sink + 1;
      n_done.fetch_add(1);
    });
    EXPECT_EQ(n_done.load(), 6);
    volatile int idle = 0;
    for (int i = 0; i < 500000; ++i) idle = idle + 1;
  }
}

TEST(ThreadPoolTest, OneThreadRunsInOrderOnTheCaller) {
  ThreadPool pool(1);
  EXPECT_EQ(pool.n_threads(), 1);
  std::vector<std::int64_t> order;
  pool.parallel(5, [&](std::int64_t item) { order.push_back(item); });
  EXPECT_EQ(order, (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
}

}  // namespace
}  // namespace engramd::kernels
