// BlockExecutor: a kernel device (kernels/cuda/device.h) that has no GPU: every CUDA thread is a
// fiber, a block runs on the calling thread, blocks one after the other. What it looks for while it
// runs a kernel, each a Fault that names block, thread and source line:
//   - an index outside a span or a shared array, a misaligned vector access;
//   - a barrier that not all threads reach, or that they reach at different lines;
//   - a warp operation that not all 32 lanes reach at the same line;
//   - a pointer into device memory that is used outside a launch or a copy: its pages are closed
//   then.
// Shared memory starts as NaN in every block, and an asynchronous copy lands only when it is waited
// for. The order in which threads run is a choice (Schedule), so that a missing barrier shows in
// one of the orders; results must not depend on it. Mutations change the kernel from outside, at
// one line: that shows which tests would notice. Owns device memory and stacks. One thread. Not
// covered: timing, registers, bank conflicts, the memory model between blocks, the rounding of
// tensor cores and of fused multiply-add.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <boost/context/detail/fcontext.hpp>

#include "kernels/cuda/device.h"
#include "kernels/cuda/execution.h"

namespace engramd::kernels::cuda {

enum class Schedule { kForward, kReverse, kShuffled };

struct Site {  // where in the source
  const char* file = "";
  int line = 0;
  std::strong_ordering operator<=>(const Site& other) const {
    const int order = std::strcmp(file, other.file);
    return order != 0 ? order <=> 0 : line <=> other.line;
  }
  bool operator==(const Site& other) const {
    return line == other.line && (file == other.file || std::strcmp(file, other.file) == 0);
  }
};

// One operation of the vocabulary in one kernel.
enum class SiteKind { kBarrier, kWarpBarrier, kShuffle, kVote, kMma, kRange, kCopyWait };

struct KernelSite {
  std::string kernel;  // its kName
  SiteKind kind = SiteKind::kBarrier;
  Site site;
  auto operator<=>(const KernelSite&) const = default;
};

struct Mutation {
  enum class Kind {
    kNone,
    kDropBarrier,   // of the block or of a warp
    kWrongLane,     // a shuffle reads its neighbour's source, a vote leaves lane 0 out
    kRangeShort,    // a strided range ends one early
    kRangeLong,     // or one late
    kDropCopyWait,  // asynchronous copies are not waited for
    kSwapOperands,  // a tensor-core product takes its two A rows exchanged
  };
  Kind kind = Kind::kNone;
  KernelSite place;
};

// What a kernel did that no GPU promises to get right.
struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class BlockExecutor;

// The fiber's view of its block.
class FiberThread {
 public:
  int index() const { return index_; }
  int n_threads() const { return n_threads_; }
  int lane() const { return index_ % kWarpLanes; }
  int warp() const { return index_ / kWarpLanes; }
  int n_warps() const { return n_threads_ / kWarpLanes; }
  std::int64_t block_x() const { return block_x_; }
  int block_y() const { return block_y_; }
  int block_z() const { return block_z_; }
  int n_blocks_y() const { return n_blocks_y_; }

  StridedRange strided(int n, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {index_, bound(n, {file, line}), n_threads_};
  }
  StridedRange lane_strided(int n, const char* file = __builtin_FILE(),
                            int line = __builtin_LINE()) {
    return {lane(), bound(n, {file, line}), kWarpLanes};
  }
  StridedRange warp_strided(int n, const char* file = __builtin_FILE(),
                            int line = __builtin_LINE()) {
    return {warp(), bound(n, {file, line}), n_warps()};
  }

