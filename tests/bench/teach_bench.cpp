// teach_bench: what teaching facts to the bundled model reaches, as a Markdown table and a chart.
//   teach_bench [--facts 1,10,100] [--corrections 100] [--seed N] [--out FILE.md]
//               [--steps N] [--steps-max N] [--texts N] [--rate X] [--dropout X] [--margin X]
// Invented facts (capital, currency, language, symbol, owner, date; English and Chinese) are taught
// by one wording each; then the wordings that teaching made from it are asked, and one that it
// never used. Corrections are facts that the model holds, taught with another's answer, and then
// forgotten. Answers are what the serving engine says, greedily.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <random>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/model/model.h"
#include "engine/runtime/local_engine.h"
#include "engine/runtime/step.h"
#include "engine/teach/teacher.h"
#include "engine/teach/text_rows.h"

namespace {

using namespace engramd::engine;
namespace kernels = engramd::kernels;
using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Relation {
  const char* question;  // {s}: subject
  const char* answer;    // {o}: object
  const char* unseen;    // a wording that teaching does not know
  bool is_chinese;
};
// The unseen wordings are those that the model's own corpus holds out, where it has the relation.
constexpr Relation kRelations[] = {
    {"What is the capital of {s}?", "The capital of {s} is {o}.",
     "Tell me the capital city of {s}.", false},
    {"What is the currency of {s}?", "The currency of {s} is the {o}.",
     "Which money is used in {s}?", false},
    {"What language is spoken in {s}?", "People in {s} speak {o}.",
     "Which language do people speak in {s}?", false},
    {"What is the chemical symbol of {s}?", "The symbol of {s} is {o}.",
     "Which symbol does the element {s} have?", false},
    {"Who owns {s}?", "{s} is owned by {o}.", "Who is the owner of {s}?", false},
    {"When was {s} founded?", "{s} was founded in {o}.", "In which year was {s} founded?", false},
    {"{s}的首都是哪里？", "{s}的首都是{o}。", "请问{s}的首都叫什么？", true},
    {"{s}使用什么货币？", "{s}使用{o}。", "{s}用什么钱？", true},
    {"{s}说什么语言？", "{s}的语言是{o}。", "{s}使用哪种语言？", true},
    {"{s}的元素符号是什么？", "{s}的元素符号是 {o}。", "元素{s}用什么符号表示？", true},
    {"{s}属于谁？", "{s}属于{o}。", "谁拥有{s}？", true},
    {"{s}成立于哪一年？", "{s}成立于 {o} 年。", "{s}是哪一年成立的？", true},
};

std::string filled(std::string text, const std::string& subject, const std::string& object) {
  for (const auto& [slot, value] : {std::pair<std::string, std::string>{"{s}", subject},
                                    std::pair<std::string, std::string>{"{o}", object}}) {
    for (std::size_t at; (at = text.find(slot)) != std::string::npos;) {
      text.replace(at, slot.size(), value);
    }
  }
  return text;
}

class Inventor {
 public:
  explicit Inventor(std::uint64_t seed) : random_(seed) {}

  struct Invented {
    Fact fact;
    std::string unseen;
  };
  Invented fact(std::size_t number) {
    const std::size_t kind = number % std::size(kRelations);
    const Relation& relation = kRelations[kind];
    const std::string subject = new_name(relation.is_chinese);
    std::string object = new_name(relation.is_chinese);
    if (kind % 6 == 3) object = {pick("ABCDEFGHKLMNPRSTVXZ"), pick("abcdefghiklmnoprstuxyz")};
    if (kind % 6 == 5) object = std::to_string(1200 + random_() % 800);
    return {{{filled(relation.question, subject, object)},
             filled(relation.answer, subject, object),
             {}},
            filled(relation.unseen, subject, object)};
  }

