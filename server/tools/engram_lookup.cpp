#include "server/tools/engram_lookup.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>

#include "server/tools/bounded_text.h"
#include "server/tools/field.h"
#include "server/tools/taught_marks.h"
#include "server/tools/text_source.h"

namespace engramd::server {
namespace {

using mcp::json;

constexpr char kLookupDescription[] =
    "Look up Engram N-grams: tokens of a text, their compressed ids, and the N-gram of each order "
    "that ends at each token, with how many of its table rows are occupied and owned by exactly "
    "this N-gram, or that it is bypassed. With detail \"rows\" also every row per layer, order and "
    "head, and its norm. Use it to see what the model's conditional memory knows about a phrase. "
    "Fast: hashing only, nothing is generated.";
constexpr std::size_t kTextBytesMax = 4000;  // some 1,300 tokens of numbers and fragments

// Rows of one order over all layers and heads of one position.
struct OrderTotals {
  int n_rows = 0, n_occupied = 0, n_owned = 0, n_edited = 0;
  std::int64_t edited_by = 0;  // the newest transaction
  bool known = false;
};

OrderTotals totals_of(const engine::LookupPosition& position, int order) {
  OrderTotals totals;
  for (const engine::LookupLayer& layer : position.layers) {
    for (const engine::LookupCell& cell : layer.cells) {
      if (cell.order != order) continue;
      ++totals.n_rows;
      totals.known = totals.known || cell.owned.has_value();
      totals.n_occupied += static_cast<int>(cell.occupied.value_or(false));
      totals.n_owned += static_cast<int>(cell.owned.value_or(false));
      totals.n_edited += cell.edited_by != 0 ? 1 : 0;
      totals.edited_by = std::max(totals.edited_by, cell.edited_by);
    }
  }
  return totals;
}

std::string ngram_text(const engine::LookupPosition& position, const engine::LookupNgram& ngram) {
  const std::string order = "  " + std::to_string(ngram.order) + "-gram ";
  if (ngram.bypassed) return order + "bypassed";
  const OrderTotals totals = totals_of(position, ngram.order);
  std::string text = order + quoted(ngram.text);
  if (!totals.known) return text;
  const std::string of = "/" + std::to_string(totals.n_rows);
  text += " owned " + std::to_string(totals.n_owned) + of;
  if (totals.n_owned < totals.n_rows) {
    text += " (occupied " + std::to_string(totals.n_occupied) + of + ")";
  }
  if (totals.n_edited > 0) text += " edited " + std::to_string(totals.n_edited) + of;
  return text;
}

std::string rows_text(const engine::LookupLayer& layer) {
  std::string text = "    layer " + std::to_string(layer.layer_id) + " rows";
  int order = 0;
  for (const engine::LookupCell& cell : layer.cells) {
    if (cell.order != order) text += " [" + std::to_string(cell.order) + "]";
    order = cell.order;
    text += " " + std::to_string(cell.row);
  }
  return text;
}

std::string report_text(const engine::LookupReport& report, bool with_rows) {
  char summary[200];
  std::snprintf(summary, sizeof summary,
                "%zu tokens: %lld rows addressed, %lld bypassed, %lld occupied, %lld owned; "
                "hit rate %.3f",
                report.positions.size(), static_cast<long long>(report.n_lookups),
                static_cast<long long>(report.n_bypassed),
                static_cast<long long>(report.n_occupied), static_cast<long long>(report.n_owned),
                report.hit_rate);
  BoundedText text(kTextBytesMax);
  text.line(summary);
  if (report.n_lookups > 0 && report.n_lookups == report.n_bypassed) {
    text.line(
        "Every N-gram is bypassed: the text has fewer tokens than the shortest order, which "
        "is why the hit rate is 0.");
  }
  for (std::size_t i = 0; i < report.positions.size(); ++i) {
    const engine::LookupPosition& position = report.positions[i];
    std::string line = std::to_string(i) + " " + quoted(position.text) + " token " +
                       std::to_string(position.token) + " class " +
                       std::to_string(position.compressed_id);
    for (const engine::LookupNgram& ngram : position.ngrams) line += ngram_text(position, ngram);
    text.line(line);
    if (!with_rows) continue;
    for (const engine::LookupLayer& layer : position.layers) text.line(rows_text(layer));
  }
  return std::move(text).finish(
      std::string("structured output has them all, in a shell --json; a shorter text ") +
      (with_rows ? "or detail \"ngrams\" fits better" : "fits better"));
}

json cells_json(const engine::LookupLayer& layer) {
  json rows = json::array();
  for (const engine::LookupCell& cell : layer.cells) {
    json row = {{"order", cell.order}, {"head", cell.head}, {"row", cell.row}};
    if (cell.occupied) row["occupied"] = *cell.occupied;
    if (cell.owned) row["owned"] = *cell.owned;
    if (cell.row_norm) row["norm"] = *cell.row_norm;
    if (cell.edited_by != 0) {
      row["edited_by"] = cell.edited_by;
      row["edit_scope"] = cell.edited_exactly ? "ngram" : "row";
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

json position_json(const engine::LookupPosition& position, std::size_t index, bool with_rows) {
  json ngrams = json::array();
  for (const engine::LookupNgram& ngram : position.ngrams) {
    const OrderTotals totals = totals_of(position, ngram.order);
    json entry = {{"order", ngram.order},
                  {"text", ngram.text},
                  {"compressed_ids", ngram.classes},
                  {"bypassed", ngram.bypassed},
                  {"rows", totals.n_rows}};
    if (totals.known) {
      entry["rows_occupied"] = totals.n_occupied;
      entry["rows_owned"] = totals.n_owned;
      entry["rows_edited"] = totals.n_edited;
      if (totals.edited_by != 0) entry["edited_by"] = totals.edited_by;
    }
    ngrams.push_back(std::move(entry));
  }
  json out = {{"position", index},
              {"token", position.token},
              {"text", position.text},
              {"compressed_id", position.compressed_id},
              {"ngrams", std::move(ngrams)}};
  if (!with_rows) return out;
  out["layers"] = json::array();
  for (const engine::LookupLayer& layer : position.layers) {
    out["layers"].push_back({{"layer", layer.layer_id}, {"rows", cells_json(layer)}});
  }
  return out;
}

mcp::ToolResult look_up(const json& arguments, engine::LocalEngine& engine,
                        std::int64_t positions_max) {
  const auto ids = encode_source(arguments, engine, positions_max);
  if (ids.has_error()) return mcp::ToolResult::error(ids.error().message);
  engine::LookupOptions options;
  options.layer_ids = arguments.value("layers", std::vector<std::int64_t>());
  options.positions_max = positions_max;
  const auto report = engine.lookup(ids.value(), options);
  if (report.has_error()) return mcp::ToolResult::error(report.error().message);
  std::set<std::int64_t> edited_by;
  for (const engine::LookupPosition& position : report->positions) {
    for (const engine::LookupNgram& ngram : position.ngrams) {
      edited_by.insert(totals_of(position, ngram.order).edited_by);
    }
  }
  mcp::ToolResult result = to_tool_result(report.value(), arguments.at("detail") == "rows");
  add_taught_marks(edited_by, engine, result);
  return result;
}

}  // namespace

std::vector<mcp::Field> lookup_output_fields() {
  using namespace field;
  std::vector<mcp::Field> row = all_required({
      integer("order", "Tokens in the N-gram."),
      integer("head", "Hash head, from 0."),
      integer("row", "Flat row index in the layer's table."),
  });
  row.push_back(boolean("occupied", "Some training N-gram reached this row."));
  row.push_back(boolean("owned", "The row's owner tag is this N-gram's."));
  row.push_back(number("norm", "Euclidean norm of what the model reads, edits included."));
  row.push_back(integer("edited_by", "The transaction that edited it; absent: not edited."));
  row.push_back(choice("edit_scope", "Edited for this N-gram alone, or for all who share the row.",
                       {"ngram", "row"}));

  std::vector<mcp::Field> ngram = all_required({
      integer("order", "Tokens in the N-gram."),
      text("text", "The N-gram's text."),
      list("compressed_ids", "Compressed ids, oldest first.", mcp::FieldType::kInteger),
      boolean("bypassed", "Too few predecessors: the order is skipped here."),
      integer("rows", "Rows addressed over the layers and heads asked for."),
  });
  ngram.push_back(integer("rows_occupied", "Of those, occupied."));
  ngram.push_back(integer("rows_owned", "Of those, owned by this N-gram."));
  ngram.push_back(integer("rows_edited", "Of those, edited since the table was shipped."));
  ngram.push_back(integer("edited_by", "The newest transaction that did; absent: none."));

  std::vector<mcp::Field> token = all_required({
      integer("position", "Index of the token."),
      integer("token", "Token id."),
      text("text", "The token's text."),
      integer("compressed_id", "Id after vocabulary compression."),
      objects("ngrams", "The N-gram of each order that ends here.", std::move(ngram)),
  });
  token.push_back(
      objects("layers", "Row addresses per Engram layer, with detail \"rows\".",
              all_required({integer("layer", "Layer index, from 0."),
                            objects("rows", "One per order and head.", std::move(row))})));
  return all_required({
      integer("n_tokens", "Tokens inspected."),
      integer("n_lookups", "Rows addressed, over token, layer, order and head."),
      integer("n_bypassed", "Of those, at positions with too few predecessors."),
      integer("n_occupied", "Of those, occupied."),
      integer("n_owned", "Of those, owned by exactly the N-gram that addressed them."),
      number("hit_rate", "Owned divided by addressed and not bypassed."),
      objects("tokens", "One per token, in order.", std::move(token)),
  });
}

mcp::ToolResult to_tool_result(const engine::LookupReport& report, bool with_rows) {
  json tokens = json::array();
  for (std::size_t i = 0; i < report.positions.size(); ++i) {
    tokens.push_back(position_json(report.positions[i], i, with_rows));
  }
  json structured = {{"n_tokens", report.positions.size()}, {"n_lookups", report.n_lookups},
                     {"n_bypassed", report.n_bypassed},     {"n_occupied", report.n_occupied},
                     {"n_owned", report.n_owned},           {"hit_rate", report.hit_rate},
                     {"tokens", std::move(tokens)}};
  return {report_text(report, with_rows), std::move(structured), false};
}

mcp::Tool make_engram_lookup_tool(const Services& services) {
  using namespace field;
  mcp::Tool tool;
  tool.name = "engram_lookup";
  tool.description = kLookupDescription;
  tool.annotations.title = "Look up Engram N-grams";
  tool.input = text_source_fields();
  tool.input.push_back(
      not_empty(list("layers", "Engram layers to report, by layer index; leave out for all.",
                     mcp::FieldType::kInteger)));
  tool.input.push_back(with_default(choice("detail",
                                           "ngrams: N-grams and the totals of their rows; rows: "
                                           "with every row address too, long.",
                                           {"ngrams", "rows"}),
                                    "ngrams"));
  tool.output = lookup_output_fields();
  tool.output.push_back(taught_marks_field());
  tool.handler = [services](const std::shared_ptr<mcp::ToolCall>& call) {
    services.loader.when_ready([services, call](Result<engine::LocalEngine*> engine) {
      call->finish(engine.has_value() ? look_up(call->arguments(), *engine.value(),
                                                services.options.limits.inspect_positions_max)
                                      : mcp::ToolResult::error(engine.error().message));
    });
  };
  return tool;
}

}  // namespace engramd::server
