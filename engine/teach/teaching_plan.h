// TeachingPlan: what it takes to teach facts: the texts that each must be right in, and the exact
// N-grams whose rows may change for it. An N-gram qualifies when it holds a token of the fact's own
// names and the training text never held it; of a name that the model knows, the longest N-grams
// with a token of the subject do too. No N-gram serves two subjects: what occurs in the texts of
// several is nobody's, and what an earlier fact of another subject wrote stays.
// Threads: plan() and group() one at a time; text() from any. Not here: finding values
// (fact_problem), what was taught before (taught_facts).
#pragma once

#include <string>
#include <vector>

#include "engine/runtime/prompt.h"
#include "engine/teach/fact.h"
#include "engine/teach/fact_problem.h"
#include "engine/teach/names.h"

namespace engramd::engine {

struct TaughtText {
  std::string wording;
  std::vector<TokenId> prompt, answer;  // the answer ends with end-of-sentence
  bool is_asked = false;  // one of the user's own wordings: must be right, or nothing is stored

  // What the model reads when it has said all but the last token.
  std::vector<TokenId> tokens() const;
};

struct PlannedFact {
  Fact fact;  // with its names
  std::vector<std::string> subjects;
  std::vector<TaughtText> texts;
  std::vector<NgramEntry> ngrams;     // of its texts, ascending: whether they may change or not
  std::int64_t kept_transaction = 0;  // taught before, and to stay true; 0: to be taught
  std::size_t request = 0;            // of those to be taught: which of the caller's
};

// Facts with a subject in common, which are taught together.
struct PlannedGroup {
  std::vector<PlannedFact> facts;
  std::vector<TaughtEntry> entries;  // ascending
  // The model has no training text about the subjects: a bare name may stand for the fact.
  bool is_new_subject = true;
};

class TeachingPlanner {
 public:
  // All outlive this.
  TeachingPlanner(const Model& model, const Tokenizer& tokenizer, const PromptEncoder& prompts,
                  const TextRows& rows, const TrainingNgrams& training);

  // Fails when no name is found, or a text cannot be encoded or is longer than the context.
  Result<PlannedFact> plan(const Fact& fact) const;
  // Groups facts by subject and gives each its entries. epoch: what is taught already; writers:
  // transactions of facts that may be written again because they are among `facts`.
  std::vector<PlannedGroup> group(std::vector<PlannedFact> facts, const Epoch& epoch,
                                  const std::vector<std::int64_t>& writers) const;
  Result<TaughtText> text(const std::string& wording, const std::string& answer) const;

 private:
  struct Candidate {
    TaughtEntry entry;
    bool is_new = false;      // not in the training text
    bool of_subject = false;  // holds a token of a subject
    bool of_object = false;
    bool in_answer = false;
    bool is_longest = false;  // of the highest order
  };
  std::vector<Candidate> candidates(const PlannedFact& fact) const;
  bool is_written_by_others(const NgramEntry& entry, const Epoch& epoch,
                            const std::vector<std::int64_t>& writers) const;
  void mark(const TaughtText& text, const std::vector<std::string>& names,
            std::vector<std::uint8_t>& marks) const;

  const Model* model_;
  const Tokenizer* tokenizer_;
  const PromptEncoder* prompts_;
  const TextRows* rows_;
  const TrainingNgrams* training_;
};

}  // namespace engramd::engine
