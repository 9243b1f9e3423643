// Scheduler: the engine thread. Continuous batching: every pass advances all running generations
// together, one token each, and prompts by chunks. Takes waiting requests in order of arrival as
// soon as a place in the batch and cache blocks for the whole answer are free, so that nothing that
// has started can run out of memory.
// Threads: submit(), background() and stats() from any; everything else on the engine thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/runtime/generation.h"
#include "engine/runtime/local_engine.h"
#include "engine/runtime/prefix_cache.h"

namespace engramd::engine {

class Scheduler {
 public:
  // All referenced objects outlive the scheduler.
  Scheduler(const Model& model, const LiveTables& tables, const Tokenizer& tokenizer,
            kernels::Backend& backend, KvCache& cache, const LocalEngineOptions& options,
            std::string model_name);
  ~Scheduler();  // cancels what waits and runs, then joins

  // Every outcome reaches the job's on_done, a full queue included (kBusy).
  void submit(ChatJob job);
  // `advance` is called between passes until it returns true. Its turns are short, and shorter
  // still when chats run beside it. Refused when the queue is full or the engine stops.
  using Advance = std::function<bool(bool chats_run)>;
  Result<void> background(Advance advance);
  std::stop_token stop() const { return stop_.get_token(); }  // of the whole engine

  EngineStats stats() const;
  EngineMemory memory() const;  // caches and activations; the rest is 0

 private:
  void run();
  void admit();
  bool make_room_for(const Generation& generation);
  Result<void> begin(Generation& generation, const TableView& view);
  void drop_cancelled();
  void end_everything();
  Result<void> room_for_one_more(std::size_t n_waiting) const;  // under mutex_
  void put_back(Advance advance);
  void step();
  void choose_slices(const TableView& view);
  ReadAhead next_chunks() const;
  void note_memory();  // under mutex_
  void count_pass(std::span<const float> logits, double seconds);
  // Samples the next token of every slice that has logits.
  void deliver(std::span<const float> logits);
  std::unique_ptr<Generation> take(std::size_t index);  // out of running_
  // Leaves the blocks to the prefix cache and counts, then tells the caller.
  void finish(std::unique_ptr<Generation> generation, FinishReason reason);
  void fail(std::unique_ptr<Generation> generation, const Error& error);
  void fail_pass(const Error& error);

  const Model* model_;
  const LiveTables* tables_;
  const Tokenizer* tokenizer_;
  KvCache* cache_;
  const LocalEngineOptions options_;
  const std::string model_name_;

  // engine thread
  Step step_;
  PrefixCache prefixes_;
  std::vector<std::unique_ptr<Generation>> running_;
  std::unique_ptr<Generation> next_;  // admitted to the thread, waiting for cache blocks
  std::vector<SequenceSlice> slices_;
  std::vector<std::size_t> slice_owner_;  // index into running_
  std::vector<bool> slice_is_prompt_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::deque<ChatJob> waiting_;
  std::deque<Advance> background_;
  bool stopping_ = false;
  EngineStats stats_;
  EngineMemory memory_;  // what memory() reports

  std::stop_source stop_;
  std::thread thread_;
};

}  // namespace engramd::engine