  void sync(const char* file = __builtin_FILE(), int line = __builtin_LINE());
  void sync_warp(const char* file = __builtin_FILE(), int line = __builtin_LINE());
  template <class T>
  T shuffle(T value, int lane, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return exchange(value, lane, {file, line});
  }
  template <class T>
  T shuffle_xor(T value, int mask, const char* file = __builtin_FILE(),
                int line = __builtin_LINE()) {
    return exchange(value, lane() ^ mask, {file, line});
  }
  bool any(bool value, const char* file = __builtin_FILE(), int line = __builtin_LINE());
  void mma(MmaD& d, const MmaA& a, const MmaB& b, const char* file = __builtin_FILE(),
           int line = __builtin_LINE());

  void atomic_add(std::uint64_t& place, std::uint64_t value) { place += value; }

  void copy_async(void* to, const void* from) {
    for (const void* end : {static_cast<const void*>(to), from}) {
      if (reinterpret_cast<std::uintptr_t>(end) % 16 != 0) pointer_misaligned(end, 16);
    }
    pending_.emplace_back(to, from);
  }
  void wait_copies(const char* file = __builtin_FILE(), int line = __builtin_LINE());

  DeviceSpan<float> dynamic_shared() const { return dynamic_shared_; }

 private:
  friend class BlockExecutor;
  static constexpr std::size_t kSlotBytes = 64;

  int bound(int n, Site site);
  bool mutated(Mutation::Kind kind, const Site& site) const;
  // Leaves `bytes` for the other lanes and returns when all have done so; slot(lane) is then
  // theirs. True for the one that comes last, before any other goes on.
  bool warp_rendezvous(SiteKind kind, Site site, const void* bytes, std::size_t size);
  const std::byte* slot(int lane) const;

  template <class T>
  T exchange(T value, int source, Site site) {
    static_assert(sizeof(T) <= kSlotBytes);
    if (mutated(Mutation::Kind::kWrongLane, site)) source += 1;
    warp_rendezvous(SiteKind::kShuffle, site, &value, sizeof(T));
    T result;
    std::memcpy(&result, slot(source % kWarpLanes), sizeof(T));
    return result;
  }

  BlockExecutor* executor_ = nullptr;
  int index_ = 0, n_threads_ = 0;
  std::int64_t block_x_ = 0;
  int block_y_ = 0, block_z_ = 0, n_blocks_y_ = 1;
  DeviceSpan<float> dynamic_shared_;
  std::vector<std::pair<void*, const void*>> pending_;  // asynchronous copies
  unsigned warp_operations_ = 0;                        // its parity chooses the slots
};

class BlockExecutor {
 public:
  explicit BlockExecutor(std::int64_t memory_bytes = std::int64_t{1} << 30);
  ~BlockExecutor();
  BlockExecutor(const BlockExecutor&) = delete;
  BlockExecutor& operator=(const BlockExecutor&) = delete;

  // ---- what every kernel device has (kernels/cuda/device.h) ----
  const char* name() const { return "block executor"; }
  DeviceLimits limits() const { return limits_; }
  void* allocate(std::int64_t bytes);
  void release(void* memory);
  void* allocate_pinned(std::int64_t bytes);
  void release_pinned(void* memory);
  void upload(void* to, const void* from, std::int64_t bytes);
  void download(void* to, const void* from, std::int64_t bytes);
  void copy(void* to, const void* from, std::int64_t bytes);
  void synchronize() {}
  template <class Kernel>
  void launch(const Kernel& kernel, const Grid& grid);

  // ---- what only a test asks for ----
  void set_limits(const DeviceLimits& limits) { limits_ = limits; }
  void set_schedule(Schedule schedule) { schedule_ = schedule; }
  void set_mutation(const Mutation& mutation) { mutation_ = mutation; }
  void record_sites(bool on) { recording_ = on; }
  const std::set<KernelSite>& sites() const { return sites_; }  // met while recording
  // Not closing device memory makes large models much faster.
  void keep_memory_open();
  std::int64_t n_launches() const { return n_launches_; }
  std::int64_t bytes_in_use() const { return bytes_in_use_; }
  // From inside a fiber: what it did wrong, and then the end of it. Two calls, since a fiber that
  // is left standing destroys nothing.
  void note_fault(const std::string& what);
  [[noreturn]] void abandon();

