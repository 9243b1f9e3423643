#include "server/commands/table.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <utility>

#include "mcp/text.h"
#include "server/commands/run_tool.h"
#include "server/commands/table_edits.h"
#include "server/commands/table_export.h"
#include "server/commands/table_files.h"

namespace engramd::server {
namespace {

struct Verb {
  const char* name;
  Result<TableAnswer> (*run)(const config::EffectiveConfig& config, const TableArguments& words);
};
constexpr Verb kVerbs[] = {
    {"info", table_info},       {"open", table_open},         {"create", table_create},
    {"import", table_import},   {"verify", table_verify},     {"get", table_get},
    {"put", table_put},         {"history", table_history},   {"rollback", table_rollback},
    {"restore", table_restore}, {"snapshot", table_snapshot}, {"diff", table_diff},
    {"export", table_export},   {"fold", table_fold},
};

int run_table(const config::EffectiveConfig& config) {
  const std::string name = config.positional.empty() ? "" : config.positional.front();
  const auto* verb = std::find_if(std::begin(kVerbs), std::end(kVerbs),
                                  [&](const Verb& entry) { return name == entry.name; });
  if (verb == std::end(kVerbs)) {
    std::string known;
    for (const Verb& entry : kVerbs) known += std::string(known.empty() ? "" : ", ") + entry.name;
    return fail(invalid_argument("table: expected one of " + known + ", got " +
                                 (name.empty() ? "none" : mcp::quote(name))));
  }
  const auto answer = verb->run(config, {config.positional.begin() + 1, config.positional.end()});
  if (!answer) return fail(answer.error());
  std::fputs(has_flag(config, "--json") ? json_text(answer->structured).c_str()
                                        : mcp::sanitise_text(answer->text).c_str(),
             stdout);
  return answer->ok ? kExitOk : kExitFailed;
}

}  // namespace

Command table_command() {
  Command command = {
      .name = "table",
      .usage = "table VERB [ARGUMENT...] [--json] [OPTION...]",
      .summary = "read and change Engram table rows, and the files that hold them",
      .description =
          "Rows, of the model that is served:\n"
          "get NGRAM              what the rows of an N-gram hold now, edits included\n"
          "put NGRAM --operation set|add|scale|zero|copy\n"
          "                       one transaction: durable when the command returns; the N-gram\n"
          "                       alone changes, or with --scope row its buckets\n"
          "history [TRANSACTION]  transactions and snapshots; what one transaction changed\n"
          "rollback TRANSACTION   undo one transaction by a new one\n"
          "restore STATE          undo all after a snapshot or transaction; 0: as shipped\n"
          "snapshot NAME          name the present state\n"
          "diff FROM [TO]         rows that differ between two states\n"
          "export FOLDER          the checkpoint's files that hold tables, with the edited rows,\n"
          "                       for any engine; --overlay-file FILE: the edits alone\n"
          "fold FILE              base and row edits as the next generation, a row file; edits of\n"
          "                       exact N-grams go to FILE.edits; with --switch it takes over: "
          "the\n"
          "                       old edits are closed, and whoever opens them gets FILE\n"
          "One process edits a table at a time: a running engramd that has edits holds them.\n\n"
          "Files:\n"
          "info [FILE|FOLDER]     layout, sizes, and what opening it takes of memory with the\n"
          "                       present options, or why it would be refused\n"
          "open [FILE|FOLDER]     the same, and opens it as serving would: how, and how long it "
          "took\n"
          "create FILE            a table of zeros: engram.ngram_order, hash_heads, hash_buckets,\n"
          "                       embed_dim and lookup_dtype; what is not stated is the model's\n"
          "import FOLDER FILE     the tables of a model folder's safetensors as one row file\n"
          "verify FILE [FOLDER]   every page against its checksum; with FOLDER (or --model) also\n"
          "                       the layout and the token map against that model\n\n"
          "Without FILE, info and verify take engram.table.path, then the model's own table.\n"
          "create, import, export and fold write FILE.partial first: interrupted, the same "
          "command\n"
          "goes on from there, and FILE appears only when it is whole.",
      .examples =
          "engramd table get \" capital of\"\n"
          "engramd table put \" capital of\" --operation zero --dry-run --scope row\n"
          "engramd table put \" capital of\" --operation scale --factor 0.5 --reason \"a test\"\n"
          "engramd table rollback 1\n"
          "engramd table export --overlay-file my-edits.safetensors\n"
          "engramd table put --overlay my-edits.safetensors\n"
          "engramd table import ./my-model table.engram\n"
          "engramd table create table.engram --config config.toml --rows f16\n"
          "engramd table info table.engram --json\n"
          "engramd table verify table.engram ./my-model",
      .flags = {{"--json", "", "One JSON object, for scripts."},
                {"--rows", "CODEC",
                 "create: how rows are stored: f32, f16, bf16, f8_e4m3, f8_e4m3_e8m0 or i8_scale; "
                 "engram.lookup_dtype when left out."},
                {"--layers", "LIST", "create: layers, counted from 0; the model's when left out."},
                {"--quiet", "", "No progress on standard error."}},
      .takes_words = true,
      .run = run_table,
  };
  for (config::CommandFlag& flag : table_edit_flags()) command.flags.push_back(std::move(flag));
  return command;
}

}  // namespace engramd::server
