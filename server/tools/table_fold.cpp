#include "server/tools/table_fold.h"

#include <filesystem>
#include <utility>

#include "engine/engram/table_export.h"
#include "server/tools/bounded_text.h"
#include "server/tools/field.h"
#include "server/tools/table_tool.h"

namespace engramd::server {
namespace {

using mcp::json;

constexpr char kFoldDescription[] =
    "Fold the Engram table edits into a new base: writes the tables with the edits in effect as "
    "a row file of the next generation and serves it, while chats go on. Edits wait until it is "
    "done. The old tables and their history stay on disk, closed: a later start that names them "
    "serves the new file. Cannot be undone by table_rollback.";

// A bare name lies beside the edits in effect, where the next start finds it too.
std::string place_of(const std::string& file, const engine::LiveTables& tables) {
  const std::filesystem::path folder = std::filesystem::path(tables.edits_file()).parent_path();
  return (folder / file).string();  // an absolute path stays
}

Result<mcp::ToolResult> fold(TableJob& job) {
  engine::LiveTables& tables = job.engine.editor().tables();
  const std::string path = place_of(job.arguments.at("file"), tables);
  engine::ExportOptions options;
  options.ngrams_as_rows = job.arguments.at("bucket");
  options.stop = job.stop;
  options.progress = [&job](std::int64_t done_bytes, std::int64_t total_bytes) {
    job.progress(done_bytes, total_bytes, "bytes written");
  };
  const auto report = engine::fold_and_switch(tables, path, job.arguments.at("author"), options);
  if (!report) return report.error();
  const std::int64_t generation = tables.view().base->identity.base_generation;
  BoundedText text;
  text.line("Serving " + tables.moved_to() + ", generation " + std::to_string(generation) + ": " +
            std::to_string(report->n_rows) + " edited rows folded into it, " +
            std::to_string(report->n_ngrams_carried) + " of " + std::to_string(report->n_ngrams) +
            " edits of exact N-grams carried over.");
  if (report->n_conflicts > 0) {
    text.line(std::to_string(report->n_conflicts) +
              " edits wanted a row that a newer one has: the newer was written.");
  }
  text.line("New edits go to " + tables.edits_file() + ".");
  json structured = {
      {"file", tables.moved_to()},       {"edits_file", tables.edits_file()},
      {"generation", generation},        {"rows", report->n_rows},
      {"ngrams", report->n_ngrams},      {"ngrams_carried", report->n_ngrams_carried},
      {"conflicts", report->n_conflicts}};
  return mcp::ToolResult{std::move(text).finish("structured output has it all"),
                         std::move(structured), false};
}

}  // namespace

mcp::Tool make_table_fold_tool(const Services& services) {
  using namespace field;
  mcp::Tool tool;
  tool.name = "table_fold";
  tool.description = kFoldDescription;
  tool.annotations = {.title = "Fold Engram table edits into a new base",
                      .read_only = false,
                      .destructive = true,  // old files stay, but their edits can be undone no more
                      .idempotent = false};
  tool.input = {
      at_most(required(not_empty(text(
                  "file",
                  "The row file to make: an absolute path, or a name beside the edits in use. "
                  "Refused when it exists. Interrupted, the same call goes on where it was."))),
              4000),
      with_default(boolean("bucket",
                           "Put edits of exact N-grams into the rows that they share with others. "
                           "False keeps them exact."),
                   false),
      with_default(at_most(text("author", "Who asks for this, kept in the history."), 200),
                   "mcp client"),
  };
  tool.output = all_required({
      text("file", "The row file that is served now."),
      text("edits_file", "Where edits are kept from now on."),
      integer("generation", "Of the tables."),
      integer("rows", "Rows that differ from the base before."),
      integer("ngrams", "Edits of exact N-grams that were in effect."),
      integer("ngrams_carried", "Of those, kept."),
      integer("conflicts", "Rows that several edits wanted; the newest was written."),
  });
  tool.handler = long_table_handler(services, services.table_thread, fold);
  return tool;
}

}  // namespace engramd::server
