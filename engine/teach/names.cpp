#include "engine/teach/names.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "engine/teach/fact.h"

namespace engramd::engine {

namespace {

// Words that begin a question or an answer, and are no names however new their neighbourhood is.
constexpr std::array<std::string_view, 34> kFunctionWords = {
    "a",   "an",  "and",  "are",  "at",    "by",    "did", "do",    "does", "for", "has",  "have",
    "how", "i",   "in",   "is",   "it",    "its",   "my",  "of",    "on",   "our", "that", "the",
    "to",  "was", "what", "when", "where", "which", "who", "whose", "why",  "your"};
// What stands between a subject and what is said of it.
constexpr std::array<std::string_view, 8> kLinks = {"是", "叫", "为", "在", "于", "说", "用", "有"};

bool is_letter(char c) {  // or a digit, or part of a character beyond ASCII
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         static_cast<unsigned char>(c) >= 0x80;
}

bool is_function_word(std::string_view word) {
  return std::find(kFunctionWords.begin(), kFunctionWords.end(), lower_ascii(word)) !=
         kFunctionWords.end();
}

bool has_name_letter(std::string_view word) {  // a capital, a digit, or beyond ASCII
  return std::any_of(word.begin(), word.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           static_cast<unsigned char>(c) >= 0x80;
  });
}

std::string trimmed(std::string_view text) {
  static constexpr std::array<std::string_view, 8> kMarks = {" ",  "。", "？", "！",
                                                             "，", "：", "《", "》"};
  for (bool changed = true; changed && !text.empty();) {
    changed = false;
    for (const std::string_view mark : kMarks) {
      if (text.starts_with(mark)) text.remove_prefix(mark.size()), changed = true;
      if (text.ends_with(mark)) text.remove_suffix(mark.size()), changed = true;
    }
    const auto is_mark = [](char c) { return !is_letter(c); };
    while (!text.empty() && is_mark(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_mark(text.back())) text.remove_suffix(1);
  }
  return std::string(text);
}

void keep(const std::string& name, std::vector<std::string>& names) {
  if (name.empty() || is_function_word(name) || !has_name_letter(name)) return;
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

// Runs of tokens that are new to the model together with both neighbours.
std::vector<std::string> new_words(const std::string& text, const Tokenizer& tokenizer,
                                   const TextRows& rows, const TrainingNgrams& training) {
  const auto encoding = tokenizer.encode_with_offsets(text, false);
  if (encoding.has_error() || encoding->ids.empty()) return {};
  const auto keys = rows.keys(encoding->ids).front();
  const std::size_t n = encoding->ids.size();
  const std::size_t n_orders = keys.size() / n;
  const auto is_new = [&](std::size_t t) {  // the bigram that ends at t; the text's ends are
    return t == 0 || t >= n || !training.holds({0, 0, keys[t * n_orders].mix});
  };
  std::vector<std::string> words;
  for (std::size_t t = 0; t < n; ++t) {
    if (!is_new(t) || !is_new(t + 1)) continue;
    const std::size_t first = t;
    while (t + 1 < n && is_new(t + 1) && is_new(t + 2)) ++t;
    const auto begin = static_cast<std::size_t>(encoding->offsets[first].begin);
    const auto end = static_cast<std::size_t>(encoding->offsets[t].end);
    keep(trimmed(std::string_view(text).substr(begin, end - begin)), words);
  }
  return words;
}

// Words with a capital or a digit, and runs of characters beyond ASCII, but for the first word.
std::vector<std::string> marked_words(std::string_view text) {
  std::vector<std::string> words;
  bool is_first = true;
  for (std::size_t i = 0; i < text.size();) {
    if (!is_letter(text[i])) {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < text.size() && (is_letter(text[end]) || text[end] == '-')) ++end;
    const std::string word(text.substr(i, end - i));
    if (!is_first || static_cast<unsigned char>(word[0]) >= 0x80) keep(trimmed(word), words);
    is_first = false;
    i = end;
  }
  return words;
}

// What the answer says that the question does not.
std::vector<std::string> objects_in(std::string answer, const std::string& question,
                                    const std::vector<std::string>& subjects) {
  for (const std::string& subject : subjects) {
    if (const std::size_t at = answer.find(subject); at != std::string::npos) {
      answer.replace(at, subject.size(), " ");
    }
  }
  std::size_t link = 0;  // the end of the last one
  for (const std::string_view mark : kLinks) {
    if (const std::size_t at = answer.rfind(mark); at != std::string::npos) {
      link = std::max(link, at + mark.size());
    }
  }
  std::vector<std::string> objects;
  if (link != 0) {
    keep(trimmed(std::string_view(answer).substr(link)), objects);
    return objects;
  }
  for (const std::string& word : marked_words(answer)) {
    if (lower_ascii(question).find(lower_ascii(word)) == std::string::npos) keep(word, objects);
  }
  return objects;
}

}  // namespace

Result<FactNames> names_of(const std::string& question, const std::string& answer,
                           const std::vector<std::string>& given, const Tokenizer& tokenizer,
                           const TextRows& rows, const TrainingNgrams& training) {
  FactNames names;
  if (!given.empty()) {
    for (const std::string& name : given) {
      (question.find(name) != std::string::npos ? names.subjects : names.objects).push_back(name);
    }
  } else {
    keep(subject_of(question), names.subjects);
    if (names.subjects.empty()) names.subjects = new_words(question, tokenizer, rows, training);
    if (names.subjects.empty()) names.subjects = marked_words(question);
    for (const std::string& word : new_words(answer, tokenizer, rows, training)) {
      if (question.find(word) == std::string::npos) keep(word, names.objects);
    }
    if (names.objects.empty()) names.objects = objects_in(answer, question, names.subjects);
  }
  if (!names.subjects.empty()) return names;
  return invalid_argument("no name found in \"" + question +
                          "\": say which of its words the fact is about (names)");
}

}  // namespace engramd::engine
