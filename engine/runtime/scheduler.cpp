#include "engine/runtime/scheduler.h"

#include <algorithm>
#include <utility>

namespace engramd::engine {

Scheduler::Scheduler(const Model& model, const LiveTables& tables, const Tokenizer& tokenizer,
                     kernels::Backend& backend, KvCache& cache, const LocalEngineOptions& options,
                     std::string model_name)
    : model_(&model),
      tables_(&tables),
      tokenizer_(&tokenizer),
      cache_(&cache),
      options_(options),
      model_name_(std::move(model_name)),
      step_(model, backend, cache, options.async_prefetch),
      prefixes_(cache, step_),
      thread_([this] { run(); }) {}

Scheduler::~Scheduler() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_.request_stop();
  wake_.notify_one();
  thread_.join();
}

Result<void> Scheduler::room_for_one_more(std::size_t n_waiting) const {
  if (stopping_) return unavailable("the engine is shutting down");
  if (static_cast<int>(n_waiting) < options_.queue_length_max) return {};
  return busy("the queue is full: " + std::to_string(n_waiting) +
              " requests wait (limits.queue_length_max); try again later");
}

void Scheduler::submit(ChatJob job) {
  std::unique_lock lock(mutex_);
  auto room = room_for_one_more(waiting_.size());
  if (room.has_error()) {
    lock.unlock();
    return job.callbacks.on_done(room.error());
  }
  ++stats_.requests_started;
  waiting_.push_back(std::move(job));
  wake_.notify_one();
}

Result<void> Scheduler::background(Advance advance) {
  const std::lock_guard lock(mutex_);
  auto room = room_for_one_more(background_.size());
  if (room.has_error()) return room;
  background_.push_back(std::move(advance));
  wake_.notify_one();
  return {};
}

EngineStats Scheduler::stats() const {
  const std::lock_guard lock(mutex_);
  EngineStats stats = stats_;
  stats.queue_length = static_cast<std::int64_t>(waiting_.size() + background_.size());
  stats.row_reads = step_.row_reads();
  return stats;
}

EngineMemory Scheduler::memory() const {
  const std::lock_guard lock(mutex_);
  return memory_;
}

void Scheduler::note_memory() {
  memory_.kv_cache = cache_->bytes_in_use();
  memory_.kept_prefixes = prefixes_.n_blocks() * cache_->block_bytes();
  memory_.activations = step_.activation_bytes();
}

void Scheduler::run() {
  for (;;) {
    Advance background;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] {
        return stopping_ || !waiting_.empty() || !background_.empty() || !running_.empty() || next_;
      });
      if (stopping_) break;
      if (!background_.empty()) {
        background = std::move(background_.front());
        background_.pop_front();
      }
    }
    if (background && !background(!running_.empty())) put_back(std::move(background));
    drop_cancelled();
    admit();
    if (!running_.empty()) step();
  }
  end_everything();
}

// Behind the others that wait, and even when the engine stops meanwhile: somebody ends it.
void Scheduler::put_back(Advance advance) {
  const std::lock_guard lock(mutex_);
  background_.push_back(std::move(advance));
}

void Scheduler::end_everything() {
  while (!running_.empty()) finish(take(running_.size() - 1), FinishReason::kCancelled);
  if (next_) finish(std::move(next_), FinishReason::kCancelled);
  std::deque<ChatJob> waiting;
  std::deque<Advance> background;
  {
    const std::lock_guard lock(mutex_);  // stopping_: nothing is added any more
    waiting.swap(waiting_);
    background.swap(background_);
  }
  for (ChatJob& job : waiting) job.callbacks.on_done(cancelled("the engine is shutting down"));
  for (auto& advance : background) {
    while (!advance(false)) {  // sees stop() and ends at once
    }
  }
}

void Scheduler::drop_cancelled() {
  for (std::size_t i = running_.size(); i-- > 0;) {
    if (running_[i]->cancelled()) finish(take(i), FinishReason::kCancelled);
  }
  std::vector<ChatJob> dropped;
  {
    const std::lock_guard lock(mutex_);
    const auto first =
        std::stable_partition(waiting_.begin(), waiting_.end(),
                              [](const ChatJob& job) { return !job.stop.stop_requested(); });
    std::move(first, waiting_.end(), std::back_inserter(dropped));
    waiting_.erase(first, waiting_.end());
    stats_.requests_cancelled += static_cast<std::int64_t>(dropped.size());
  }
  for (ChatJob& job : dropped) job.callbacks.on_done(cancelled("cancelled while waiting"));
}

void Scheduler::admit() {
  while (static_cast<int>(running_.size()) < options_.max_batch_size) {
    if (!next_) {
      const std::lock_guard lock(mutex_);
      if (waiting_.empty()) return;
      next_ = std::make_unique<Generation>(std::move(waiting_.front()), *model_, *tokenizer_,
                                           *cache_, model_name_);
      waiting_.pop_front();
    }
    if (next_->cancelled()) {
      finish(std::move(next_), FinishReason::kCancelled);
      continue;
    }
    if (!make_room_for(*next_)) return;  // something that runs will give blocks back
    if (const auto begun = begin(*next_, tables_->view()); !begun) {
      fail(std::move(next_), begun.error());
      continue;
    }
    running_.push_back(std::move(next_));
    const std::lock_guard lock(mutex_);
    stats_.running = static_cast<std::int64_t>(running_.size());
  }
}

// Shared blocks count for each that holds them: an edit may part them.
bool Scheduler::make_room_for(const Generation& generation) {
  std::int64_t n_taken = generation.n_blocks_max();
  for (const auto& running : running_) n_taken += running->n_blocks_max();
  return n_taken <= cache_->n_blocks();
}

