#include "tests/kernels/cuda/block_executor.h"

#include <algorithm>
#include <numeric>

#include <sys/mman.h>

#include "config/assert.h"
#include "kernels/number_formats.h"

// AddressSanitizer must hear of every change of stacks.
#if defined(__SANITIZE_ADDRESS__)
#define ENGRAMD_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ENGRAMD_ASAN 1
#endif
#endif
#ifdef ENGRAMD_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace engramd::kernels::cuda {

namespace {

constexpr std::size_t kStackBytes = 64 * 1024;
constexpr std::size_t kPageBytes = 4096;       // below each stack, closed
constexpr std::int64_t kAlignmentBytes = 256;  // of device memory, as cudaMalloc
constexpr std::int64_t kGapBytes = 256;        // between two pieces of it

thread_local BlockExecutor* running_executor = nullptr;

void start_switch(void** fake_stack, const void* stack, std::size_t bytes) {
#ifdef ENGRAMD_ASAN
  __sanitizer_start_switch_fiber(fake_stack, stack, bytes);
#else
  static_cast<void>(fake_stack), static_cast<void>(stack), static_cast<void>(bytes);
#endif
}
void finish_switch(void* fake_stack, const void** stack, std::size_t* bytes) {
#ifdef ENGRAMD_ASAN
  __sanitizer_finish_switch_fiber(fake_stack, stack, bytes);
#else
  static_cast<void>(fake_stack), static_cast<void>(stack), static_cast<void>(bytes);
#endif
}
void forget_frames(const void* stack, std::size_t bytes) {
#ifdef ENGRAMD_ASAN
  __asan_unpoison_memory_region(stack, bytes);
#else
  static_cast<void>(stack), static_cast<void>(bytes);
#endif
}

std::byte* map_pages(std::size_t bytes, int protection) {
  void* memory =
      mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ENGRAMD_ASSERT(memory != MAP_FAILED);
  return static_cast<std::byte*>(memory);
}

std::string text_of(const Site& site) {
  const std::string file = site.file;
  return file.substr(file.rfind('/') + 1) + ":" + std::to_string(site.line);
}

float half_of(std::uint32_t word, int half) {
  return decode_bf16(static_cast<std::uint16_t>(word >> (16 * half)));
}

}  // namespace

void index_out_of_bounds(std::int64_t index, std::int64_t size) {
  running_executor->note_fault("index " + std::to_string(index) + " outside [0, " +
                               std::to_string(size) + ")");
  running_executor->abandon();
}

void pointer_misaligned(const void*, std::size_t bytes) {
  running_executor->note_fault("an access of " + std::to_string(bytes) + " bytes is not aligned");
  running_executor->abandon();
}

// ---- the thread ----

bool FiberThread::mutated(Mutation::Kind kind, const Site& site) const {
  const Mutation& mutation = executor_->mutation_;
  return mutation.kind == kind && mutation.place.site == site &&
         mutation.place.kernel == executor_->kernel_name_;
}

int FiberThread::bound(int n, Site site) {
  executor_->note(SiteKind::kRange, site);
  if (mutated(Mutation::Kind::kRangeShort, site)) return n - 1;
  return mutated(Mutation::Kind::kRangeLong, site) ? n + 1 : n;
}

void FiberThread::sync(const char* file, int line) {
  const Site site{file, line};
  executor_->note(SiteKind::kBarrier, site);
  if (mutated(Mutation::Kind::kDropBarrier, site)) return;
  executor_->arrive_at_barrier(site);
}

const std::byte* FiberThread::slot(int lane) const {
  const auto& slots =
      executor_->warps_[static_cast<std::size_t>(warp())].slots[(warp_operations_ - 1) % 2];
  return slots.data() + static_cast<std::size_t>(lane) * kSlotBytes;
}

// Two sets of slots: a lane can fill the next operation's while others still read this one's, and
// nobody reaches the one after that before all have left this one.
bool FiberThread::warp_rendezvous(SiteKind kind, Site site, const void* bytes, std::size_t size) {
  executor_->note(kind, site);
  auto& slots = executor_->warps_[static_cast<std::size_t>(warp())].slots[warp_operations_++ % 2];
  std::memcpy(slots.data() + static_cast<std::size_t>(lane()) * kSlotBytes, bytes, size);
  return executor_->arrive_at_warp(*this, kind, site);
}

