// Every setting of the daemon as plain structs with their defaults, one struct per consumer.
// A function takes the smallest struct it needs; only server/ sees Options as a whole.
// Plain values: copy them, read them from any thread. Not here: how a value gets in (load_*.h), its
// keys, ranges and help (option_table.h), what it means for the opened model (verdict.h).
//
// 0 or an empty text or list means "not stated; the model's own" where the comment says so.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace engramd::config {

enum class Dtype { kFloat32, kBfloat16, kFloat16, kFp8 };
enum class BackendChoice { kAuto, kReference, kPortable, kAvx2, kAvx512 };
enum class RoutingStrategy { kTopK, kSharedOnly };
enum class AllowRemote { kAuto, kTrue, kFalse };
enum class LogLevel { kTrace, kDebug, kInfo, kWarn, kError, kOff };

// Which model is opened and where its arithmetic runs.
struct ModelOptions {
  std::string name;         // a folder name in the search path, or a path; empty: bundled model
  std::string search_path;  // folders separated by ':', before share/engramd/models
  Dtype dtype = Dtype::kFloat32;  // kFloat32 or kBfloat16: activations of the fast backend
  std::string device = "auto";    // "auto", "cpu" or "cuda:N"
  BackendChoice backend = BackendChoice::kAuto;
  bool trust_remote_code = false;  // accepted, never runs code
};

// Mixture of experts. Counts describe the model a file was written for; they are checked.
struct MoeOptions {
  std::int64_t num_experts = 0;         // routed experts; 0: not stated
  std::int64_t num_shared_experts = 0;  // 0: not stated
  std::int64_t top_k = 0;               // experts per token; 0: the model's own
  bool expert_parallel = false;
  double router_jitter = 0.0;  // training only
  RoutingStrategy routing_strategy = RoutingStrategy::kTopK;
  bool normalize_gates = true;
};

// Engram as the model computes it. Everything but `enable` describes a layout and is checked.
struct EngramOptions {
  bool enable = true;
  std::int64_t ngram_order = 0;             // highest order, orders are 2..N; 0: not stated
  std::vector<std::int64_t> ngram_orders;   // every order; empty: not stated
  std::int64_t hash_heads = 0;              // heads per order; 0: not stated
  std::int64_t hash_buckets = 0;            // rows per order and head; 0: not stated
  std::int64_t embed_dim = 0;               // columns per row; 0: not stated
  double vocab_compression_ratio = 0.0;     // compressed / raw vocabulary; 0: not stated
  std::int64_t insertion_layer = 0;         // counted from 1; 0: not stated
  bool deterministic_addressing = true;     // false is refused
  double rms_norm_eps = 0.0;                // 0: not stated
  std::string gate_activation = "sigmoid";  // anything else is refused
  bool multi_branch = false;
  std::int64_t num_branches = 0;  // residual streams; 0: not stated
  bool shared_value_projection = true;
  bool branch_specific_key_projection = true;
};

// The table: where its rows are and how they are read.
struct TableOptions {
  std::string path;   // relative paths are resolved against the file that names them
  std::string edits;  // empty: beside `path`, else in state_folder
  // Where a user's state lies (XDG base directories); from the environment, not an option.
  std::string state_folder;
  bool mmap = true;
  bool prefetch = true;
  bool offload_to_host = true;
  double host_memory_limit_gb = 0.0;     // hard limit in units of 1e9 bytes; 0: none
  Dtype lookup_dtype = Dtype::kFloat32;  // kFloat32, kBfloat16 or kFloat16: a decoded row
  std::int64_t cache_levels = 3;  // 1: hot rows, 2: and resident rows, 3: and rows in the file
  bool async_prefetch = true;
  std::int64_t prefetch_window = 1;  // prompt chunks (or drafted tokens) hashed ahead
};

// A layout file of the public demo (engram_config.json): `lookup --layout`, and a check.
struct LayoutOptions {
  std::string tokenizer_name_or_path;
  std::vector<std::int64_t> engram_vocab_size;  // buckets per head, one per order from 2 on
  std::int64_t max_ngram_size = 0;
  std::int64_t n_embed_per_ngram = 0;  // columns per order, all heads together
  std::int64_t n_head_per_ngram = 0;
  std::vector<std::int64_t> layer_ids;  // counted from 0
  std::int64_t pad_id = 0;
  std::int64_t seed = 0;
  std::int64_t kernel_size = 0;  // short convolution, tokens
  std::int64_t hidden_size = 0;
  std::int64_t hc_mult = 0;  // residual streams
  std::int64_t vocab_size = 0;
  std::int64_t num_layers = 0;
};

