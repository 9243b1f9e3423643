#include "config/verdict.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>

namespace engramd::config {
namespace {

// What a rule may look at.
struct Case {
  const EffectiveConfig& config;
  const Options& options;
  const ModelFacts& facts;
};

struct Ruling {
  VerdictKind kind = VerdictKind::kUsed;
  bool differs = false;
  std::string note;
};

Ruling used(std::string note) {
  return {VerdictKind::kUsed, false, std::move(note)};
}
Ruling checked(std::string note) {
  return {VerdictKind::kChecked, false, std::move(note)};
}
Ruling reported(std::string note) {
  return {VerdictKind::kReported, false, std::move(note)};
}
Ruling refused(std::string note) {
  return {VerdictKind::kRefused, false, std::move(note)};
}

// The common check: what the file says against what the model has.
Ruling compare(const Value& asked, const Value& actual, const std::string& what,
               const std::string& more = "") {
  const std::string tail = more.empty() ? "" : "; " + more;
  if (asked == actual) {
    return checked("the model has the same " + what + " (" + to_toml(actual) + ")" + tail);
  }
  Ruling ruling = checked(what + ": the file says " + to_toml(asked) + ", the model has " +
                          to_toml(actual) + tail);
  ruling.differs = true;
  return ruling;
}

std::string fixed(double value, int decimals) {
  std::array<char, 64> buffer;
  const int length = std::snprintf(buffer.data(), buffer.size(), "%.*f", decimals, value);
  const int shown = std::clamp(length, 0, static_cast<int>(buffer.size()) - 1);
  return {buffer.data(), static_cast<std::size_t>(shown)};
}

// ---- model ----

Ruling judge_name(const Case& c) {
  if (c.options.model.name == c.facts.model_name) return used("this model is open");
  return reported("no model of this name in the model folders; " + c.facts.model_name +
                  " is served under its own name");
}

Ruling judge_device(const Case& c) {
  const std::string& device = c.options.model.device;
  if (device == "cpu" || c.facts.has_gpu()) return used("the model runs on " + device);
  if (device == "auto") return used("no GPU here, the model runs on the CPU");
  return reported("no GPU here; the model runs on the CPU");
}

Ruling judge_remote_code(const Case&) {
  return reported("accepted; engramd never runs code from a model");
}

// ---- experts ----

Ruling judge_top_k(const Case& c) {
  const std::int64_t asked = c.options.moe.top_k;
  const std::int64_t own = c.facts.num_experts_per_tok;
  if (asked == own) return checked("the model's own number, " + std::to_string(own));
  if (asked <= c.facts.n_routed_experts) {
    return used(std::to_string(asked) + " experts per token instead of the model's own " +
                std::to_string(own) + "; quality changes");
  }
  return compare(asked, own, "experts per token",
                 "more than its " + std::to_string(c.facts.n_routed_experts) +
                     " routed experts, so the model's own number is kept");
}

Ruling judge_expert_parallel(const Case& c) {
  if (!c.options.moe.expert_parallel) return checked("all experts are on one device");
  if (c.facts.n_devices > 1) return used("experts are spread over the devices");
  return refused("expected at least two devices, got one; set it to false");
}

Ruling judge_router_jitter(const Case&) {
  return reported("noise for training; not applied at inference");
}

Ruling judge_strategy(const Case& c) {
  if (c.options.moe.routing_strategy == RoutingStrategy::kTopK) {
    return used("a token reaches its best routed experts and the shared ones");
  }
  if (c.facts.can_route_shared_only) return used("routed experts are left out; quality changes");
  return refused("the engine cannot leave out the routed experts; set it to \"top_k\"");
}

// ---- Engram ----

Ruling judge_ngram_orders(const Case& c) {
  std::vector<std::int64_t> actual;
  for (std::int64_t order = 2; order <= c.facts.max_ngram_size; ++order) actual.push_back(order);
  return compare(c.options.engram.ngram_orders, actual, "N-gram orders");
}

// A checkpoint states the base of its prime search; rows per head lie just above it.
Ruling judge_hash_buckets(const Case& c) {
  const auto& base = c.facts.engram_vocab_size;
  const std::int64_t actual = base.empty() ? 0 : base.front();
  return compare(c.options.engram.hash_buckets, actual, "rows per order and head",
                 "table create takes the number given here");
}

Ruling judge_compression_ratio(const Case& c) {
  if (c.facts.vocab_size == 0) return checked("the model has no vocabulary to compare with");
  const double actual =
      static_cast<double>(c.facts.compressed_vocab_size) / static_cast<double>(c.facts.vocab_size);
  constexpr double kTolerance = 0.005;  // files round to two decimals
  const double asked = c.options.engram.vocab_compression_ratio;
  const std::string sizes = std::to_string(c.facts.compressed_vocab_size) + " / " +
                            std::to_string(c.facts.vocab_size) + " = " + fixed(actual, 3);
  Ruling ruling = checked("compressed vocabulary: the file says " + to_toml(asked) +
                          ", the model has " + sizes);
  ruling.differs = std::abs(asked - actual) > kTolerance;
  return ruling;
}

Ruling judge_insertion_layer(const Case& c) {
  const auto& layers = c.facts.engram_layer_ids;
  const std::int64_t asked = c.options.engram.insertion_layer;
  const std::int64_t index = asked - 1;
  const bool there = std::find(layers.begin(), layers.end(), index) != layers.end();
  Ruling ruling = checked("layer " + std::to_string(asked) + " counted from 1 is index " +
                          std::to_string(index) + ", which " + (there ? "has" : "has no") +
                          " Engram; the model has it at the indices " + to_toml(layers));
  ruling.differs = !there;
  return ruling;
}

Ruling judge_deterministic(const Case& c) {
  if (c.options.engram.deterministic_addressing) return checked("addresses depend on tokens alone");
  return refused("rows are always addressed by tokens alone; set it to true");
}

Ruling judge_gate_activation(const Case& c) {
  if (c.options.engram.gate_activation == "sigmoid") return checked("the gate is a sigmoid");
  return refused("the gate of an Engram model is a sigmoid; set it to \"sigmoid\"");
}

Ruling judge_shared_value(const Case& c) {
  if (c.options.engram.shared_value_projection) {
    return checked("all residual streams share one value projection");
  }
  return refused("all residual streams share one value projection; set it to true");
}

Ruling judge_branch_keys(const Case& c) {
  if (c.options.engram.branch_specific_key_projection) {
    return checked("each residual stream has its own key projection");
  }
  return refused("each residual stream has its own key projection; set it to true");
}

Ruling judge_offload(const Case& c) {
  if (c.facts.has_gpu()) return used("the table stays in host memory");
  return reported("no GPU here; the table is in host memory anyway");
}

Ruling judge_table_path(const Case& c) {
  if (c.facts.table_exists) return used("this table is opened");
  return reported("no such file; the model's own table is used");
}

Ruling judge_tokenizer(const Case& c) {
  if (c.facts.tokenizer_exists) return used("found in the model folders");
  return reported("not in the model folders; --tokenizer PATH names the file");
}

Ruling judge_gpu_memory(const Case& c) {
  if (c.facts.has_gpu()) return used("the memory plan keeps below this share");
  return reported("no GPU here");
}

Ruling judge_api_key_env(const Case& c) {
  return used("the remote's key is read from this variable, which is " +
              std::string(c.config.api_key_set ? "set" : "not set"));
}

// ---- planner arithmetic ----

Ruling judge_parameters(const Case& c) {
  const PlannerOptions& p = c.options.planner;
  constexpr double kTolerance = 0.051;  // files round to one decimal
  if (p.sparse_params_b == 0 || p.activated_params_b == 0) return checked("no parts stated");
  const double sum = p.sparse_params_b + p.activated_params_b;
  Ruling ruling = checked("sparse " + to_text(p.sparse_params_b) + " + activated " +
                          to_text(p.activated_params_b) + " = " + fixed(sum, 1) + ", total " +
                          to_text(p.total_params_b));
  ruling.differs = std::abs(p.total_params_b - sum) > kTolerance;
  return ruling;
}

Ruling judge_part(const Case&) {
  return checked("summed up at total_params_b");
}

Ruling judge_engram_parameters(const Case& c) {
  const PlannerOptions& p = c.options.planner;
  if (p.sparse_params_b == 0) return checked("no sparse ones stated to be part of");
  Ruling ruling = checked("part of the " + to_text(p.sparse_params_b) + " sparse ones");
  ruling.differs = p.engram_params_b > p.sparse_params_b;
  return ruling;
}

// arXiv 2601.07372: MoE-27B has 72 routed experts, Engram-27B gives 17 of them for its tables.
constexpr std::int64_t kBaselineExperts = 72;

Ruling judge_rho(const Case& c) {
  const PlannerOptions& p = c.options.planner;
  constexpr double kTolerance = 0.02;  // the two ways of counting differ by about this much
  std::string note = "stated " + to_text(p.rho);
  bool differs = false;
  const std::int64_t experts = c.options.moe.num_experts;
  const std::int64_t top_k = c.options.moe.top_k;
  if (top_k > 0 && experts > top_k && experts <= kBaselineExperts) {
    const double by_experts =
        static_cast<double>(experts - top_k) / static_cast<double>(kBaselineExperts - top_k);
    note += "; by experts (" + std::to_string(experts) + " - " + std::to_string(top_k) + ") / (" +
            std::to_string(kBaselineExperts) + " - " + std::to_string(top_k) +
            ") = " + fixed(by_experts, 3);
    differs = differs || std::abs(by_experts - p.rho) > kTolerance;
  }
  if (p.sparse_params_b > 0) {
    const double by_parameters = 1 - p.engram_params_b / p.sparse_params_b;
    note += "; by parameters 1 - " + to_text(p.engram_params_b) + " / " +
            to_text(p.sparse_params_b) + " = " + fixed(by_parameters, 3);
    differs = differs || std::abs(by_parameters - p.rho) > kTolerance;
  }
  Ruling ruling = checked(note);
  ruling.differs = differs;
  return ruling;
}

Ruling judge_rho_range(const Case& c) {
  const auto& range = c.options.planner.optimal_rho_range;
  if (range.size() != 2 || range[0] > range[1]) {
    return refused("expected two numbers, low then high, got " + to_toml(range));
  }
  const double rho = c.options.planner.rho;
  if (rho == 0) return checked("no rho stated to lie in it");
  const bool inside = rho >= range[0] && rho <= range[1];
  Ruling ruling =
      checked("rho " + to_text(rho) + " lies " + (inside ? "inside" : "outside") + " this range");
  ruling.differs = !inside;
  return ruling;
}

// Training costs about 6 FLOPs per activated parameter and token (arXiv 2001.08361, section 2.1).
Ruling judge_flops(const Case& c) {
  const PlannerOptions& p = c.options.planner;
  if (p.activated_params_b <= 0) return checked("no activated parameters stated to divide by");
  const double tokens_b = p.flops_budget / (6 * p.activated_params_b * 1e9) / 1e9;
  return checked("enough for " + fixed(tokens_b, 1) + "e9 tokens at 6 x " +
                 to_text(p.activated_params_b) + "e9 FLOPs each");
}

// ---- the table of rules ----

struct Rule {
  std::string_view key;
  std::function<Ruling(const Case&)> judge;
  bool zero_is_a_statement =
      false;  // elsewhere 0 or nothing between quotes or brackets states none
};

bool is_empty(const Value& value) {
  return value == Value(std::int64_t{0}) || value == Value(0.0) || value == Value(std::string()) ||
         value == Value(std::vector<std::int64_t>()) || value == Value(std::vector<double>());
}

// For keys that only state a number of the model: option against fact.
template <class Section, class T>
Rule same_as_model(std::string_view key, Section Options::*section, T Section::*member,
                   T ModelFacts::*fact, std::string what, std::string more = "") {
  return {key, [=](const Case& c) {
            return compare(c.options.*section.*member, c.facts.*fact, what, more);
          }};
}

Rule also_zero(Rule rule) {
  rule.zero_is_a_statement = true;
  return rule;
}

std::vector<Rule> model_rules() {
  using O = Options;
  using M = MoeOptions;
  using E = EngramOptions;
  using F = ModelFacts;
  return {
      {"model.name", judge_name},
      {"model.device", judge_device},
      {"model.trust_remote_code", judge_remote_code},
      same_as_model("moe.num_experts", &O::moe, &M::num_experts, &F::n_routed_experts,
                    "routed experts"),
      same_as_model("moe.num_shared_experts", &O::moe, &M::num_shared_experts, &F::n_shared_experts,
                    "shared experts"),
      {"moe.top_k", judge_top_k},
      {"moe.expert_parallel", judge_expert_parallel},
      also_zero({"moe.router_jitter", judge_router_jitter}),
      {"moe.routing_strategy", judge_strategy},
      same_as_model("moe.normalize_gates", &O::moe, &M::normalize_gates, &F::norm_topk_prob,
                    "normalisation of gates"),
      same_as_model("engram.ngram_order", &O::engram, &E::ngram_order, &F::max_ngram_size,
                    "highest N-gram order"),
      {"engram.ngram_orders", judge_ngram_orders},
      same_as_model("engram.hash_heads", &O::engram, &E::hash_heads, &F::engram_n_heads,
                    "heads per order"),
      {"engram.hash_buckets", judge_hash_buckets},
      same_as_model("engram.embed_dim", &O::engram, &E::embed_dim, &F::engram_head_dim,
                    "columns per row", "table create takes the number given here"),
      {"engram.vocab_compression_ratio", judge_compression_ratio},
      {"engram.insertion_layer", judge_insertion_layer},
      {"engram.deterministic_addressing", judge_deterministic},
      same_as_model("engram.rms_norm_eps", &O::engram, &E::rms_norm_eps, &F::rms_norm_eps,
                    "RMSNorm epsilon"),
      {"engram.gate_activation", judge_gate_activation},
      {"engram.multi_branch",
       [](const Case& c) {
         return compare(c.options.engram.multi_branch, c.facts.n_streams > 1,
                        "use of several residual streams");
       }},
      same_as_model("engram.num_branches", &O::engram, &E::num_branches, &F::n_streams,
                    "residual streams"),
      {"engram.shared_value_projection", judge_shared_value},
      {"engram.branch_specific_key_projection", judge_branch_keys},
      {"engram.offload_to_host", judge_offload},
      {"engram.table.path", judge_table_path},
      {"inference.gpu_memory_utilization", judge_gpu_memory},
  };
}

std::vector<Rule> layout_rules() {
  using O = Options;
  using L = LayoutOptions;
  using F = ModelFacts;
  const std::string more = "`lookup --layout` takes the number given here";
  return {
      {"engram.layout.tokenizer_name_or_path", judge_tokenizer},
      same_as_model("engram.layout.engram_vocab_size", &O::layout, &L::engram_vocab_size,
                    &F::engram_vocab_size, "rows per head of each order", more),
      same_as_model("engram.layout.max_ngram_size", &O::layout, &L::max_ngram_size,
                    &F::max_ngram_size, "highest N-gram order", more),
      {"engram.layout.n_embed_per_ngram",
       [more](const Case& c) {
         return compare(c.options.layout.n_embed_per_ngram,
                        c.facts.engram_n_heads * c.facts.engram_head_dim, "columns per order",
                        more);
       }},
      same_as_model("engram.layout.n_head_per_ngram", &O::layout, &L::n_head_per_ngram,
                    &F::engram_n_heads, "heads per order", more),
      same_as_model("engram.layout.layer_ids", &O::layout, &L::layer_ids, &F::engram_layer_ids,
                    "layers with Engram, counted from 0", more),
      also_zero(same_as_model("engram.layout.pad_id", &O::layout, &L::pad_id,
                              &F::engram_pad_token_id, "padding token", more)),
      also_zero(same_as_model("engram.layout.seed", &O::layout, &L::seed, &F::engram_seed,
                              "seed of the multipliers", more)),
      same_as_model("engram.layout.kernel_size", &O::layout, &L::kernel_size,
                    &F::engram_kernel_size, "taps of the short convolution"),
      same_as_model("engram.layout.hidden_size", &O::layout, &L::hidden_size, &F::hidden_size,
                    "hidden size"),
      same_as_model("engram.layout.hc_mult", &O::layout, &L::hc_mult, &F::n_streams,
                    "residual streams"),
      same_as_model("engram.layout.vocab_size", &O::layout, &L::vocab_size, &F::vocab_size,
                    "vocabulary"),
      same_as_model("engram.layout.num_layers", &O::layout, &L::num_layers, &F::num_hidden_layers,
                    "layers"),
  };
}

std::vector<Rule> service_rules() {
  return {
      {"api.api_key_env", judge_api_key_env},
      {"sparse_allocation.total_params_b", judge_parameters},
      {"sparse_allocation.activated_params_b", judge_part},
      {"sparse_allocation.sparse_params_b", judge_part},
      {"sparse_allocation.engram_params_b", judge_engram_parameters},
      {"sparse_allocation.rho", judge_rho},
      {"scaling.flops_budget", judge_flops},
      {"scaling.optimal_rho_range", judge_rho_range},
  };
}

// A key without a rule changes what the daemon does, whatever the model; its help says what.
Ruling ruling_of(const Setting& setting, const std::vector<Rule>& rules, const Case& c) {
  const OptionRow& row = *setting.row;
  if (row.no_effect_yet) return reported(std::string(kNoEffectYet));
  const bool describes_engram = row.key.starts_with("engram.") && row.key != "engram.enable";
  if (describes_engram && !c.facts.has_engram) return reported("the model has no Engram");
  const auto rule =
      std::find_if(rules.begin(), rules.end(), [&](const Rule& r) { return r.key == row.key; });
  if (rule == rules.end()) return used(row.help);
  if (!rule->zero_is_a_statement && is_empty(setting.value)) return checked("states nothing");
  return rule->judge(c);
}

std::string statement(const Verdict& verdict) {
  return verdict.origin + ": " + verdict.written_key + " = " + verdict.value;
}

}  // namespace

std::string_view name_of(VerdictKind kind) {
  constexpr std::array<std::string_view, 4> kNames = {"used", "checked", "reported", "refused"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::vector<Verdict> judge(const EffectiveConfig& config, const ModelFacts& facts) {
  std::vector<Rule> rules = model_rules();
  for (const auto& more : {layout_rules(), service_rules()}) {
    rules.insert(rules.end(), more.begin(), more.end());
  }
  for (const Rule& rule : rules) ENGRAMD_ASSERT(find_option(rule.key));
  const Case c{config, config.options, facts};
  std::vector<Verdict> verdicts;
  for (const Setting& setting : config.settings) {
    if (setting.rank == Rank::kDefault) continue;
    Ruling ruling = ruling_of(setting, rules, c);
    verdicts.push_back({setting.row->key, setting.written_key, to_toml(setting.value),
                        setting.origin, ruling.kind, ruling.differs, std::move(ruling.note)});
  }
  return verdicts;
}

std::vector<std::string> refusals(const std::vector<Verdict>& verdicts) {
  std::vector<std::string> lines;
  for (const Verdict& verdict : verdicts) {
    if (verdict.kind != VerdictKind::kRefused) continue;
    lines.push_back(statement(verdict) + " is refused: " + verdict.note);
  }
  return lines;
}

std::vector<std::string> warnings(const EffectiveConfig& config,
                                  const std::vector<Verdict>& verdicts) {
  std::vector<std::string> lines = config.notes;
  for (const Verdict& verdict : verdicts) {
    if (verdict.differs) lines.push_back(statement(verdict) + ": " + verdict.note);
  }
  return lines;
}

}  // namespace engramd::config
