#include "engine/runtime/local_engine.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>

#include "engine/engram/row_codec.h"
#include "engine/runtime/device_check.h"
#include "engine/runtime/device_choice.h"
#include "engine/runtime/embedding.h"
#include "engine/runtime/gate_inspection.h"
#include "engine/runtime/prompt.h"
#include "engine/runtime/scheduler.h"

namespace engramd::engine {

namespace {

// As many blocks as max_batch_size contexts of full length need, or as fit into the byte limit.
Result<std::int64_t> plan_cache(const Model& model, kernels::DType dtype,
                                const LocalEngineOptions& options) {
  const std::int64_t per_context =
      (model.config.max_position_embeddings + kernels::kBlockTokens - 1) / kernels::kBlockTokens;
  const std::int64_t wanted = per_context * std::max(1, options.max_batch_size);
  if (options.kv_cache_bytes_max <= 0) return wanted;
  const std::int64_t block_bytes = KvCache::bytes_per_block(model, dtype);
  const std::int64_t affordable = options.kv_cache_bytes_max / block_bytes;
  if (affordable < per_context) {
    return invalid_argument("inference.kv_cache_limit_gb: one context of " +
                            std::to_string(model.config.max_position_embeddings) +
                            " tokens needs " + std::to_string(per_context * block_bytes) +
                            " bytes, got a limit of " + std::to_string(options.kv_cache_bytes_max));
  }
  return std::min(wanted, affordable);
}

// A GPU serves only when it computes what the processor does; `auto` goes on without it.
Result<ChosenBackend> choose_checked_backend(const Model& model, const LiveTables& tables,
                                             const LocalEngineOptions& options,
                                             std::int64_t kv_cache_bytes) {
  auto chosen = choose_backend(model, options, kv_cache_bytes);
  if (chosen.has_error() || chosen->backend->on_host()) return chosen;
  LocalEngineOptions on_cpu = options;
  on_cpu.device = "cpu";
  auto cpu = choose_backend(model, on_cpu, 0);
  if (cpu.has_error()) return cpu.error();
  const auto error = device_error(model, tables, *chosen->backend, *cpu->backend);
  const double error_max = options.dtype == "bfloat16" ? kRoundedDeviceErrorMax : kDeviceErrorMax;
  if (error.has_value() && *error <= error_max) return chosen;
  const std::string why = error.has_error() ? error.error().message
                                            : "the GPU's logits differ from the processor's by " +
                                                  std::to_string(*error) + ", expected at most " +
                                                  std::to_string(error_max);
  if (options.device != "auto") return unavailable("model.device: " + why);
  cpu->note = why;
  cpu->has_gpu = true;
  return cpu;
}

// A tokenizer that does not belong to the table would hash every N-gram to a valid but wrong row.
Result<void> check_tokenizer(const Model& model, const Tokenizer& tokenizer,
                             const std::string& folder) {
  if (tokenizer.vocab_size() > model.config.vocab_size) {
    return invalid_argument(
        folder + ": tokenizer.json has ids up to " + std::to_string(tokenizer.vocab_size() - 1) +
        ", config.json a vocab_size of " + std::to_string(model.config.vocab_size));
  }
  if (model.layout.layers.empty()) return {};
  const TokenMap built = build_token_map(tokenizer);
  for (std::size_t id = 0; id < built.classes.size(); ++id) {
    if (built.classes[id] == model.token_map.classes[id]) continue;
    return invalid_argument(
        folder + ": tokenizer.json does not belong to this Engram table: token " +
        std::to_string(id) + " compresses to " + std::to_string(built.classes[id]) +
        ", model.engram.token_map has " + std::to_string(model.token_map.classes[id]) +
        "; use the tokenizer.json that came with the model");
  }
  return {};
}

ModelFacts describe(const Model& model, const LiveTables& tables, const LocalEngineOptions& options,
                    const kernels::Backend& backend) {
  const ModelConfig& config = model.config;
  ModelFacts facts;
  facts.folder = options.model_folder;
  facts.name = model_name_of(options.model_folder);
  facts.model_type = config.model_type;
  facts.backend = backend.name();
  facts.dtype = options.backend == "reference" && backend.on_host() ? "float32" : options.dtype;
  facts.threads = backend.n_threads();
  facts.vocab_size = config.vocab_size;
  facts.compressed_vocab_size = model.token_map.n_classes;
  facts.hidden_size = config.hidden_size;
  facts.num_hidden_layers = config.num_hidden_layers;
  facts.num_attention_heads = config.num_attention_heads;
  facts.n_routed_experts = config.n_routed_experts;
  facts.num_experts_per_tok = config.num_experts_per_tok;
  facts.n_shared_experts = config.n_shared_experts;
  facts.n_streams = config.hc_mult;
  facts.context_length = config.max_position_embeddings;
  facts.rms_norm_eps = config.rms_norm_eps;
  facts.engram_max_ngram_size = model.layout.config.max_ngram_size;
  facts.engram_heads = model.layout.config.n_heads;
  facts.engram_head_dim = model.layout.config.head_dim;
  const TableView view = tables.view();
  if (!model.layout.layers.empty()) facts.engram_codec = name_of(view.base->format(0).codec);
  if (view.base->file) {
    facts.engram_mode = view.base->file->plan().mode;
    if (const std::string& warning = view.base->file->warning(); !warning.empty()) {
      facts.warnings.push_back(warning);
    }
  }
  facts.warnings = model.checkpoint.warnings();
  if (!tables.edits_error().empty()) {
    facts.warnings.push_back("the tables are served without their edits: " + tables.edits_error());
  }
  if (!tables.moved_to().empty()) {
    facts.warnings.push_back("the tables moved on to " + tables.moved_to() +
                             " (table fold): that file is served; name it in engram.table.path");
  }
  for (const EngramLayer& layer : model.layout.layers) {
    facts.engram_layer_ids.push_back(layer.layer_id);
    facts.engram_rows.push_back(layer.n_rows);
    facts.engram_primes.push_back(layer.primes);
  }
  return facts;
}

TeacherOptions teacher_options(const LocalEngineOptions& options, const kernels::Backend& backend) {
  TeacherOptions teacher;
  teacher.backend = backend.on_host() ? backend.name() : "auto";  // it teaches on the processor
  teacher.bfloat16_activations = options.dtype == "bfloat16";
  if (const auto dtype = kv_cache_dtype_from(options.kv_cache_dtype); dtype.has_value()) {
    teacher.kv_cache_dtype = *dtype;
  }
  teacher.threads = backend.n_threads();
  teacher.ngram_list = options.model_folder + "/ngrams.safetensors";
  teacher.heldout_text = options.model_folder + "/heldout.txt";
  return teacher;
}

}  // namespace

struct LocalEngine::Impl {
  Impl(LocalEngineOptions chosen, std::unique_ptr<const Model> opened,
       std::unique_ptr<LiveTables> served, Tokenizer loaded, PromptEncoder encoder,
       std::unique_ptr<kernels::Backend> made, KvCache room)
      : options(std::move(chosen)),
        model(std::move(opened)),
        tables(std::move(served)),
        tokenizer(std::move(loaded)),
        prompts(std::move(encoder)),
        backend(std::move(made)),
        cache(std::move(room)),
        facts(describe(*model, *tables, options, *backend)),
        addresser(model->layout, model->pad_class()),
        editor(*model, *tables, tokenizer, options.model_folder + "/ngrams.safetensors"),
        teacher(*model, tokenizer, prompts, *tables, teacher_options(options, *backend)),
        scheduler(*model, *tables, tokenizer, *backend, cache, options, facts.name) {}

