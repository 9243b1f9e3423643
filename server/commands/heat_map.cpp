#include "server/commands/heat_map.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "mcp/text.h"
#include "server/tools/text_source.h"

namespace engramd::server {
namespace {

using nlohmann::json;

// Dark blue to yellow through purple in the 256-colour cube: readable with either background.
constexpr std::array<int, 8> kRamp = {17, 18, 54, 90, 126, 162, 208, 226};

std::string gate_cell(double gate, bool colour) {
  char text[48];
  if (!colour) {
    std::snprintf(text, sizeof text, "  %.2f", gate);
    return text;
  }
  const auto step = static_cast<std::size_t>(std::clamp(gate, 0.0, 0.999) * kRamp.size());
  const int ink = step >= 6 ? 16 : 231;  // black on the light steps, white on the dark ones
  std::snprintf(text, sizeof text, " \x1b[48;5;%d;38;5;%dm %.2f \x1b[0m", kRamp[step], ink, gate);
  return text;
}

std::string header(const json& tokens, bool colour) {
  std::string line;
  for (const json& layer : tokens.front().at("layers")) {
    for (std::size_t stream = 0; stream < layer.at("gate").size(); ++stream) {
      char text[32];
      std::snprintf(text, sizeof text, colour ? " L%-2lld.%-2zu" : " L%-2lld.%zu",
                    static_cast<long long>(layer.at("layer").get<std::int64_t>()), stream);
      line += text;
    }
  }
  return line + "   dlogp  token\n";
}

std::string delta_text(const json& token) {
  char text[32] = "       -";
  if (token.contains("ablation_delta_logprob")) {
    std::snprintf(text, sizeof text, "%+8.3f", token.at("ablation_delta_logprob").get<double>());
  }
  return text;
}

}  // namespace

std::string heat_map(const json& gates, bool colour) {
  const json& tokens = gates.at("tokens");
  if (tokens.empty()) return "";
  std::string text = header(tokens, colour);
  for (const json& token : tokens) {
    for (const json& layer : token.at("layers")) {
      for (const json& gate : layer.at("gate")) text += gate_cell(gate.get<double>(), colour);
    }
    text += delta_text(token) + "  " + quoted(token.at("text")) + "\n";
  }
  const std::size_t n_left_out = gates.at("n_tokens").get<std::size_t>() - tokens.size();
  if (n_left_out > 0) {
    text += "(" + std::to_string(n_left_out) + " more tokens: engramd gates --json has them all)\n";
  }
  return text;
}

}  // namespace engramd::server
