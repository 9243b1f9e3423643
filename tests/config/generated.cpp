#include "tests/config/generated.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "config/print_reference.h"

namespace engramd::config {
namespace {

const std::string kConfigs = std::string(ENGRAMD_TEST_DATA) + "/configs/";

std::string without(std::string text, const std::string& part) {
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part)) {
    text.erase(at, part.size());
  }
  return text;
}

std::string golden_text(const std::string& set) {
  const EffectiveConfig config = load_user_set(set);
  std::string out;
  for (const std::string& file : config.files_loaded) out += "read " + file + "\n";
  for (const std::string& file : config.files_ignored) out += "ignored " + file + "\n";
  for (const std::string& note : config.notes) out += "note " + note + "\n";
  for (const std::string& problem : config.problems) out += "problem " + problem + "\n";
  for (const Verdict& verdict : judge(config, bundled_facts())) {
    out += "\n" + verdict.written_key + " = " + verdict.value + "   (" + verdict.origin + ")\n";
    out += "  " + std::string(name_of(verdict.kind)) + (verdict.differs ? ", differs" : "") + ": " +
           verdict.note + "\n";
  }
  return without(out, kConfigs + set + "/");
}

}  // namespace

ModelFacts bundled_facts() {
  ModelFacts facts;
  facts.model_name = "engram-nano";
  facts.n_routed_experts = 16;
  facts.num_experts_per_tok = 4;
  facts.n_shared_experts = 1;
  facts.norm_topk_prob = true;
  facts.has_engram = true;
  facts.max_ngram_size = 3;
  facts.engram_n_heads = 4;
  facts.engram_head_dim = 32;
  facts.engram_vocab_size = {20011, 20011};
  facts.engram_layer_ids = {1, 3};
  facts.engram_kernel_size = 4;
  facts.engram_pad_token_id = 2;
  facts.engram_seed = 0;
  facts.n_streams = 2;
  facts.rms_norm_eps = 1e-6;
  facts.vocab_size = 10240;
  facts.compressed_vocab_size = 9006;
  facts.hidden_size = 256;
  facts.num_hidden_layers = 6;
  return facts;
}

std::vector<std::string> user_sets() {
  std::vector<std::string> sets;
  for (const auto& entry : std::filesystem::directory_iterator(kConfigs)) {
    if (entry.is_directory()) sets.push_back(entry.path().filename().string());
  }
  std::sort(sets.begin(), sets.end());
  return sets;
}

EffectiveConfig load_user_set(const std::string& name) {
  ConfigRequest request;
  request.arguments = {"--config-dir", kConfigs + name};
  return load_effective_config(request);
}

std::vector<GeneratedFile> generated_files() {
  std::vector<GeneratedFile> files = {
      {std::string(ENGRAMD_SOURCE_DIR) + "/install/engramd.toml", print_sample_file()}};
  for (const std::string& set : user_sets()) {
    files.push_back({kConfigs + set + ".golden.txt", golden_text(set)});
  }
  return files;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string with_option_table(const std::string& readme) {
  const auto begin = readme.find(kReadmeBegin);
  const auto end = readme.find(kReadmeEnd);
  if (begin == std::string::npos || end == std::string::npos || end < begin) return {};
  const auto after = begin + kReadmeBegin.size();
  return readme.substr(0, after) + "\n" + print_option_table() + readme.substr(end);
}

}  // namespace engramd::config