  std::int64_t context_tokens() const {
    const std::int64_t own = model->config.max_position_embeddings;
    return options.context_tokens_max > 0 ? std::min(own, options.context_tokens_max) : own;
  }

  Result<void> check_ids(const std::vector<TokenId>& ids) const {
    for (const TokenId id : ids) {
      if (id >= 0 && id < model->config.vocab_size) continue;
      return invalid_argument("token ids: expected 0 to " +
                              std::to_string(model->config.vocab_size - 1) + ", got " +
                              std::to_string(id));
    }
    return {};
  }

  Result<std::vector<TokenId>> prompt_of(const ChatRequest& request) const {
    if (request.completion) return prompts.text(tokenizer, *request.completion);
    if (request.prompt_tokens.empty()) {
      return prompts.messages(tokenizer, request.messages, request.continue_last);
    }
    const auto known = check_ids(request.prompt_tokens);
    if (known.has_error()) return known.error();
    return request.prompt_tokens;
  }

  // Built when the first request asks for a format: most sessions never do.
  Result<std::shared_ptr<TokenTrie>> token_trie() {
    const std::lock_guard lock(trie_mutex);
    if (trie) return trie;
    auto built = TokenTrie::build(tokenizer);
    if (built.has_value()) trie = *built;
    return built;
  }