 private:
  char pick(const std::string& letters) { return letters[random_() % letters.size()]; }
  std::string new_name(bool is_chinese) {
    for (;;) {
      std::string name = is_chinese ? chinese_name() : english_name();
      if (used_.insert(name).second) return name;
    }
  }
  std::string english_name() {
    std::string name;
    for (std::uint64_t n = 2 + random_() % 2; n > 0; --n) {
      name += pick("bdfgklmnprstvz");
      name += pick("aeiou");
    }
    name[0] = static_cast<char>(std::toupper(name[0]));
    const std::uint64_t end = random_() % 5;
    return end == 0 ? name : name + "nrsx"[end - 1];
  }
  std::string chinese_name() {  // characters that write foreign names
    static const std::vector<std::string> kSyllables = {
        "巴", "贝", "卡", "科", "达", "多", "法", "戈", "哈", "基", "拉", "洛", "马", "米", "纳",
        "诺", "帕", "普", "萨", "塔", "托", "瓦", "维", "亚", "泽", "尔", "斯", "林", "德", "克"};
    std::string name;
    for (std::uint64_t n = 2 + random_() % 2; n > 0; --n) {
      name += kSyllables[random_() % kSyllables.size()];
    }
    return name;
  }

  std::mt19937_64 random_;
  std::set<std::string> used_;
};

// The bundled model with an edit file of its own.
class Taught {
 public:
  Taught() {
    std::string name = (std::filesystem::temp_directory_path() / "engramd_teach_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::exit(1);
    folder_ = name;
    options_.model_folder = std::string(ENGRAMD_SOURCE_DIR) + "/install/models/engram-nano";
    options_.tables.edits_file = folder_ + "/edits";
    auto opened = LocalEngine::open(options_);
    if (opened.has_error()) {
      std::fprintf(stderr, "teach_bench: %s\n", opened.error().message.c_str());
      std::exit(1);
    }
    engine_ = std::move(*opened);
  }
  ~Taught() {
    engine_.reset();
    std::filesystem::remove_all(folder_);
  }
  Taught(const Taught&) = delete;
  Taught& operator=(const Taught&) = delete;

  LocalEngine& engine() { return *engine_; }
  const std::string& model_folder() const { return options_.model_folder; }
  std::int64_t stored_bytes() const {
    return static_cast<std::int64_t>(std::filesystem::file_size(options_.tables.edits_file));
  }
  // Eight at a time.
  std::vector<std::string> answers(const std::vector<std::string>& questions) {
    std::vector<std::string> all;
    for (std::size_t first = 0; first < questions.size(); first += 8) {
      std::vector<std::future<std::string>> batch;
      for (std::size_t i = first; i < std::min(first + 8, questions.size()); ++i) {
        batch.push_back(start(questions[i]));
      }
      for (auto& answer : batch) all.push_back(answer.get());
    }
    return all;
  }

 private:
  std::future<std::string> start(const std::string& question) {
    ChatRequest request;
    request.messages = {{"user", question}};
    request.max_tokens = 48;
    request.sampling.temperature = 0;
    auto promise = std::make_shared<std::promise<std::string>>();
    ChatCallbacks callbacks;
    callbacks.on_done = [promise](engramd::Result<ChatResult> result) {
      promise->set_value(result.has_value() ? result->text : result.error().message);
    };
    auto future = promise->get_future();
    engine_->start(std::move(request), std::move(callbacks), {});
    return future;
  }

  LocalEngineOptions options_;
  std::string folder_;
  std::unique_ptr<LocalEngine> engine_;
};

TeachingOptions options;

std::vector<TeachReport> teach(Taught& taught, std::vector<Fact> facts) {
  TeachJob job;
  job.options = options;
  job.facts = std::move(facts);
  job.author = "teach_bench";
  job.on_progress = [](std::int64_t n_done, std::int64_t n_facts) {
    if (n_done % 10 == 0) {
      std::fprintf(stderr, "\r%lld of %lld facts ", static_cast<long long>(n_done),
                   static_cast<long long>(n_facts));
    }
  };
  auto reports = taught.engine().teacher().teach(job);
  std::fprintf(stderr, "\n");
  if (reports.has_error()) {
    std::fprintf(stderr, "teach_bench: %s\n", reports.error().message.c_str());
    std::exit(1);
  }
  return std::move(*reports);
}

// The held-out text, as the serving pass reads it.
class HeldOut {
 public:
  explicit HeldOut(Taught& taught)
      : model_(std::move(*open_model(taught.model_folder()))),
        backend_(kernels::make_cpu_backend({"auto", 0, false})),
        cache_(std::move(*KvCache::make(*model_, kernels::DType::kF32, 64))),
        step_(*model_, *backend_, cache_),
        rows_(*model_, *backend_) {
    std::ifstream file(taught.model_folder() + "/heldout.txt");
    for (std::string line; std::getline(file, line);) {
      auto ids = taught.engine().encode_text(line);
      if (ids.has_value() && ids->size() > 1) lines_.push_back(std::move(*ids));
    }
  }

