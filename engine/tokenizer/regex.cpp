#include "engine/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "engine/tokenizer/regex_syntax.h"
#include "engine/tokenizer/utf8.h"

namespace engramd::engine {
namespace {

constexpr std::uint32_t kMatchLimit = 10'000'000;  // PCRE2's own default: under a second
constexpr std::uint32_t kHeapLimitKib = 64 * 1024;

struct FreePcre2 {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

std::string pcre2_message(int code) {
  PCRE2_UCHAR buffer[256] = {};
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

// Bytes of the `n` code points at the start of `text`.
std::size_t code_point_bytes(std::string_view text, std::size_t n) {
  std::size_t bytes = 0;
  while (n > 0) {
    ++bytes;
    while (bytes < text.size() && is_utf8_continuation(text[bytes])) ++bytes;
    --n;
  }
  return bytes;
}

}  // namespace

struct Regex::Impl {
  std::string source;
  SymbolTable symbols;
  std::unique_ptr<pcre2_code, FreePcre2> code;
  std::unique_ptr<pcre2_match_context, FreePcre2> context;
};

struct Regex::Scratch::MatchData {
  std::unique_ptr<pcre2_match_data, FreePcre2> data{pcre2_match_data_create(1, nullptr)};
};

Regex::Scratch::Scratch() : match_data_(std::make_unique<MatchData>()) {
  ENGRAMD_ASSERT(match_data_->data != nullptr);
}
Regex::Scratch::~Scratch() = default;

Regex::Regex(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

Result<Regex> Regex::compile(std::string_view pattern) {
  auto rewritten = rewrite_to_symbols(pattern);
  if (!rewritten) return rewritten.error();
  auto impl = std::make_unique<Impl>();
  impl->source = pattern;
  impl->symbols = std::move(rewritten->symbols);
  int error = 0;
  PCRE2_SIZE position = 0;
  impl->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(rewritten->pattern.data()),
                                 rewritten->pattern.size(), PCRE2_NEVER_UTF, &error, &position,
                                 nullptr));
  if (!impl->code) {
    return invalid_argument("regular expression: " + pcre2_message(error) + " in '" +
                            std::string(pattern) + "'");
  }
  std::uint32_t matches_empty = 0;
  pcre2_pattern_info(impl->code.get(), PCRE2_INFO_MATCHEMPTY, &matches_empty);
  if (matches_empty != 0) {
    return invalid_argument("regular expression: expected one that matches no empty text, got '" +
                            std::string(pattern) + "'");
  }
  // Without executable memory this fails and pcre2_match interprets: slower, the same matches.
  pcre2_jit_compile(impl->code.get(), PCRE2_JIT_COMPLETE);
  impl->context.reset(pcre2_match_context_create(nullptr));
  ENGRAMD_ASSERT(impl->context != nullptr);
  pcre2_set_match_limit(impl->context.get(), kMatchLimit);
  pcre2_set_heap_limit(impl->context.get(), kHeapLimitKib);
  return Regex(std::move(impl));
}

Result<void> Regex::find_all(std::string_view text, std::uint32_t base, Scratch& scratch,
                             std::vector<Span>& matches) const {
  std::string& subject = scratch.symbols_;
  subject.clear();
  subject.resize(text.size());
  std::size_t n_symbols = 0;
  for (std::size_t position = 0; position < text.size();) {
    subject[n_symbols++] = static_cast<char>(impl_->symbols[next_code_point(text, position)]);
  }
  subject.resize(n_symbols);
  pcre2_match_data* data = scratch.match_data_->data.get();
  const PCRE2_SIZE* found = pcre2_get_ovector_pointer(data);
  const bool is_ascii = subject.size() == text.size();
  std::size_t symbol = 0;  // these two name the same place
  std::size_t byte = 0;
  while (symbol < subject.size()) {
    const auto match = [&](std::uint32_t options) {
      return pcre2_match(impl_->code.get(), reinterpret_cast<PCRE2_SPTR>(subject.data()),
                         subject.size(), symbol, options, data, impl_->context.get());
    };
    int code = match(0);
    if (code == PCRE2_ERROR_JIT_STACKLIMIT) code = match(PCRE2_NO_JIT);
    if (code == PCRE2_ERROR_NOMATCH) break;
    if (code < 0) {
      return limit_exceeded("regular expression: " + pcre2_message(code) + " at byte " +
                            std::to_string(base + byte) + " of the text, for '" + impl_->source +
                            "'; the tokenizer's pattern is too costly");
    }
    const auto advance = [&](std::size_t to) {
      byte += is_ascii ? to - symbol : code_point_bytes(text.substr(byte), to - symbol);
      symbol = to;
      return static_cast<std::uint32_t>(base + byte);
    };
    const std::uint32_t begin = advance(found[0]);
    matches.push_back({begin, advance(found[1])});
  }
  return {};
}

}  // namespace engramd::engine
