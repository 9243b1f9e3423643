#include "server/api/anthropic_to_openai.h"

#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "server/upstream/json_member.h"

namespace engramd::server {
namespace {

using nlohmann::json;

std::string dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// A string, or the texts of blocks a line each.
std::string plain_text(const json* content) {
  if (content == nullptr || !content->is_array()) return text_of(content);
  std::string text;
  for (const json& block : *content) {
    const std::string more = text_of(member(block, "text"));
    if (!text.empty() && !more.empty()) text += "\n";
    text += more;
  }
  return text;
}

json image_part(const json& block) {
  const json* const source = member(block, "source");
  if (source == nullptr) return nullptr;
  const std::string url = text_of(member(*source, "type")) == "url"
                              ? text_of(member(*source, "url"))
                              : "data:" + text_of(member(*source, "media_type")) + ";base64," +
                                    text_of(member(*source, "data"));
  return {{"type", "image_url"}, {"image_url", {{"url", url}}}};
}

// Results of tools become messages of their own, before what else the user says.
void add_user_blocks(const json& blocks, json& messages) {
  json parts = json::array();
  bool text_only = true;
  for (const json& block : blocks) {
    const std::string type = text_of(member(block, "type"));
    if (type == "tool_result") {
      std::string result = plain_text(member(block, "content"));
      const json* const is_error = member(block, "is_error");
      if (is_error != nullptr && *is_error == true) result = "Error: " + result;
      messages.push_back({{"role", "tool"},
                          {"tool_call_id", text_of(member(block, "tool_use_id"))},
                          {"content", std::move(result)}});
    } else if (type == "text") {
      parts.push_back({{"type", "text"}, {"text", text_of(member(block, "text"))}});
    } else if (type == "image") {
      parts.push_back(image_part(block));
      text_only = false;
    }
  }
  if (parts.empty()) return;
  // Servers without images often read a string only.
  messages.push_back({{"role", "user"}, {"content", text_only ? json(plain_text(&parts)) : parts}});
}

void add_assistant_blocks(const json& blocks, json& messages) {
  json message = {{"role", "assistant"}, {"content", plain_text(&blocks)}};
  std::string thinking;
  for (const json& block : blocks) {
    const std::string type = text_of(member(block, "type"));
    if (type == "thinking") thinking += text_of(member(block, "thinking"));
    if (type != "tool_use") continue;
    const json* const input = member(block, "input");
    message["tool_calls"].push_back(
        {{"id", text_of(member(block, "id"))},
         {"type", "function"},
         {"function",
          {{"name", text_of(member(block, "name"))},
           {"arguments", input == nullptr ? std::string("{}") : dump(*input)}}}});
  }
  // DeepSeek wants what it thought back when it called a tool.
  if (!thinking.empty()) message["reasoning_content"] = std::move(thinking);
  messages.push_back(std::move(message));
}

json messages_of(const json& request) {
  json messages = json::array();
  const std::string system = plain_text(member(request, "system"));
  if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
  const json* const list = member(request, "messages");
  for (const json& message : list != nullptr ? *list : json::array()) {
    const std::string role = text_of(member(message, "role"));
    const json* const content = member(message, "content");
    if (content == nullptr || !content->is_array()) {
      messages.push_back({{"role", role}, {"content", text_of(content)}});
    } else if (role == "assistant") {
      add_assistant_blocks(*content, messages);
    } else if (role == "user") {
      add_user_blocks(*content, messages);
    } else {
      messages.push_back({{"role", role}, {"content", plain_text(content)}});
    }
  }
  return messages;
}

// Tools that the API itself would run have no schema, and nobody here runs them.
json tools_of(const json& tools) {
  json list = json::array();
  for (const json& tool : tools) {
    const json* const schema = member(tool, "input_schema");
    if (schema == nullptr) continue;
    json function = {{"name", text_of(member(tool, "name"))}, {"parameters", *schema}};
    const std::string description = text_of(member(tool, "description"));
    if (!description.empty()) function["description"] = description;
    list.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return list;
}

json tool_choice_of(const json& choice) {
  const std::string type = text_of(member(choice, "type"));
  if (type == "any") return "required";
  if (type != "tool") return type;  // "auto", "none"
  return {{"type", "function"}, {"function", {{"name", text_of(member(choice, "name"))}}}};
}

}  // namespace

json anthropic_to_openai(const json& request) {
  json body = {{"messages", messages_of(request)}};
  for (const char* name : {"max_tokens", "temperature", "top_p"}) {
    if (const json* value = member(request, name)) body[name] = *value;
  }
  if (const json* stops = member(request, "stop_sequences")) body["stop"] = *stops;
  const json* const tools = member(request, "tools");
  if (json list = tools != nullptr ? tools_of(*tools) : json(); !list.empty()) {
    body["tools"] = std::move(list);
    if (const json* choice = member(request, "tool_choice")) {
      body["tool_choice"] = tool_choice_of(*choice);
      const json* const alone = member(*choice, "disable_parallel_tool_use");
      if (alone != nullptr && *alone == true) body["parallel_tool_calls"] = false;
    }
  }
  if (const json* thinking = member(request, "thinking")) {
    const std::string type = text_of(member(*thinking, "type"));
    if (!type.empty()) body["thinking"] = {{"type", type}};
  }
  return body;
}

}  // namespace engramd::server