 private:
  friend class FiberThread;
  enum class State { kReady, kAtBarrier, kAtWarp, kDone };
  struct Fiber {
    boost::context::detail::fcontext_t context = nullptr;
    std::byte* stack = nullptr;  // its lowest usable byte
    void* fake_stack = nullptr;  // AddressSanitizer's
    State state = State::kReady;
    Site site;
    SiteKind kind = SiteKind::kBarrier;
    FiberThread thread;
  };
  struct Warp {
    int n_arrived = 0;
    std::vector<std::byte> slots[2];  // [kWarpLanes][kSlotBytes], used in turn
    float products[16][8];            // of the last mma
  };
  using Body = void (*)(const void* kernel, FiberThread& thread, void* shared);

  template <class Kernel>
  static void call(const void* kernel, FiberThread& thread, void* shared) {
    (*static_cast<const Kernel*>(kernel))(thread, *static_cast<typename Kernel::Shared*>(shared));
  }
  static void enter(boost::context::detail::transfer_t from);

  void run_grid(Body body, const void* kernel, int n_threads, std::size_t shared_bytes,
                const Grid& grid);
  void run_block(int n_threads, std::int64_t x, int y, int z, const Grid& grid);
  void prepare_stacks(int n_threads);
  void resume(Fiber& fiber);
  void suspend();  // the running fiber, back to the scheduler
  void arrive_at_barrier(Site site);
  bool arrive_at_warp(FiberThread& thread, SiteKind kind, Site site);
  void release_barrier_if_complete();
  void look_again(int warp);
  void report_stuck_block();
  void open_memory();
  void close_memory();
  std::string place() const;  // of the running fiber
  void note(SiteKind kind, const Site& site) {
    if (recording_) sites_.insert({kernel_name_, kind, site});
  }

  DeviceLimits limits_;
  Schedule schedule_ = Schedule::kForward;
  Mutation mutation_;
  bool recording_ = false, memory_stays_open_ = false;
  std::set<KernelSite> sites_;
  const char* kernel_name_ = "";
  std::mt19937 shuffle_{1};
  std::int64_t n_launches_ = 0;

  std::byte* arena_ = nullptr;  // device memory: closed but for launches and copies
  std::int64_t arena_bytes_ = 0, arena_used_ = 0, bytes_in_use_ = 0;
  std::map<std::int64_t, std::vector<std::byte*>> free_;  // by size
  std::map<std::byte*, std::int64_t> sizes_;

  std::byte* stacks_ = nullptr;
  int n_stacks_ = 0;
  std::vector<Fiber> fibers_;
  std::vector<Warp> warps_;
  std::vector<int> order_;
  std::vector<std::byte> shared_, dynamic_shared_;
  Body body_ = nullptr;
  const void* kernel_ = nullptr;
  Fiber* running_ = nullptr;
  int n_live_ = 0, n_at_barrier_ = 0;
  std::size_t first_released_ = 0;  // index into order_
  std::string fault_;
  boost::context::detail::fcontext_t scheduler_ = nullptr;
  void* scheduler_fake_stack_ = nullptr;
  const void* scheduler_stack_ = nullptr;
  std::size_t scheduler_stack_bytes_ = 0;
};

template <class Kernel>
void BlockExecutor::launch(const Kernel& kernel, const Grid& grid) {
  static_assert(Kernel::kThreads % kWarpLanes == 0 && Kernel::kThreads <= 1024);
  static_assert(sizeof(typename Kernel::Shared) <= 48 * 1024);
  static_assert(sizeof(Kernel) <= 4096, "kernel parameters");
  kernel_name_ = Kernel::kName;
  run_grid(&call<Kernel>, &kernel, Kernel::kThreads, sizeof(typename Kernel::Shared), grid);
}

}  // namespace engramd::kernels::cuda
