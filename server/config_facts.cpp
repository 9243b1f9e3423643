#include "server/config_facts.h"

#include <cstdio>
#include <filesystem>
#include <system_error>

#include "engine/checkpoint/model_config.h"
#include "kernels/cuda/cuda_backend.h"
#include "server/logging.h"
#include "server/model_folder.h"

namespace engramd::server {
namespace {

namespace fs = std::filesystem;

void add_engram_facts(const engine::EngramConfig& engram, config::ModelFacts& facts) {
  facts.has_engram = true;
  facts.max_ngram_size = engram.layout.max_ngram_size;
  facts.engram_n_heads = engram.layout.n_heads;
  facts.engram_head_dim = engram.layout.head_dim;
  facts.engram_vocab_size = engram.layout.vocab_size;
  facts.engram_layer_ids = engram.layout.layer_ids;
  facts.engram_kernel_size = engram.kernel_size;
  facts.engram_pad_token_id = engram.layout.pad_token_id;
  facts.engram_seed = engram.layout.seed;
  facts.compressed_vocab_size = engram.layout.hashed_vocab_size;
}

}  // namespace

Result<config::ModelFacts> read_config_facts(const config::EffectiveConfig& config) {
  const auto folder = find_model_folder(config.options.model, executable_folder());
  if (folder.has_error()) return folder.error();
  const auto model = engine::read_model_config(folder.value());
  if (model.has_error()) return model.error();

  config::ModelFacts facts;
  facts.model_name = fs::path(folder.value()).filename().string();
  facts.n_routed_experts = model.value().n_routed_experts;
  facts.num_experts_per_tok = model.value().num_experts_per_tok;
  facts.n_shared_experts = model.value().n_shared_experts;
  facts.norm_topk_prob = model.value().norm_topk_prob;
  facts.n_streams = model.value().hc_mult;
  facts.rms_norm_eps = model.value().rms_norm_eps;
  facts.vocab_size = model.value().vocab_size;
  facts.hidden_size = model.value().hidden_size;
  facts.num_hidden_layers = model.value().num_hidden_layers;
  if (model.value().engram) add_engram_facts(*model.value().engram, facts);
  facts.has_gpu = [on_cpu = config.options.model.device == "cpu"] {
    return !on_cpu && !kernels::list_gpus().gpus.empty();
  };
  std::error_code error;  // what cannot be looked at does not exist for us
  facts.table_exists = fs::is_regular_file(config.options.table.path, error);
  facts.tokenizer_exists = fs::exists(config.options.layout.tokenizer_name_or_path, error);
  return facts;
}

bool print_refusals(const std::vector<config::Verdict>& verdicts) {
  const auto refused = config::refusals(verdicts);
  for (const std::string& line : refused) std::fprintf(stderr, "engramd: %s\n", line.c_str());
  return !refused.empty();
}

void log_warnings(const config::EffectiveConfig& config,
                  const std::vector<config::Verdict>& verdicts) {
  const auto lines = config::warnings(config, verdicts);
  if (!lines.empty()) log_warnings(*make_logger(config.options.log), lines);
}

}  // namespace engramd::server
