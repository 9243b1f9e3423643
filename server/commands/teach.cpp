#include "server/commands/teach.h"

#include <cstdio>
#include <sstream>
#include <utility>

#include "engine/checkpoint/regular_file.h"
#include "mcp/text.h"
#include "server/commands/run_tool.h"
#include "server/commands/table_edits.h"

namespace engramd::server {
namespace {

using mcp::json;

constexpr std::int64_t kFactsFileBytesMax = 16 << 20;

// One JSON object a line: question (a text or several) or questions, answer, names.
Result<json> facts_of_file(const std::string& path) {
  const auto text = engine::read_text_file(path, kFactsFileBytesMax);
  if (!text) return text.error();
  json facts = json::array();
  std::istringstream lines(*text);
  std::int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    json fact = json::parse(line, nullptr, false);
    if (!fact.is_object()) {
      return invalid_argument(path + ":" + std::to_string(number) +
                              ": expected a JSON object with question and answer");
    }
    if (fact.contains("question") && fact["question"].is_array()) {
      fact["questions"] = std::move(fact["question"]);
      fact.erase("question");
    }
    facts.push_back(std::move(fact));
  }
  if (facts.empty()) return invalid_argument(path + ": expected at least one fact, got none");
  return Result<json>(boost::system::in_place_value, std::move(facts));
}

Result<json> facts_to_teach(const config::EffectiveConfig& config) {
  const std::string path = flag_or(config, "--file", "");
  const auto& words = config.positional;
  if (!path.empty() && words.empty()) return facts_of_file(path);
  if (!path.empty() || words.size() < 2) {
    return invalid_argument(
        "teach: expected one or more questions and then the answer, each quoted, or --file FILE");
  }
  json fact = {{"questions", json::array()}, {"answer", words.back()}};
  for (std::size_t i = 0; i + 1 < words.size(); ++i) fact["questions"].push_back(words[i]);
  const auto names = flag_values(config, "--name");
  if (!names.empty()) fact["names"] = names;
  return Result<json>(boost::system::in_place_value, json::array({std::move(fact)}));
}

int show(const config::EffectiveConfig& config, const Result<mcp::ToolResult>& result) {
  if (result.has_error()) return fail(result.error());
  std::fputs(has_flag(config, "--json") ? json_text(result->structured).c_str()
                                        : (mcp::sanitise_text(result->text) + '\n').c_str(),
             stdout);
  return kExitOk;
}

int run_teach(const config::EffectiveConfig& config) {
  auto facts = facts_to_teach(config);
  if (facts.has_error()) return fail(facts.error());
  const std::size_t n_facts = facts->size();
  Daemon daemon(config);
  const auto result = run_tool(daemon, "table_teach",
                               {{"facts", std::move(*facts)},
                                {"dry_run", has_flag(config, "--dry-run")},
                                {"replace", has_flag(config, "--replace")},
                                {"author", author_of(config)}});
  if (const int code = show(config, result); code != kExitOk) return code;
  const bool all = has_flag(config, "--dry-run") ||
                   result->structured.at("taught").get<std::size_t>() == n_facts;
  return all ? kExitOk : kExitFailed;
}

int run_taught(const config::EffectiveConfig& config) {
  Daemon daemon(config);
  return show(config, run_tool(daemon, "table_taught", json::object()));
}

int run_forget(const config::EffectiveConfig& config) {
  const auto what = read_text(config);
  if (what.has_error()) return fail(what.error());
  Daemon daemon(config);
  return show(config,
              run_tool(daemon, "table_forget", {{"fact", *what}, {"author", author_of(config)}}));
}

const config::CommandFlag kJsonFlag = {"--json", "", "One JSON object, for scripts."};
const config::CommandFlag kAuthorFlag = {"--author", "NAME",
                                         "Who, for the history; the user's name when left out."};

}  // namespace

Command teach_command() {
  return {
      .name = "teach",
      .usage = "teach QUESTION... ANSWER | --file FILE [--dry-run] [--replace] [OPTION...]",
      .summary = "make the model say a fact, while it serves",
      .description =
          "Finds rows for exact N-grams of the fact's own names with which the model gives "
          "ANSWER,\n"
          "checks them as they will be served, and stores one transaction per fact. Texts without\n"
          "those N-grams keep every logit. Several questions are wordings of one fact, and all\n"
          "must work; further wordings are made and checked too. The names are found, or given.\n"
          "FILE holds one JSON object a line: {\"question\": ..., \"answer\": ..., \"names\": "
          "[...]}.\n"
          "A fact that cannot be made true is not stored and says why; the exit status is then 1.\n"
          "One process edits a table at a time: a running engramd that has edits holds them; its\n"
          "clients use the tool table_teach.",
      .examples =
          "engramd teach \"What is the capital of Zorbia?\" \"The capital of Zorbia is Mirel.\"\n"
          "engramd teach --dry-run \"Who owns Tavik?\" \"Tavik is owned by Brenn.\" --name Tavik "
          "--name Brenn\n"
          "engramd teach --file facts.jsonl --json\n"
          "engramd taught\n"
          "engramd forget \"What is the capital of Zorbia?\"",
      .flags = {{"--file", "FILE", "Facts, one JSON object a line."},
                {"--name", "WORDS", "What the fact is about; once per name."},
                {"--dry-run", "", "Find and check the rows, store nothing."},
                {"--replace", "", "A fact with the same question and another answer goes."},
                kAuthorFlag,
                kJsonFlag},
      .takes_words = true,
      .opens_model = true,
      .run = run_teach,
  };
}

Command taught_command() {
  return {
      .name = "taught",
      .usage = "taught [--json] [OPTION...]",
      .summary = "list the facts that were taught and are in effect",
      .description = "With the transaction that holds each; `engramd table history N` shows it.",
      .examples = "engramd taught\nengramd taught --json",
      .flags = {kJsonFlag},
      .opens_model = true,
      .run = run_taught,
  };
}

Command forget_command() {
  return {
      .name = "forget",
      .usage = "forget QUESTION|TRANSACTION [--json] [OPTION...]",
      .summary = "undo a taught fact",
      .description =
          "The tables are then, bit for bit, as if it had never been taught. Facts about the same\n"
          "names that were taught later are taught anew without it.",
      .examples = "engramd forget \"What is the capital of Zorbia?\"\nengramd forget 3",
      .flags = {kAuthorFlag, kJsonFlag},
      .takes_words = true,
      .opens_model = true,
      .run = run_forget,
  };
}

}  // namespace engramd::server
