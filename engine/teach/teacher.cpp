#include "engine/teach/teacher.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <set>
#include <thread>
#include <utility>

#include <unistd.h>

#include "engine/teach/group_teacher.h"
#include "engine/teach/teaching_plan.h"

namespace engramd::engine {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kNice = 10;  // about a tenth of a core that something else wants too

// This thread only: Linux keeps niceness per thread (sched(7)). Upwards it cannot fail.
void give_way() {
  [[maybe_unused]] const int now = nice(kNice);
}

std::string quoted(const std::string& text) {
  return "\"" + text + "\"";
}

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

}  // namespace

Teacher::Teacher(const Model& model, const Tokenizer& tokenizer, const PromptEncoder& prompts,
                 LiveTables& tables, TeacherOptions options)
    : model_(&model),
      tokenizer_(&tokenizer),
      prompts_(&prompts),
      tables_(&tables),
      options_(std::move(options)) {}

// What every call needs, made by the first.
Result<void> Teacher::ready() {
  if (model_->layout.layers.empty()) {
    return invalid_argument("this model has no Engram layers: there is nothing to teach it with");
  }
  if (model_->layout.config.variant == EngramVariant::kPeft) {
    return unavailable("teaching is for models with their own Engram layers, not for adapters");
  }
  if (rows_) return {};
  decoder_ = kernels::make_reference_backend();
  rows_ = std::make_unique<TextRows>(*model_, *decoder_);
  const auto n_orders = static_cast<std::size_t>(model_->layout.n_orders());
  for (const std::string& line : lines_of(options_.heldout_text)) {
    const auto ids = prompts_->text(*tokenizer_, line);
    if (ids.has_error()) continue;
    const auto keys = rows_->keys(*ids);
    for (std::size_t layer = 0; layer < keys.size(); ++layer) {
      for (std::size_t i = 0; i < keys[layer].size(); ++i) {
        if (keys[layer][i].bypassed) continue;
        heldout_.push_back({{static_cast<std::int32_t>(layer),
                             static_cast<std::int32_t>(i % n_orders), keys[layer][i].mix},
                            n_heldout_ + static_cast<std::int64_t>(i / n_orders)});
      }
    }
    n_heldout_ += static_cast<std::int64_t>(ids->size());
  }
  std::sort(heldout_.begin(), heldout_.end());
  return {};
}

Result<std::vector<TaughtFact>> Teacher::taught() {
  const auto store = tables_->opened_store();
  if (!store) return std::vector<TaughtFact>();
  return taught_facts(*store);
}

// One call: its facts on their way from words to transactions.
struct Teacher::Session {
  Teacher& teacher;
  const TeachJob& job;
  std::shared_ptr<TableStore> store = {};  // nullptr: a dry run on tables that were never edited
  TableView view = {};                     // without the facts that are replaced
  std::optional<TrainingNgrams> training = {};
  std::optional<TeachingPlanner> planner = {};
  std::vector<TaughtFact> taught = {};  // before
  std::vector<TeachReport> reports = {};
  std::vector<PlannedGroup> groups = {};

  std::mutex mutex = {};  // guards what follows, and reports' entries while workers run
  std::size_t next_group = 0;
  std::int64_t n_done = 0;
  std::optional<Error> failed = {};

  Result<void> open();
  void take(std::size_t index);
  std::vector<PlannedFact> plan_asked();
  Result<std::vector<PlannedFact>> plan_kept(const std::vector<PlannedFact>& planned,
                                             const std::vector<std::int64_t>& replaced) const;
  Result<void> plan();
  Result<void> leave_out(const std::vector<std::int64_t>& replaced);
  void work();
  Result<void> settle(std::size_t group, GroupOutcome outcome, double seconds);
  void count_touched(const std::vector<NgramEntry>& ngrams, TeachReport& report) const;
};

