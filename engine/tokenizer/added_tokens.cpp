#include "engine/tokenizer/added_tokens.h"

#include <algorithm>

namespace engramd::engine {

AddedTokenMatcher::AddedTokenMatcher(std::vector<Entry> entries) : entries_(std::move(entries)) {
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return a.text < b.text; });
  for (const Entry& entry : entries_) {
    is_first_byte_[static_cast<unsigned char>(entry.text[0])] = true;
  }
}

// Narrows the sorted entries byte by byte to those that begin like `text`.
const AddedTokenMatcher::Entry* AddedTokenMatcher::longest_at(std::string_view text) const {
  const Entry* longest = nullptr;
  auto begin = entries_.begin();
  auto end = entries_.end();
  for (std::size_t depth = 0; depth < text.size(); ++depth) {
    const auto byte_at_depth = [depth](const Entry& entry) {
      return depth < entry.text.size() ? static_cast<unsigned char>(entry.text[depth]) : -1;
    };
    const int wanted = static_cast<unsigned char>(text[depth]);
    begin =
        std::partition_point(begin, end, [&](const Entry& e) { return byte_at_depth(e) < wanted; });
    end = std::partition_point(begin, end,
                               [&](const Entry& e) { return byte_at_depth(e) <= wanted; });
    if (begin == end) break;
    if (begin->text.size() == depth + 1) longest = &*begin;
  }
  return longest;
}

std::size_t AddedTokenMatcher::length_at(std::string_view text) const {
  if (text.empty() || !is_first_byte_[static_cast<unsigned char>(text[0])]) return 0;
  const Entry* entry = longest_at(text);
  return entry == nullptr ? 0 : entry->text.size();
}

void AddedTokenMatcher::split(std::string_view text, std::vector<Part>& parts) const {
  std::size_t begin = 0;  // of the text that no part covers yet
  for (std::size_t position = 0; position < text.size();) {
    const bool may_start = is_first_byte_[static_cast<unsigned char>(text[position])];
    const Entry* entry = may_start ? longest_at(text.substr(position)) : nullptr;
    if (!entry) {
      ++position;
      continue;
    }
    if (position > begin) parts.push_back({text.substr(begin, position - begin), -1});
    parts.push_back({text.substr(position, entry->text.size()), entry->id});
    position += entry->text.size();
    begin = position;
  }
  if (begin < text.size()) parts.push_back({text.substr(begin), -1});
}

}  // namespace engramd::engine