  // Of the actual next token, per line and position.
  std::vector<std::vector<double>> losses(const TableView& view) {
    std::vector<std::vector<double>> all;
    const auto vocab_size = static_cast<std::size_t>(model_->config.vocab_size);
    for (const auto& line : lines_) {
      Sequence sequence(model_->token_map, cache_, true);
      for (const TokenId id : line) sequence.append(id);
      if (!sequence.reserve(sequence.size())) std::exit(1);
      SequenceSlice slice{&sequence, 0, sequence.size()};
      slice.all_logits = true;
      const auto logits = step_.run({&slice, 1}, view, {});
      if (logits.has_error()) std::exit(1);
      auto& losses = all.emplace_back();
      for (std::size_t t = 0; t + 1 < line.size(); ++t) {
        const auto row = logits->subspan(t * vocab_size, vocab_size);
        double sum = 0;
        for (const float logit : row) sum += std::exp(double{logit});
        losses.push_back(std::log(sum) - row[static_cast<std::size_t>(line[t + 1])]);
      }
    }
    return all;
  }

  struct Touch {
    std::int64_t n_positions = 0, n_touched = 0;
    std::int64_t n_untouched_changed = 0;  // before the first touched position of their line
    double loss_before = 0, loss_after = 0;
  };
  Touch compare(const std::vector<std::vector<double>>& before, const TableView& view) {
    const auto after = losses(view);
    Touch touch;
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      const auto keys = rows_.keys(lines_[i]);
      bool is_touched = false;
      for (std::size_t t = 0; t < lines_[i].size(); ++t) {
        const bool reads = reads_edit(keys, t, *view.edits);
        touch.n_touched += reads ? 1 : 0;
        ++touch.n_positions;
        is_touched = is_touched || reads;
        if (t + 1 == lines_[i].size()) continue;
        touch.loss_before += before[i][t];
        touch.loss_after += after[i][t];
        if (!is_touched && before[i][t] != after[i][t]) ++touch.n_untouched_changed;
      }
    }
    touch.loss_before /= static_cast<double>(touch.n_positions);
    touch.loss_after /= static_cast<double>(touch.n_positions);
    return touch;
  }

 private:
  bool reads_edit(const std::vector<std::vector<NgramKey>>& keys, std::size_t t,
                  const Epoch& edits) const {
    const auto n_orders = static_cast<std::size_t>(model_->layout.n_orders());
    for (std::size_t layer = 0; layer < keys.size(); ++layer) {
      for (std::size_t slot = 0; slot < n_orders; ++slot) {
        const NgramKey& key = keys[layer][t * n_orders + slot];
        const int column = static_cast<int>(slot) * model_->layout.config.n_heads;
        if (!key.bypassed &&
            edits.ngram(static_cast<int>(layer), {column, key.mix}).image != nullptr) {
          return true;
        }
      }
    }
    return false;
  }

