#include "server/commands/table_export.h"

#include <utility>

#include "engine/checkpoint/model_config.h"
#include "engine/engram/checkpoint_tables.h"
#include "engine/engram/overlay_file.h"
#include "engine/engram/table_export.h"
#include "server/commands/command.h"
#include "server/commands/long_command.h"
#include "server/commands/table_edits.h"
#include "server/engine_options.h"
#include "server/model_folder.h"
#include "server/tools/row_selector.h"

namespace engramd::server {
namespace {

using nlohmann::json;

// The served tables with their edits, as the engine would open them.
struct OpenTables {
  engine::CheckpointTables checkpoint;
  std::unique_ptr<engine::LiveTables> live;
};

Result<std::unique_ptr<OpenTables>> open_tables(const config::EffectiveConfig& config) {
  auto folder = find_model_folder(config.options.model, executable_folder());
  if (!folder) return folder.error();
  auto checkpoint = engine::open_checkpoint_tables(*folder);
  if (!checkpoint) return checkpoint.error();
  auto tables = std::make_unique<OpenTables>();
  tables->checkpoint = std::move(*checkpoint);
  engine::LiveTablesOptions options = to_engine_options(config.options, *folder).tables;
  options.model_name = engine::model_name_of(*folder);
  auto live = engine::LiveTables::open(tables->checkpoint.layout,
                                       engine::sha256_hex(tables->checkpoint.token_map),
                                       tables->checkpoint.layers, options);
  if (!live) return live.error();
  if (!(*live)->edits_error().empty()) return unavailable((*live)->edits_error());
  tables->live = std::move(*live);
  return tables;
}

TableAnswer answer_of(const engine::ExportReport& report, std::string text) {
  json files = json::array();
  for (const std::string& file : report.files) {
    files.push_back(file);
    text += "  " + file + "\n";
  }
  text += std::to_string(report.n_rows) + " rows, " + std::to_string(report.n_ngrams_carried) +
          " of " + std::to_string(report.n_ngrams) + " edits of exact N-grams\n";
  if (report.n_ngrams_carried < report.n_ngrams) {
    text +=
        "A plain table cannot hold an edit of one exact N-gram, because others share its rows. "
        "--bucket writes these edits into their rows for all who read them; --overlay keeps them "
        "exact, for engramd.\n";
  }
  if (report.resumed_bytes > 0) {
    text += engine::gigabytes(report.resumed_bytes) + " of it found in the partial file\n";
  }
  if (report.n_conflicts > 0) {
    text += std::to_string(report.n_conflicts) +
            " edits wanted a row that a newer one has: the newer was written\n";
  }
  return {std::move(text),
          {{"files", std::move(files)},
           {"rows", report.n_rows},
           {"ngrams", report.n_ngrams},
           {"ngrams_carried", report.n_ngrams_carried},
           {"conflicts", report.n_conflicts},
           {"resumed_bytes", report.resumed_bytes},
           {"cloned", report.cloned}}};
}

// --bucket, a progress line and Ctrl-C, for as long as it lives.
class LongExport {
 public:
  LongExport(const config::EffectiveConfig& config, const char* verb) : line_(config) {
    options_.ngrams_as_rows = has_flag(config, "--bucket");
    options_.stop = interruption_.token();
    options_.progress = [this, verb](std::int64_t done_bytes, std::int64_t total_bytes) {
      interruption_.poll();
      line_.show(verb, done_bytes, total_bytes);
    };
  }
  LongExport(const LongExport&) = delete;
  LongExport& operator=(const LongExport&) = delete;
  const engine::ExportOptions& options() const { return options_; }

 private:
  ProgressLine line_;
  Interruption interruption_;
  engine::ExportOptions options_;
};

}  // namespace

Result<TableAnswer> table_export(const config::EffectiveConfig& config,
                                 const TableArguments& words) {
  const bool as_overlay = has_flag(config, "--overlay-file");
  if (const auto ok = expect_words("export", words, 1, 1, as_overlay ? "FILE" : "FOLDER"); !ok) {
    return ok.error();
  }
  const std::string& path = words.front();
  const auto tables = open_tables(config);
  if (!tables) return tables.error();
  const engine::TableView view = (*tables)->live->view();
  const engine::EngramLayout& layout = (*tables)->checkpoint.layout;
  if (as_overlay) {
    const auto counts = engine::write_overlay_file(layout, view, path);
    if (!counts) return counts.error();
    engine::ExportReport report;
    report.files = {path};
    report.n_rows = counts->n_rows;
    report.n_ngrams = report.n_ngrams_carried = counts->n_ngrams;
    return answer_of(report, "The edits in effect, for `engramd table put --overlay`:\n");
  }
  LongExport work(config, "export");
  const auto report =
      engine::export_shards((*tables)->checkpoint.checkpoint, layout, view, path, work.options());
  if (!report) return report.error();
  return answer_of(*report, std::string("Safetensors files with the edited rows (") +
                                (report->cloned ? "unchanged blocks shared" : "copied") + "):\n");
}

Result<TableAnswer> table_fold(const config::EffectiveConfig& config, const TableArguments& words) {
  if (const auto ok = expect_words("fold", words, 1, 1, "FILE"); !ok) return ok.error();
  const std::string& path = words.front();
  const auto tables = open_tables(config);
  if (!tables) return tables.error();
  LongExport work(config, "fold");
  engine::LiveTables& live = *(*tables)->live;
  if (has_flag(config, "--switch")) {
    const auto report = engine::fold_and_switch(live, path, author_of(config), work.options());
    if (!report) return report.error();
    return answer_of(*report, "The next generation of the table, served from the next start on:\n");
  }
  const auto report = engine::fold_table(live.layout(), live.view(), path, work.options());
  if (!report) return report.error();
  return answer_of(*report, "The next generation of the table; serve it with --table " + path +
                                ", or fold with --switch:\n");
}

Result<TableAnswer> put_overlay(const config::EffectiveConfig& config, const std::string& file,
                                const std::string& author, const std::string& reason) {
  const auto tables = open_tables(config);
  if (!tables) return tables.error();
  engine::LiveTables& live = *(*tables)->live;
  const auto store = live.store();
  if (!store) return store.error();
  Interruption interruption;
  const auto done =
      engine::import_overlay_file(file, (*tables)->checkpoint.layout, *live.view().base, **store,
                                  author, reason, interruption.token());
  if (!done) return done.error();
  return TableAnswer{"Stored " + transaction_text(*done) + "\n",
                     {{"transaction", transaction_json(*done)}}};
}

}  // namespace engramd::server