  const LocalEngineOptions options;
  const std::unique_ptr<const Model> model;
  const std::unique_ptr<LiveTables> tables;
  const Tokenizer tokenizer;
  const PromptEncoder prompts;
  const std::unique_ptr<kernels::Backend> backend;
  KvCache cache;
  ModelFacts facts;
  const Addresser addresser;
  TableEditor editor;
  Teacher teacher;
  std::mutex trie_mutex;  // guards trie
  std::shared_ptr<TokenTrie> trie;
  Scheduler scheduler;  // last: its thread uses everything above
};

LocalEngine::LocalEngine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LocalEngine::~LocalEngine() = default;

Result<std::unique_ptr<LocalEngine>> LocalEngine::open(const LocalEngineOptions& options) {
  const auto started = std::chrono::steady_clock::now();
  auto model = open_model(options.model_folder, {true, options.experts_per_token});
  if (model.has_error()) return model.error();
  auto tokenizer = Tokenizer::from_file(options.model_folder + "/tokenizer.json");
  if (tokenizer.has_error()) return tokenizer.error();
  const auto belongs = check_tokenizer(**model, *tokenizer, options.model_folder);
  if (belongs.has_error()) return belongs.error();
  LiveTablesOptions table_options = options.tables;
  table_options.model_name = model_name_of(options.model_folder);
  auto tables = LiveTables::open((*model)->layout, sha256_hex((*model)->token_map),
                                 (*model)->engram_rows(), table_options);
  if (tables.has_error()) return tables.error();
  auto prompts = PromptEncoder::open(options.model_folder, (*model)->config);
  if (prompts.has_error()) return prompts.error();
  const auto dtype = kv_cache_dtype_from(options.kv_cache_dtype);
  if (dtype.has_error()) return dtype.error();
  const auto n_blocks = plan_cache(**model, *dtype, options);
  if (n_blocks.has_error()) return n_blocks.error();
  const std::int64_t cache_bytes = *n_blocks * KvCache::bytes_per_block(**model, *dtype);
  std::string device_plan = text_of(plan_device_memory(**model, options, cache_bytes));
  auto chosen = choose_checked_backend(**model, **tables, options, cache_bytes);
  if (chosen.has_error()) return chosen.error();
  auto cache = KvCache::make(**model, *dtype, *n_blocks, chosen->backend.get());
  if (cache.has_error()) return cache.error();
  auto impl =
      std::make_unique<Impl>(options, std::move(*model), std::move(*tables), std::move(*tokenizer),
                             std::move(*prompts), std::move(chosen->backend), std::move(*cache));
  impl->facts.device_plan = std::move(device_plan);
  impl->facts.device_note = std::move(chosen->note);
  // Where a GPU was asked for, or one is there and not used, that is worth a warning.
  const std::string& note = impl->facts.device_note;
  if (!note.empty() && (options.device != "auto" || chosen->has_gpu)) {
    impl->facts.warnings.push_back(note);
  }
  impl->facts.load_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - started).count();
  return std::unique_ptr<LocalEngine>(new LocalEngine(std::move(impl)));
}