void FiberThread::sync_warp(const char* file, int line) {
  const Site site{file, line};
  executor_->note(SiteKind::kWarpBarrier, site);
  if (mutated(Mutation::Kind::kDropBarrier, site)) return;
  const char nothing = 0;
  warp_rendezvous(SiteKind::kWarpBarrier, site, &nothing, 1);
}

bool FiberThread::any(bool value, const char* file, int line) {
  const Site site{file, line};
  warp_rendezvous(SiteKind::kVote, site, &value, sizeof(value));
  const int first = mutated(Mutation::Kind::kWrongLane, site) ? 1 : 0;
  for (int other = first; other < kWarpLanes; ++other) {
    if (*slot(other) != std::byte{0}) return true;
  }
  return false;
}

// The scalar twin of mma.m16n8k16; execution.h says where each element lies.
void FiberThread::mma(MmaD& d, const MmaA& a, const MmaB& b, const char* file, int line) {
  const Site site{file, line};
  struct Operands {
    MmaA a;
    MmaB b;
  } mine{a, b};
  if (mutated(Mutation::Kind::kSwapOperands, site)) std::swap(mine.a.words[0], mine.a.words[1]);
  auto& products = executor_->warps_[static_cast<std::size_t>(warp())].products;
  if (warp_rendezvous(SiteKind::kMma, site, &mine, sizeof(mine))) {
    float rows[16][16];    // A
    float columns[16][8];  // B
    for (int other = 0; other < kWarpLanes; ++other) {
      Operands operands;
      std::memcpy(&operands, slot(other), sizeof(operands));
      const int g = other / 4;
      const int p = other % 4;
      for (int half = 0; half < 2; ++half) {
        for (int word = 0; word < 4; ++word) {
          rows[g + word % 2 * 8][word / 2 * 8 + 2 * p + half] =
              half_of(operands.a.words[word], half);
        }
        for (int word = 0; word < 2; ++word) {
          columns[word * 8 + 2 * p + half][g] = half_of(operands.b.words[word], half);
        }
      }
    }
    for (int row = 0; row < 16; ++row) {
      float sums[8] = {};
      for (int k = 0; k < 16; ++k) {
        for (int n = 0; n < 8; ++n) sums[n] += rows[row][k] * columns[k][n];
      }
      std::memcpy(products[row], sums, sizeof(sums));
    }
  }
  for (int i = 0; i < 4; ++i) {
    d.values[i] += products[lane() / 4 + i / 2 * 8][lane() % 4 * 2 + i % 2];
  }
}

void FiberThread::wait_copies(const char* file, int line) {
  const Site site{file, line};
  executor_->note(SiteKind::kCopyWait, site);
  if (mutated(Mutation::Kind::kDropCopyWait, site)) return;
  for (const auto& [to, from] : pending_) std::memcpy(to, from, 16);
  pending_.clear();
}

// ---- memory ----

BlockExecutor::BlockExecutor(std::int64_t memory_bytes)
    : arena_(map_pages(static_cast<std::size_t>(memory_bytes), PROT_NONE)),
      arena_bytes_(memory_bytes) {}

BlockExecutor::~BlockExecutor() {
  munmap(arena_, static_cast<std::size_t>(arena_bytes_));
  if (stacks_ != nullptr) {
    munmap(stacks_, static_cast<std::size_t>(n_stacks_) * (kStackBytes + kPageBytes));
  }
}

void BlockExecutor::keep_memory_open() {
  memory_stays_open_ = true;
  ENGRAMD_ASSERT(mprotect(arena_, static_cast<std::size_t>(arena_bytes_), PROT_READ | PROT_WRITE) ==
                 0);
}

void BlockExecutor::open_memory() {
  if (memory_stays_open_) return;
  ENGRAMD_ASSERT(mprotect(arena_, static_cast<std::size_t>(arena_used_), PROT_READ | PROT_WRITE) ==
                 0);
}
void BlockExecutor::close_memory() {
  if (memory_stays_open_) return;
  ENGRAMD_ASSERT(mprotect(arena_, static_cast<std::size_t>(arena_used_), PROT_NONE) == 0);
}

