// The two small files beside config.json: generation_config.json and tokenizer_config.json.
#include <utility>

#include "engine/checkpoint/json_fields.h"
#include "engine/checkpoint/model_config.h"

namespace engramd::engine {
namespace {

constexpr std::size_t kTemplateBytesMax = 1'000'000;

// "<s>" or {"content": "<s>", ...}; empty if absent.
std::string token_text(JsonFields& fields, std::string_view name) {
  const JsonValue* value = fields.find(name);
  if (value == nullptr) return "";
  const JsonValue* content = value->find("content");
  const auto* text = (content == nullptr ? *value : *content).as<std::string>();
  if (text == nullptr) fields.fail(name, "a string or an object with \"content\"", value);
  return text == nullptr ? "" : *text;
}

// A string, or a list of {"name", "template"} of which "default" is taken.
std::string chat_template(JsonFields& fields) {
  const JsonValue* value = fields.find("chat_template");
  if (value == nullptr) return "";
  const auto* text = value->as<std::string>();
  if (const auto* list = value->as<JsonValue::Array>()) {
    for (const JsonValue& entry : *list) {
      const JsonValue* name = entry.find("name");
      const auto* name_text = name == nullptr ? nullptr : name->as<std::string>();
      const JsonValue* body = entry.find("template");
      if (name_text == nullptr || *name_text != "default" || body == nullptr) continue;
      text = body->as<std::string>();
    }
  }
  if (text == nullptr || text->size() > kTemplateBytesMax) {
    fields.fail("chat_template",
                "a string of at most 1000000 bytes, or a list with a template named \"default\"",
                value);
    return "";
  }
  return *text;
}

}  // namespace

Result<GenerationConfig> parse_generation_config(std::string_view json) {
  const auto root = parse_json(json, "generation_config.json", {});
  if (!root) return root.error();
  JsonFields fields(*root, "generation_config.json");
  GenerationConfig config;
  config.temperature = fields.optional_number("temperature", 0.0, 100.0);
  config.top_p = fields.optional_number("top_p", 1e-9, 1.0);
  config.top_k = fields.optional_integer("top_k", 0, 1 << 24);
  config.max_new_tokens = fields.optional_integer("max_new_tokens", 1, 1 << 24);
  config.do_sample = fields.optional_boolean("do_sample").value_or(false);
  if (fields.error()) return *fields.error();
  return config;
}

Result<TokenizerConfig> parse_tokenizer_config(std::string_view json) {
  const auto root = parse_json(json, "tokenizer_config.json", {});
  if (!root) return root.error();
  JsonFields fields(*root, "tokenizer_config.json");
  TokenizerConfig config;
  config.chat_template = chat_template(fields);
  config.bos_token = token_text(fields, "bos_token");
  config.eos_token = token_text(fields, "eos_token");
  config.pad_token = token_text(fields, "pad_token");
  if (fields.error()) return *fields.error();
  return config;
}

}  // namespace engramd::engine
