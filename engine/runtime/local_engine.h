// LocalEngine: a loaded model that chats, looks up and inspects. Owns the weights, the Engram
// tables, the KV cache, the compute pool and the engine thread that uses them.
// Threads: every member may be called from any thread. Generation and gate inspection run on the
// engine thread; their callbacks are called there and must return quickly (post() elsewhere).
// Not here: JSON, sockets, routing to a remote.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "config/result.h"
#include "engine/engram/prefetcher.h"
#include "engine/inspect/gate_report.h"
#include "engine/inspect/lookup_report.h"
#include "engine/runtime/chat_backend.h"
#include "engine/runtime/table_editor.h"
#include "engine/teach/teacher.h"

namespace engramd::engine {

struct LocalEngineOptions {
  std::string model_folder;             // config.json, model.safetensors, tokenizer.json ...
  std::string device = "auto";          // auto, cpu, cuda:N
  double gpu_memory_utilization = 0.9;  // share of a GPU's memory that may be used
  std::string backend = "auto";         // on the processor: auto, reference, avx512, avx2, portable
  std::string dtype = "float32";        // arithmetic of the fast backend: float32, bfloat16
  int threads = 0;                      // 0: all cores
  int max_batch_size = 8;               // sequences decoded together
  std::string kv_cache_dtype = "float32";  // float32, bfloat16, fp8
  std::int64_t kv_cache_bytes_max = 0;     // 0: room for max_batch_size full contexts
  int prefill_chunk_tokens = 256;
  int queue_length_max = 256;           // waiting requests; one more is refused
  int experts_per_token = 0;            // 0: the model's own
  std::int64_t context_tokens_max = 0;  // prompt and answer; 0: the model's own limit
  std::int64_t prompt_tokens_max = 0;   // 0: what the context allows
  bool engram_enabled = true;           // false: off for every request
  LiveTablesOptions tables;             // where Engram rows are read from, where edits are kept
  bool async_prefetch = true;           // read rows beside the computation
  int prefetch_window = 1;              // prompt chunks whose rows are read ahead
};

struct ModelFacts {  // what was opened, for reports and for checking the users' files against
  std::string name;  // the folder's name
  std::string folder;
  std::string model_type;
  std::string backend;      // what runs: "avx512", "reference", "cuda:0" ...
  std::string device_plan;  // what a GPU must hold for it, whether it runs on one or not
  std::string device_note;  // why no GPU is used, where one could have been meant; or empty
  std::string dtype;
  int threads = 0;
  std::int64_t vocab_size = 0;
  std::int64_t compressed_vocab_size = 0;
  int hidden_size = 0, num_hidden_layers = 0, num_attention_heads = 0;
  int n_routed_experts = 0, num_experts_per_tok = 0, n_shared_experts = 0;
  int n_streams = 1;
  int context_length = 0;
  double rms_norm_eps = 0;
  std::vector<std::int64_t> engram_layer_ids;  // 0-based
  int engram_max_ngram_size = 0, engram_heads = 0, engram_head_dim = 0;
  std::vector<std::int64_t> engram_rows;                 // per Engram layer
  std::vector<std::vector<std::int64_t>> engram_primes;  // per Engram layer, [n_columns]
  std::string engram_codec;
  // Where its rows are: mapped (the file's own pages), resident (a copy in memory), file (read as
  // needed).
  TableMode engram_mode = TableMode::kMapped;
  double load_ms = 0;
  std::vector<std::string> warnings;  // what is odd in its files but harmless, one line each
};

struct EngineMemory {        // bytes
  std::int64_t weights = 0;  // mapped from the file
  std::int64_t table = 0;    // Engram rows, scales and owner tags
  std::int64_t kv_cache = 0;
  std::int64_t kept_prefixes = 0;  // of kv_cache: left by finished sequences, given up when needed
  std::int64_t activations = 0;
};

struct EngineStats {  // a consistent snapshot, counters since start
  std::int64_t requests_started = 0, requests_finished = 0, requests_cancelled = 0,
               requests_failed = 0;
  std::int64_t prompt_tokens = 0, generated_tokens = 0;
  double prefill_seconds = 0, decode_seconds = 0;  // time in the engine
  std::int64_t queue_length = 0, running = 0;
  EngramCounts engram;
  std::int64_t cached_prompt_tokens = 0;  // found in the prefix cache, not computed
  RowReadStats row_reads;
  TableReadStats file_reads;  // of a table in a row file
};

class LocalEngine final : public ChatBackend {
 public:
  // Blocks while it maps, checks and binds; call it from a loading thread.
  static Result<std::unique_ptr<LocalEngine>> open(const LocalEngineOptions& options);
  ~LocalEngine() override;  // cancels what runs, then joins

  // Errors reach on_done: prompt too long (names both numbers), full queue, invalid sampling.
  // All of them inside start(), on the caller's thread, but for failures of the forward pass.
  void start(ChatRequest request, ChatCallbacks callbacks, std::stop_token stop) override;

  // Beginning-of-sentence is put in front of `text`, as for a plain completion.
  Result<std::vector<TokenId>> encode_text(const std::string& text) const;
  // The prompt exactly as chat would feed it.
  Result<std::vector<TokenId>> encode_messages(const std::vector<ChatMessage>& messages,
                                               bool continue_last = false) const;
  // Whether a prompt of that many tokens leaves room for an answer; the error names both numbers.
  Result<void> check_prompt(std::size_t n_tokens) const;

  Result<LookupReport> lookup(const std::vector<TokenId>& ids, const LookupOptions& options) const;

  void inspect_gates(std::vector<TokenId> ids, GateOptions options,
                     std::function<void(std::int64_t done, std::int64_t total)> on_progress,
                     std::function<void(Result<GateReport>)> on_done, std::stop_token stop);

  // A vector per input, [hidden_size]: the mean over its tokens of the final hidden states (behind
  // the last norm). Every outcome reaches on_done.
  void embed(std::vector<std::vector<TokenId>> inputs,
             std::function<void(Result<std::vector<std::vector<float>>>)> on_done,
             std::stop_token stop);

  TableEditor& editor();  // of the tables it serves: any thread
  Teacher& teacher();     // of facts, into the same tables: any thread; its calls block

  const Tokenizer& tokenizer() const;
  const ModelFacts& facts() const;
  EngineMemory memory() const;
  EngineStats stats() const;

 private:
  struct Impl;
  explicit LocalEngine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace engramd::engine