void LocalEngine::start(ChatRequest request, ChatCallbacks callbacks, std::stop_token stop) {
  const auto submitted = Clock::now();
  ENGRAMD_ASSERT(callbacks.on_done);
  if (request.route == Route::kRemote) {
    return callbacks.on_done(unavailable(
        "route remote: there is no remote; set api.base_url and the key's variable, or use route "
        "auto or local"));
  }
  std::string fallback_reason;
  if (!request.model.empty() && request.model != impl_->facts.name) {
    fallback_reason = "model " + request.model + " is not here; " + impl_->facts.name + " answered";
    if (request.route == Route::kLocal) {
      return callbacks.on_done(not_found("model " + request.model + " is not here; expected " +
                                         impl_->facts.name + " or no model"));
    }
  }
  auto prompt = impl_->prompt_of(request);
  if (prompt.has_error()) return callbacks.on_done(prompt.error());
  const auto valid = validate(request.sampling, impl_->model->config.vocab_size);
  if (valid.has_error()) return callbacks.on_done(valid.error());
  if (request.max_tokens < 1) {
    return callbacks.on_done(invalid_argument("max_tokens: expected at least 1, got " +
                                              std::to_string(request.max_tokens)));
  }
  const auto fits = check_prompt(prompt->size());
  if (fits.has_error()) return callbacks.on_done(fits.error());
  std::shared_ptr<TokenTrie> trie;
  if (request.grammar) {
    auto built = impl_->token_trie();
    if (built.has_error()) return callbacks.on_done(built.error());
    trie = std::move(*built);
  }
  request.max_tokens = static_cast<int>(std::min<std::int64_t>(
      request.max_tokens, impl_->context_tokens() - static_cast<std::int64_t>(prompt->size())));
  request.engram_enabled = request.engram_enabled && impl_->options.engram_enabled;
  impl_->scheduler.submit({std::move(request), std::move(callbacks), std::move(stop),
                           std::move(*prompt), submitted, std::move(fallback_reason),
                           std::move(trie)});
}

Result<void> LocalEngine::check_prompt(std::size_t n_tokens) const {
  const auto n_prompt = static_cast<std::int64_t>(n_tokens);
  const std::int64_t prompt_max = impl_->options.prompt_tokens_max;
  if (prompt_max > 0 && n_prompt > prompt_max) {
    return limit_exceeded("the prompt has " + std::to_string(n_prompt) +
                          " tokens, expected at most " + std::to_string(prompt_max) +
                          " (limits.prompt_tokens_max); shorten it");
  }
  const std::int64_t context = impl_->context_tokens();
  if (n_prompt < context && n_prompt > 0) return {};
  return limit_exceeded(
      "the prompt has " + std::to_string(n_prompt) + " tokens, expected 1 to " +
      std::to_string(context - 1) + ": the context is " + std::to_string(context) + " tokens" +
      (context == impl_->options.context_tokens_max ? " (inference.context_tokens_max)" : "") +
      " and the answer needs room too; shorten the prompt");
}

Result<std::vector<TokenId>> LocalEngine::encode_text(const std::string& text) const {
  return impl_->prompts.text(impl_->tokenizer, text);
}

Result<std::vector<TokenId>> LocalEngine::encode_messages(const std::vector<ChatMessage>& messages,
                                                          bool continue_last) const {
  return impl_->prompts.messages(impl_->tokenizer, messages, continue_last);
}

Result<LookupReport> LocalEngine::lookup(const std::vector<TokenId>& ids,
                                         const LookupOptions& options) const {
  const TableView view = impl_->tables->view();
  return make_lookup_report(ids, impl_->tokenizer, impl_->model->token_map, impl_->addresser, &view,
                            options);
}