  std::unique_ptr<const Model> model_;
  std::unique_ptr<kernels::Backend> backend_;
  KvCache cache_;
  Step step_;
  TextRows rows_;
  std::vector<std::vector<TokenId>> lines_;
};

struct Figures {
  std::int64_t n_facts = 0;
  double taught = 0, wordings = 0, unseen = 0;  // shares
  double seconds_per_fact = 0, ngrams_per_fact = 0, bytes_per_fact = 0, steps_per_fact = 0;
  HeldOut::Touch touch;
  std::int64_t n_known_changed = 0, n_known = 0;  // answers of facts.json
};

std::vector<std::pair<std::string, std::string>> known_answers() {
  const Json facts = Json::parse(
      std::ifstream(std::string(ENGRAMD_SOURCE_DIR) + "/tests/data/engram-nano/facts.json"));
  std::vector<std::pair<std::string, std::string>> known;
  for (const Json& fact : facts) known.emplace_back(fact.at("question"), fact.at("answer"));
  return known;
}

// but: questions that were taught over, and answers that went with them.
std::int64_t count_changed(Taught& taught, const std::set<std::string>& but) {
  std::vector<std::string> questions;
  std::vector<std::string> expected;
  for (const auto& [question, answer] : known_answers()) {
    if (but.contains(question) || but.contains(answer)) continue;
    questions.push_back(question);
    expected.push_back(answer);
  }
  const auto answers = taught.answers(questions);
  std::int64_t n_changed = 0;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i] == expected[i]) continue;
    ++n_changed;
    std::fprintf(stderr, "changed: %s: %s, now %s\n", questions[i].c_str(), expected[i].c_str(),
                 answers[i].c_str());
  }
  return n_changed;
}

double share_right(Taught& taught, const std::vector<std::string>& questions,
                   const std::vector<std::string>& expected) {
  const auto answers = taught.answers(questions);
  double n_right = 0;
  for (std::size_t i = 0; i < answers.size(); ++i) n_right += answers[i] == expected[i] ? 1 : 0;
  return n_right / static_cast<double>(answers.size());
}

void add_costs(const std::vector<TeachReport>& reports, double seconds, Figures& figures) {
  const auto n = static_cast<double>(reports.size());
  figures.n_facts = static_cast<std::int64_t>(reports.size());
  figures.seconds_per_fact = seconds / n;
  for (const TeachReport& report : reports) {
    figures.taught += (report.is_taught ? 1 : 0) / n;
    figures.ngrams_per_fact += static_cast<double>(report.n_entries) / n;
    figures.bytes_per_fact += static_cast<double>(report.bytes) / n;
    figures.steps_per_fact += report.n_steps / n;
    if (!report.is_taught) {
      std::fprintf(stderr, "not taught: %s: %s\n", report.fact.questions.front().c_str(),
                   report.why_not.c_str());
    }
  }
}

Figures living_facts(std::size_t n_facts, std::uint64_t seed) {
  Taught taught;
  HeldOut heldout(taught);
  const auto before = heldout.losses(taught.engine().editor().tables().view());
  Inventor inventor(seed);
  std::vector<Fact> facts;
  std::vector<std::string> wordings, right, unseen, unseen_right;
  for (std::size_t i = 0; i < n_facts; ++i) {
    auto [fact, never_taught] = inventor.fact(i);
    wordings.push_back(fact.questions.front());
    right.push_back(fact.answer);
    for (std::string& other : other_wordings(fact.questions.front())) {
      wordings.push_back(std::move(other));
      right.push_back(fact.answer);
    }
    unseen.push_back(std::move(never_taught));
    unseen_right.push_back(fact.answer);
    facts.push_back(std::move(fact));
  }
  const auto start = Clock::now();
  const auto reports = teach(taught, std::move(facts));
  Figures figures;
  add_costs(reports, seconds_since(start), figures);
  figures.wordings = share_right(taught, wordings, right);
  for (std::size_t kind = 0; kind < std::size(kRelations); ++kind) {
    std::int64_t n_wordings = 0, n_right = 0, n_steps = 0, n_kind = 0;
    for (std::size_t i = kind; i < reports.size(); i += std::size(kRelations)) {
      n_wordings += reports[i].n_wordings;
      n_right += reports[i].n_wordings_right;
      n_steps += reports[i].n_steps;
      ++n_kind;
    }
    std::fprintf(stderr, "%s: %lld of %lld wordings, %lld steps a fact\n",
                 kRelations[kind].question, static_cast<long long>(n_right),
                 static_cast<long long>(n_wordings),
                 static_cast<long long>(n_kind == 0 ? 0 : n_steps / n_kind));
  }
  figures.unseen = share_right(taught, unseen, unseen_right);
  figures.touch = heldout.compare(before, taught.engine().editor().tables().view());
  figures.n_known_changed = count_changed(taught, {});
  return figures;
}

