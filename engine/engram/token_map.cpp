#include "engine/engram/token_map.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>

#include <utf8proc.h>

#include "config/assert.h"
#include "engine/engram/addresser.h"
#include "engine/engram/sha256.h"

namespace engramd::engine {
namespace {

constexpr char32_t kReplacementCharacter = 0xFFFD;
// The rule protects a lone blank from stripping as U+E000, so that one in the input reads as blank.
constexpr char32_t kBlankSentinel = 0xE000;

std::optional<std::u32string> decode_utf8(std::string_view text) {
  std::u32string code_points;
  const auto* next = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  auto left = static_cast<utf8proc_ssize_t>(text.size());
  while (left > 0) {
    utf8proc_int32_t code_point = *next;
    const utf8proc_ssize_t n = *next < 0x80 ? 1 : utf8proc_iterate(next, left, &code_point);
    if (n <= 0) return std::nullopt;
    code_points.push_back(static_cast<char32_t>(code_point));
    next += n;
    left -= n;
  }
  return code_points;
}

std::string encode_utf8(std::u32string_view code_points) {
  std::string text;
  std::array<utf8proc_uint8_t, 4> bytes;
  for (const char32_t c : code_points) {
    const auto n = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), bytes.data());
    text.append(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(n));
  }
  return text;
}

// One code point through NFKC, NFD, mark removal and lowercase. Marks are the only code points that
// canonical order could move, so code points can be treated one by one.
void append_folded(char32_t c, std::u32string& folded) {
  if (c < 0x80) {
    folded.push_back(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
    return;
  }
  std::array<utf8proc_int32_t, 32> parts;  // the longest decomposition has 18 (U+FDFA)
  int boundary = 0;
  const utf8proc_ssize_t n = utf8proc_decompose_char(
      static_cast<utf8proc_int32_t>(c), parts.data(), parts.size(),
      static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT), &boundary);
  ENGRAMD_ASSERT(n >= 0 && n <= static_cast<utf8proc_ssize_t>(parts.size()));
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
    const utf8proc_category_t category = utf8proc_category(parts[i]);
    if (category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
        category == UTF8PROC_CATEGORY_ME) {
      continue;
    }
    folded.push_back(static_cast<char32_t>(utf8proc_tolower(parts[i])));
  }
}

bool is_white_space(char32_t c) {  // Unicode White_Space; U+001C..1F are not
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return c == 0x85 || category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

std::u32string collapse_blanks(std::u32string_view text) {
  std::u32string collapsed;
  bool in_run = false;
  for (const char32_t c : text) {
    const bool blank = c == ' ' || c == '\t' || c == '\r' || c == '\n';
    if (!blank) collapsed.push_back(c);
    if (blank && !in_run) collapsed.push_back(' ');
    in_run = blank;
  }
  return collapsed;
}

std::u32string normalize(std::u32string_view text) {
  std::u32string folded;
  for (const char32_t c : text) append_folded(c, folded);
  std::u32string collapsed = collapse_blanks(folded);
  if (collapsed == U" ") return collapsed;
  const auto begin = std::find_if_not(collapsed.begin(), collapsed.end(), is_white_space);
  const auto end =
      std::find_if_not(collapsed.rbegin(), std::make_reverse_iterator(begin), is_white_space)
          .base();
  std::u32string stripped(begin, end);
  std::replace(stripped.begin(), stripped.end(), kBlankSentinel, U' ');
  return stripped;
}

// The string that decides a token's class.
std::string compression_key(const Tokenizer& tokenizer, TokenId id) {
  const std::string_view bytes = tokenizer.token_bytes(id);
  const std::optional<std::u32string> text = decode_utf8(bytes);
  if (!text || text->find(kReplacementCharacter) != std::u32string::npos) {
    return std::string(tokenizer.raw_token(id));  // byte fragments stay distinct
  }
  std::string normalized = encode_utf8(normalize(*text));
  return normalized.empty() ? std::string(bytes) : normalized;
}

}  // namespace

std::string normalize_for_engram(std::string_view text) {
  const std::optional<std::u32string> code_points = decode_utf8(text);
  ENGRAMD_ASSERT(code_points.has_value());
  return encode_utf8(normalize(*code_points));
}

TokenMap build_token_map(const Tokenizer& tokenizer, std::int64_t compressed_ids) {
  TokenMap map;
  const auto vocab_size = static_cast<std::size_t>(tokenizer.vocab_size());
  map.classes.reserve(vocab_size);
  std::unordered_map<std::string, std::int32_t> class_of_key;
  class_of_key.reserve(vocab_size);
  for (std::size_t id = 0; id < vocab_size; ++id) {
    if (static_cast<std::int64_t>(id) >= compressed_ids) {
      map.classes.push_back(static_cast<std::int32_t>(id));
      continue;
    }
    const auto next = static_cast<std::int32_t>(class_of_key.size());
    std::string key = compression_key(tokenizer, static_cast<TokenId>(id));
    map.classes.push_back(class_of_key.try_emplace(std::move(key), next).first->second);
  }
  map.n_classes = static_cast<std::int64_t>(class_of_key.size());
  return map;
}

Result<TokenMap> token_map_from_tensor(const std::int32_t* classes, std::int64_t vocab_size,
                                       std::int64_t n_classes) {
  ENGRAMD_ASSERT(vocab_size >= 0);
  TokenMap map{{classes, classes + vocab_size}, n_classes};
  for (std::size_t id = 0; id < map.classes.size(); ++id) {
    if (map.classes[id] >= 0 && map.classes[id] < n_classes) continue;
    return invalid_argument("Engram token map: expected classes 0 .. " +
                            std::to_string(n_classes - 1) + ", got " +
                            std::to_string(map.classes[id]) + " for token " + std::to_string(id));
  }
  return map;
}

TokenMap identity_token_map(std::int64_t vocab_size) {
  TokenMap map{std::vector<std::int32_t>(static_cast<std::size_t>(vocab_size)), vocab_size};
  std::iota(map.classes.begin(), map.classes.end(), 0);
  return map;
}

Result<std::vector<std::int32_t>> compress_tokens(const TokenMap& map, std::span<const TokenId> ids,
                                                  std::int64_t dead_token_id) {
  std::vector<std::int32_t> classes;
  classes.reserve(ids.size());
  for (const TokenId id : ids) {
    if (id < 0 || static_cast<std::size_t>(id) >= map.classes.size()) {
      return invalid_argument("token id: expected 0 .. " + std::to_string(map.classes.size() - 1) +
                              ", got " + std::to_string(id));
    }
    classes.push_back(id == dead_token_id ? kDeadClass : map.classes[static_cast<std::size_t>(id)]);
  }
  return classes;
}

std::string sha256_hex(const TokenMap& map) {
  std::string bytes;
  bytes.reserve(map.classes.size() * sizeof(std::int32_t));
  for (const std::int32_t value : map.classes) {
    for (int shift = 0; shift < 32; shift += 8) {
      bytes += static_cast<char>(static_cast<std::uint32_t>(value) >> shift);
    }
  }
  return sha256_hex(bytes);
}

}  // namespace engramd::engine
