#include "kernels/cpu/thread_pool.h"

#include <algorithm>

#include <sched.h>

#include "config/assert.h"

namespace engramd::kernels {

namespace {

constexpr std::uint64_t kClosed = 0xFFFFFFFFU;
// About 50 us of spinning: longer than the gaps between the operations of one forward pass, short
// against a person's pause between requests.
constexpr int kSpins = 2000;

void pause() {
  __builtin_ia32_pause();
}

int available_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

ThreadPool::ThreadPool(int n_threads) : ticket_(kClosed) {
  if (n_threads <= 0) n_threads = available_cores();
  for (int i = 1; i < n_threads; ++i) workers_.emplace_back([this] { work(); });
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  wake_.fetch_add(1);
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(std::int64_t n_items, ItemFunction function, const void* context) {
  if (workers_.empty() || n_items <= 1) {
    for (std::int64_t item = 0; item < n_items; ++item) function(context, item);
    return;
  }
  ENGRAMD_ASSERT(n_items < static_cast<std::int64_t>(kClosed));
  const std::uint64_t generation = (ticket_.load(std::memory_order_relaxed) >> 32) + 1;
  // Closed under the new generation first: a late worker that still reads the old job's fields
  // cannot claim with them any more.
  ticket_.store(generation << 32 | kClosed);
  function_.store(function, std::memory_order_relaxed);
  context_.store(context, std::memory_order_relaxed);
  n_items_.store(n_items, std::memory_order_relaxed);
  n_done_.store(0, std::memory_order_relaxed);
  ticket_.store(generation << 32);
  if (n_asleep_.load() > 0) {
    wake_.fetch_add(1);
    wake_.notify_all();
  }
  while (claim_and_run()) {
  }
  // A worker that the operating system holds back keeps its item: give it this core after a while.
  for (int spins = 0; n_done_.load(std::memory_order_acquire) < n_items; ++spins) {
    if (spins < kSpins) {
      pause();
    } else {
      sched_yield();
    }
  }
}

bool ThreadPool::claim_and_run() {
  std::uint64_t ticket = ticket_.load();
  for (;;) {
    const ItemFunction function = function_.load(std::memory_order_relaxed);
    const void* context = context_.load(std::memory_order_relaxed);
    const auto item = static_cast<std::int64_t>(ticket & kClosed);
    if (item >= n_items_.load(std::memory_order_relaxed)) return false;  // none left, or closed
    if (ticket_.compare_exchange_weak(ticket, ticket + 1)) {
      function(context, item);
      n_done_.fetch_add(1, std::memory_order_release);
      return true;
    }
  }
}

void ThreadPool::work() {
  int spins = 0;
  while (!stop_.load(std::memory_order_relaxed)) {
    if (claim_and_run()) {
      spins = 0;
      continue;
    }
    if (++spins < kSpins) {
      pause();
      continue;
    }
    const std::uint32_t seen = wake_.load();
    n_asleep_.fetch_add(1);
    // A job that opened between the last look and the count above would not have woken us.
    if (!stop_.load() && !claim_and_run()) wake_.wait(seen);
    n_asleep_.fetch_sub(1);
    spins = 0;
  }
}

}  // namespace engramd::kernels