Result<void> Teacher::Session::open() {
  if (!job.is_dry_run) {
    auto opened = teacher.tables_->store();
    if (opened.has_error()) return opened.error();
    store = std::move(*opened);
  } else {
    store = teacher.tables_->opened_store();
  }
  if (store) {
    auto facts = taught_facts(*store);
    if (facts.has_error()) return facts.error();
    taught = std::move(*facts);
  }
  view = teacher.tables_->view();
  auto opened = TrainingNgrams::open(teacher.options_.ngram_list, *teacher.model_, view.base);
  if (opened.has_error()) return opened.error();
  training = std::move(*opened);
  planner.emplace(*teacher.model_, *teacher.tokenizer_, *teacher.prompts_, *teacher.rows_,
                  *training);
  return {};
}

// Whether the fact is to be planned; otherwise its report says what became of it.
void Teacher::Session::take(std::size_t index) {
  TeachReport& report = reports[index];
  for (const std::string& question : report.fact.questions) {
    for (std::size_t i = 0; i < index; ++i) {
      const auto& others = reports[i].fact.questions;
      if (std::find(others.begin(), others.end(), question) == others.end()) continue;
      report.why_not = quoted(question) + " stands twice in what is to be taught";
      return;
    }
    const TaughtFact* older = find_question(taught, question);
    if (older == nullptr) continue;
    if (older->fact.answer == report.fact.answer) {
      report.is_taught = true;
      report.transaction = older->transaction;
      report.before = report.after = older->fact.answer;
      return;
    }
    if (!job.replaces) {
      report.why_not = quoted(question) + " was taught the answer " + quoted(older->fact.answer) +
                       " by transaction " + std::to_string(older->transaction) +
                       "; replace it (--replace), or forget it first";
      return;
    }
    report.replaced = older->transaction;
  }
}

// Takes what they wrote out of the view, as their rollback will.
Result<void> Teacher::Session::leave_out(const std::vector<std::int64_t>& replaced) {
  if (replaced.empty()) return {};
  OverlayBuilder builder(view.overlay(), view.edits->number() + 1);
  for (const std::int64_t number : replaced) {
    const auto changes = store->changes(number, TableStore::kListMax);
    if (changes.has_error()) return changes.error();
    for (const StoredChange& change : *changes) {
      if (change.before.writer == 0) {
        builder.erase(change.target);
      } else {
        builder.set(change.target, change.before.image, change.before.writer);
      }
    }
  }
  view.edits = std::move(builder).finish();
  return {};
}

// The facts that are to be found; what becomes of the others is in their reports.
std::vector<PlannedFact> Teacher::Session::plan_asked() {
  std::vector<PlannedFact> planned;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    TeachReport& report = reports[i];
    take(i);
    if (report.is_taught || !report.why_not.empty()) {
      ++n_done;
      continue;
    }
    auto fact = planner->plan(report.fact);
    if (fact.has_error()) {
      report.why_not = fact.error().message;
      ++n_done;
      continue;
    }
    report.fact = fact->fact;
    fact->request = i;
    planned.push_back(std::move(*fact));
  }
  return planned;
}

// What was taught before about the subjects of `planned`, and stays.
Result<std::vector<PlannedFact>> Teacher::Session::plan_kept(
    const std::vector<PlannedFact>& planned, const std::vector<std::int64_t>& replaced) const {
  std::set<std::string> subjects;
  for (const PlannedFact& fact : planned) {
    subjects.insert(fact.subjects.begin(), fact.subjects.end());
  }
  std::vector<PlannedFact> kept;
  for (const TaughtFact& older : taught) {
    if (std::find(replaced.begin(), replaced.end(), older.transaction) != replaced.end()) continue;
    const auto about = subjects_of(older.fact);
    if (std::none_of(about.begin(), about.end(),
                     [&](const std::string& name) { return subjects.contains(name); })) {
      continue;
    }
    auto fact = planner->plan(older.fact);
    if (fact.has_error()) return fact.error();
    fact->kept_transaction = older.transaction;
    kept.push_back(std::move(*fact));
  }
  return kept;
}

