#include "server/commands/lookup.h"

#include <cstdio>
#include <fstream>
#include <sstream>
#include <utility>

#include "engine/engram/addresser.h"
#include "engine/engram/layout_json.h"
#include "engine/engram/token_map.h"
#include "engine/inspect/lookup_report.h"
#include "mcp/text.h"
#include "server/commands/run_tool.h"
#include "server/tools/engram_lookup.h"

namespace engramd::server {
namespace {

using mcp::json;

Result<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return not_found(path + ": cannot be read");
  return std::move(text).str();
}

// How a layout file and a tokenizer hash, whichever library wrote the file.
struct FileLayout {
  engine::EngramLayoutConfig config;
  engine::TokenMap map;
};

// engram-peft compresses the tokenizer's own vocabulary and leaves its added tokens as they are.
Result<FileLayout> peft_layout(const std::string& text, const engine::Tokenizer& tokenizer,
                               const std::string& tokenizer_text) {
  auto parsed = engine::parse_peft_json(text);
  if (parsed.has_error()) return parsed.error();
  FileLayout layout{std::move(parsed->config), {}};
  if (!parsed->compresses_tokens) {
    layout.map = engine::identity_token_map(tokenizer.vocab_size());
    return layout;
  }
  const json vocabulary = json::parse(tokenizer_text)["model"]["vocab"];  // it was read before
  layout.map = engine::build_token_map(tokenizer, static_cast<std::int64_t>(vocabulary.size()));
  if (layout.map.n_classes == layout.config.hashed_vocab_size) return layout;
  return invalid_argument("engram-peft config.json: compressed_vocab_size is " +
                          std::to_string(layout.config.hashed_vocab_size) +
                          ", the tokenizer's vocabulary compresses to " +
                          std::to_string(layout.map.n_classes) +
                          ": give the tokenizer.json of the adapter's base model");
}

Result<FileLayout> demo_layout(const std::string& text, const engine::Tokenizer& tokenizer) {
  auto config = engine::parse_layout_json(text);
  if (config.has_error()) return config.error();
  FileLayout layout{std::move(*config), engine::build_token_map(tokenizer)};
  layout.config.hashed_vocab_size = layout.map.n_classes;
  return layout;
}

// A layout file and a tokenizer are enough to hash: no weights, so nothing about rows is known.
Result<mcp::ToolResult> look_up_by_layout(const std::string& layout_path,
                                          const std::string& tokenizer_path,
                                          const std::string& text, engine::LookupOptions options,
                                          bool with_rows) {
  const auto layout_text = read_file(layout_path);
  if (layout_text.has_error()) return layout_text.error();
  const auto tokenizer_text = read_file(tokenizer_path);
  if (tokenizer_text.has_error()) return tokenizer_text.error();
  const auto tokenizer = engine::Tokenizer::from_json(tokenizer_text.value());
  if (tokenizer.has_error()) {
    return Error{tokenizer.error().kind, tokenizer_path + ": " + tokenizer.error().message};
  }
  auto file_layout = engine::is_peft_json(layout_text.value())
                         ? peft_layout(layout_text.value(), *tokenizer, tokenizer_text.value())
                         : demo_layout(layout_text.value(), *tokenizer);
  if (file_layout.has_error()) return file_layout.error();
  const engine::TokenMap& map = file_layout->map;
  const std::int64_t pad = file_layout->config.pad_token_id;
  if (pad < 0 || pad >= static_cast<std::int64_t>(map.classes.size())) {
    return invalid_argument(layout_path + ": pad_id " + std::to_string(pad) +
                            " is outside the tokenizer's vocabulary of " +
                            std::to_string(map.classes.size()));
  }
  const auto layout = engine::make_layout(file_layout->config);
  if (layout.has_error()) return layout.error();
  const auto ids = tokenizer.value().encode(text);
  if (ids.has_error()) return ids.error();
  const engine::Addresser addresser(layout.value(), map.classes[static_cast<std::size_t>(pad)]);
  const auto report =
      engine::make_lookup_report(ids.value(), tokenizer.value(), map, addresser, nullptr, options);
  if (report.has_error()) return report.error();
  return to_tool_result(report.value(), with_rows);
}

Result<mcp::ToolResult> look_up(const config::EffectiveConfig& config) {
  const auto layers = parse_integers("--layers", flag_or(config, "--layers", ""));
  if (layers.has_error()) return layers.error();
  const std::string detail = flag_or(config, "--detail", "ngrams");
  const std::string layout = flag_or(config, "--layout", "");
  const std::string token_ids = flag_or(config, "--token-ids", "");

  json arguments = {{"detail", detail}};
  if (!layers.value().empty()) arguments["layers"] = layers.value();
  if (!token_ids.empty()) {
    const auto ids = parse_integers("--token-ids", token_ids);
    if (ids.has_error()) return ids.error();
    if (!config.positional.empty()) {
      return invalid_argument("lookup: expected TEXT or --token-ids, got both");
    }
    arguments["token_ids"] = ids.value();
  } else {
    auto text = read_text(config);
    if (text.has_error()) return text.error();
    arguments[has_flag(config, "--chat") ? "question" : "text"] = std::move(text).value();
  }
  if (layout.empty()) {
    Daemon daemon(config);
    return run_tool(daemon, "engram_lookup", arguments);
  }
  const std::string tokenizer = flag_or(config, "--tokenizer", "");
  if (tokenizer.empty() || !arguments.contains("text")) {
    return invalid_argument("--layout needs --tokenizer FILE (a tokenizer.json) and a plain TEXT");
  }
  return look_up_by_layout(layout, tokenizer, arguments.at("text"),
                           {layers.value(), config.options.limits.inspect_positions_max},
                           detail == "rows");
}

int run_lookup(const config::EffectiveConfig& config) {
  const auto result = look_up(config);
  if (result.has_error()) return fail(result.error());
  const bool as_json = has_flag(config, "--json");
  std::fputs(as_json ? json_text(result.value().structured).c_str()
                     : (mcp::sanitise_text(result.value().text) + '\n').c_str(),
             stdout);
  return kExitOk;
}

}  // namespace