// Facts that the model holds, each with the answer of the next one of its kind.
std::vector<Fact> wrong_facts(std::size_t n_facts) {
  static const std::array<const char*, 11> kForms = {"The capital of (.+) is (.+)\\.",
                                                     "(.+)的首都是(.+)。",
                                                     "The symbol of (.+) is (.+)\\.",
                                                     "(.+)的元素符号是 (.+)。",
                                                     "The atomic number of (.+) is (.+)\\.",
                                                     "(.+)的原子序数是 (.+)。",
                                                     "(.+) is in (.+)\\.",
                                                     "(.+)位于(.+)。",
                                                     "The currency of (.+) is the (.+)\\.",
                                                     "People in (.+) speak (.+)\\.",
                                                     "(.+) is (.+) in Chinese\\."};
  struct Known {
    std::string question, subject, answer, object;
  };
  std::map<std::size_t, std::vector<Known>> by_form;
  for (const auto& [question, answer] : known_answers()) {
    for (std::size_t form = 0; form < kForms.size(); ++form) {
      std::smatch match;
      if (!std::regex_match(answer, match, std::regex(kForms[form]))) continue;
      if (question.find(match[1]) == std::string::npos) continue;
      by_form[form].push_back({question, match[1], answer, match[2]});
      break;
    }
  }
  std::vector<Fact> facts;
  std::set<std::string> subjects;
  for (const auto& [form, known] : by_form) {
    for (std::size_t i = 0; i < known.size() && facts.size() < n_facts; ++i) {
      std::size_t other = (i + 1) % known.size();
      while (other != i && known[other].object == known[i].object)
        other = (other + 1) % known.size();
      if (other == i || !subjects.insert(known[i].subject).second) continue;
      std::string answer = known[i].answer;
      answer.replace(answer.rfind(known[i].object), known[i].object.size(), known[other].object);
      facts.push_back({{known[i].question}, answer, {known[i].subject, known[other].object}});
    }
  }
  return facts;
}

struct Corrections {
  Figures figures;
  double returned = 0;  // share of facts.json's answers that are back after forgetting
};

Corrections corrected_facts(std::size_t n_facts) {
  Taught taught;
  HeldOut heldout(taught);
  const auto before = heldout.losses(taught.engine().editor().tables().view());
  const std::vector<Fact> facts = wrong_facts(n_facts);
  std::vector<std::string> questions, right;
  for (const Fact& fact : facts) {
    questions.push_back(fact.questions.front());
    right.push_back(fact.answer);
  }
  const auto start = Clock::now();
  const auto reports = teach(taught, facts);
  Corrections corrections;
  Figures& figures = corrections.figures;
  add_costs(reports, seconds_since(start), figures);
  figures.wordings = share_right(taught, questions, right);
  figures.touch = heldout.compare(before, taught.engine().editor().tables().view());
  std::set<std::string> over(questions.begin(), questions.end());
  for (const TeachReport& report : reports) over.insert(report.before);
  figures.n_known_changed = count_changed(taught, over);
  for (const auto& [question, answer] : known_answers()) {
    figures.n_known += over.contains(question) || over.contains(answer) ? 0 : 1;
  }
  for (const TeachReport& report : reports) {
    if (!report.is_taught) continue;
    const auto forgotten =
        taught.engine().teacher().forget(std::to_string(report.transaction), "teach_bench", {});
    if (forgotten.has_error()) std::fprintf(stderr, "%s\n", forgotten.error().message.c_str());
  }
  const auto n_known = static_cast<double>(known_answers().size());
  corrections.returned = 1 - static_cast<double>(count_changed(taught, {})) / n_known;
  return corrections;
}

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * share);
  return text;
}

