#include "server/api/openai_messages.h"

#include <map>
#include <string>
#include <utility>

namespace engramd::server {
namespace {

using nlohmann::json;

// Roles of the API to roles of a template. A template without tools reads a tool's answer as what
// the user says.
const std::map<std::string, std::string>& template_roles() {
  static const std::map<std::string, std::string> roles = {
      {"system", "system"},       {"developer", "system"}, {"user", "user"},
      {"assistant", "assistant"}, {"tool", "user"},        {"function", "user"}};
  return roles;
}

std::string part_text(RequestFields& part) {
  const std::string type = part.required_text("type");
  if (type == "text" || type == "input_text" || type == "output_text") {
    return part.required_text("text");
  }
  if (type == "refusal") return part.required_text("refusal");
  part.refuse_locally("type", "expected text, got " + type + ": this model reads text only");
  return "";
}

std::string content_text(RequestFields& message) {
  const json* content = message.find("content");
  if (content == nullptr) return "";
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) {
    message.refuse_type("content", "a string or an array of parts", *content);
    return "";
  }
  std::string text;
  for (std::size_t i = 0; i < content->size(); ++i) {
    const std::string name = "content[" + std::to_string(i) + "]";
    const json& item = (*content)[i];
    if (item.is_string()) {
      text += item.get<std::string>();
    } else if (item.is_object()) {
      RequestFields part = message.inside(item, name);
      text += part_text(part);
    } else {
      message.refuse_type(name, "a part", item);
    }
  }
  return text;
}

// Earlier calls, as the model would have written them: {"name": ..., "arguments": ...} a line.
std::string calls_text(RequestFields& message) {
  std::string text;
  const json* calls = message.array("tool_calls");
  for (const json& call : calls != nullptr ? *calls : json::array()) {
    if (!call.is_object()) continue;
    const json function = call.value("function", json::object());
    if (!text.empty()) text += "\n";
    text += function.dump(-1, ' ', false, json::error_handler_t::replace);
  }
  return text;
}

engine::ChatMessage read_message(RequestFields message) {
  const std::string role = message.required_text("role");
  const auto known = template_roles().find(role);
  if (known == template_roles().end()) {
    message.refuse("role", "expected developer, system, user, assistant, tool or function, got \"" +
                               role + "\"");
    return {};
  }
  std::string content = content_text(message);
  if (role == "assistant") {
    const std::string calls = calls_text(message);
    if (!calls.empty()) content += (content.empty() ? "" : "\n") + calls;
  } else if (message.find("content") == nullptr) {
    message.refuse("content", "required, got none");
  }
  return {known->second, std::move(content)};
}

}  // namespace

std::vector<engine::ChatMessage> read_openai_messages(RequestFields& fields) {
  std::vector<engine::ChatMessage> messages;
  const json* list = fields.array("messages");
  if (list == nullptr || list->empty()) {
    fields.refuse("messages", "expected at least one message, got none");
    return messages;
  }
  if (list->size() > kMessagesMax) {
    fields.refuse("messages", "expected at most " + std::to_string(kMessagesMax) + ", got " +
                                  std::to_string(list->size()));
    return messages;
  }
  for (std::size_t i = 0; i < list->size() && !fields.failed(); ++i) {
    const std::string name = "messages[" + std::to_string(i) + "]";
    const json& item = (*list)[i];
    if (!item.is_object()) {
      fields.refuse_type(name, "an object", item);
    } else {
      messages.push_back(read_message(fields.inside(item, name)));
    }
  }
  return messages;
}

}  // namespace engramd::server
