#include "config/option_rows.h"

namespace engramd::config {
namespace {

constexpr double kCountMax = 1e6;  // experts, heads, layers: far above any published model
constexpr double kWidthMax = 1e6;  // columns
constexpr double kRowsMax = 1e12;  // rows of a table
constexpr double kGigabytesMax = 1e6;

std::vector<OptionRow> basic_rows() {
  using O = Options;
  using M = ModelOptions;
  const Names<Dtype> dtypes = {{"float32", Dtype::kFloat32}, {"bfloat16", Dtype::kBfloat16}};
  const Names<BackendChoice> backends = {{"auto", BackendChoice::kAuto},
                                         {"reference", BackendChoice::kReference},
                                         {"portable", BackendChoice::kPortable},
                                         {"avx2", BackendChoice::kAvx2},
                                         {"avx512", BackendChoice::kAvx512}};
  return {
      {.key = "model.name",
       .member = field(&O::model, &M::name),
       .help = "Model to open: a folder name in the model folders, or a path. Empty: the bundled "
               "model.",
       .flag = "--model"},
      {.key = "model.search_path",
       .member = field(&O::model, &M::search_path),
       .help = "Model folders, separated by ':', searched before the installed "
               "share/engramd/models.",
       .flag = "--model-path",
       .environment_alias = "ENGRAMD_MODEL_PATH"},
      {.key = "model.dtype",
       .member = choice(&O::model, &M::dtype, dtypes),
       .help = "Arithmetic type of the fast backend.",
       .flag = "--dtype"},
      {.key = "model.device",
       .member = field(&O::model, &M::device),
       .syntax = Syntax::kDevice,
       .help = "Where the model runs; auto takes a GPU that has room for it and computes what the "
               "processor does.",
       .flag = "--device"},
      {.key = "model.backend",
       .member = choice(&O::model, &M::backend, backends),
       .help = "Implementation of the CPU operations, for tests and comparison; auto chooses by "
               "CPU features.",
       .flag = "--backend"},
      {.key = "model.trust_remote_code",
       .member = field(&O::model, &M::trust_remote_code),
       .help = "Accepted for other loaders' files; engramd never runs code from a model."},
  };
}

std::vector<OptionRow> moe_rows() {
  using O = Options;
  using M = MoeOptions;
  const Names<RoutingStrategy> strategies = {{"top_k", RoutingStrategy::kTopK},
                                             {"shared_only", RoutingStrategy::kSharedOnly}};
  return {
      {.key = "moe.num_experts",
       .member = field(&O::moe, &M::num_experts),
       .maximum = kCountMax,
       .help = "Routed experts that the model is expected to have; 0: not stated.",
       .toml_aliases = {"moe.num_routed_experts"}},
      {.key = "moe.num_shared_experts",
       .member = field(&O::moe, &M::num_shared_experts),
       .maximum = kCountMax,
       .help = "Shared experts that the model is expected to have; 0: not stated."},
      {.key = "moe.top_k",
       .member = field(&O::moe, &M::top_k),
       .maximum = kCountMax,
       .help = "Experts per token; 0: the model's own. Another number changes quality.",
       .toml_aliases = {"moe.experts_per_token"}},
      {.key = "moe.expert_parallel",
       .member = field(&O::moe, &M::expert_parallel),
       .help = "Experts spread over several devices; refused with one device."},
      {.key = "moe.router_jitter",
       .member = field(&O::moe, &M::router_jitter),
       .maximum = 1,
       .help = "Noise on router inputs while training; never applied at inference."},
      {.key = "moe.routing_strategy",
       .member = choice(&O::moe, &M::routing_strategy, strategies),
       .help = "Which experts a token reaches: its best routed ones and the shared ones, or the "
               "shared ones alone."},
      {.key = "moe.normalize_gates",
       .member = field(&O::moe, &M::normalize_gates),
       .help = "Whether the model divides the chosen experts' weights by their sum."},
  };
}

std::vector<OptionRow> engram_rows() {
  using O = Options;
  using E = EngramOptions;
  return {
      {.key = "engram.enable",
       .member = field(&O::engram, &E::enable),
       .help = "Engram on or off; a request may still switch it off.",
       .json_keys = {"engram_config.context_gating.enabled"},
       .flag = "--engram"},
      {.key = "engram.ngram_order",
       .member = field(&O::engram, &E::ngram_order),
       .maximum = 16,
       .help = "Highest N-gram order; orders are 2..N; 0: not stated."},
      {.key = "engram.ngram_orders",
       .member = field(&O::engram, &E::ngram_orders),
       .minimum = 2,
       .maximum = 16,
       .help = "Every N-gram order, when a file lists them.",
       .json_keys = {"engram_config.ngram_orders"}},
      {.key = "engram.hash_heads",
       .member = field(&O::engram, &E::hash_heads),
       .maximum = 64,
       .help = "Hash heads per order; 0: not stated.",
       .json_keys = {"engram_config.hash_heads"}},
      {.key = "engram.hash_buckets",
       .member = field(&O::engram, &E::hash_buckets),
       .maximum = kRowsMax,
       .help = "Rows per order and head, for table create; any count works; 0: not stated."},
      {.key = "engram.embed_dim",
       .member = field(&O::engram, &E::embed_dim),
       .maximum = kWidthMax,
       .help = "Columns per row, for table create; 0: not stated.",
       .json_keys = {"engram_config.embedding_dim"}},
      {.key = "engram.vocab_compression_ratio",
       .member = field(&O::engram, &E::vocab_compression_ratio),
       .maximum = 1,
       .help = "Compressed vocabulary over the tokenizer's; 0: not stated.",
       .json_keys = {"engram_config.vocab_compression_ratio"}},
      {.key = "engram.insertion_layer",
       .member = field(&O::engram, &E::insertion_layer),
       .maximum = kCountMax,
       .help = "First layer with Engram, counted from 1; 0: not stated.",
       .json_keys = {"engram_config.insertion_layer"}},
      {.key = "engram.deterministic_addressing",
       .member = field(&O::engram, &E::deterministic_addressing),
       .help = "Rows are addressed by tokens alone; false is refused.",
       .json_keys = {"lookup_runtime.deterministic_addressing"}},
      {.key = "engram.rms_norm_eps",
       .member = field(&O::engram, &E::rms_norm_eps),
       .maximum = 1,
       .help = "Epsilon of the gate's RMSNorm; 0: not stated.",
       .json_keys = {"engram_config.context_gating.rms_norm_eps"}},
      {.key = "engram.gate_activation",
       .member = field(&O::engram, &E::gate_activation),
       .help = "Activation of the gate; anything but sigmoid is refused.",
       .json_keys = {"engram_config.context_gating.gate_activation"}},
      {.key = "engram.multi_branch",
       .member = field(&O::engram, &E::multi_branch),
       .help = "Whether the model is expected to have several residual streams.",
       .json_keys = {"engram_config.multi_branch.enabled"}},
      {.key = "engram.num_branches",
       .member = field(&O::engram, &E::num_branches),
       .maximum = kCountMax,
       .help = "Residual streams that the model is expected to have; 0: not stated.",
       .json_keys = {"engram_config.multi_branch.num_branches"}},
      {.key = "engram.shared_value_projection",
       .member = field(&O::engram, &E::shared_value_projection),
       .help = "One value projection for all streams; false is refused.",
       .json_keys = {"engram_config.multi_branch.shared_value_projection"}},
      {.key = "engram.branch_specific_key_projection",
       .member = field(&O::engram, &E::branch_specific_key_projection),
       .help = "One key projection per stream; false is refused.",
       .json_keys = {"engram_config.multi_branch.branch_specific_key_projection"}},
  };
}

// engram.* again: TOML users write them in one section, consumers take TableOptions.
std::vector<OptionRow> table_rows() {
  using O = Options;
  using T = TableOptions;
  const Names<Dtype> dtypes = {
      {"float32", Dtype::kFloat32}, {"bfloat16", Dtype::kBfloat16}, {"float16", Dtype::kFloat16}};
  return {
      {.key = "engram.lookup_dtype",
       .member = choice(&O::table, &T::lookup_dtype, dtypes),
       .help = "Type of a decoded row."},
      {.key = "engram.offload_to_host",
       .member = field(&O::table, &T::offload_to_host),
       .help = "The table stays in host memory and the device keeps a cache of hot rows.",
       .json_keys = {"lookup_runtime.host_memory_offload"}},
      {.key = "engram.host_memory_limit_gb",
       .member = field(&O::table, &T::host_memory_limit_gb),
       .maximum = kGigabytesMax,
       .help = "Hard limit on table bytes resident in memory, in 10^9 bytes; 0: none."},
      {.key = "engram.cache_levels",
       .member = field(&O::table, &T::cache_levels),
       .minimum = 1,
       .maximum = 3,
       .help = "1: hot-row cache only; 2: and rows resident in memory; 3: and rows read from the "
               "file.",
       .json_keys = {"engram_config.cache_levels"}},
      {.key = "engram.async_prefetch",
       .member = field(&O::table, &T::async_prefetch),
       .help = "Rows are requested before the layer that needs them.",
       .json_keys = {"lookup_runtime.async_prefetch"}},
      {.key = "engram.prefetch_window",
       .member = field(&O::table, &T::prefetch_window),
       .minimum = 1,
       .maximum = 1024,
       .help = "Chunks of prompt tokens (drafted tokens in decode) that are hashed and requested "
               "ahead.",
       .json_keys = {"lookup_runtime.prefetch_window"}},
      {.key = "engram.table.path",
       .member = field(&O::table, &T::path),
       .syntax = Syntax::kPath,
       .help = "Table file, relative to the configuration file. Empty: the model's own table.",
       .flag = "--table",
       .environment_alias = "ENGRAM_TABLE_PATH"},
      {.key = "engram.table.edits",
       .member = field(&O::table, &T::edits),
       .syntax = Syntax::kPath,
       .help = "File of the tables' edits and their history. Empty: beside engram.table.path, or "
               "in ~/.local/state/engramd for a model's own table.",
       .flag = "--edits"},
      {.key = "engram.table.mmap",
       .member = field(&O::table, &T::mmap),
       .help = "Map the table file; false: read it."},
      {.key = "engram.table.prefetch",
       .member = field(&O::table, &T::prefetch),
       .help = "Read ahead: resident pages at start, rows by addresses hashed ahead."},
  };
}

std::vector<OptionRow> layout_rows() {
  using O = Options;
  using L = LayoutOptions;
  return {
      {.key = "engram.layout.tokenizer_name_or_path",
       .member = field(&O::layout, &L::tokenizer_name_or_path),
       .help = "Tokenizer of a layout file, by name in the model folders or by path.",
       .json_keys = {"engram.tokenizer_name_or_path"}},
      {.key = "engram.layout.engram_vocab_size",
       .member = field(&O::layout, &L::engram_vocab_size),
       .minimum = 1,
       .maximum = kRowsMax,
       .help = "Where the search for a prime per head starts, one number per order.",
       .json_keys = {"engram.engram_vocab_size"}},
      {.key = "engram.layout.max_ngram_size",
       .member = field(&O::layout, &L::max_ngram_size),
       .maximum = 16,
       .help = "Highest N-gram order of a layout file; 0: not stated.",
       .json_keys = {"engram.max_ngram_size"}},
      {.key = "engram.layout.n_embed_per_ngram",
       .member = field(&O::layout, &L::n_embed_per_ngram),
       .maximum = kWidthMax,
       .help = "Columns per order, all heads together; 0: not stated.",
       .json_keys = {"engram.n_embed_per_ngram"}},
      {.key = "engram.layout.n_head_per_ngram",
       .member = field(&O::layout, &L::n_head_per_ngram),
       .maximum = 64,
       .help = "Hash heads per order of a layout file; 0: not stated.",
       .json_keys = {"engram.n_head_per_ngram"}},
      {.key = "engram.layout.layer_ids",
       .member = field(&O::layout, &L::layer_ids),
       .maximum = kCountMax,
       .help = "Layers with Engram, counted from 0.",
       .json_keys = {"engram.layer_ids"}},
      {.key = "engram.layout.pad_id",
       .member = field(&O::layout, &L::pad_id),
       .maximum = 1e9,
       .help = "Token that stands for missing predecessors, before compression.",
       .json_keys = {"engram.pad_id"}},
      {.key = "engram.layout.seed",
       .member = field(&O::layout, &L::seed),
       .maximum = 4294967295.0,
       .help = "Seed of the hash multipliers.",
       .json_keys = {"engram.seed"}},
      {.key = "engram.layout.kernel_size",
       .member = field(&O::layout, &L::kernel_size),
       .maximum = 64,
       .help = "Taps of the short convolution; 0: not stated.",
       .json_keys = {"engram.kernel_size"}},
      {.key = "engram.layout.hidden_size",
       .member = field(&O::layout, &L::hidden_size),
       .maximum = kWidthMax,
       .help = "Width of the layout file's backbone; 0: not stated.",
       .json_keys = {"backbone.hidden_size"}},
      {.key = "engram.layout.hc_mult",
       .member = field(&O::layout, &L::hc_mult),
       .maximum = kCountMax,
       .help = "Residual streams of the layout file's backbone; 0: not stated.",
       .json_keys = {"backbone.hc_mult"}},
      {.key = "engram.layout.vocab_size",
       .member = field(&O::layout, &L::vocab_size),
       .maximum = 1e9,
       .help = "Vocabulary of the layout file's backbone; 0: not stated.",
       .json_keys = {"backbone.vocab_size"}},
      {.key = "engram.layout.num_layers",
       .member = field(&O::layout, &L::num_layers),
       .maximum = kCountMax,
       .help = "Layers of the layout file's backbone; 0: not stated.",
       .json_keys = {"backbone.num_layers"}},
  };
}

std::vector<OptionRow> inference_rows() {
  using O = Options;
  using I = InferenceOptions;
  const Names<Dtype> dtypes = {
      {"float32", Dtype::kFloat32}, {"bfloat16", Dtype::kBfloat16}, {"fp8", Dtype::kFp8}};
  return {
      {.key = "inference.threads",
       .member = field(&O::inference, &I::threads),
       .maximum = 1024,
       .help = "Compute threads; 0: one per core that this process may use.",
       .flag = "--threads"},
      {.key = "inference.max_batch_size",
       .member = field(&O::inference, &I::max_batch_size),
       .minimum = 1,
       .maximum = 1024,
       .help = "Sequences decoded together."},
      {.key = "inference.kv_cache_dtype",
       .member = choice(&O::inference, &I::kv_cache_dtype, dtypes),
       .help = "Type of cached keys and values; fp8 is e4m3 with a scale per token and head."},
      {.key = "inference.prefill_chunk_tokens",
       .member = field(&O::inference, &I::prefill_chunk_tokens),
       .minimum = 1,
       .maximum = 65536,
       .help = "Prompt tokens that go through the model in one step."},
      {.key = "inference.context_tokens_max",
       .member = field(&O::inference, &I::context_tokens_max),
       .maximum = 1e8,
       .help = "Prompt and answer together, in tokens; 0: the model's own limit."},
      {.key = "inference.kv_cache_limit_gb",
       .member = field(&O::inference, &I::kv_cache_limit_gb),
       .minimum = 0.001,
       .maximum = kGigabytesMax,
       .help = "Budget of cached keys and values, in 10^9 bytes."},
      {.key = "inference.gpu_memory_utilization",
       .member = field(&O::inference, &I::gpu_memory_utilization),
       .minimum = 0.01,
       .maximum = 1,
       .help = "Share of device memory that the memory plan may take."},
  };
}

}  // namespace

std::vector<OptionRow> model_rows() {
  std::vector<OptionRow> rows;
  for (auto part :
       {basic_rows(), moe_rows(), engram_rows(), table_rows(), layout_rows(), inference_rows()}) {
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

}  // namespace engramd::config
