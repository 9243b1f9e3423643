#include "engine/tokenizer/tokenizer.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <fstream>

#include "engine/tokenizer/added_tokens.h"
#include "engine/tokenizer/bpe.h"
#include "engine/tokenizer/normalizer.h"
#include "engine/tokenizer/pre_tokenizer.h"
#include "engine/tokenizer/tokenizer_json.h"
#include "engine/tokenizer/utf8.h"
#include "engine/tokenizer/vocabulary.h"

namespace engramd::engine {
namespace {

constexpr std::size_t kMaxTextBytes = 256u << 20;  // keeps positions in 32 bits

std::vector<AddedTokenMatcher::Entry> matcher_entries(const TokenizerSpec& spec, bool normalized,
                                                      const NfcNormalizer* nfc) {
  std::vector<AddedTokenMatcher::Entry> entries;
  for (const AddedToken& token : spec.added_tokens) {
    if (token.normalized != normalized) continue;
    entries.push_back(
        {normalized && nfc ? nfc->normalize(token.content) : token.content, token.id});
  }
  return entries;
}

// Tokens of pieces met earlier in the same call. An entry refers to the call's own text and ids, so
// that a hit copies what is there already. Direct-mapped: a collision replaces.
class PieceCache {
 public:
  explicit PieceCache(std::size_t text_bytes)
      : entries_(std::bit_ceil(std::clamp<std::size_t>(text_bytes / 4, 1, kMaxEntries))) {}

  struct Entry {
    std::string_view piece;
    std::uint32_t ids_begin = 0;
    std::uint32_t n_ids = 0;
  };
  Entry& slot(std::string_view piece) {
    return entries_[std::hash<std::string_view>()(piece) & (entries_.size() - 1)];
  }

 private:
  static constexpr std::size_t kMaxEntries = 32768;  // 768 KiB: half of a usual L2 cache
  std::vector<Entry> entries_;
};

}  // namespace

struct Tokenizer::Impl {
  explicit Impl(TokenizerSpec spec, PreTokenizer splitter);

  // What encode() carries through one call.
  struct Call {
    explicit Call(std::size_t text_bytes) : cache(text_bytes) {}
    bool parse_special = true;
    bool with_offsets = false;
    std::deque<std::string> normalized;  // the cache refers to these
    std::vector<Span> pieces;
    PreTokenizer::Scratch scratch;
    PieceCache cache;
    Encoding encoding;
  };
  Result<Encoding> encode(std::string_view text, bool parse_special, bool with_offsets) const;
  // `base` is where `text` begins in the text of the call.
  Result<void> encode_plain(std::string_view text, std::size_t base, Call& call) const;
  Result<void> encode_normalized(std::string_view text, std::size_t base,
                                 const std::vector<Span>* origins, Call& call) const;
  void encode_piece(std::string_view piece, Call& call) const;
  void add_added_token(TokenId id, std::size_t begin, std::size_t end, Call& call) const;
  void add_offsets(std::string_view text, Span piece, std::size_t first_id, std::size_t base,
                   const std::vector<Span>* origins, Call& call) const;