Result<void> Scheduler::begin(Generation& generation, const TableView& view) {
  Sequence& sequence = generation.sequence();
  // The last prompt token is computed in any case: its logits are wanted.
  prefixes_.adopt_into(sequence, view, sequence.size() - 1);
  const std::int64_t n_adopted = sequence.n_cached();
  prefixes_.make_room(generation.n_blocks_max() - n_adopted / kernels::kBlockTokens);
  ENGRAMD_ASSERT(sequence.reserve(generation.n_blocks_max() * kernels::kBlockTokens));
  if (n_adopted == 0) return {};
  {
    const std::lock_guard lock(mutex_);
    stats_.cached_prompt_tokens += n_adopted;
  }
  return step_.count_only(generation.adopted_slice(), view);
}

void Scheduler::choose_slices(const TableView& view) {
  slices_.clear();
  slice_owner_.clear();
  slice_is_prompt_.clear();
  std::int64_t budget = options_.prefill_chunk_tokens;
  for (std::size_t i = 0; i < running_.size(); ++i) {
    Generation& generation = *running_[i];
    prefixes_.refresh(generation.sequence(), view);
    const bool prompt = generation.in_prefill();
    if (prompt && budget == 0) continue;
    slices_.push_back(generation.next_slice(prompt ? budget : 1));
    slice_owner_.push_back(i);
    slice_is_prompt_.push_back(prompt);
    if (!prompt) continue;
    budget -= slices_.back().end - slices_.back().begin;
  }
}

// Of the first prompt that is not done with this pass.
ReadAhead Scheduler::next_chunks() const {
  const std::int64_t n_tokens =
      std::int64_t{options_.prefetch_window} * options_.prefill_chunk_tokens;
  for (const SequenceSlice& slice : slices_) {
    if (!slice.no_logits || n_tokens == 0) continue;
    return {slice.sequence, slice.end, std::min(slice.sequence->size(), slice.end + n_tokens)};
  }
  return {};
}

void Scheduler::step() {
  const TableView view = tables_->view();
  choose_slices(view);
  // A lone request can stop between layers, in company it stops between passes; the engine's own
  // end stops every pass.
  std::stop_source stop;
  const auto end_pass = [&stop] { stop.request_stop(); };
  const std::stop_callback on_engine_stop(stop_.get_token(), end_pass);
  const std::stop_callback on_request_stop(
      slices_.size() == 1 ? running_[slice_owner_.front()]->stop() : std::stop_token(), end_pass);
  const auto started = Clock::now();
  const auto logits = step_.run(slices_, view, stop.get_token(), nullptr, next_chunks());
  const double seconds = std::chrono::duration<double>(Clock::now() - started).count();
  if (stop.stop_requested()) return;  // drop_cancelled or the destructor ends what was running
  if (logits.has_error()) return fail_pass(logits.error());
  count_pass(*logits, seconds);
  deliver(*logits);
}

void Scheduler::count_pass(std::span<const float> logits, double seconds) {
  std::int64_t n_prompt = 0;
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    if (slice_is_prompt_[i]) n_prompt += slices_[i].end - slices_[i].begin;
  }
  const std::lock_guard lock(mutex_);
  stats_.prompt_tokens += n_prompt;
  stats_.generated_tokens += static_cast<std::int64_t>(logits.size()) / model_->config.vocab_size;
  (n_prompt > 0 ? stats_.prefill_seconds : stats_.decode_seconds) += seconds;
  note_memory();
}

void Scheduler::deliver(std::span<const float> logits) {
  const auto vocab_size = static_cast<std::size_t>(model_->config.vocab_size);
  std::size_t at = logits.size();
  for (std::size_t i = slices_.size(); i-- > 0;) {  // backwards: finished ones leave running_
    Generation& generation = *running_[slice_owner_[i]];
    if (slice_is_prompt_[i]) generation.report_prefill();
    if (slices_[i].no_logits) continue;
    at -= vocab_size;
    const auto reason = generation.accept(logits.subspan(at, vocab_size));
    if (reason) finish(take(slice_owner_[i]), *reason);
  }
}

std::unique_ptr<Generation> Scheduler::take(std::size_t index) {
  auto generation = std::move(running_[index]);
  running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(index));
  return generation;
}

// A row that cannot be read: whoever was in the pass may have needed it.
void Scheduler::fail_pass(const Error& error) {
  for (std::size_t i = slice_owner_.size(); i-- > 0;) fail(take(slice_owner_[i]), error);
}

void Scheduler::fail(std::unique_ptr<Generation> generation, const Error& error) {
  const auto on_done = generation->on_done();
  generation.reset();
  {
    const std::lock_guard lock(mutex_);
    ++stats_.requests_failed;
    stats_.running = static_cast<std::int64_t>(running_.size());
    note_memory();
  }
  on_done(error);
}

void Scheduler::finish(std::unique_ptr<Generation> generation, FinishReason reason) {
  ChatResult result = generation->finish(reason);
  prefixes_.keep(generation->sequence());
  const auto on_done = generation->on_done();
  generation.reset();
  {
    const std::lock_guard lock(mutex_);
    const bool was_cancelled = reason == FinishReason::kCancelled;
    ++(was_cancelled ? stats_.requests_cancelled : stats_.requests_finished);
    stats_.engram.add(result.engram_prompt);
    stats_.engram.add(result.engram_generated);
    stats_.running = static_cast<std::int64_t>(running_.size());
    note_memory();
  }
  on_done(std::move(result));
}

}  // namespace engramd::engine
