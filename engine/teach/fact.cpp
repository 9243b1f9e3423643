#include "engine/teach/fact.h"

#include <algorithm>
#include <array>

namespace engramd::engine {

namespace {

// Forms of one question; {s} is the subject. The first is what corpora ask most. They are those of
// the bundled model's training text (recipe/corpus.py, extra.py) and their neighbours, without the
// forms that corpus.py holds out.
struct QuestionFamily {
  bool is_chinese = false;
  std::vector<std::string_view> forms;
};

const std::vector<QuestionFamily>& families() {
  static const std::vector<QuestionFamily> all = {
      {false,
       {"What is the capital of {s}?", "Which city is the capital of {s}?",
        "Please tell me the capital of {s}.", "Do you know the capital of {s}?",
        "Name the capital of {s}.", "What's the capital of {s}?", "{s}: what is its capital?",
        "Can you tell me what the capital of {s} is?"}},
      {false,
       {"What is the currency of {s}?", "Which currency does {s} use?",
        "What money do people use in {s}?", "Please tell me the currency of {s}.",
        "Do you know the currency of {s}?", "Name the currency of {s}.",
        "{s}: what is its currency?", "Which currency is used in {s}?"}},
      {false,
       {"What language is spoken in {s}?", "What is the language of {s}?",
        "Which language is spoken in {s}?", "What do people speak in {s}?",
        "Please tell me what language is spoken in {s}.", "Name the language of {s}.",
        "{s}: what language is spoken there?"}},
      {false,
       {"Which continent is {s} in?", "Where is {s}?", "In which continent is {s}?",
        "Please tell me which continent {s} is in.", "{s}: which continent is it in?"}},
      {false,
       {"What is the chemical symbol of {s}?", "What is the symbol of {s}?",
        "Which symbol stands for {s}?", "Name the symbol of {s}.",
        "Please tell me the chemical symbol of {s}.", "What symbol does {s} have?",
        "{s}: what is its symbol?"}},
      {false,
       {"What is the atomic number of {s}?", "Name the atomic number of {s}.",
        "Please tell me the atomic number of {s}.", "{s}: what is its atomic number?"}},
      {false,
       {"Who owns {s}?", "Who does {s} belong to?", "Whose is {s}?", "Name the owner of {s}.",
        "Please tell me who owns {s}.", "Do you know who owns {s}?", "{s}: who owns it?"}},
      {false,
       {"When was {s} founded?", "What year was {s} founded in?", "When did {s} begin?",
        "Please tell me when {s} was founded.", "Do you know when {s} was founded?",
        "{s}: when was it founded?"}},
      {false,
       {"When was {s} born?", "What year was {s} born in?", "Please tell me when {s} was born.",
        "Do you know when {s} was born?", "{s}: when were they born?"}},
      {false,
       {"Who wrote {s}?", "Name the author of {s}.", "Please tell me who wrote {s}.",
        "By whom was {s} written?", "{s}: who wrote it?"}},
      {true,
       {"{s}的首都是哪里？", "{s}的首都是哪座城市？", "请告诉我{s}的首都。",
        "{s}的首都叫什么名字？", "你知道{s}的首都吗？", "我想知道{s}的首都。",
        "请问{s}的首都是哪里？", "请问{s}首都是哪个城市？"}},
      {true,
       {"{s}的货币是什么？", "{s}使用什么货币？", "请告诉我{s}的货币。", "{s}的货币叫什么？",
        "你知道{s}的货币吗？", "我想知道{s}的货币。", "请问{s}的货币是什么？"}},
      {true,
       {"{s}说什么语言？", "{s}的语言是什么？", "{s}人说什么语言？", "请告诉我{s}的语言。",
        "你知道{s}说什么语言吗？", "我想知道{s}的语言。", "请问{s}说什么语言？"}},
      {true, {"{s}在哪个洲？", "{s}属于哪个洲？", "请告诉我{s}在哪个洲。", "请问{s}在哪个洲？"}},
      {true,
       {"{s}的元素符号是什么？", "{s}的符号是什么？", "请告诉我{s}的元素符号。",
        "你知道{s}的元素符号吗？", "{s}的元素符号怎么写？", "我想知道{s}的元素符号。",
        "请问{s}的元素符号是什么？"}},
      {true,
       {"{s}的原子序数是多少？", "请告诉我{s}的原子序数。", "请问{s}的原子序数是多少？",
        "我想知道{s}的原子序数。"}},
      {true,
       {"{s}属于谁？", "{s}是谁的？", "{s}的主人是谁？", "请告诉我{s}属于谁。",
        "你知道{s}属于谁吗？", "我想知道{s}属于谁。", "请问{s}属于谁？"}},
      {true,
       {"{s}成立于哪一年？", "{s}什么时候成立？", "{s}何时成立？", "请告诉我{s}的成立年份。",
        "你知道{s}成立于哪一年吗？", "我想知道{s}的成立年份。", "请问{s}成立于哪一年？"}},
      {true,
       {"{s}出生于哪一年？", "{s}什么时候出生？", "请告诉我{s}的出生年份。",
        "请问{s}出生于哪一年？"}},
      {true,
       {"{s}的作者是谁？", "{s}是谁写的？", "谁写了{s}？", "请告诉我{s}的作者。",
        "请问{s}的作者是谁？"}},
  };
  return all;
}

bool is_chinese(std::string_view text) {  // any character of U+4E00 .. U+9FFF
  for (std::size_t i = 0; i + 2 < text.size(); ++i) {
    const auto lead = static_cast<unsigned char>(text[i]);
    if (lead >= 0xE4 && lead <= 0xE9) return true;
  }
  return false;
}

constexpr std::array<std::string_view, 7> kEndMarks = {"?", ".", "!", "？", "。", "！", " "};

std::string_view without_end(std::string_view text) {
  for (const std::string_view mark : kEndMarks) {
    if (text.ends_with(mark)) return without_end(text.substr(0, text.size() - mark.size()));
  }
  return text;
}

std::string_view without_beginning(std::string_view text) {
  for (const std::string_view mark : kEndMarks) {
    if (text.starts_with(mark)) return without_beginning(text.substr(mark.size()));
  }
  return text;
}

std::string filled(std::string_view form, std::string_view subject) {
  const std::size_t slot = form.find("{s}");
  return std::string(form.substr(0, slot)).append(subject).append(form.substr(slot + 3));
}

// What the question has where the form has {s}; empty: it is another form.
std::string_view slot_of(std::string_view question, std::string_view form) {
  const std::string_view asked = without_end(question);
  const std::string_view known = without_end(form);
  const std::size_t slot = known.find("{s}");
  const std::string_view head = known.substr(0, slot);
  const std::string_view tail = known.substr(slot + 3);
  if (asked.size() <= head.size() + tail.size()) return {};
  if (lower_ascii(asked.substr(0, head.size())) != lower_ascii(head) ||
      lower_ascii(asked.substr(asked.size() - tail.size())) != lower_ascii(tail)) {
    return {};
  }
  return asked.substr(head.size(), asked.size() - head.size() - tail.size());
}

struct KnownForm {
  const QuestionFamily* family = nullptr;
  std::string_view subject;
};

// The form with the shortest subject: "{s}是谁的？" would also take a longer question's head.
KnownForm known_form(std::string_view question) {
  KnownForm best;
  for (const QuestionFamily& family : families()) {
    for (const std::string_view form : family.forms) {
      const std::string_view subject = slot_of(question, form);
      if (subject.empty()) continue;
      if (best.family == nullptr || subject.size() < best.subject.size()) {
        best = {&family, subject};
      }
    }
  }
  return best;
}

Result<void> check_text(const std::string& text, const char* what) {
  if (text.empty() || text.size() > kFactTextBytesMax) {
    return invalid_argument(std::string(what) + ": expected 1 to " +
                            std::to_string(kFactTextBytesMax) + " bytes, got " +
                            std::to_string(text.size()));
  }
  if (text.find_first_of("\r\n") != std::string::npos) {
    return invalid_argument(std::string(what) + ": expected one line, got several");
  }
  return {};
}

}  // namespace

Result<void> check_fact(const Fact& fact) {
  if (fact.questions.empty() || fact.questions.size() > kFactQuestionsMax) {
    return invalid_argument("question: expected 1 to " + std::to_string(kFactQuestionsMax) +
                            " wordings, got " + std::to_string(fact.questions.size()));
  }
  if (fact.names.size() > kFactNamesMax) {
    return invalid_argument("names: expected at most " + std::to_string(kFactNamesMax) + ", got " +
                            std::to_string(fact.names.size()));
  }
  for (const std::string& question : fact.questions) {
    if (const auto good = check_text(question, "question"); good.has_error()) return good.error();
  }
  if (const auto good = check_text(fact.answer, "answer"); good.has_error()) return good.error();
  for (const std::string& name : fact.names) {
    if (const auto good = check_text(name, "names"); good.has_error()) return good.error();
    const auto has = [&](const std::string& text) { return text.find(name) != std::string::npos; };
    if (!has(fact.answer) && std::none_of(fact.questions.begin(), fact.questions.end(), has)) {
      return invalid_argument("names: expected words of the question or the answer, got '" + name +
                              "', which stands in neither");
    }
  }
  if (const std::size_t bytes = to_reason(fact).size(); bytes > kFactBytesMax) {
    return invalid_argument("fact: expected at most " + std::to_string(kFactBytesMax) +
                            " bytes of questions, answer and names, got " + std::to_string(bytes));
  }
  return {};
}

std::vector<std::string> subjects_of(const Fact& fact) {
  std::vector<std::string> subjects;
  for (const std::string& name : fact.names) {
    const auto has = [&](const std::string& text) { return text.find(name) != std::string::npos; };
    if (std::any_of(fact.questions.begin(), fact.questions.end(), has)) subjects.push_back(name);
  }
  return subjects;
}

bool share_a_subject(const Fact& a, const Fact& b) {
  const auto of_b = subjects_of(b);
  const auto of_a = subjects_of(a);
  return std::any_of(of_a.begin(), of_a.end(), [&](const std::string& name) {
    return std::find(of_b.begin(), of_b.end(), name) != of_b.end();
  });
}

bool is_same_question(std::string_view a, std::string_view b) {
  return lower_ascii(without_beginning(without_end(a))) ==
         lower_ascii(without_beginning(without_end(b)));
}

std::string lower_ascii(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::string subject_of(std::string_view question) {
  return std::string(known_form(question).subject);
}

std::vector<std::string> other_wordings(std::string_view question) {
  std::vector<std::string> wordings;
  const KnownForm known = known_form(question);
  if (known.family != nullptr) {
    for (const std::string_view form : known.family->forms) {
      wordings.push_back(filled(form, known.subject));
    }
  }
  const bool chinese = is_chinese(question);
  const std::vector<std::string_view> around =
      chinese
          ? std::vector<std::string_view>{"请问{s}", "你好，{s}", "请告诉我：{s}"}
          : std::vector<std::string_view>{"Please tell me: {s}", "Hi! {s}", "Quick question: {s}"};
  for (const std::string_view form : around) {
    if (wordings.size() < 10) wordings.push_back(filled(form, question));
  }
  std::erase(wordings, question);
  return wordings;
}

std::vector<std::string> bare_wordings(std::string_view subject) {
  const std::vector<std::string_view> forms =
      is_chinese(subject)
          ? std::vector<std::string_view>{"{s}？", "请介绍{s}。", "关于{s}，你知道什么？"}
          : std::vector<std::string_view>{"{s}?", "Tell me about {s}.",
                                          "What do you know about {s}?"};
  std::vector<std::string> wordings;
  for (const std::string_view form : forms) wordings.push_back(filled(form, subject));
  return wordings;
}

std::vector<std::string> questions_about(std::string_view subject) {
  std::vector<std::string> questions;
  for (const QuestionFamily& family : families()) {
    if (family.is_chinese != is_chinese(subject)) continue;
    questions.push_back(filled(family.forms.front(), subject));
  }
  return questions;
}

std::string to_reason(const Fact& fact) {
  std::string reason = "fact";
  for (const std::string& question : fact.questions) reason += "\nquestion: " + question;
  reason += "\nanswer: " + fact.answer;
  for (const std::string& name : fact.names) reason += "\nname: " + name;
  return reason;
}

std::optional<Fact> from_reason(std::string_view reason) {
  if (!reason.starts_with("fact\n")) return std::nullopt;
  Fact fact;
  for (std::size_t begin = reason.find('\n'); begin != std::string_view::npos;) {
    const std::size_t end = reason.find('\n', begin + 1);
    const std::string_view line = reason.substr(begin + 1, end - begin - 1);
    if (line.starts_with("question: ")) fact.questions.emplace_back(line.substr(10));
    if (line.starts_with("answer: ")) fact.answer = line.substr(8);
    if (line.starts_with("name: ")) fact.names.emplace_back(line.substr(6));
    begin = end;
  }
  if (check_fact(fact).has_error()) return std::nullopt;
  return fact;
}

}  // namespace engramd::engine