  std::vector<std::string> spellings;  // by id
  std::vector<std::string> bytes;      // by id
  std::vector<bool> special;           // by id
  TokenIndex index_of_spelling;
  TokenIndex index_of_bytes;  // filled if ignore_merges: tokens that a piece may be
  bool ignore_merges;
  std::vector<TokenId> prefix;
  std::optional<NfcNormalizer> nfc;
  AddedTokenMatcher verbatim_added;    // searched in the text as it is
  AddedTokenMatcher normalized_added;  // searched in the normalized text
  PreTokenizer pre_tokenizer;
  std::optional<Bpe> bpe;
};

Tokenizer::Impl::Impl(TokenizerSpec spec, PreTokenizer splitter)
    : special(spec.vocabulary.size()),
      ignore_merges(spec.ignore_merges),
      prefix(spec.prefix),
      nfc(spec.normalize_nfc ? std::optional<NfcNormalizer>(std::in_place) : std::nullopt),
      verbatim_added(matcher_entries(spec, false, nullptr)),
      normalized_added(matcher_entries(spec, true, nfc ? &*nfc : nullptr)),
      pre_tokenizer(std::move(splitter)) {
  spellings = std::move(spec.vocabulary);
  index_of_spelling.build(spellings);
  std::vector<bool> may_be_piece(spellings.size());
  bytes.reserve(spellings.size());
  for (std::size_t id = 0; id < spellings.size(); ++id) {
    SpelledBytes spelled = bytes_of_spelling(spellings[id]);
    may_be_piece[id] = spelled.in_byte_alphabet;
    bytes.push_back(std::move(spelled.bytes));
  }
  for (const AddedToken& token : spec.added_tokens) {
    special[static_cast<std::size_t>(token.id)] = token.special;
    may_be_piece[static_cast<std::size_t>(token.id)] = false;
  }
  if (ignore_merges) index_of_bytes.build(bytes, may_be_piece);
  std::array<TokenId, 256> byte_ids{};
  for (unsigned byte = 0; byte < 256; ++byte) {
    byte_ids[byte] =
        index_of_spelling.find(spellings, byte_symbol(static_cast<unsigned char>(byte)));
  }
  bpe.emplace(byte_ids, spec.merges);
}

Result<Tokenizer::Encoding> Tokenizer::Impl::encode(std::string_view text, bool parse_special,
                                                    bool with_offsets) const {
  if (text.size() > kMaxTextBytes) {
    return limit_exceeded("encode: expected at most " + std::to_string(kMaxTextBytes) +
                          " bytes of text, got " + std::to_string(text.size()));
  }
  if (const std::size_t valid = first_invalid_utf8(text); valid != text.size()) {
    return invalid_argument("encode: expected valid UTF-8, byte " + std::to_string(valid) +
                            " starts an ill-formed sequence");
  }
  Call call(text.size());
  call.parse_special = parse_special;
  call.with_offsets = with_offsets;
  std::vector<AddedTokenMatcher::Part> parts;
  if (parse_special) {
    verbatim_added.split(text, parts);
  } else if (!text.empty()) {
    parts.push_back({text});
  }
  for (const auto& part : parts) {
    const auto begin = static_cast<std::size_t>(part.text.data() - text.data());
    if (part.id >= 0) {
      add_added_token(part.id, begin, begin + part.text.size(), call);
    } else if (const auto done = encode_plain(part.text, begin, call); !done) {
      return done.error();
    }
  }
  return std::move(call.encoding);
}

Result<void> Tokenizer::Impl::encode_plain(std::string_view text, std::size_t base,
                                           Call& call) const {
  if (!nfc || nfc->is_normalized(text)) return encode_normalized(text, base, nullptr, call);
  std::vector<Span> origins;
  call.normalized.push_back(nfc->normalize(text, call.with_offsets ? &origins : nullptr));
  return encode_normalized(call.normalized.back(), base, &origins, call);
}

Result<void> Tokenizer::Impl::encode_normalized(std::string_view text, std::size_t base,
                                                const std::vector<Span>* origins,
                                                Call& call) const {
  std::vector<AddedTokenMatcher::Part> parts;
  if (call.parse_special) {
    normalized_added.split(text, parts);
  } else {
    parts.push_back({text});
  }
  for (const auto& part : parts) {
    const auto begin = static_cast<std::uint32_t>(part.text.data() - text.data());
    const auto end = static_cast<std::uint32_t>(begin + part.text.size());
    if (part.id >= 0) {
      call.encoding.ids.push_back(part.id);
      add_offsets(text, {begin, end}, call.encoding.ids.size() - 1, base, origins, call);
      continue;
    }
    const auto split = pre_tokenizer.split(part.text, call.scratch, call.pieces);
    if (!split) return split.error();
    for (const Span piece : call.pieces) {
      const std::size_t first_id = call.encoding.ids.size();
      encode_piece(part.text.substr(piece.begin, piece.end - piece.begin), call);
      add_offsets(text, {begin + piece.begin, begin + piece.end}, first_id, base, origins, call);
    }
  }
  return {};
}

void Tokenizer::Impl::encode_piece(std::string_view piece, Call& call) const {
  std::vector<TokenId>& ids = call.encoding.ids;
  PieceCache::Entry& cached = call.cache.slot(piece);
  if (cached.piece == piece) {
    const std::size_t n_before = ids.size();
    ids.resize(n_before + cached.n_ids);
    std::copy_n(ids.data() + cached.ids_begin, cached.n_ids, ids.data() + n_before);
    return;
  }
  const auto first_id = static_cast<std::uint32_t>(ids.size());
  const TokenId whole = ignore_merges ? index_of_bytes.find(bytes, piece) : -1;
  if (whole >= 0) {
    ids.push_back(whole);
  } else {
    bpe->encode(piece, ids);
  }
  cached = {piece, first_id, static_cast<std::uint32_t>(ids.size()) - first_id};
}

void Tokenizer::Impl::add_added_token(TokenId id, std::size_t begin, std::size_t end,
                                      Call& call) const {
  call.encoding.ids.push_back(id);
  if (call.with_offsets) {
    call.encoding.offsets.push_back(
        {static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end)});
  }
}