Result<void> Teacher::Session::plan() {
  std::vector<PlannedFact> planned = plan_asked();
  std::vector<std::int64_t> replaced;
  for (const TeachReport& report : reports) {
    if (report.replaced != 0) replaced.push_back(report.replaced);
  }
  if (const auto left_out = leave_out(replaced); left_out.has_error()) return left_out.error();
  auto kept = plan_kept(planned, replaced);
  if (kept.has_error()) return kept.error();
  std::vector<std::int64_t> writers;
  for (PlannedFact& fact : *kept) {
    writers.push_back(fact.kept_transaction);
    planned.push_back(std::move(fact));
  }
  groups = planner->group(std::move(planned), *view.edits, writers);
  std::erase_if(groups, [](const PlannedGroup& group) {  // nothing but what is known
    return std::all_of(group.facts.begin(), group.facts.end(),
                       [](const PlannedFact& fact) { return fact.kept_transaction != 0; });
  });
  return {};
}

void Teacher::Session::count_touched(const std::vector<NgramEntry>& ngrams,
                                     TeachReport& report) const {
  if (teacher.n_heldout_ == 0) return;
  std::set<std::int64_t> positions;
  for (const NgramEntry& ngram : ngrams) {
    auto at = std::lower_bound(teacher.heldout_.begin(), teacher.heldout_.end(),
                               std::pair{ngram, std::int64_t{0}});
    for (; at != teacher.heldout_.end() && at->first == ngram; ++at) positions.insert(at->second);
  }
  report.n_touched = static_cast<std::int64_t>(positions.size());
  report.n_heldout = teacher.n_heldout_;
}

Result<void> Teacher::Session::settle(std::size_t group_index, GroupOutcome outcome,
                                      double seconds) {
  const PlannedGroup& group = groups[group_index];
  std::vector<std::string> kept;
  for (const PlannedFact& fact : group.facts) {
    if (fact.kept_transaction != 0) kept.push_back(fact.fact.questions.front());
  }
  for (std::size_t i = 0; i < group.facts.size(); ++i) {
    if (group.facts[i].kept_transaction != 0) continue;
    TeachReport& report = reports[group.facts[i].request];
    FactOutcome& fact = outcome.facts[i];
    report.before = fact.before;
    report.after = fact.after;
    report.n_steps = outcome.n_steps;
    report.margin = outcome.margin;
    report.n_wordings = fact.n_wordings;
    report.n_wordings_right = fact.n_wordings_right;
    report.kept = kept;
    report.n_entries = static_cast<std::int64_t>(fact.ngrams.size());
    for (const Edit& edit : fact.edits) {
      report.bytes += static_cast<std::int64_t>(edit.image.size());
    }
    report.seconds = seconds;
    count_touched(fact.ngrams, report);
    if (!outcome.is_good) {
      report.why_not = outcome.why_not;
      continue;
    }
    if (job.is_dry_run || fact.edits.empty()) {
      report.is_taught = !job.is_dry_run;  // it says so already
      continue;
    }
    if (report.replaced != 0) {
      const auto undone =
          store->rollback(report.replaced, job.author, "replaced by: " + report.fact.answer);
      if (undone.has_error()) return undone.error();
    }
    const auto stored = store->commit(std::move(fact.edits), job.author, to_reason(report.fact));
    if (stored.has_error()) return stored.error();
    report.transaction = stored->transaction.number;
    report.is_taught = true;
  }
  return {};
}

// A worker: group after group.
void Teacher::Session::work() {
  give_way();
  const TeacherOptions& options = teacher.options_;
  auto worker = GroupTeacher::make(*teacher.model_, *teacher.tokenizer_,
                                   {options.backend, 1, options.bfloat16_activations},
                                   options.kv_cache_dtype);
  for (;;) {
    std::size_t index = 0;
    {
      const std::lock_guard lock(mutex);
      if (worker.has_error()) failed = worker.error();
      if (failed || next_group == groups.size()) return;
      index = next_group++;
    }
    const auto started = Clock::now();
    auto outcome = (*worker)->teach(groups[index], *planner, view, job.options, job.stop);
    const double seconds = std::chrono::duration<double>(Clock::now() - started).count();
    const std::lock_guard lock(mutex);
    if (failed) return;
    const auto settled = outcome.has_error() ? Result<void>(outcome.error())
                                             : settle(index, std::move(*outcome), seconds);
    if (settled.has_error()) {
      failed = settled.error();
      return;
    }
    for (const PlannedFact& fact : groups[index].facts) {
      n_done += fact.kept_transaction == 0 ? 1 : 0;
    }
    if (job.on_progress) job.on_progress(n_done, static_cast<std::int64_t>(reports.size()));
  }
}