void* BlockExecutor::allocate(std::int64_t bytes) {
  const std::int64_t size =
      ceil_divide(std::max<std::int64_t>(bytes, 1), kAlignmentBytes) * kAlignmentBytes;
  std::byte* memory = nullptr;
  auto& reusable = free_[size];
  if (!reusable.empty()) {
    memory = reusable.back();
    reusable.pop_back();
  } else {
    if (arena_used_ + size + kGapBytes > arena_bytes_) {
      throw DeviceError("out of device memory: " + std::to_string(bytes) + " bytes wanted, " +
                        std::to_string(arena_bytes_ - arena_used_) + " left");
    }
    memory = arena_ + arena_used_;
    const std::int64_t pages = ceil_divide(arena_used_ + size + kGapBytes, kPageBytes);
    arena_used_ = arena_used_ + size + kGapBytes;
    ENGRAMD_ASSERT(pages * static_cast<std::int64_t>(kPageBytes) <= arena_bytes_);
  }
  sizes_[memory] = size;
  bytes_in_use_ += size;
  open_memory();
  std::memset(memory, 0xFF, static_cast<std::size_t>(size));  // NaN until written
  close_memory();
  return memory;
}

void BlockExecutor::release(void* memory) {
  if (memory == nullptr) return;
  const auto found = sizes_.find(static_cast<std::byte*>(memory));
  ENGRAMD_ASSERT(found != sizes_.end());
  bytes_in_use_ -= found->second;
  free_[found->second].push_back(found->first);
  sizes_.erase(found);
}

void* BlockExecutor::allocate_pinned(std::int64_t bytes) {
  return ::operator new (static_cast<std::size_t>(bytes), std::align_val_t{256});
}
void BlockExecutor::release_pinned(void* memory) {
  ::operator delete (memory, std::align_val_t{256});
}

void BlockExecutor::upload(void* to, const void* from, std::int64_t bytes) {
  if (bytes == 0) return;
  open_memory();
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
  close_memory();
}
void BlockExecutor::download(void* to, const void* from, std::int64_t bytes) {
  upload(to, from, bytes);
}
void BlockExecutor::copy(void* to, const void* from, std::int64_t bytes) {
  if (bytes == 0) return;
  open_memory();
  std::memmove(to, from, static_cast<std::size_t>(bytes));
  close_memory();
}

// ---- the scheduler ----

void BlockExecutor::prepare_stacks(int n_threads) {
  if (n_threads > n_stacks_) {
    const std::size_t step = kStackBytes + kPageBytes;
    if (stacks_ != nullptr) munmap(stacks_, static_cast<std::size_t>(n_stacks_) * step);
    stacks_ = map_pages(static_cast<std::size_t>(n_threads) * step, PROT_READ | PROT_WRITE);
    n_stacks_ = n_threads;
    for (int i = 0; i < n_threads; ++i) {
      mprotect(stacks_ + static_cast<std::size_t>(i) * step, kPageBytes, PROT_NONE);
    }
  }
  fibers_.resize(static_cast<std::size_t>(n_threads));
  warps_.resize(static_cast<std::size_t>(n_threads / kWarpLanes));
  for (Warp& warp : warps_) {
    for (auto& slots : warp.slots) slots.resize(kWarpLanes * FiberThread::kSlotBytes);
  }
  order_.resize(static_cast<std::size_t>(n_threads));
  std::iota(order_.begin(), order_.end(), 0);
  if (schedule_ == Schedule::kReverse) std::reverse(order_.begin(), order_.end());
}

void BlockExecutor::enter(boost::context::detail::transfer_t from) {
  auto* executor = static_cast<BlockExecutor*>(from.data);
  executor->scheduler_ = from.fctx;
  finish_switch(nullptr, &executor->scheduler_stack_, &executor->scheduler_stack_bytes_);
  Fiber& fiber = *executor->running_;
  executor->body_(executor->kernel_, fiber.thread, executor->shared_.data());
  fiber.state = State::kDone;
  --executor->n_live_;
  executor->release_barrier_if_complete();
  start_switch(nullptr, executor->scheduler_stack_, executor->scheduler_stack_bytes_);
  boost::context::detail::jump_fcontext(executor->scheduler_, nullptr);
}

void BlockExecutor::resume(Fiber& fiber) {
  running_ = &fiber;
  start_switch(&scheduler_fake_stack_, fiber.stack, kStackBytes);
  fiber.context = boost::context::detail::jump_fcontext(fiber.context, this).fctx;
  finish_switch(scheduler_fake_stack_, nullptr, nullptr);
  running_ = nullptr;
}

