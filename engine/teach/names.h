// The words that a fact is about, found in its texts: those whose neighbourhood the model's
// training text never held ("of Zor", "bia?"), or, for names that it knows, the slot of a known
// form of question and the words of the answer that the question lacks. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "engine/teach/text_rows.h"
#include "engine/teach/training_ngrams.h"
#include "engine/tokenizer/tokenizer.h"

namespace engramd::engine {

struct FactNames {
  std::vector<std::string> subjects;  // in the question
  std::vector<std::string> objects;   // in the answer only
};

// Without `given`: found. Refused: nothing found in the question, with the remedy to name it.
Result<FactNames> names_of(const std::string& question, const std::string& answer,
                           const std::vector<std::string>& given, const Tokenizer& tokenizer,
                           const TextRows& rows, const TrainingNgrams& training);

}  // namespace engramd::engine
