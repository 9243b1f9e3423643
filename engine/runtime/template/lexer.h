// Tokens of a chat template: text between tags with Jinja's white-space control already applied
// (trim_blocks, lstrip_blocks, '-' and '+' signs), and the pieces inside tags. Private to this
// folder and chat_template.cpp; stateless, any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/result.h"

namespace engramd::engine::jinja {

enum class TokenKind {
  kText,
  kBlockBegin,     // {%
  kBlockEnd,       // %}
  kVariableBegin,  // {{
  kVariableEnd,    // }}
  kName,
  kString,  // escapes already resolved
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;
  int line = 1;
};

// The last token is kEnd.
Result<std::vector<Token>> tokenize(std::string_view source);

Error error_at(int line, std::string_view what);

// Appends a code point as UTF-8.
void append_utf8(std::string& out, char32_t code_point);

}  // namespace engramd::engine::jinja
