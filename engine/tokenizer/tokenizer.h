// Tokenizer: text to token ids and back, from a Hugging Face tokenizer.json. The one header of this
// room that others include. Immutable after load: any thread may call any const member.
// Not here: chat templates (engine/runtime), token compression (engine/engram/token_map).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.h"

namespace engramd::engine {

using TokenId = std::int32_t;

struct TokenOffset {  // half-open range of bytes of the original text
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

class Tokenizer {
 public:
  // `json` is the text of a tokenizer.json. Errors name the first unsupported component or the
  // first inconsistent entry, with what was expected.
  static Result<Tokenizer> from_json(std::string_view json);
  static Result<Tokenizer> from_file(const std::string& path);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Special-token text inside `text` becomes the special id (as Hugging Face does by default);
  // `parse_special = false` reads it as plain text, for content that users typed: no added token is
  // recognised then, also not those that the file marks as not special (DeepSeek's "<｜User｜>").
  // Adds no beginning-of-sentence token. Invalid UTF-8 in `text` is an error.
  Result<std::vector<TokenId>> encode(std::string_view text, bool parse_special = true) const;
  // A token that begins or ends inside a character gets the whole character; white space is never
  // trimmed. For normalized text these are the offsets that Hugging Face's library gives.
  struct Encoding {
    std::vector<TokenId> ids;
    std::vector<TokenOffset> offsets;  // one per id
  };
  Result<Encoding> encode_with_offsets(std::string_view text, bool parse_special = true) const;

  // `text`, normalized, with `mark` behind the first character wherever an added token begins, so
  // that encode() finds none in the pieces between the marks: for what users wrote, inside a prompt
  // whose own special tokens count. Added tokens of one character, or of white space, stay whole.
  std::string break_added_tokens(std::string_view text, std::string_view mark) const;

  // Ids that a post-processor puts in front when special tokens are added (Llama 3.1: 128000).
  const std::vector<TokenId>& prefix_with_special() const;

  // Invalid bytes become U+FFFD, one per maximal part of an ill-formed sequence.
  // Ids outside the vocabulary are an error.
  Result<std::string> decode(const std::vector<TokenId>& ids, bool skip_special = false) const;

  std::int64_t vocab_size() const;  // greatest id + 1, added tokens included
  // The vocabulary's own spelling (byte alphabet for byte-level BPE); empty for a hole.
  std::string_view raw_token(TokenId id) const;
  // The bytes that a token contributes to decoded text.
  std::string_view token_bytes(TokenId id) const;
  bool is_special(TokenId id) const;
  std::optional<TokenId> token_to_id(std::string_view raw_token) const;

  struct Impl;  // private to this room

 private:
  friend class StreamDecoder;
  explicit Tokenizer(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace engramd::engine
