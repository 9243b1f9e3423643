#include "engine/runtime/prompt.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "engine/checkpoint/regular_file.h"

namespace engramd::engine {

namespace {

constexpr std::int64_t kConfigBytesMax = 4 << 20;  // the largest public templates have 100 KB
// Stands inside every spelling of a special token that a message contains. A noncharacter, which
// Unicode keeps out of texts; one that comes all the same is lost.
constexpr std::string_view kMark = "\uFDD0";

// The template's special tokens are tokens, those that messages spell stay text.
Result<std::vector<TokenId>> encode_between_marks(const Tokenizer& tokenizer,
                                                  std::string_view rendered) {
  std::vector<TokenId> ids;
  while (!rendered.empty()) {
    const std::size_t end = std::min(rendered.find(kMark), rendered.size());
    const auto piece = tokenizer.encode(rendered.substr(0, end));
    if (piece.has_error()) return piece.error();
    ids.insert(ids.end(), piece->begin(), piece->end());
    rendered.remove_prefix(std::min(end + kMark.size(), rendered.size()));
  }
  return ids;
}

}  // namespace

Result<PromptEncoder> PromptEncoder::open(const std::string& folder, const ModelConfig& config) {
  PromptEncoder encoder;
  encoder.bos_token_id_ = static_cast<TokenId>(config.bos_token_id);
  const std::string path = folder + "/tokenizer_config.json";
  const auto json = read_text_file(path, kConfigBytesMax);
  if (json.has_error() && json.error().kind == ErrorKind::kNotFound) return encoder;
  if (json.has_error()) return json.error();
  auto parsed = parse_tokenizer_config(*json);
  if (parsed.has_error()) {
    return Error{parsed.error().kind, path + ": " + parsed.error().message};
  }
  encoder.config_ = std::move(*parsed);
  if (encoder.config_.chat_template.empty()) return encoder;
  auto chat_template = ChatTemplate::parse(encoder.config_.chat_template);
  if (chat_template.has_error()) {
    return Error{chat_template.error().kind,
                 path + ": chat_template: " + chat_template.error().message};
  }
  encoder.template_ = std::move(*chat_template);
  return encoder;
}

Result<std::vector<TokenId>> PromptEncoder::messages(const Tokenizer& tokenizer,
                                                     const std::vector<ChatMessage>& messages,
                                                     bool continue_last) const {
  if (!template_) {
    return invalid_argument("this model has no chat template: send a prompt instead of messages");
  }
  if (messages.empty()) return invalid_argument("messages: expected at least one, got none");
  std::string beginning;
  TemplateValue::List list;
  for (const ChatMessage& message : messages) {
    if (message.role != "system" && message.role != "user" && message.role != "assistant") {
      return invalid_argument("role: expected system, user or assistant, got \"" + message.role +
                              "\"");
    }
    std::string content = tokenizer.break_added_tokens(message.content, kMark);
    if (continue_last && &message == &messages.back()) {
      beginning = std::move(content);
      break;
    }
    TemplateValue::Object fields;
    fields.emplace_back("role", TemplateValue{message.role});
    fields.emplace_back("content", TemplateValue{std::move(content)});
    list.push_back(TemplateValue{std::move(fields)});
  }
  TemplateValue::Object variables;
  variables.emplace_back("messages", TemplateValue{std::move(list)});
  variables.emplace_back("tools", TemplateValue{});
  variables.emplace_back("add_generation_prompt", TemplateValue{true});
  variables.emplace_back("bos_token", TemplateValue{config_.bos_token});
  variables.emplace_back("eos_token", TemplateValue{config_.eos_token});
  variables.emplace_back("pad_token", TemplateValue{config_.pad_token});
  const auto rendered = template_->render(TemplateValue{std::move(variables)});
  if (rendered.has_error()) return rendered.error();
  return encode_between_marks(tokenizer, *rendered + beginning);
}

Result<std::vector<TokenId>> PromptEncoder::text(const Tokenizer& tokenizer,
                                                 const std::string& text) const {
  auto ids = tokenizer.encode(text);
  if (ids.has_value() && bos_token_id_ >= 0) ids->insert(ids->begin(), bos_token_id_);
  return ids;
}

}  // namespace engramd::engine
