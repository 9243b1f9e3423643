#include "server/tools/gate_inspect.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <set>
#include <utility>

#include "server/tools/bounded_text.h"
#include "server/tools/field.h"
#include "server/tools/taught_marks.h"
#include "server/tools/text_source.h"

namespace engramd::server {
namespace {

using mcp::json;

constexpr char kGatesDescription[] =
    "Inspect Engram gates: for each token, layer and residual stream how far the gate opened (0 to "
    "1), the value's norm, the update's share of the residual, and how much the log-probability of "
    "the actual next token drops when the whole Engram update is left out at that one token. The "
    "N-grams that mattered most come first. Use it to see which memories an answer rests on. "
    "Ablation costs about one forward step per token.";

constexpr char kRankingHeading[] = "N-grams that mattered most:";

// What the ranking and the one-line summaries say of a position.
struct Strength {
  float gate_max = 0;
  float share_max = 0;
  std::int64_t layer = 0;  // where the gate opened most
  int stream = 0;
};

Strength strength_of(const engine::GatePosition& position) {
  Strength strength;
  for (const engine::GateLayer& layer : position.layers) {
    for (std::size_t s = 0; s < layer.gate.size(); ++s) {
      strength.share_max = std::max(strength.share_max, layer.residual_share[s]);
      if (layer.gate[s] <= strength.gate_max) continue;
      strength.gate_max = layer.gate[s];
      strength.layer = layer.layer_id;
      strength.stream = static_cast<int>(s);
    }
  }
  return strength;
}

// The longest N-gram here that the table owns, else the longest that reads rows. Orders start at 2.
std::size_t telling_order_slot(const engine::GatePosition& position) {
  for (std::size_t i = position.ngrams.size(); i-- > 0;) {
    if (position.owned[i]) return i;
  }
  for (std::size_t i = position.ngrams.size(); i-- > 0;) {
    if (!position.bypassed[i]) return i;
  }
  return 0;
}

// Positions by how much they mattered: by the ablation where it was made, by share otherwise.
std::vector<std::size_t> ranking(const engine::GateReport& report) {
  std::vector<std::size_t> order(report.positions.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto weight = [&](std::size_t i) {
    const engine::GatePosition& position = report.positions[i];
    const bool any_ablation = report.positions.front().ablation_delta_logprob.has_value();
    if (any_ablation) return std::abs(position.ablation_delta_logprob.value_or(0.0));
    return static_cast<double>(strength_of(position).share_max);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return weight(a) > weight(b); });
  return order;
}

json top_json(const engine::GateReport& report, std::size_t index) {
  const engine::GatePosition& position = report.positions[index];
  const Strength strength = strength_of(position);
  const std::size_t slot = telling_order_slot(position);
  const bool unreadable = position.ngrams.empty() || position.ngrams[slot].empty();
  json entry = {{"position", index},
                {"ngram", unreadable ? position.text : position.ngrams[slot]},
                {"order", slot + 2},
                {"owned", !position.owned.empty() && position.owned[slot]},
                {"bypassed", !position.bypassed.empty() && position.bypassed[slot]},
                {"rows", position.n_rows.empty() ? 0 : position.n_rows[slot]},
                {"rows_edited", position.n_edited.empty() ? 0 : position.n_edited[slot]},
                {"gate", strength.gate_max},
                {"layer", strength.layer},
                {"stream", strength.stream},
                {"residual_share", strength.share_max}};
  if (index + 1 < report.positions.size()) entry["next_text"] = report.positions[index + 1].text;
  if (position.ablation_delta_logprob) {
    entry["delta_logprob"] = *position.ablation_delta_logprob;
  }
  return entry;
}

std::string top_text(const json& entry, std::size_t rank) {
  char numbers[160];
  std::snprintf(numbers, sizeof numbers, "gate %.2f (layer %lld, stream %lld), share %.2f",
                entry.at("gate").get<double>(),
                static_cast<long long>(entry.at("layer").get<std::int64_t>()),
                static_cast<long long>(entry.at("stream").get<std::int64_t>()),
                entry.at("residual_share").get<double>());
  std::string line = std::to_string(rank) + ". " + quoted(entry.at("ngram")) + " at " +
                     std::to_string(entry.at("position").get<std::int64_t>()) + ": " + numbers +
                     (entry.at("bypassed").get<bool>() ? ", bypassed"
                      : entry.at("owned").get<bool>()  ? ", owned"
                                                       : ", not owned");
  if (const auto n_edited = entry.at("rows_edited").get<int>(); n_edited > 0) {
    line +=
        ", edited " + std::to_string(n_edited) + "/" + std::to_string(entry.at("rows").get<int>());
  }
  if (entry.contains("delta_logprob")) {
    std::snprintf(numbers, sizeof numbers, ", %+.3f on log p of ",
                  entry.at("delta_logprob").get<double>());
    line += numbers + quoted(entry.value("next_text", std::string()));
  }
  return line;
}

json position_json(const engine::GatePosition& position, std::size_t index) {
  json layers = json::array();
  for (const engine::GateLayer& layer : position.layers) {
    layers.push_back({{"layer", layer.layer_id},
                      {"gate", layer.gate},
                      {"dot", layer.dot},
                      {"residual_share", layer.residual_share},
                      {"value_norm", layer.value_norm}});
  }
  json out = {{"position", index},
              {"token", position.token},
              {"text", position.text},
              {"ngrams", position.ngrams},
              {"bypassed", position.bypassed},
              {"owned", position.owned},
              {"rows_edited", position.n_edited},
              {"edited_by", position.edited_by},
              {"layers", std::move(layers)}};
  if (position.ablation_delta_logprob) {
    out["ablation_delta_logprob"] = *position.ablation_delta_logprob;
  }
  return out;
}

struct GateTotals {
  double mean = 0, maximum = 0;
};

GateTotals gate_totals(const engine::GateReport& report) {
  GateTotals totals;
  std::int64_t n_gates = 0;
  for (const engine::GatePosition& position : report.positions) {
    for (const engine::GateLayer& layer : position.layers) {
      for (const float gate : layer.gate) {
        totals.mean += gate;
        totals.maximum = std::max(totals.maximum, static_cast<double>(gate));
        ++n_gates;
      }
    }
  }
  if (n_gates > 0) totals.mean /= static_cast<double>(n_gates);
  return totals;
}

std::string report_text(const engine::GateReport& report, const json& top,
                        const GateTotals& totals) {
  BoundedText text;
  char line[160];
  std::snprintf(line, sizeof line, "%zu tokens; gate mean %.2f, max %.2f", report.positions.size(),
                totals.mean, totals.maximum);
  text.line(line);
  text.line(kRankingHeading);
  for (std::size_t i = 0; i < top.size(); ++i) text.line(top_text(top[i], i + 1));
  text.line(
      "Every token (greatest gate, greatest share of the residual, change in log p of the "
      "next token):");
  for (std::size_t i = 0; i < report.positions.size(); ++i) {
    const engine::GatePosition& position = report.positions[i];
    const Strength strength = strength_of(position);
    std::snprintf(line, sizeof line, " %.2f %.2f", strength.gate_max, strength.share_max);
    std::string row = std::to_string(i) + " " + quoted(position.text) + line;
    if (position.ablation_delta_logprob) {
      std::snprintf(line, sizeof line, " %+.3f", *position.ablation_delta_logprob);
      row += line;
    }
    text.line(row);
  }
  return std::move(text).finish("structured output has the matrix");
}

void inspect(const std::shared_ptr<mcp::ToolCall>& call, const Services& services,
             engine::LocalEngine& engine) {
  const json& arguments = call->arguments();
  const std::int64_t positions_max = services.options.limits.inspect_positions_max;
  auto ids = encode_source(arguments, engine, positions_max);
  if (ids.has_error()) {
    call->finish(mcp::ToolResult::error(ids.error().message));
    return;
  }
  engine::GateOptions options;
  options.with_ablation = arguments.at("ablation");
  options.positions_max = positions_max;
  const auto on_progress = [call, post = services.post](std::int64_t done, std::int64_t total) {
    post([call, done, total] {
      call->progress(static_cast<double>(done), static_cast<double>(total),
                     "inspected " + std::to_string(done) + " of " + std::to_string(total));
    });
  };
  const auto on_done = [call, &engine, post = services.post](Result<engine::GateReport> result) {
    auto shared = std::make_shared<Result<engine::GateReport>>(std::move(result));
    post([call, &engine, shared] {
      if (shared->has_error()) {
        return call->finish(mcp::ToolResult::error(shared->error().message));
      }
      std::set<std::int64_t> edited_by;
      for (const engine::GatePosition& position : shared->value().positions) {
        edited_by.insert(position.edited_by.begin(), position.edited_by.end());
      }
      mcp::ToolResult answer = to_tool_result(shared->value(), call->arguments().at("top"),
                                              call->arguments().at("matrix_tokens"));
      add_taught_marks(edited_by, engine, answer);
      call->finish(std::move(answer));
    });
  };
  engine.inspect_gates(std::move(ids).value(), options, on_progress, on_done, call->stop_token());
}

}  // namespace

std::vector<mcp::Field> gate_output_fields() {
  using namespace field;
  const auto per_stream = [](std::string name, std::string description) {
    return required(list(std::move(name), std::move(description), mcp::FieldType::kNumber));
  };
  std::vector<mcp::Field> top = all_required({
      integer("position", "Token at which the N-gram ends."),
      text("ngram", "The N-gram's text."),
      integer("order", "Tokens in the N-gram."),
      boolean("owned", "The table has rows of exactly this N-gram."),
      boolean("bypassed", "Too few predecessors: no N-gram reads a row here."),
      integer("rows", "Rows that the N-gram reads, over layers and heads."),
      integer("rows_edited", "Of those, edited since the table was shipped."),
      number("gate", "Greatest gate over layers and streams."),
      integer("layer", "Layer of that gate."),
      integer("stream", "Residual stream of that gate."),
      number("residual_share", "Greatest norm of the update over norm of the stream."),
  });
  top.push_back(text("next_text", "The token that follows."));
  top.push_back(number("delta_logprob",
                       "Log-probability of that token, minus the same without the "
                       "update here."));
  std::vector<mcp::Field> token = all_required({
      integer("position", "Index of the token."),
      integer("token", "Token id."),
      text("text", "The token's text."),
      list("ngrams", "Text of the N-gram of each order from 2 on that ends here.",
           mcp::FieldType::kString),
      list("bypassed", "Whether each has too few predecessors and reads no row.",
           mcp::FieldType::kBoolean),
      list("owned", "Whether the table owns each of them.", mcp::FieldType::kBoolean),
      list("rows_edited", "How many rows of each were edited.", mcp::FieldType::kInteger),
      list("edited_by", "The newest transaction that did; 0: none.", mcp::FieldType::kInteger),
      objects("layers", "One per Engram layer.",
              {required(integer("layer", "Layer index, from 0.")),
               per_stream("gate", "Gate per residual stream, 0 to 1."),
               per_stream("dot", "Normalised dot product behind the gate, per stream."),
               per_stream("residual_share", "Norm of the update over norm of the stream."),
               required(number("value_norm", "Norm of the value vector."))}),
  });
  token.push_back(number("ablation_delta_logprob",
                         "Log-probability of the actual next token, minus the same with this "
                         "token's whole update left out."));
  return all_required({
      integer("n_tokens", "Tokens inspected."),
      number("gate_mean", "Over tokens, layers and streams."),
      number("gate_max", "Over tokens, layers and streams."),
      number("elapsed_ms", "Time in the engine."),
      objects("top", "N-grams that mattered most, first.", std::move(top)),
      objects("tokens", "The matrix: one entry per token, up to matrix_tokens.", std::move(token)),
  });
}

mcp::ToolResult to_tool_result(const engine::GateReport& report, std::int64_t n_top,
                               std::int64_t matrix_positions_max) {
  json top = json::array();
  for (const std::size_t index : ranking(report)) {
    if (static_cast<std::int64_t>(top.size()) >= n_top) break;
    top.push_back(top_json(report, index));
  }
  json tokens = json::array();
  for (std::size_t i = 0; i < report.positions.size(); ++i) {
    if (static_cast<std::int64_t>(i) >= matrix_positions_max) break;
    tokens.push_back(position_json(report.positions[i], i));
  }
  const GateTotals totals = gate_totals(report);
  std::string text = report_text(report, top, totals);
  json structured = {{"n_tokens", report.positions.size()},
                     {"gate_mean", totals.mean},
                     {"gate_max", totals.maximum},
                     {"elapsed_ms", report.elapsed_ms},
                     {"top", std::move(top)},
                     {"tokens", std::move(tokens)}};
  return {std::move(text), std::move(structured), false};
}

std::string ranking_text(const json& structured) {
  const json& top = structured.at("top");
  if (top.empty()) return "";
  std::string text = std::string(kRankingHeading) + '\n';
  for (std::size_t i = 0; i < top.size(); ++i) text += top_text(top[i], i + 1) + '\n';
  return text;
}

mcp::Tool make_gate_inspect_tool(const Services& services) {
  using namespace field;
  const auto positions_max = static_cast<double>(services.options.limits.inspect_positions_max);
  mcp::Tool tool;
  tool.name = "gate_inspect";
  tool.description = kGatesDescription;
  tool.annotations.title = "Inspect Engram gates";
  tool.input = text_source_fields();
  tool.input.push_back(with_default(
      boolean("ablation", "Measure what leaving each update out does; false is much faster."),
      true));
  tool.input.push_back(
      with_default(integer("top", "N-grams in the ranking.", {0, positions_max}), 10));
  tool.input.push_back(
      with_default(integer("matrix_tokens", "Tokens in the structured matrix.", {0, positions_max}),
                   std::min<std::int64_t>(512, services.options.limits.inspect_positions_max)));
  tool.output = gate_output_fields();
  tool.output.push_back(taught_marks_field());
  tool.handler = [services](const std::shared_ptr<mcp::ToolCall>& call) {
    services.loader.when_ready([services, call](Result<engine::LocalEngine*> engine) {
      if (engine.has_value()) {
        inspect(call, services, *engine.value());
      } else {
        call->finish(mcp::ToolResult::error(engine.error().message));
      }
    });
  };
  return tool;
}

}  // namespace engramd::server
