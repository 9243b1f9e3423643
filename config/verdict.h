// Verdicts: what becomes of every setting that somebody wrote, given the model that is open.
// used: changes what the daemon does. checked: compared with what the model or table really is; a
// difference is reported with both numbers. reported: cannot apply here, with the reason.
// refused: the daemon must not start with it.
// Pure: settings and facts in, verdicts out; any thread. Not here: opening models.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "config/effective_config.h"

namespace engramd::config {

// What the opened model, its table and this machine really are; filled in by server/.
struct ModelFacts {
  std::string model_name;  // "engram-nano"
  std::int64_t n_routed_experts = 0;
  std::int64_t num_experts_per_tok = 0;
  std::int64_t n_shared_experts = 0;
  bool norm_topk_prob = true;
  bool has_engram = false;
  std::int64_t max_ngram_size = 0;              // orders are 2..max_ngram_size
  std::int64_t engram_n_heads = 0;              // per order
  std::int64_t engram_head_dim = 0;             // columns per row
  std::vector<std::int64_t> engram_vocab_size;  // one per order, before the prime search
  std::vector<std::int64_t> engram_layer_ids;   // counted from 0
  std::int64_t engram_kernel_size = 0;          // taps of the short convolution
  std::int64_t engram_pad_token_id = 0;
  std::int64_t engram_seed = 0;
  std::int64_t n_streams = 1;  // residual streams (hc_mult)
  double rms_norm_eps = 0;
  std::int64_t vocab_size = 0;
  std::int64_t compressed_vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t num_hidden_layers = 0;
  std::int64_t n_devices = 1;  // devices that experts could be spread over
  // Asked only where a setting depends on it: looking for GPUs takes a driver's time.
  std::function<bool()> has_gpu = [] { return false; };
  bool can_route_shared_only = false;  // the engine has moe.routing_strategy shared_only
  bool table_exists = false;           // engram.table.path names a readable file
  bool tokenizer_exists = false;       // engram.layout.tokenizer_name_or_path resolves
};

enum class VerdictKind { kUsed, kChecked, kReported, kRefused };
std::string_view name_of(VerdictKind kind);  // "used", "checked", "reported", "refused"

struct Verdict {
  std::string key;          // the row's key
  std::string written_key;  // as the user spelled it
  std::string value;        // in TOML spelling
  std::string origin;
  VerdictKind kind = VerdictKind::kUsed;
  bool differs = false;  // kChecked only: what was asked for is not what is there
  std::string note;      // one sentence
};

// One verdict per setting whose origin is not the default, in table order.
std::vector<Verdict> judge(const EffectiveConfig& config, const ModelFacts& facts);

// "config.toml:11: moe.expert_parallel = true is refused: ..." for every refusal.
std::vector<std::string> refusals(const std::vector<Verdict>& verdicts);

// One line per note and per difference: what was asked for is not what will be served.
std::vector<std::string> warnings(const EffectiveConfig& config,
                                  const std::vector<Verdict>& verdicts);

}  // namespace engramd::config
