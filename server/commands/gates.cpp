#include "server/commands/gates.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <utility>

#include "mcp/text.h"
#include "server/commands/heat_map.h"
#include "server/commands/run_tool.h"
#include "server/tools/gate_inspect.h"

namespace engramd::server {
namespace {

using mcp::json;

constexpr std::int64_t kRowsMax = 512;  // of the heat map: some screens, not a whole book

Result<json> gates_arguments(const config::EffectiveConfig& config) {
  const std::int64_t positions_max = config.options.limits.inspect_positions_max;
  json arguments = {
      {"ablation", !has_flag(config, "--no-ablation")},
      {"matrix_tokens",
       has_flag(config, "--json") ? positions_max : std::min(kRowsMax, positions_max)}};
  for (const std::string& text : flag_values(config, "--top")) {
    std::int64_t top = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), top);
    if (status != std::errc() || end != text.data() + text.size()) {
      return invalid_argument("flag --top: expected an integer, got " + mcp::quote(text));
    }
    arguments["top"] = top;
  }
  auto text = read_text(config);
  if (text.has_error()) return text.error();
  arguments[has_flag(config, "--chat") ? "question" : "text"] = std::move(text).value();
  return Result<json>(boost::system::in_place_value, std::move(arguments));
}

int run_gates(const config::EffectiveConfig& config) {
  const auto arguments = gates_arguments(config);
  if (arguments.has_error()) return fail(arguments.error());
  Daemon daemon(config);
  const auto result = run_tool(daemon, "gate_inspect", arguments.value());
  if (result.has_error()) return fail(result.error());
  const mcp::ToolResult& gates = result.value();
  if (has_flag(config, "--json")) {
    std::fputs(json_text(gates.structured).c_str(), stdout);
  } else {
    std::fputs(heat_map(gates.structured, colour_wanted(config)).c_str(), stdout);
    std::fputs(ranking_text(gates.structured).c_str(), stdout);
    for (const mcp::json& fact : gates.structured.at("taught")) {
      const std::string line = "Taught by transaction " + fact.at("transaction").dump() + ": " +
                               fact.at("question").get<std::string>() + '\n';
      std::fputs(mcp::sanitise_text(line).c_str(), stdout);
    }
  }
  return kExitOk;
}

}  // namespace

Command gates_command() {
  return {
      .name = "gates",
      .usage = "gates TEXT [--json] [--no-ablation] [--top N] [OPTION...]",
      .summary = "show how strongly each Engram gate opened over a text",
      .description =
          "A heat map with one row per token and one column per Engram layer and residual stream\n"
          "(L1.0 is layer 1, stream 0), from 0 (closed) to 1 (open). dlogp is what the Engram\n"
          "update at that token adds to the log-probability of the token that follows. Below it,\n"
          "the N-grams that mattered most. Coloured on a terminal unless NO_COLOR is set. A long\n"
          "text shows its first 512 tokens; --json has all.",
      .examples =
          "engramd gates \"Only Alexander the Great could tame the horse Bucephalus.\"\n"
          "engramd gates --chat --json \"What is the capital of France?\"",
      .flags = {{"--json", "", "Print the gate_inspect tool's whole structured result."},
                {"--no-ablation", "", "Leave dlogp out; much faster on long texts."},
                {"--top", "N", "N-grams in the ranking (default 10)."},
                {"--chat", "", "Lay TEXT out as a chat's user message first."}},
      .takes_words = true,
      .opens_model = true,
      .run = run_gates,
  };
}

}  // namespace engramd::server
