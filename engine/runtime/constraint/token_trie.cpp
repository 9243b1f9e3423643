#include "engine/runtime/constraint/token_trie.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace engramd::engine {
namespace {

struct Entry {
  std::string_view bytes;
  TokenId id;
};

// In the order of a walk: prefixes before what they begin.
std::vector<Entry> sorted_tokens(const Tokenizer& tokenizer) {
  std::vector<Entry> entries;
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string_view bytes = tokenizer.token_bytes(id);
    if (!bytes.empty() && !tokenizer.is_special(id)) entries.push_back({bytes, id});
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.id < b.id;
  });
  return entries;
}

Result<void> check_single_bytes(const std::vector<Entry>& entries) {
  std::array<bool, 256> present{};
  for (const Entry& entry : entries) {
    if (entry.bytes.size() == 1) present[static_cast<std::uint8_t>(entry.bytes[0])] = true;
  }
  for (int byte = 0x20; byte <= 0xF4; ++byte) {
    const bool needed = byte != 0x7F && byte != 0xC0 && byte != 0xC1;
    if (needed && !present[static_cast<std::size_t>(byte)]) {
      return unavailable(
          "this model cannot be held to a format: its vocabulary has no token for "
          "the single byte " +
          std::to_string(byte));
    }
  }
  return {};
}

}  // namespace

bool TokenSet::empty() const {
  return std::all_of(words_.begin(), words_.end(), [](std::uint64_t word) { return word == 0; });
}

Result<std::shared_ptr<TokenTrie>> TokenTrie::build(const Tokenizer& tokenizer) {
  const std::vector<Entry> entries = sorted_tokens(tokenizer);
  if (auto complete = check_single_bytes(entries); complete.has_error()) return complete.error();
  std::shared_ptr<TokenTrie> trie(new TokenTrie(tokenizer));
  std::vector<Node>& nodes = trie->nodes_;
  std::vector<std::int32_t> path;  // nodes of the latest token's bytes
  std::string_view latest;
  const auto close_to = [&](std::size_t depth) {
    while (path.size() > depth) {
      Node& node = nodes[static_cast<std::size_t>(path.back())];
      node.end = static_cast<std::int32_t>(nodes.size());
      path.pop_back();
      if (node.quote_below && !path.empty()) {
        nodes[static_cast<std::size_t>(path.back())].quote_below = true;
      }
    }
  };
  for (const auto& [bytes, id] : entries) {
    const auto split = std::mismatch(bytes.begin(), bytes.end(), latest.begin(), latest.end());
    close_to(static_cast<std::size_t>(split.first - bytes.begin()));
    for (std::size_t i = path.size(); i < bytes.size(); ++i) {
      path.push_back(static_cast<std::int32_t>(nodes.size()));
      Node& node = nodes.emplace_back();
      node.byte = static_cast<std::uint8_t>(bytes[i]);
      node.quote_below = bytes[i] == '"';
      node.ids_begin = node.ids_end = static_cast<std::int32_t>(trie->ids_.size());
    }
    trie->ids_.push_back(id);
    nodes[static_cast<std::size_t>(path.back())].ids_end =
        static_cast<std::int32_t>(trie->ids_.size());
    trie->token_bytes_max_ =
        std::max(trie->token_bytes_max_, static_cast<std::int64_t>(bytes.size()));
    latest = bytes;
  }
  close_to(0);
  return trie;
}

const TokenSet& TokenTrie::inside_string(StringScan scan, std::int64_t characters_max) {
  // No token has more characters than bytes: beyond that the limit means nothing.
  const std::int64_t limit = std::min(characters_max, token_bytes_max_);
  const auto key = std::pair(scan.place(), limit);
  const auto known = inside_string_.find(key);
  if (known != inside_string_.end()) return known->second;
  TokenSet tokens(vocab_size());
  collect_inside(0, static_cast<std::int32_t>(nodes_.size()), scan, limit, tokens);
  return inside_string_.emplace(key, std::move(tokens)).first->second;
}

void TokenTrie::collect_inside(std::int32_t begin, std::int32_t end, StringScan scan,
                               std::int64_t characters_max, TokenSet& tokens) const {
  for (std::int32_t i = begin; i < end;) {
    const Node& node = nodes_[static_cast<std::size_t>(i)];
    StringScan next = scan;
    const StringScan::Step step = next.push(node.byte);
    const std::int64_t left = characters_max - (step == StringScan::Step::kBegins ? 1 : 0);
    const bool inside = step == StringScan::Step::kBegins || step == StringScan::Step::kInside;
    if (inside && left >= 0) {
      for (std::int32_t id = node.ids_begin; id < node.ids_end; ++id) {
        tokens.add(ids_[static_cast<std::size_t>(id)]);
      }
      collect_inside(i + 1, node.end, next, left, tokens);
    }
    i = node.end;
  }
}

}  // namespace engramd::engine
