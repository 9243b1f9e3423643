#include "server/tools/table_get.h"

#include <cstdio>
#include <utility>

#include "server/tools/bounded_text.h"
#include "server/tools/field.h"
#include "server/tools/row_selector.h"
#include "server/tools/table_tool.h"

namespace engramd::server {
namespace {

using mcp::json;

constexpr char kGetDescription[] =
    "Read Engram table rows: the numbers that an N-gram's rows hold now, edits included, with "
    "their stored bytes and the transaction that wrote them. Use it before table_update, for "
    "example to take the image for a compare-and-swap.";

Result<mcp::ToolResult> get(const json& arguments, engine::TableEditor& editor) {
  const auto values = editor.get(selector_of(arguments), scope_of(arguments));
  if (!values) return values.error();
  BoundedText text;
  json rows = json::array();
  std::string images;
  for (const engine::CellValue& value : *values) {
    json row = cell_json(value.cell);
    row["norm"] = engine::norm_of(value.stored.values);
    row["values"] = value.stored.values;
    row["image"] = hex_of(value.stored.image);
    row["written_by"] = value.stored.writer;
    images += row["image"].get<std::string>();
    char summary[96];
    std::snprintf(summary, sizeof summary, ": norm %.4g, %s", row["norm"].get<double>(),
                  value.stored.writer == 0
                      ? "not edited"
                      : ("written by transaction " + std::to_string(value.stored.writer)).c_str());
    text.line(cell_text(value.cell) + summary);
    rows.push_back(std::move(row));
  }
  json structured = {{"rows", std::move(rows)}, {"image", std::move(images)}};
  return mcp::ToolResult{std::move(text).finish("structured output has them all"),
                         std::move(structured), false};
}

}  // namespace

mcp::Tool make_table_get_tool(const Services& services) {
  using namespace field;
  mcp::Tool tool;
  tool.name = "table_get";
  tool.description = kGetDescription;
  tool.annotations.title = "Read Engram table rows";
  tool.input = selector_fields();
  tool.input.push_back(scope_field());
  std::vector<mcp::Field> row = cell_fields();
  for (mcp::Field& more :
       all_required({number("norm", "Euclidean norm."),
                     list("values", "The row as numbers.", mcp::FieldType::kNumber),
                     text("image", "Stored bytes in hexadecimal: codes, then scales."),
                     integer("written_by", "The transaction that wrote it; 0: not edited.")})) {
    row.push_back(std::move(more));
  }
  tool.output = all_required({
      objects("rows", "One per layer and head.", std::move(row)),
      text("image", "All images, one after the other: table_update's expected_image."),
  });
  tool.handler = table_handler(services, get);
  return tool;
}

}  // namespace engramd::server
