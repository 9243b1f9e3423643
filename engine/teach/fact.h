// Fact: what a user says should be true, and the other ways to ask for it. Pure functions.
// Not here: tokens and N-grams (teaching_plan), finding row values (fact_problem).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.h"

namespace engramd::engine {

struct Fact {
  std::vector<std::string> questions;  // one or more wordings
  std::string answer;
  std::vector<std::string> names;  // what the fact is about; empty: found (find_names)
};

inline constexpr std::size_t kFactTextBytesMax = 512;  // a question, an answer or a name
inline constexpr std::size_t kFactBytesMax = 4096;     // all together: a reason in the history
inline constexpr std::size_t kFactQuestionsMax = 16;
inline constexpr std::size_t kFactNamesMax = 8;

// Refused: no question or answer, a text that is empty, too long or has more than one line, a name
// that stands in none of the texts.
Result<void> check_fact(const Fact& fact);

// The names that stand in a question.
std::vector<std::string> subjects_of(const Fact& fact);
bool share_a_subject(const Fact& a, const Fact& b);

// Letters in one case, and without marks or spaces at the ends.
bool is_same_question(std::string_view a, std::string_view b);
std::string lower_ascii(std::string_view text);

// What stands for the subject in a known form of question: "Zorbia" in "What is the capital of
// Zorbia?". Empty: no known form.
std::string subject_of(std::string_view question);

// Other ways to ask the same: the forms of the question's family, in its language, or greetings and
// requests around it when the form is not known. Without the question itself.
std::vector<std::string> other_wordings(std::string_view question);
// Questions that name nothing but the subject, whose answer is the fact when the model has no other
// about it.
std::vector<std::string> bare_wordings(std::string_view subject);
// A question of every family about a subject, to see what the model says of it otherwise.
std::vector<std::string> questions_about(std::string_view subject);

// One text for the history of the tables, and back; another text has no fact.
std::string to_reason(const Fact& fact);
std::optional<Fact> from_reason(std::string_view reason);

}  // namespace engramd::engine
