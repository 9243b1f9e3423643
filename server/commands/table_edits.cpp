#include "server/commands/table_edits.h"

#include <utility>

#include "config/load_environment.h"
#include "engine/checkpoint/regular_file.h"
#include "mcp/text.h"
#include "server/commands/command.h"
#include "server/commands/run_tool.h"
#include "server/commands/table_export.h"

namespace engramd::server {
namespace {

using mcp::json;

Result<TableAnswer> ask(const config::EffectiveConfig& config, const char* tool,
                        const json& arguments) {
  Daemon daemon(config);
  auto result = run_tool(daemon, tool, arguments);
  if (!result) return result.error();
  return TableAnswer{std::move(result->text) + "\n", std::move(result->structured)};
}

// A flag that is there becomes a field of the same meaning.
template <class Parse>
Result<void> copy_flag(const config::EffectiveConfig& config, const char* flag, const char* name,
                       Parse parse, json& fields) {
  const std::string value = flag_or(config, flag, "");
  if (value.empty()) return {};
  const auto parsed = parse(flag, value);
  if (!parsed) return parsed.error();
  fields[name] = *parsed;
  return {};
}

Result<std::string> as_text(const std::string&, const std::string& value) {
  return value;
}

Result<std::int64_t> as_integer(const std::string& flag, const std::string& value) {
  const auto numbers = parse_integers(flag, value);
  if (!numbers) return numbers.error();
  if (numbers->size() != 1) {
    return invalid_argument("flag " + flag + ": expected one integer, got " + mcp::quote(value));
  }
  return numbers->front();
}

// The words' N-gram, or --token-ids, or --row; with --layer, --head and --scope.
Result<json> selector(const config::EffectiveConfig& config, const char* verb,
                      const TableArguments& words) {
  if (const auto checked = expect_words(verb, words, 0, 1, "at most one N-gram, quoted");
      !checked) {
    return checked.error();
  }
  json fields = json::object();
  if (!words.empty()) fields["text"] = words.front();
  for (const auto& copied : {copy_flag(config, "--token-ids", "token_ids", parse_integers, fields),
                             copy_flag(config, "--row", "row", as_integer, fields),
                             copy_flag(config, "--layer", "layer", as_integer, fields),
                             copy_flag(config, "--head", "head", as_integer, fields),
                             copy_flag(config, "--scope", "scope", as_text, fields)}) {
    if (!copied) return copied.error();
  }
  return Result<json>(boost::system::in_place_value, std::move(fields));
}

json authorship(const config::EffectiveConfig& config) {
  return {{"author", author_of(config)}, {"reason", flag_or(config, "--reason", "")}};
}

constexpr std::int64_t kBatchBytesMax = 64 << 20;

// --batch FILE: the tool's own `edits` array.
Result<json> edits_of_file(const std::string& path) {
  const auto text = engine::read_text_file(path, kBatchBytesMax);
  if (!text) return text.error();
  json edits = json::parse(*text, nullptr, false);
  if (edits.is_discarded() || !edits.is_array()) {
    return invalid_argument(path + ": expected a JSON array of edits as table_update takes them");
  }
  return Result<json>(boost::system::in_place_value, std::move(edits));
}

}  // namespace

std::string author_of(const config::EffectiveConfig& config) {
  const std::string user = config::find_variable(config.environment, "USER").value_or("shell");
  return flag_or(config, "--author", user);
}

std::vector<config::CommandFlag> table_edit_flags() {
  return {
      {"--token-ids", "LIST", "get, put: the N-gram as token ids instead of its text."},
      {"--row", "ROW", "get, put: one row by its index, with --layer."},
      {"--layer", "LAYER", "get, put: this Engram layer only."},
      {"--head", "HEAD", "get, put: this hash head only."},
      {"--scope", "ngram|row", "get, put: the exact N-gram, or the bucket that it shares."},
      {"--operation", "NAME", "put: set, add, scale, zero or copy."},
      {"--values", "LIST", "put: numbers for set and add, separated by commas."},
      {"--factor", "NUMBER", "put: for scale."},
      {"--from", "TEXT", "put: the N-gram to copy."},
      {"--batch", "FILE", "put: a JSON array of edits, one transaction."},
      {"--overlay", "FILE", "put: all edits of an overlay file, one transaction."},
      {"--dry-run", "", "put: report, store nothing."},
      {"--author", "NAME", "Who, for the history; the user's name when left out."},
      {"--reason", "TEXT", "Why, for the history."},
      {"--overlay-file", "", "export: the edits alone, as one small file."},
      {"--bucket", "", "export, fold: edits of exact N-grams go into the rows that they share."},
      {"--switch", "", "fold: serve the new file from now on, whatever is configured."},
      {"--limit", "N", "history, diff: at most so many lines."},
  };
}

Result<TableAnswer> table_get(const config::EffectiveConfig& config, const TableArguments& words) {
  const auto fields = selector(config, "get", words);
  if (!fields) return fields.error();
  return ask(config, "table_get", *fields);
}

Result<TableAnswer> table_put(const config::EffectiveConfig& config, const TableArguments& words) {
  json arguments = authorship(config);
  arguments["dry_run"] = has_flag(config, "--dry-run");
  const std::string overlay = flag_or(config, "--overlay", "");
  if (!overlay.empty()) {
    return put_overlay(config, overlay, arguments["author"], arguments["reason"]);
  }
  const std::string batch = flag_or(config, "--batch", "");
  if (!batch.empty()) {
    const auto edits = edits_of_file(batch);
    if (!edits) return edits.error();
    arguments["edits"] = *edits;
    return ask(config, "table_update", arguments);
  }
  auto edit = selector(config, "put", words);
  if (!edit) return edit.error();
  const auto factor = [](const std::string& flag, const std::string& value) -> Result<double> {
    const auto numbers = parse_numbers(flag, value);
    if (!numbers) return numbers.error();
    return numbers->front();
  };
  for (const auto& copied : {copy_flag(config, "--operation", "operation", as_text, *edit),
                             copy_flag(config, "--values", "values", parse_numbers, *edit),
                             copy_flag(config, "--factor", "factor", factor, *edit),
                             copy_flag(config, "--from", "from_text", as_text, *edit)}) {
    if (!copied) return copied.error();
  }
  if (!edit->contains("operation")) {
    return invalid_argument("table put: expected --operation set, add, scale, zero or copy");
  }
  arguments["edits"] = json::array({*edit});
  return ask(config, "table_update", arguments);
}

Result<TableAnswer> table_history(const config::EffectiveConfig& config,
                                  const TableArguments& words) {
  if (const auto ok = expect_words("history", words, 0, 1, "[TRANSACTION]"); !ok) return ok.error();
  json arguments = json::object();
  if (!words.empty()) {
    const auto number = as_integer("TRANSACTION", words.front());
    if (!number) return number.error();
    arguments["transaction"] = *number;
  }
  if (const auto ok = copy_flag(config, "--limit", "limit", as_integer, arguments); !ok) {
    return ok.error();
  }
  return ask(config, "table_history", arguments);
}

Result<TableAnswer> table_rollback(const config::EffectiveConfig& config,
                                   const TableArguments& words) {
  if (const auto ok = expect_words("rollback", words, 1, 1, "TRANSACTION"); !ok) return ok.error();
  const auto number = as_integer("TRANSACTION", words.front());
  if (!number) return number.error();
  json arguments = authorship(config);
  arguments["transaction"] = *number;
  return ask(config, "table_rollback", arguments);
}

Result<TableAnswer> table_restore(const config::EffectiveConfig& config,
                                  const TableArguments& words) {
  if (const auto ok = expect_words("restore", words, 1, 1, "SNAPSHOT|TRANSACTION"); !ok) {
    return ok.error();
  }
  json arguments = authorship(config);
  arguments["to"] = words.front();
  return ask(config, "table_rollback", arguments);
}

Result<TableAnswer> table_snapshot(const config::EffectiveConfig& config,
                                   const TableArguments& words) {
  if (const auto ok = expect_words("snapshot", words, 1, 1, "NAME"); !ok) return ok.error();
  return ask(config, "table_rollback", {{"snapshot", words.front()}});
}

Result<TableAnswer> table_diff(const config::EffectiveConfig& config, const TableArguments& words) {
  if (const auto ok = expect_words("diff", words, 1, 2, "FROM [TO]"); !ok) return ok.error();
  json arguments = {{"from", words[0]}};
  if (words.size() == 2) arguments["to"] = words[1];
  if (const auto ok = copy_flag(config, "--limit", "limit", as_integer, arguments); !ok) {
    return ok.error();
  }
  return ask(config, "table_history", arguments);
}

}  // namespace engramd::server