void LocalEngine::inspect_gates(std::vector<TokenId> ids, GateOptions options,
                                std::function<void(std::int64_t, std::int64_t)> on_progress,
                                std::function<void(Result<GateReport>)> on_done,
                                std::stop_token stop) {
  const std::int64_t most =
      std::min<std::int64_t>(options.positions_max, impl_->model->config.max_position_embeddings);
  if (ids.empty() || static_cast<std::int64_t>(ids.size()) > most) {
    return on_done(limit_exceeded("the text has " + std::to_string(ids.size()) +
                                  " tokens, expected 1 to " + std::to_string(most) +
                                  "; inspect a shorter text"));
  }
  if (const auto known = impl_->check_ids(ids); known.has_error()) return on_done(known.error());
  if (impl_->model->layout.layers.empty()) {
    return on_done(
        invalid_argument("this model has no Engram layers: there are no gates to inspect"));
  }
  TableView view = impl_->tables->view();
  LookupOptions all;
  all.positions_max = most;
  auto looked_up = make_lookup_report(ids, impl_->tokenizer, impl_->model->token_map,
                                      impl_->addresser, &view, all);
  if (looked_up.has_error()) return on_done(looked_up.error());
  auto inspection = std::make_shared<GateInspection>(
      GateJob{std::move(ids), options, std::move(on_progress), on_done, std::move(stop)},
      std::move(*looked_up), *impl_->model, std::move(view), *impl_->backend,
      impl_->scheduler.stop());
  const auto queued = impl_->scheduler.background(
      [inspection](bool chats_run) { return inspection->advance(chats_run); });
  if (queued.has_error()) on_done(queued.error());
}

void LocalEngine::embed(std::vector<std::vector<TokenId>> inputs,
                        std::function<void(Result<std::vector<std::vector<float>>>)> on_done,
                        std::stop_token stop) {
  const std::int64_t context = impl_->model->config.max_position_embeddings;
  for (const std::vector<TokenId>& input : inputs) {
    if (const auto known = impl_->check_ids(input); known.has_error()) {
      return on_done(known.error());
    }
    if (input.empty() || static_cast<std::int64_t>(input.size()) > context) {
      return on_done(limit_exceeded("an input has " + std::to_string(input.size()) +
                                    " tokens, expected 1 to " + std::to_string(context)));
    }
  }
  auto embedding = std::make_shared<Embedding>(
      EmbeddingJob{std::move(inputs), on_done, std::move(stop)}, *impl_->model,
      impl_->tables->view(), *impl_->backend, impl_->scheduler.stop());
  const auto queued = impl_->scheduler.background(
      [embedding](bool chats_run) { return embedding->advance(chats_run); });
  if (queued.has_error()) on_done(queued.error());
}

TableEditor& LocalEngine::editor() {
  return impl_->editor;
}

Teacher& LocalEngine::teacher() {
  return impl_->teacher;
}

const Tokenizer& LocalEngine::tokenizer() const {
  return impl_->tokenizer;
}
const ModelFacts& LocalEngine::facts() const {
  return impl_->facts;
}

EngineMemory LocalEngine::memory() const {
  EngineMemory memory = impl_->scheduler.memory();
  std::int64_t tensors = 0;  // of the checkpoint
  for (const CheckpointRows& rows : impl_->model->engram_rows()) tensors += rows.bytes();
  const TableView view = impl_->tables->view();
  memory.table = view.base->file ? view.base->file->plan().total_bytes() : tensors;
  memory.weights = impl_->model->checkpoint.bytes() - tensors;
  return memory;
}

EngineStats LocalEngine::stats() const {
  EngineStats stats = impl_->scheduler.stats();
  if (const TableView view = impl_->tables->view(); view.base->file) {
    stats.file_reads = view.base->file->stats();
  }
  return stats;
}

}  // namespace engramd::engine