void BlockExecutor::suspend() {
  Fiber& fiber = *running_;
  start_switch(&fiber.fake_stack, scheduler_stack_, scheduler_stack_bytes_);
  scheduler_ = boost::context::detail::jump_fcontext(scheduler_, nullptr).fctx;
  finish_switch(fiber.fake_stack, &scheduler_stack_, &scheduler_stack_bytes_);
}

std::string BlockExecutor::place() const {
  const FiberThread& thread = running_->thread;
  return std::string(kernel_name_) + ", block (" + std::to_string(thread.block_x_) + ", " +
         std::to_string(thread.block_y_) + ", " + std::to_string(thread.block_z_) + "), thread " +
         std::to_string(thread.index_);
}

// The fiber is left where it stands: kernels own nothing that would have to be destroyed.
void BlockExecutor::note_fault(const std::string& what) {
  if (fault_.empty()) fault_ = place() + ": " + what;
}
void BlockExecutor::abandon() {
  suspend();
  std::abort();  // nobody resumes it
}

void BlockExecutor::arrive_at_barrier(Site site) {
  running_->state = State::kAtBarrier;
  running_->site = site;
  running_->kind = SiteKind::kBarrier;
  ++n_at_barrier_;
  release_barrier_if_complete();
  if (running_->state == State::kAtBarrier) suspend();
}

void BlockExecutor::release_barrier_if_complete() {
  if (n_at_barrier_ == 0 || n_at_barrier_ != n_live_) return;
  const Fiber* first = nullptr;
  for (Fiber& fiber : fibers_) {
    if (fiber.state != State::kAtBarrier) continue;
    if (first == nullptr) first = &fiber;
    if (fiber.site == first->site) continue;
    note_fault("divergent barrier: thread " + std::to_string(first->thread.index_) + " waits at " +
               text_of(first->site) + ", thread " + std::to_string(fiber.thread.index_) + " at " +
               text_of(fiber.site));
    abandon();
  }
  for (Fiber& fiber : fibers_) {
    if (fiber.state == State::kAtBarrier) fiber.state = State::kReady;
  }
  n_at_barrier_ = 0;
  first_released_ = 0;
}

bool BlockExecutor::arrive_at_warp(FiberThread& thread, SiteKind kind, Site site) {
  running_->state = State::kAtWarp;
  running_->site = site;
  running_->kind = kind;
  Warp& warp = warps_[static_cast<std::size_t>(thread.warp())];
  if (++warp.n_arrived < kWarpLanes) {
    suspend();
    return false;
  }
  warp.n_arrived = 0;
  const auto first = fibers_.begin() + std::ptrdiff_t{thread.warp()} * kWarpLanes;
  for (auto other = first; other != first + kWarpLanes; ++other) {
    if (other->site == site && other->kind == kind) continue;
    note_fault("warp operation at " + text_of(site) + ", but lane " +
               std::to_string(other->thread.lane()) + " is at one at " + text_of(other->site));
    abandon();
  }
  for (auto other = first; other != first + kWarpLanes; ++other) other->state = State::kReady;
  look_again(thread.warp());
  return true;
}

void BlockExecutor::report_stuck_block() {
  const Fiber* waiting = nullptr;
  const Fiber* elsewhere = nullptr;
  for (const Fiber& fiber : fibers_) {
    const bool waits = fiber.state == State::kAtBarrier || fiber.state == State::kAtWarp;
    if (waits && waiting == nullptr) {
      waiting = &fiber;
    } else if (waiting != nullptr && !(fiber.site == waiting->site && waits)) {
      elsewhere = &fiber;
    }
  }
  if (elsewhere == nullptr) elsewhere = &fibers_.front();
  running_ = &fibers_[static_cast<std::size_t>(waiting->thread.index_)];
  fault_ = place() + ": waits for ever at " + text_of(waiting->site) + "; thread " +
           std::to_string(elsewhere->thread.index_) +
           (elsewhere->state == State::kDone ? " has ended" : " is at " + text_of(elsewhere->site));
  running_ = nullptr;
}

