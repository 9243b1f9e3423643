#include "server/tools/table_teach.h"

#include <cstdio>
#include <utility>

#include "mcp/text.h"
#include "server/tools/bounded_text.h"
#include "server/tools/field.h"
#include "server/tools/table_tool.h"

namespace engramd::server {
namespace {

using mcp::json;

constexpr char kTeachDescription[] =
    "Teach the local model facts while it serves: finds Engram row values for exact N-grams of "
    "each fact's own names that make the model give the answer, checks them as they will be "
    "served, and stores one transaction per fact. Nothing that holds none of those N-grams "
    "changes. A fact that cannot be made true is not stored and says why. Takes about a second "
    "per fact; cancel at any time.";
constexpr char kTaughtDescription[] =
    "List the facts that were taught to the local model and are in effect, oldest first.";
constexpr char kForgetDescription[] =
    "Forget a taught fact: undoes its transaction, so that the model's tables are as if it had "
    "never been taught. Facts about the same names that were taught later are taught anew.";

engine::Fact fact_of_json(const json& fields) {
  engine::Fact fact;
  if (fields.contains("question")) fact.questions.push_back(fields.at("question"));
  for (const json& question : fields.value("questions", json::array())) {
    fact.questions.push_back(question);
  }
  fact.answer = fields.at("answer");
  fact.names = fields.value("names", std::vector<std::string>());
  return fact;
}

json fact_json(const engine::Fact& fact) {
  return {{"questions", fact.questions}, {"answer", fact.answer}, {"names", fact.names}};
}

json report_json(const engine::TeachReport& report) {
  json out = fact_json(report.fact);
  out["taught"] = report.is_taught;
  out["why_not"] = report.why_not;
  out["before"] = report.before;
  out["after"] = report.after;
  out["transaction"] = report.transaction;
  out["replaced"] = report.replaced;
  out["steps"] = report.n_steps;
  out["margin"] = report.n_steps == 0 ? 0.0F : report.margin;
  out["ngrams"] = report.n_entries;
  out["bytes"] = report.bytes;
  out["wordings"] = report.n_wordings;
  out["wordings_right"] = report.n_wordings_right;
  out["kept"] = report.kept;
  out["heldout_touched"] = report.n_touched;
  out["heldout_positions"] = report.n_heldout;
  out["seconds"] = report.seconds;
  return out;
}

std::string report_text(const engine::TeachReport& report, bool is_dry_run) {
  std::string text = report.fact.questions.front() + "\n";
  if (!report.why_not.empty()) return text + "  not taught: " + report.why_not;
  if (report.n_steps == 0) return text + "  known already: " + report.after;
  char figures[200];
  std::snprintf(figures, sizeof figures,
                "%lld N-grams, %lld bytes, %d steps, %.1f s; %lld of %lld wordings right",
                static_cast<long long>(report.n_entries), static_cast<long long>(report.bytes),
                report.n_steps, report.seconds, static_cast<long long>(report.n_wordings_right),
                static_cast<long long>(report.n_wordings));
  text += "  before: " + report.before + "\n  after:  " + report.after + "\n  ";
  text += is_dry_run ? "dry run, nothing was stored"
                     : "transaction " + std::to_string(report.transaction);
  text += std::string(": ") + figures;
  if (report.n_touched >= 0) {
    text += "; " + std::to_string(report.n_touched) + " of " + std::to_string(report.n_heldout) +
            " positions of the held-out text touched";
  }
  if (report.replaced != 0) {
    text += "\n  replaces transaction " + std::to_string(report.replaced);
  }
  for (const std::string& question : report.kept) text += "\n  still right: " + question;
  return text;
}

Result<mcp::ToolResult> teach_facts(TableJob& job) {
  engine::TeachJob work;
  for (const json& fact : job.arguments.at("facts")) work.facts.push_back(fact_of_json(fact));
  work.is_dry_run = job.arguments.at("dry_run");
  work.replaces = job.arguments.at("replace");
  work.author = job.arguments.at("author");
  work.stop = job.stop;
  work.on_progress = [&job](std::int64_t n_done, std::int64_t n_facts) {
    job.progress(n_done, n_facts, "facts");
  };
  const auto reports = job.engine.teacher().teach(work);
  if (reports.has_error()) return reports.error();
  BoundedText text;
  json facts = json::array();
  std::int64_t n_taught = 0;
  for (const engine::TeachReport& report : *reports) {
    n_taught += report.is_taught ? 1 : 0;
    facts.push_back(report_json(report));
    text.line(report_text(report, work.is_dry_run));
  }
  json structured = {{"taught", n_taught}, {"facts", std::move(facts)}};
  return mcp::ToolResult{std::move(text).finish("structured output has them all"),
                         std::move(structured), false};
}

json taught_json(const engine::TaughtFact& taught) {
  json out = fact_json(taught.fact);
  out["transaction"] = taught.transaction;
  out["created_unix_ms"] = taught.created_unix_ms;
  out["rows"] = taught.n_rows;
  out["author"] = taught.author;
  return out;
}

std::string taught_text(const engine::TaughtFact& taught) {
  return std::to_string(taught.transaction) + "  " + taught.fact.questions.front() + " -> " +
         taught.fact.answer;
}

Result<mcp::ToolResult> list_taught(TableJob& job) {
  const auto taught = job.engine.teacher().taught();
  if (taught.has_error()) return taught.error();
  BoundedText text;
  json facts = json::array();
  for (const engine::TaughtFact& fact : *taught) {
    facts.push_back(taught_json(fact));
    text.line(taught_text(fact));
  }
  if (taught->empty()) text.line("Nothing was taught yet.");
  return mcp::ToolResult{std::move(text).finish("structured output has them all"),
                         {{"facts", std::move(facts)}},
                         false};
}

Result<mcp::ToolResult> forget_fact(TableJob& job) {
  const auto report =
      job.engine.teacher().forget(job.arguments.at("fact"), job.arguments.at("author"), job.stop);
  if (report.has_error()) return report.error();
  BoundedText text;
  json structured = {{"forgotten", json::array()}, {"taught_again", json::array()}};
  for (const engine::TaughtFact& fact : report->forgotten) {
    structured["forgotten"].push_back(taught_json(fact));
    text.line("Forgotten: " + taught_text(fact));
  }
  for (const engine::TeachReport& again : report->taught_again) {
    structured["taught_again"].push_back(report_json(again));
    text.line("Taught again: " + report_text(again, false));
  }
  return mcp::ToolResult{std::move(text).finish("structured output has them all"),
                         std::move(structured), false};
}

// Of a fact, and what else is said of it.
std::vector<mcp::Field> fact_fields(std::vector<mcp::Field> more) {
  using namespace field;
  more.insert(more.begin(),
              {list("questions", "Its wordings, as they were given.", mcp::FieldType::kString),
               text("answer", "What is said."),
               list("names", "What it is about.", mcp::FieldType::kString)});
  return all_required(std::move(more));
}

std::vector<mcp::Field> taught_fields() {
  using namespace field;
  return fact_fields({integer("transaction", "Its transaction: table_history shows the rows."),
                      integer("created_unix_ms", "When, milliseconds since 1970 (UTC)."),
                      integer("rows", "Row images stored for it."),
                      text("author", "Who taught it.")});
}

std::vector<mcp::Field> report_fields() {
  using namespace field;
  return fact_fields(
      {boolean("taught", "Whether it is in effect now."),
       text("why_not", "When it is not: the reason; empty for a dry run that worked."),
       text("before", "What the model answered to the first question."),
       text("after", "What it answers with the new rows."),
       integer("transaction", "The one that holds it; 0: none."),
       integer("replaced", "The transaction that was undone for it; 0: none."),
       integer("steps", "Steps of gradient descent; 0: it was known."),
       number("margin", "Least distance of a right token to the next best, in logits."),
       integer("ngrams", "Exact N-grams that have rows of their own for it."),
       integer("bytes", "Of their row images."),
       integer("wordings", "In how many wordings it was checked."),
       integer("wordings_right", "In how many of them the answer is exact."),
       list("kept", "Questions about the same names, still answered as taught.",
            mcp::FieldType::kString),
       integer("heldout_touched",
               "Positions of the held-out text that read one of its N-grams; -1: no text."),
       integer("heldout_positions", "Of so many."),
       number("seconds", "Spent on it, other facts of its group included.")});
}

mcp::Field author_field() {
  using namespace field;
  return with_default(at_most(text("author", "Who asks for this, kept in the history."), 200),
                      "mcp client");
}

}  // namespace

mcp::Tool make_table_teach_tool(const Services& services) {
  using namespace field;
  constexpr auto kTextMax = static_cast<std::int64_t>(engine::kFactTextBytesMax);
  mcp::Tool tool;
  tool.name = "table_teach";
  tool.description = kTeachDescription;
  tool.annotations = {.title = "Teach the local model facts",
                      .read_only = false,
                      .destructive = false,  // other answers stay; table_forget undoes it
                      .idempotent = true};
  std::vector<mcp::Field> fact = {
      at_most(text("question", "How it is asked for, as a user would."), kTextMax),
      at_most(list("questions", "More wordings that must work; or these alone.",
                   mcp::FieldType::kString),
              static_cast<std::int64_t>(engine::kFactQuestionsMax)),
      at_most(required(not_empty(text("answer", "The whole answer, word by word."))), kTextMax),
      at_most(list("names",
                   "Words of question and answer that the fact is about; found when left "
                   "out.",
                   mcp::FieldType::kString),
              static_cast<std::int64_t>(engine::kFactNamesMax)),
  };
  tool.input = {
      at_most(required(not_empty(objects("facts", "What should be true.", std::move(fact)))),
              static_cast<std::int64_t>(engine::Teacher::kFactsMax)),
      with_default(boolean("dry_run", "Find and check the rows, store nothing."), false),
      with_default(boolean("replace",
                           "A fact taught before with the same question and another "
                           "answer goes; false refuses it."),
                   false),
      author_field(),
  };
  tool.output = all_required({integer("taught", "How many facts are in effect now."),
                              objects("facts", "In the order of the input.", report_fields())});
  tool.handler = long_table_handler(services, services.teach_thread, teach_facts);
  return tool;
}

mcp::Tool make_table_taught_tool(const Services& services) {
  using namespace field;
  mcp::Tool tool;
  tool.name = "table_taught";
  tool.description = kTaughtDescription;
  tool.annotations.title = "Facts taught to the local model";
  tool.output = all_required({objects("facts", "Oldest first.", taught_fields())});
  tool.handler = long_table_handler(services, services.table_thread, list_taught);
  return tool;
}

mcp::Tool make_table_forget_tool(const Services& services) {
  using namespace field;
  mcp::Tool tool;
  tool.name = "table_forget";
  tool.description = kForgetDescription;
  tool.annotations = {.title = "Forget a taught fact",
                      .read_only = false,
                      .destructive = true,
                      .idempotent = false};
  tool.input = {
      at_most(required(not_empty(text("fact", "Its question, or its transaction's number."))),
              static_cast<std::int64_t>(engine::kFactTextBytesMax)),
      author_field(),
  };
  tool.output =
      all_required({objects("forgotten", "What was undone.", taught_fields()),
                    objects("taught_again", "Later facts about the same names.", report_fields())});
  tool.handler = long_table_handler(services, services.teach_thread, forget_fact);
  return tool;
}

}  // namespace engramd::server