Result<std::vector<TeachReport>> Teacher::teach(const TeachJob& job) {
  const std::unique_lock turn(turn_, std::try_to_lock);
  if (!turn.owns_lock()) {
    return busy("facts are being taught already; try again when that is done");
  }
  return teach_in_turn(job);
}

Result<std::vector<TeachReport>> Teacher::teach_in_turn(const TeachJob& job) {
  if (job.facts.empty() || job.facts.size() > kFactsMax) {
    return limit_exceeded("facts: expected 1 to " + std::to_string(kFactsMax) + ", got " +
                          std::to_string(job.facts.size()));
  }
  for (std::size_t i = 0; i < job.facts.size(); ++i) {
    if (const auto good = check_fact(job.facts[i]); good.has_error()) {
      return invalid_argument("fact " + std::to_string(i + 1) + ": " + good.error().message);
    }
  }
  if (const auto made = ready(); made.has_error()) return made.error();
  Session session{*this, job};
  if (const auto opened = session.open(); opened.has_error()) return opened.error();
  for (const Fact& fact : job.facts) session.reports.emplace_back().fact = fact;
  if (const auto planned = session.plan(); planned.has_error()) return planned.error();
  if (job.on_progress) {
    job.on_progress(session.n_done, static_cast<std::int64_t>(session.reports.size()));
  }
  {
    std::vector<std::jthread> workers;
    const int n_workers = std::min(options_.threads, static_cast<int>(session.groups.size()));
    for (int i = 0; i < n_workers; ++i) workers.emplace_back([&] { session.work(); });
  }
  if (session.failed) return *session.failed;
  return std::move(session.reports);
}

Result<ForgetReport> Teacher::forget(const std::string& what, const std::string& author,
                                     std::stop_token stop) {
  const std::unique_lock turn(turn_, std::try_to_lock);
  if (!turn.owns_lock()) {
    return busy("facts are being taught already; try again when that is done");
  }
  const auto store = tables_->opened_store();
  const auto known = store ? taught_facts(*store) : Result<std::vector<TaughtFact>>({});
  if (known.has_error()) return known.error();
  const TaughtFact* fact = find_question(*known, what);
  for (const TaughtFact& other : *known) {
    if (std::to_string(other.transaction) == what) fact = &other;
  }
  if (fact == nullptr) {
    return not_found("nothing was taught for " + quoted(what) + "; " +
                     std::to_string(known->size()) + " facts are taught (engramd taught)");
  }
  // Later facts about the same names may have written the same rows: newest first, they go too.
  ForgetReport report;
  TeachJob again;
  for (auto later = known->rbegin(); &*later != fact; ++later) {
    if (!share_a_subject(later->fact, fact->fact)) continue;
    const auto undone = store->rollback(later->transaction, author, "to be taught again");
    if (undone.has_error()) return undone.error();
    again.facts.insert(again.facts.begin(), later->fact);
  }
  const auto undone =
      store->rollback(fact->transaction, author, "forgotten: " + fact->fact.questions.front());
  if (undone.has_error()) return undone.error();
  report.forgotten.push_back(*fact);
  if (again.facts.empty()) return report;
  again.author = author;
  again.stop = std::move(stop);
  auto taught_again = teach_in_turn(again);
  if (taught_again.has_error()) return taught_again.error();
  report.taught_again = std::move(*taught_again);
  return report;
}

}  // namespace engramd::engine
