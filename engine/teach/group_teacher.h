// GroupTeacher: one worker's tools to teach the facts of one group: the frozen network with its
// gradients, and the serving pass that checks what came out. Stores nothing.
// Threads: each worker has its own.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "config/result.h"
#include "engine/engram/table_store.h"
#include "engine/teach/fact_problem.h"
#include "engine/teach/serving_check.h"
#include "engine/teach/teaching_plan.h"
#include "kernels/backend.h"
#include "kernels/gradients.h"

namespace engramd::engine {

struct FactOutcome {
  std::string before, after;  // greedy answers to the first question
  std::int64_t n_wordings = 0, n_wordings_right = 0;
  std::vector<NgramEntry> ngrams;  // that change for it
  std::vector<Edit> edits;
};

struct GroupOutcome {
  bool is_good = false;
  std::string why_not;
  std::vector<FactOutcome> facts;  // parallel to PlannedGroup::facts
  int n_steps = 0;
  float margin = 0;
};

class GroupTeacher {
 public:
  // model and the tokenizer outlive this. Refused: an instruction set that this CPU lacks.
  static Result<std::unique_ptr<GroupTeacher>> make(const Model& model, const Tokenizer& tokenizer,
                                                    const kernels::CpuBackendOptions& backend,
                                                    kernels::DType kv_cache_dtype);

  // planner: for the questions that the model answers already about names that it knows, whose
  // answers are to stay.
  Result<GroupOutcome> teach(const PlannedGroup& group, const TeachingPlanner& planner,
                             const TableView& view, const TeachingOptions& options,
                             std::stop_token stop);

 private:
  GroupTeacher(const Model& model, const Tokenizer& tokenizer,
               std::unique_ptr<kernels::Backend> backend,
               std::unique_ptr<kernels::Gradients> gradients);

  Result<std::vector<TaughtText>> other_answers(const PlannedGroup& group,
                                                const TeachingPlanner& planner,
                                                const GroupOutcome& outcome, const TableView& view);
  Result<std::vector<TaughtText>> bare_texts(const PlannedGroup& group,
                                             const TeachingPlanner& planner) const;
  Result<void> add(FactProblem& problem, const TaughtText& text, const TableView& view,
                   bool must_be_said = true);
  Result<std::string> answer_to(const TaughtText& text, const TableView& view);
  // Edits of the entries that came out other than `view` has them.
  std::vector<Edit> edits_of(const FactProblem& problem, const std::vector<NgramEntry>& ngrams,
                             const TableView& view) const;
  Result<void> check(const PlannedGroup& group, const std::vector<TaughtText>& others,
                     const TableView& view, GroupOutcome& outcome);

  const Model* model_;
  const Tokenizer* tokenizer_;
  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<kernels::Gradients> gradients_;
  RowGradients network_;
  TextRows rows_;
  std::unique_ptr<ServingCheck> serving_;
};

}  // namespace engramd::engine