// Offsets of the ids from `first_id` on, which spell `piece` of `text`. A token that begins or ends
// inside a character gets the whole character, as in the Hugging Face library.
void Tokenizer::Impl::add_offsets(std::string_view text, Span piece, std::size_t first_id,
                                  std::size_t base, const std::vector<Span>* origins,
                                  Call& call) const {
  if (!call.with_offsets) return;
  std::size_t position = piece.begin;
  for (std::size_t i = first_id; i < call.encoding.ids.size(); ++i) {
    const std::size_t length = bytes[static_cast<std::size_t>(call.encoding.ids[i])].size();
    std::size_t begin = position;
    position = std::min<std::size_t>(position + length, piece.end);
    std::size_t end = position;
    if (origins) {
      begin = (*origins)[begin].begin;
      end = (*origins)[end - 1].end;
    } else {
      while (is_utf8_continuation(text[begin])) --begin;
      while (end < text.size() && is_utf8_continuation(text[end])) ++end;
    }
    call.encoding.offsets.push_back(
        {static_cast<std::int64_t>(base + begin), static_cast<std::int64_t>(base + end)});
  }
}

Tokenizer::Tokenizer(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::from_json(std::string_view json) {
  auto spec = parse_tokenizer_json(json);
  if (!spec) return spec.error();
  auto pre_tokenizer = PreTokenizer::create(spec->split_rules);
  if (!pre_tokenizer) return pre_tokenizer.error();
  return Tokenizer(std::make_unique<const Impl>(std::move(*spec), std::move(*pre_tokenizer)));
}

Result<Tokenizer> Tokenizer::from_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return not_found("cannot open " + path + "; expected a tokenizer.json");
  const auto size = static_cast<std::streamoff>(file.tellg());
  if (size < 0 || size > static_cast<std::streamoff>(kMaxTokenizerJsonBytes)) {
    return limit_exceeded(path + ": expected a tokenizer.json of at most " +
                          std::to_string(kMaxTokenizerJsonBytes) + " bytes, got " +
                          std::to_string(size));
  }
  std::string json(static_cast<std::size_t>(size), '\0');
  file.seekg(0);
  if (!file.read(json.data(), size)) return environment_error("cannot read " + path);
  auto tokenizer = from_json(json);
  if (!tokenizer) {
    Error error = tokenizer.error();
    error.message = path + ": " + error.message;
    return error;
  }
  return tokenizer;
}

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text, bool parse_special) const {
  auto encoding = impl_->encode(text, parse_special, false);
  if (!encoding) return encoding.error();
  return std::move(encoding->ids);
}

Result<Tokenizer::Encoding> Tokenizer::encode_with_offsets(std::string_view text,
                                                           bool parse_special) const {
  return impl_->encode(text, parse_special, true);
}

std::string Tokenizer::break_added_tokens(std::string_view text, std::string_view mark) const {
  if (first_invalid_utf8(text) != text.size()) return std::string(text);  // encode() refuses it
  const std::string plain = impl_->nfc ? impl_->nfc->normalize(text) : std::string(text);
  const std::string_view rest = plain;
  std::string broken;
  for (std::size_t at = 0; at < rest.size();) {
    std::size_t next = at;
    next_code_point(rest, next);
    broken += rest.substr(at, next - at);
    const std::size_t length = std::max(impl_->verbatim_added.length_at(rest.substr(at)),
                                        impl_->normalized_added.length_at(rest.substr(at)));
    const auto blank = rest.substr(at, length).find_first_not_of(" \t\r\n");
    if (length > next - at && blank != std::string_view::npos) broken += mark;
    at = next;
  }
  return broken;
}

const std::vector<TokenId>& Tokenizer::prefix_with_special() const {
  return impl_->prefix;
}

Result<std::string> Tokenizer::decode(const std::vector<TokenId>& ids, bool skip_special) const {
  std::string text;
  std::string pending;
  for (const TokenId id : ids) {
    if (id < 0 || id >= vocab_size()) {
      return invalid_argument("decode: expected token ids from 0 to " +
                              std::to_string(vocab_size() - 1) + ", got " + std::to_string(id));
    }
    if (skip_special && is_special(id)) continue;
    append_lossy_utf8(text, pending, token_bytes(id));
  }
  if (!pending.empty()) text += kReplacementCharacter;
  return text;
}

std::int64_t Tokenizer::vocab_size() const {
  return static_cast<std::int64_t>(impl_->spellings.size());
}

std::string_view Tokenizer::raw_token(TokenId id) const {
  return id < 0 || id >= vocab_size() ? std::string_view()
                                      : impl_->spellings[static_cast<std::size_t>(id)];
}

std::string_view Tokenizer::token_bytes(TokenId id) const {
  return id < 0 || id >= vocab_size() ? std::string_view()
                                      : impl_->bytes[static_cast<std::size_t>(id)];
}

bool Tokenizer::is_special(TokenId id) const {
  return id >= 0 && id < vocab_size() && impl_->special[static_cast<std::size_t>(id)];
}

std::optional<TokenId> Tokenizer::token_to_id(std::string_view raw_token) const {
  const TokenId id = impl_->index_of_spelling.find(impl_->spellings, raw_token);
  return id < 0 ? std::nullopt : std::optional<TokenId>(id);
}

}  // namespace engramd::engine