void BlockExecutor::run_block(int n_threads, std::int64_t x, int y, int z, const Grid& grid) {
  std::fill(shared_.begin(), shared_.end(), std::byte{0xFF});
  std::fill(dynamic_shared_.begin(), dynamic_shared_.end(), std::byte{0xFF});
  if (schedule_ == Schedule::kShuffled) std::shuffle(order_.begin(), order_.end(), shuffle_);
  n_live_ = n_threads;
  n_at_barrier_ = 0;
  for (Warp& warp : warps_) warp.n_arrived = 0;
  for (int i = 0; i < n_threads; ++i) {
    Fiber& fiber = fibers_[static_cast<std::size_t>(i)];
    fiber.stack = stacks_ + static_cast<std::size_t>(i) * (kStackBytes + kPageBytes) + kPageBytes;
    fiber.context = boost::context::detail::make_fcontext(fiber.stack + kStackBytes, kStackBytes,
                                                          &BlockExecutor::enter);
    fiber.state = State::kReady;
    fiber.fake_stack = nullptr;
    fiber.site = {};
    FiberThread& thread = fiber.thread;
    thread.executor_ = this;
    thread.index_ = i;
    thread.n_threads_ = n_threads;
    thread.block_x_ = x;
    thread.block_y_ = y;
    thread.block_z_ = z;
    thread.n_blocks_y_ = grid.blocks_y;
    thread.dynamic_shared_ = {reinterpret_cast<float*>(dynamic_shared_.data()),
                              static_cast<std::int64_t>(dynamic_shared_.size() / sizeof(float))};
    thread.pending_.clear();
    thread.warp_operations_ = 0;
  }
  // Always the first in order that can go on: a warp runs as far ahead of the others as it may.
  for (std::size_t next = 0; n_live_ > 0 && fault_.empty();) {
    while (next < order_.size() &&
           fibers_[static_cast<std::size_t>(order_[next])].state != State::kReady) {
      ++next;
    }
    if (next == order_.size()) {
      report_stuck_block();
      return;
    }
    first_released_ = next + 1;
    resume(fibers_[static_cast<std::size_t>(order_[next])]);
    next = first_released_;
  }
}

// Threads that wait can go on: the scheduler looks at the order again, from where they stand in it.
void BlockExecutor::look_again(int warp) {
  std::size_t first = 0;
  if (schedule_ == Schedule::kForward) {
    first = static_cast<std::size_t>(warp) * kWarpLanes;
  } else if (schedule_ == Schedule::kReverse) {
    first = order_.size() - (static_cast<std::size_t>(warp) + 1) * kWarpLanes;
  }
  first_released_ = std::min(first_released_, first);
}

void BlockExecutor::run_grid(Body body, const void* kernel, int n_threads, std::size_t shared_bytes,
                             const Grid& grid) {
  ENGRAMD_ASSERT(running_executor == nullptr);
  const std::int64_t shared_total =
      static_cast<std::int64_t>(shared_bytes) + grid.dynamic_shared_bytes;
  if (shared_total > limits_.shared_bytes_per_block) {
    throw Fault("a launch with " + std::to_string(shared_total) + " bytes of shared memory, " +
                std::to_string(limits_.shared_bytes_per_block) + " are there");
  }
  if (grid.blocks_x < 1 || grid.blocks_x > 0x7FFFFFFF || grid.blocks_y < 1 || grid.blocks_z < 1 ||
      grid.blocks_y > 65535 || grid.blocks_z > 65535) {
    throw Fault("a launch of " + std::to_string(grid.blocks_x) + " x " +
                std::to_string(grid.blocks_y) + " x " + std::to_string(grid.blocks_z) + " blocks");
  }
  ++n_launches_;
  prepare_stacks(n_threads);
  shared_.resize(std::max<std::size_t>(shared_bytes, 1));
  dynamic_shared_.resize(static_cast<std::size_t>(grid.dynamic_shared_bytes));
  body_ = body;
  kernel_ = kernel;
  running_executor = this;
  fault_.clear();
  open_memory();
  const std::int64_t n_blocks = grid.blocks_x * grid.blocks_y * grid.blocks_z;
  for (std::int64_t i = 0; i < n_blocks && fault_.empty(); ++i) {
    const std::int64_t block = schedule_ == Schedule::kReverse ? n_blocks - 1 - i : i;
    const std::int64_t rest = block / grid.blocks_x;
    run_block(n_threads, block % grid.blocks_x, static_cast<int>(rest % grid.blocks_y),
              static_cast<int>(rest / grid.blocks_y), grid);
  }
  close_memory();
  running_executor = nullptr;
  if (fault_.empty()) return;
  forget_frames(stacks_, static_cast<std::size_t>(n_stacks_) * (kStackBytes + kPageBytes));
  throw Fault(fault_);
}

}  // namespace engramd::kernels::cuda