Command lookup_command() {
  return {
      .name = "lookup",
      .usage = "lookup TEXT [--json] [--layers LIST] [--layout FILE --tokenizer FILE] [OPTION...]",
      .summary = "show the N-grams of a text and the table rows they address",
      .description =
          "For each token: its compressed id, and the N-gram of each order that ends there, with\n"
          "how many of its rows the table owns. --detail rows lists the row per layer, order and\n"
          "head too. A long text is cut after some 4,000 characters of output; --json has all.\n"
          "With --layout and --tokenizer it hashes by a layout file of the public Engram demo, or "
          "by\n"
          "the config.json of an engram-peft adapter, without a model.",
      .examples =
          "engramd lookup \"The capital of France is\"\n"
          "engramd lookup --json --layers 1 --detail rows \"Alexander the Great\"\n"
          "engramd lookup --layout engram_config.json --tokenizer tokenizer.json \"Hello\"",
      .flags = {{"--json", "", "Print the engram_lookup tool's whole structured result."},
                {"--layers", "LIST", "Engram layers to report, by index; all when left out."},
                {"--detail", "ngrams|rows",
                 "ngrams (default): totals of their rows; rows: every row address too."},
                {"--token-ids", "LIST", "Token ids instead of TEXT."},
                {"--chat", "", "Lay TEXT out as a chat's user message first."},
                {"--layout", "FILE",
                 "Hash by this file: engram_config.json, or an engram-peft config.json."},
                {"--tokenizer", "FILE", "The tokenizer.json that belongs to --layout."}},
      .takes_words = true,
      .opens_model = true,
      .run = run_lookup,
  };
}

}  // namespace engramd::server
