#include "server/tools/text_source.h"

#include "mcp/text.h"
#include "server/tools/field.h"

namespace engramd::server {

using mcp::json;

std::vector<mcp::Field> text_source_fields() {
  using namespace field;
  return {
      text("text",
           "Text to inspect, read as a plain completion. Give this, question or token_ids."),
      text("question", "One user message, laid out exactly as chat feeds it to the model."),
      not_empty(list("token_ids",
                     "Token ids, taken as they are (no beginning-of-sentence is added).",
                     mcp::FieldType::kInteger)),
  };
}

Result<std::vector<engine::TokenId>> encode_source(const json& arguments,
                                                   const engine::LocalEngine& engine,
                                                   std::int64_t positions_max) {
  const bool has_text = arguments.contains("text");
  const bool has_question = arguments.contains("question");
  const bool has_ids = arguments.contains("token_ids");
  if (static_cast<int>(has_text) + static_cast<int>(has_question) + static_cast<int>(has_ids) !=
      1) {
    return invalid_argument("expected exactly one of text, question and token_ids");
  }
  std::vector<engine::TokenId> ids;
  if (has_ids) {
    for (const json& id : arguments.at("token_ids")) {
      const auto value = id.get<std::int64_t>();
      const std::int64_t vocab_size = engine.facts().vocab_size;
      if (value < 0 || value >= vocab_size) {
        return invalid_argument("token id " + std::to_string(value) +
                                " is outside the vocabulary, "
                                "expected 0 to " +
                                std::to_string(vocab_size - 1));
      }
      ids.push_back(static_cast<engine::TokenId>(value));
    }
  } else {
    auto encoded = has_text ? engine.encode_text(arguments.at("text"))
                            : engine.encode_messages({{"user", arguments.at("question")}});
    if (encoded.has_error()) return encoded.error();
    ids = std::move(encoded).value();
  }
  if (static_cast<std::int64_t>(ids.size()) > positions_max) {
    return limit_exceeded("the text has " + std::to_string(ids.size()) + " tokens, at most " +
                          std::to_string(positions_max) +
                          " are inspected at once; shorten it or raise "
                          "limits.inspect_positions_max");
  }
  if (ids.empty()) return invalid_argument("no tokens to inspect; expected at least one");
  return ids;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : mcp::sanitise_text(text)) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace engramd::server