// How sequences are run.
struct InferenceOptions {
  std::int64_t threads = 0;  // compute threads; 0: one per core this process may use
  std::int64_t max_batch_size = 8;
  Dtype kv_cache_dtype = Dtype::kFloat32;  // kFloat32, kBfloat16 or kFp8
  std::int64_t prefill_chunk_tokens = 256;
  std::int64_t context_tokens_max = 0;  // prompt and answer; 0: the model's own limit
  double kv_cache_limit_gb = 1.0;       // units of 1e9 bytes
  double gpu_memory_utilization = 0.9;  // share of device memory
};

// What a request gets that does not say otherwise.
struct SamplingDefaults {
  double temperature = 0.0;  // 0: greedy
  double top_p = 1.0;
  std::int64_t top_k = 0;  // 0: off
  double min_p = 0.0;
  std::int64_t max_tokens = 256;
  bool stream = true;
};

// The remote, an OpenAI-compatible server. The key itself is never held here.
struct ApiOptions {
  std::string base_url;
  std::string api_key_env = "TAOTOKEN_API_KEY";
  std::int64_t timeout_s = 120;
  std::int64_t connect_timeout_s = 10;
  std::int64_t idle_timeout_s = 60;
  std::int64_t max_retries = 2;
  std::string default_model;
  std::string fallback_model;
  AllowRemote allow_remote = AllowRemote::kAuto;  // kAuto: when a base URL and a key are set
  // Variable that holds the address of a proxy for all of the remote's addresses, also loopback
  // ones; empty: http_proxy and so on.
  std::string proxy_env;
  std::int64_t tokens_per_day_max = 0;  // of remotes, per UTC day; 0: no limit
};

// A limit on everything that a client can make large.
struct LimitOptions {
  std::int64_t message_bytes_max = 16777216;  // one MCP message
  std::int64_t json_depth_max = 64;
  std::int64_t in_flight_max = 64;     // calls of one client that run at once
  std::int64_t queue_length_max = 64;  // requests that wait for the engine
  std::int64_t prompt_tokens_max = 131072;
  std::int64_t inspect_positions_max = 2048;   // tokens of one engram_lookup or gate_inspect
  std::int64_t http_header_bytes_max = 32768;  // request line and headers
  std::int64_t http_body_bytes_max = 16777216;
  std::int64_t http_body_bytes_per_second_min = 512;  // of a body that is on its way
  std::int64_t connections_max = 4096;                // of the TCP port
  std::int64_t requests_per_minute = 6000000;         // of one address; a benchmark stays below
  std::int64_t send_queue_bytes_max = 8388608;  // that wait for one client before it is dropped
  std::int64_t http_sessions_max = 1024;        // MCP sessions over HTTP
};

// The daemon's TCP port: HTTP and WebSocket.
struct ServerOptions {
  std::string host = "127.0.0.1";
  std::int64_t port = 3647;                  // ENGR on a telephone's keys; 0: any free one
  bool auth = true;                          // a bearer token is asked for
  std::vector<std::string> allowed_hosts;    // besides loopback names and `host`
  std::vector<std::string> allowed_origins;  // besides loopback ones; these also get CORS headers
  std::vector<std::string> aliases;          // "name=local name": what requests call a local model
  std::int64_t header_timeout_ms = 10000;
  std::int64_t idle_timeout_ms = 90000;  // clients keep a connection for 60 s and less
  std::int64_t write_timeout_ms = 30000;
  std::int64_t websocket_ping_ms = 25000;
  std::int64_t session_timeout_ms = 3600000;  // of an MCP session over HTTP that nobody uses
  std::string socket;            // Unix socket; empty: engramd.sock in TableOptions::state_folder
  std::int64_t idle_exit_s = 0;  // 0: never
  std::int64_t shutdown_timeout_ms = 5000;
  std::int64_t progress_interval_ms = 200;
};

struct LogOptions {
  LogLevel level = LogLevel::kWarn;
  std::string trace_file;  // readable transcript, with prompts; empty: none
};

// `engramd experiment`: the same prompts against two models.
struct ExperimentOptions {
  std::string baseline_model;
  std::string engram_model;
  double temperature = 0.2;
  std::int64_t max_tokens = 512;
  std::int64_t repeat = 3;
  bool record_latency = true;
  bool record_token_usage = true;
  bool record_choice_count = true;
};

// Inputs of `engramd plan`; parameters in 1e9. 0: not stated.
struct PlannerOptions {
  double total_params_b = 0.0;
  double activated_params_b = 0.0;
  double sparse_params_b = 0.0;
  double engram_params_b = 0.0;
  double rho = 0.0;                       // share of the inactive budget that routed experts keep
  double flops_budget = 0.0;              // training FLOPs
  std::vector<double> optimal_rho_range;  // low, high
};

struct Options {
  ModelOptions model;
  MoeOptions moe;
  EngramOptions engram;
  TableOptions table;
  LayoutOptions layout;
  InferenceOptions inference;
  SamplingDefaults sampling;
  ApiOptions api;
  LimitOptions limits;
  ServerOptions server;
  LogOptions log;
  ExperimentOptions experiment;
  PlannerOptions planner;
};

}  // namespace engramd::config
