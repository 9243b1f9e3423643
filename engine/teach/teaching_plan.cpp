#include "engine/teach/teaching_plan.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace engramd::engine {

namespace {

template <class T>
void sort_unique(std::vector<T>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

bool share(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return std::any_of(a.begin(), a.end(), [&](const std::string& name) {
    return std::find(b.begin(), b.end(), name) != b.end();
  });
}

// A fact joins every group that has one of its subjects, and so joins them.
std::vector<PlannedGroup> by_subject(std::vector<PlannedFact> facts) {
  std::vector<PlannedGroup> groups;
  for (PlannedFact& fact : facts) {
    PlannedGroup joined;
    std::erase_if(groups, [&](PlannedGroup& group) {
      const bool is_home = std::any_of(
          group.facts.begin(), group.facts.end(),
          [&](const PlannedFact& other) { return share(other.subjects, fact.subjects); });
      if (is_home)
        std::move(group.facts.begin(), group.facts.end(), std::back_inserter(joined.facts));
      return is_home;
    });
    joined.facts.push_back(std::move(fact));
    groups.push_back(std::move(joined));
  }
  return groups;
}

}  // namespace

std::vector<TokenId> TaughtText::tokens() const {
  std::vector<TokenId> all = prompt;
  all.insert(all.end(), answer.begin(), answer.end() - 1);
  return all;
}

TeachingPlanner::TeachingPlanner(const Model& model, const Tokenizer& tokenizer,
                                 const PromptEncoder& prompts, const TextRows& rows,
                                 const TrainingNgrams& training)
    : model_(&model),
      tokenizer_(&tokenizer),
      prompts_(&prompts),
      rows_(&rows),
      training_(&training) {}

Result<TaughtText> TeachingPlanner::text(const std::string& wording,
                                         const std::string& answer) const {
  TaughtText text;
  text.wording = wording;
  auto prompt = prompts_->messages(*tokenizer_, {{"user", wording}});
  if (prompt.has_error()) return prompt.error();
  auto ids = tokenizer_->encode(answer, false);
  if (ids.has_error()) return ids.error();
  text.prompt = std::move(*prompt);
  text.answer = std::move(*ids);
  text.answer.push_back(static_cast<TokenId>(model_->config.eos_token_ids.front()));
  const auto n_tokens = static_cast<std::int64_t>(text.prompt.size() + text.answer.size());
  if (n_tokens > model_->config.max_position_embeddings) {
    return limit_exceeded("a question with its answer has " + std::to_string(n_tokens) +
                          " tokens, and the context is " +
                          std::to_string(model_->config.max_position_embeddings));
  }
  return text;
}

Result<PlannedFact> TeachingPlanner::plan(const Fact& fact) const {
  PlannedFact planned;
  planned.fact = fact;
  std::vector<std::string> objects;
  for (const std::string& question : fact.questions) {
    auto names = names_of(question, fact.answer, fact.names, *tokenizer_, *rows_, *training_);
    if (names.has_error()) return names.error();
    planned.subjects.insert(planned.subjects.end(), names->subjects.begin(), names->subjects.end());
    objects.insert(objects.end(), names->objects.begin(), names->objects.end());
  }
  sort_unique(planned.subjects);
  sort_unique(objects);
  planned.fact.names = planned.subjects;
  planned.fact.names.insert(planned.fact.names.end(), objects.begin(), objects.end());
  std::vector<std::string> wordings = fact.questions;
  for (const std::string& question : fact.questions) {
    for (std::string& other : other_wordings(question)) {
      if (std::find(wordings.begin(), wordings.end(), other) == wordings.end()) {
        wordings.push_back(std::move(other));
      }
    }
  }
  for (std::size_t i = 0; i < wordings.size(); ++i) {
    auto made = text(wordings[i], fact.answer);
    if (made.has_error()) return made.error();
    made->is_asked = i < fact.questions.size();
    planned.texts.push_back(std::move(*made));
  }
  return planned;
}

// marks [text's prompt and answer without its last token]: 1 where a token holds a part of a name.
void TeachingPlanner::mark(const TaughtText& text, const std::vector<std::string>& names,
                           std::vector<std::uint8_t>& marks) const {
  marks.assign(text.prompt.size() + text.answer.size() - 1, 0);
  const auto mark_part = [&](const std::string& words, std::size_t first) {
    const auto encoding = tokenizer_->encode_with_offsets(words, false);
    if (encoding.has_error()) return;
    for (const std::string& name : names) {
      for (std::size_t at = words.find(name); at != std::string::npos;
           at = words.find(name, at + 1)) {
        for (std::size_t t = 0; t < encoding->ids.size() && first + t < marks.size(); ++t) {
          const TokenOffset& offset = encoding->offsets[t];
          if (static_cast<std::size_t>(offset.begin) < at + name.size() &&
              static_cast<std::size_t>(offset.end) > at) {
            marks[first + t] = 1;
          }
        }
      }
    }
  };
  if (const auto ids = tokenizer_->encode(text.wording, false); ids.has_value()) {
    const auto found =
        std::search(text.prompt.begin(), text.prompt.end(), ids->begin(), ids->end());
    if (found != text.prompt.end()) {
      mark_part(text.wording, static_cast<std::size_t>(found - text.prompt.begin()));
    }
  }
  std::vector<TokenId> words(text.answer.begin(), text.answer.end() - 1);
  if (const auto answer = tokenizer_->decode(words); answer.has_value()) {
    mark_part(*answer, text.prompt.size());
  }
}

std::vector<TeachingPlanner::Candidate> TeachingPlanner::candidates(const PlannedFact& fact) const {
  std::vector<Candidate> found;
  std::vector<std::string> objects(
      fact.fact.names.begin() + static_cast<std::ptrdiff_t>(fact.subjects.size()),
      fact.fact.names.end());
  const auto n_orders = static_cast<std::size_t>(model_->layout.n_orders());
  std::vector<std::uint8_t> of_subject, of_object;
  for (const TaughtText& text : fact.texts) {
    mark(text, fact.subjects, of_subject);
    mark(text, objects, of_object);
    const auto keys = rows_->keys(text.tokens());
    for (std::size_t layer = 0; layer < keys.size(); ++layer) {
      for (std::size_t i = 0; i < keys[layer].size(); ++i) {
        const std::size_t t = i / n_orders;
        const std::size_t slot = i % n_orders;
        if (keys[layer][i].bypassed || t < slot + 1) continue;
        Candidate c;
        c.entry.ngram = {static_cast<std::int32_t>(layer), static_cast<std::int32_t>(slot),
                         keys[layer][i].mix};
        std::size_t n_own = 0;
        for (std::size_t j = t - slot - 1; j <= t; ++j) {
          c.of_subject = c.of_subject || of_subject[j] != 0;
          c.of_object = c.of_object || of_object[j] != 0;
          n_own += of_subject[j] != 0 || of_object[j] != 0 ? 1 : 0;
        }
        if (n_own == 0) continue;
        // "The answer begins with the first token of a longer name" would hold for other answers.
        const auto is_own = [&](std::size_t j) {
          return j < of_subject.size() && (of_subject[j] != 0 || of_object[j] != 0);
        };
        if (t >= text.prompt.size() && t - slot - 1 < text.prompt.size() && n_own == 1 &&
            is_own(t) && is_own(t + 1)) {
          continue;
        }
        c.in_answer = t - slot >= text.prompt.size();
        c.entry.is_core = c.in_answer || n_own == slot + 2;
        c.is_longest = slot + 1 == n_orders;
        c.is_new = !training_->holds(c.entry.ngram);
        found.push_back(c);
      }
    }
  }
  return found;
}

bool TeachingPlanner::is_written_by_others(const NgramEntry& entry, const Epoch& epoch,
                                           const std::vector<std::int64_t>& writers) const {
  if (!epoch.has_edits(entry.layer)) return false;
  const int n_heads = model_->layout.config.n_heads;
  for (int head = 0; head < n_heads; ++head) {
    const RowEdit edit = epoch.ngram(entry.layer, {entry.order_slot * n_heads + head, entry.mix});
    if (edit.image != nullptr &&
        std::find(writers.begin(), writers.end(), edit.transaction) == writers.end()) {
      return true;
    }
  }
  return false;
}

std::vector<PlannedGroup> TeachingPlanner::group(std::vector<PlannedFact> facts, const Epoch& epoch,
                                                 const std::vector<std::int64_t>& writers) const {
  std::vector<PlannedGroup> groups = by_subject(std::move(facts));
  std::map<NgramEntry, std::size_t> home_of;  // n_groups: several
  for (std::size_t g = 0; g < groups.size(); ++g) {
    PlannedGroup& group = groups[g];
    std::vector<Candidate> all;
    for (PlannedFact& fact : group.facts) {
      for (const Candidate& c : candidates(fact)) {
        fact.ngrams.push_back(c.entry.ngram);
        all.push_back(c);
      }
      sort_unique(fact.ngrams);
    }
    group.is_new_subject = std::any_of(all.begin(), all.end(), [](const Candidate& c) {
      return c.is_new && c.in_answer && c.of_subject && !c.of_object;
    });
    for (const Candidate& c : all) {
      const auto [place, is_first] = home_of.try_emplace(c.entry.ngram, g);
      if (!is_first && place->second != g) place->second = groups.size();
      const bool may_change =
          c.is_new || (!group.is_new_subject && c.is_longest && (c.of_subject || c.in_answer));
      if (may_change && !is_written_by_others(c.entry.ngram, epoch, writers)) {
        group.entries.push_back(c.entry);
      }
    }
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    auto& entries = groups[g].entries;
    sort_unique(entries);  // an N-gram that is core in one text follows itself
    std::vector<TaughtEntry> kept;
    for (const TaughtEntry& entry : entries) {
      if (home_of.at(entry.ngram) != g) continue;
      if (!kept.empty() && kept.back().ngram == entry.ngram) {
        kept.back().is_core = kept.back().is_core || entry.is_core;
      } else {
        kept.push_back(entry);
      }
    }
    entries = std::move(kept);
  }
  return groups;
}

}  // namespace engramd::engine
