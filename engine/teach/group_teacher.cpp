#include "engine/teach/group_teacher.h"

#include <algorithm>
#include <utility>

#include "engine/engram/row_codec.h"

namespace engramd::engine {

namespace {

constexpr int kAnswerTokensMax = 64;  // of what is shown as before, and of answers to be kept

bool contains(const std::vector<std::string>& values, const std::string& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

}  // namespace

Result<std::unique_ptr<GroupTeacher>> GroupTeacher::make(const Model& model,
                                                         const Tokenizer& tokenizer,
                                                         const kernels::CpuBackendOptions& options,
                                                         kernels::DType kv_cache_dtype) {
  const bool is_reference = options.instruction_set == "reference";
  auto backend =
      is_reference ? kernels::make_reference_backend() : kernels::make_cpu_backend(options);
  auto gradients = is_reference ? kernels::make_reference_gradients()
                                : kernels::make_cpu_gradients(options.instruction_set);
  if (!backend || !gradients) {
    return unavailable("this CPU lacks the instruction set " + options.instruction_set);
  }
  std::unique_ptr<GroupTeacher> made(
      new GroupTeacher(model, tokenizer, std::move(backend), std::move(gradients)));
  auto serving = ServingCheck::make(model, *made->backend_, kv_cache_dtype,
                                    model.config.max_position_embeddings);
  if (serving.has_error()) return serving.error();
  made->serving_ = std::move(*serving);
  return made;
}

GroupTeacher::GroupTeacher(const Model& model, const Tokenizer& tokenizer,
                           std::unique_ptr<kernels::Backend> backend,
                           std::unique_ptr<kernels::Gradients> gradients)
    : model_(&model),
      tokenizer_(&tokenizer),
      backend_(std::move(backend)),
      gradients_(std::move(gradients)),
      network_(model, *backend_, *gradients_),
      rows_(model, *backend_) {}

Result<GroupOutcome> GroupTeacher::teach(const PlannedGroup& group, const TeachingPlanner& planner,
                                         const TableView& view, const TeachingOptions& options,
                                         std::stop_token stop) {
  GroupOutcome outcome;
  outcome.facts.resize(group.facts.size());
  for (std::size_t i = 0; i < group.facts.size(); ++i) {
    auto before = answer_to(group.facts[i].texts.front(), view);
    if (before.has_error()) return before.error();
    outcome.facts[i].before = std::move(*before);
  }
  if (group.entries.empty()) {
    outcome.why_not =
        "no N-gram of its texts belongs to this fact alone: the training text, or facts about "
        "other names, hold them all; name its words (names)";
    return outcome;
  }
  const auto others = other_answers(group, planner, outcome, view);
  if (others.has_error()) return others.error();
  const auto bare = bare_texts(group, planner);
  if (bare.has_error()) return bare.error();
  std::vector<RowFormat> formats;
  for (std::size_t layer = 0; layer < model_->layout.layers.size(); ++layer) {
    formats.push_back(view.base->format(static_cast<int>(layer)));
  }
  FactProblem problem(model_->layout, std::move(formats), group.entries, options);
  for (const PlannedFact& fact : group.facts) {
    for (const TaughtText& text : fact.texts) {
      if (const auto added = add(problem, text, view); added.has_error()) return added.error();
    }
  }
  for (const TaughtText& text : *others) {
    if (const auto added = add(problem, text, view); added.has_error()) return added.error();
  }
  for (const TaughtText& text : *bare) {
    if (const auto added = add(problem, text, view, false); added.has_error()) {
      return added.error();
    }
  }
  while (!problem.advance(network_)) {
    if (stop.stop_requested()) return cancelled("teaching was cancelled");
  }
  outcome.n_steps = problem.n_steps();
  outcome.margin = problem.score().least();
  std::vector<NgramEntry> all;
  for (const TaughtEntry& entry : problem.entries()) all.push_back(entry.ngram);
  OverlayBuilder builder(view.overlay(), view.edits->number() + 1);
  for (const Edit& edit : edits_of(problem, all, view)) builder.set(edit.target, edit.image, 0);
  TableView candidate = view;
  candidate.edits = std::move(builder).finish();
  if (const auto checked = check(group, *others, candidate, outcome); checked.has_error()) {
    return checked.error();
  }
  for (std::size_t i = 0; i < group.facts.size(); ++i) {
    FactOutcome& fact = outcome.facts[i];
    if (group.facts[i].kept_transaction != 0) continue;
    std::set_intersection(all.begin(), all.end(), group.facts[i].ngrams.begin(),
                          group.facts[i].ngrams.end(), std::back_inserter(fact.ngrams));
    fact.edits = edits_of(problem, fact.ngrams, view);
  }
  return outcome;
}

// What the model says of a name that it knows when asked something else.
Result<std::vector<TaughtText>> GroupTeacher::other_answers(const PlannedGroup& group,
                                                            const TeachingPlanner& planner,
                                                            const GroupOutcome& outcome,
                                                            const TableView& view) {
  std::vector<TaughtText> others;
  if (group.is_new_subject) return others;
  std::vector<std::string> before;
  for (const FactOutcome& fact : outcome.facts) before.push_back(fact.before);
  for (const PlannedFact& fact : group.facts) {
    std::vector<std::string> own;
    for (const TaughtText& text : fact.texts) own.push_back(text.wording);
    for (const std::string& subject : fact.subjects) {
      for (const std::string& question : questions_about(subject)) {
        if (contains(own, question)) continue;
        auto text = planner.text(question, "");
        if (text.has_error()) continue;
        auto answer = serving_->answer(text->prompt, kAnswerTokensMax, view);
        if (answer.has_error()) return answer.error();
        const auto said = tokenizer_->decode(*answer);
        // An answer that does not even name it is no knowledge to keep, and what is answered with
        // the same words is the same fact.
        if (said.has_error() || said->find(subject) == std::string::npos) continue;
        if (contains(before, *said)) continue;
        answer->push_back(text->answer.back());  // end-of-sentence
        text->answer = std::move(*answer);
        others.push_back(std::move(*text));
      }
    }
  }
  return others;
}

Result<std::vector<TaughtText>> GroupTeacher::bare_texts(const PlannedGroup& group,
                                                         const TeachingPlanner& planner) const {
  std::vector<TaughtText> bare;
  if (!group.is_new_subject || group.facts.size() != 1) return bare;
  const PlannedFact& fact = group.facts.front();
  for (const std::string& wording : bare_wordings(fact.subjects.front())) {
    auto text = planner.text(wording, fact.fact.answer);
    if (text.has_error()) return text.error();
    bare.push_back(std::move(*text));
  }
  return bare;
}

Result<void> GroupTeacher::add(FactProblem& problem, const TaughtText& text, const TableView& view,
                               bool must_be_said) {
  auto rows = rows_.read(text.tokens(), view);
  if (rows.has_error()) return rows.error();
  problem.add(text.prompt, text.answer, std::move(*rows), must_be_said);
  return {};
}

Result<std::string> GroupTeacher::answer_to(const TaughtText& text, const TableView& view) {
  const auto answer = serving_->answer(text.prompt, kAnswerTokensMax, view);
  if (answer.has_error()) return answer.error();
  return tokenizer_->decode(*answer);
}

std::vector<Edit> GroupTeacher::edits_of(const FactProblem& problem,
                                         const std::vector<NgramEntry>& ngrams,
                                         const TableView& view) const {
  const int n_heads = model_->layout.config.n_heads;
  const auto head_dim = static_cast<std::size_t>(model_->layout.config.head_dim);
  std::vector<Edit> edits;
  for (std::size_t i = 0; i < problem.entries().size(); ++i) {
    const NgramEntry& ngram = problem.entries()[i].ngram;
    if (!problem.is_changed(i) || !std::binary_search(ngrams.begin(), ngrams.end(), ngram)) {
      continue;
    }
    const RowFormat format = view.base->format(ngram.layer);
    for (int head = 0; head < n_heads; ++head) {
      auto image =
          encode_row(format.codec,
                     problem.values(i).subspan(static_cast<std::size_t>(head) * head_dim, head_dim),
                     format.tensor_scale);
      ENGRAMD_ASSERT(image.has_value());  // it was encoded and decoded before
      Edit edit;
      edit.target = ngram_target(ngram.layer, ngram.order_slot * n_heads + head, ngram.mix);
      edit.operation = EditOperation::kImage;
      edit.image = std::move(*image);
      edits.push_back(std::move(edit));
    }
  }
  return edits;
}

Result<void> GroupTeacher::check(const PlannedGroup& group, const std::vector<TaughtText>& others,
                                 const TableView& view, GroupOutcome& outcome) {
  outcome.is_good = true;
  const auto fail = [&](std::string why) {
    if (outcome.is_good) outcome.why_not = std::move(why);
    outcome.is_good = false;
  };
  for (std::size_t i = 0; i < group.facts.size(); ++i) {
    FactOutcome& fact = outcome.facts[i];
    for (const TaughtText& text : group.facts[i].texts) {
      const auto says = serving_->says(text, view);
      if (says.has_error()) return says.error();
      ++fact.n_wordings;
      fact.n_wordings_right += *says ? 1 : 0;
      if (*says || !text.is_asked) continue;
      auto said = answer_to(text, view);
      if (said.has_error()) return said.error();
      const bool is_kept = group.facts[i].kept_transaction != 0;
      fail("after " + std::to_string(outcome.n_steps) + " steps \"" + text.wording +
           "\" is still answered \"" + *said + "\"" +
           (is_kept ? ", which was taught before and must stay" : ""));
    }
    auto after = answer_to(group.facts[i].texts.front(), view);
    if (after.has_error()) return after.error();
    fact.after = std::move(*after);
  }
  for (const TaughtText& text : others) {
    const auto says = serving_->says(text, view);
    if (says.has_error()) return says.error();
    if (!*says) fail("it would change the answer to \"" + text.wording + "\"");
  }
  return {};
}

}  // namespace engramd::engine
