// ThreadPool: fork and join over independent items, for loops of microseconds. One caller at a
// time (the engine thread), which works too. Items are claimed one by one, so a worker that the
// operating system holds back delays nothing but the item it has claimed.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace engramd::kernels {

class ThreadPool {
 public:
  explicit ThreadPool(int n_threads);  // 0: as many as this process may run on
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int n_threads() const { return static_cast<int>(workers_.size()) + 1; }

  // function(item) for every item in [0, n_items); returns when all are done.
  template <class Function>
  void parallel(std::int64_t n_items, const Function& function) {
    run(
        n_items,
        [](const void* context, std::int64_t item) {
          (*static_cast<const Function*>(context))(item);
        },
        &function);
  }

 private:
  using ItemFunction = void (*)(const void* context, std::int64_t item);
  void run(std::int64_t n_items, ItemFunction function, const void* context);
  bool claim_and_run();  // false when nothing is left to claim
  void work();

  // Upper half: generation of the job; lower half: next item, kClosed between jobs. A claim is a
  // compare-and-swap on the whole, so it can only succeed while the job it belongs to is current.
  std::atomic<std::uint64_t> ticket_;
  std::atomic<ItemFunction> function_{nullptr};
  std::atomic<const void*> context_{nullptr};
  std::atomic<std::int64_t> n_items_{0};
  std::atomic<std::int64_t> n_done_{0};
  std::atomic<std::uint32_t> wake_{0};  // futex of workers that gave up spinning
  std::atomic<int> n_asleep_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

}  // namespace engramd::kernels