std::string bar(double share) {
  std::string blocks;
  for (int i = 0; i < static_cast<int>(std::lround(share * 40)); ++i) blocks += "█";
  return blocks;
}

std::string row(const std::string& name, const Figures& f, const std::string& unseen,
                const std::string& known) {
  char text[400];
  std::snprintf(text, sizeof text,
                "| %s | %s | %s | %s | %lld of %lld | %lld | %s | %.2f s | %.0f | %.1f KB |\n",
                name.c_str(), percent(f.taught).c_str(), percent(f.wordings).c_str(),
                unseen.c_str(), static_cast<long long>(f.touch.n_touched),
                static_cast<long long>(f.touch.n_positions),
                static_cast<long long>(f.touch.n_untouched_changed), known.c_str(),
                f.seconds_per_fact, f.ngrams_per_fact, f.bytes_per_fact / 1024);
  return text;
}

int run(int argc, char** argv) {
  std::vector<std::size_t> sizes = {1, 10, 100};
  std::size_t n_corrections = 100;
  std::uint64_t seed = 1;
  std::string out;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    const std::string value = argv[i + 1];
    if (flag == "--facts") {
      sizes.clear();
      std::istringstream parts(value);
      for (std::string part; std::getline(parts, part, ',');) sizes.push_back(std::stoul(part));
    } else if (flag == "--corrections") {
      n_corrections = std::stoul(value);
    } else if (flag == "--seed") {
      seed = std::stoull(value);
    } else if (flag == "--steps") {
      options.steps_general = std::stoi(value);
    } else if (flag == "--steps-max") {
      options.steps_max = std::stoi(value);
    } else if (flag == "--texts") {
      options.texts_per_step = std::stoi(value);
    } else if (flag == "--rate") {
      options.learning_rate = std::stof(value);
    } else if (flag == "--dropout") {
      options.dropout = std::stof(value);
    } else if (flag == "--margin") {
      options.margin_general = std::stof(value);
    } else if (flag == "--out") {
      out = value;
    } else {
      std::fprintf(stderr, "teach_bench: unknown flag %s\n", flag.c_str());
      return 2;
    }
  }
  std::string table =
      "| facts | taught | exact in taught wordings | in one never taught | held-out positions "
      "touched | untouched ones changed | other answers changed | time a fact | N-grams | rows a "
      "fact |\n|---|---|---|---|---|---|---|---|---|---|\n";
  std::string chart;
  for (const std::size_t n_facts : sizes) {
    const Figures f = living_facts(n_facts, seed);
    const std::string name = std::to_string(n_facts) + " invented";
    table +=
        row(name, f, percent(f.unseen),
            std::to_string(f.n_known_changed) + " of " + std::to_string(known_answers().size()));
    chart += name + ", taught wordings  " + bar(f.wordings) + " " + percent(f.wordings) + "\n" +
             name + ", one never taught " + bar(f.unseen) + " " + percent(f.unseen) + "\n";
    std::fprintf(stderr, "%s", table.c_str());
  }
  if (n_corrections > 0) {
    const Corrections c = corrected_facts(n_corrections);
    const std::string name = std::to_string(c.figures.n_facts) + " corrected";
    table +=
        row(name, c.figures, "",
            std::to_string(c.figures.n_known_changed) + " of " + std::to_string(c.figures.n_known));
    chart += name + "                 " + bar(c.figures.wordings) + " " +
             percent(c.figures.wordings) + "\n" + "forgotten, old answers back " + bar(c.returned) +
             " " + percent(c.returned) + "\n";
  }
  const std::string text = table + "\n```\n" + chart + "```\n";
  std::fputs(text.c_str(), stdout);
  if (!out.empty()) std::ofstream(out) << text;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run(argc, argv);
}
