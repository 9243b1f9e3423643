#include "server/api/anthropic_to_openai.h"

#include <algorithm>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "server/upstream/remote_json.h"

namespace engramd::server {
namespace {

using Json = nlohmann::ordered_json;

std::string dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// A string, or the texts of blocks a line each.
std::string plain_text(const Json* content) {
  if (content == nullptr || !content->is_array()) return text_of(content);
  std::string text;
  for (const Json& block : *content) {
    const std::string more = text_of(member(block, "text"));
    if (!text.empty() && !more.empty()) text += "\n";
    text += more;
  }
  return text;
}

Json image_part(const Json& block) {
  const Json* const found = member(block, "source");
  const Json source = found == nullptr ? Json::object() : *found;
  const std::string url = text_of(member(source, "type")) == "url"
                              ? text_of(member(source, "url"))
                              : "data:" + text_of(member(source, "media_type")) + ";base64," +
                                    text_of(member(source, "data"));
  return {{"type", "image_url"}, {"image_url", {{"url", url}}}};
}

// A tool's result becomes a message of its own; its images, which no such message may have, go to
// what the user says after it.
void add_tool_result(const Json& block, Json& messages, Json& parts) {
  const Json* const content = member(block, "content");
  std::string result = plain_text(content);
  const Json* const is_error = member(block, "is_error");
  if (is_error != nullptr && *is_error == true) result = "Error: " + result;
  messages.push_back({{"role", "tool"},
                      {"tool_call_id", text_of(member(block, "tool_use_id"))},
                      {"content", std::move(result)}});
  if (content == nullptr || !content->is_array()) return;
  for (const Json& inner : *content) {
    if (text_of(member(inner, "type")) == "image") parts.push_back(image_part(inner));
  }
}

void add_user_blocks(const Json& blocks, Json& messages) {
  Json parts = Json::array();
  for (const Json& block : blocks) {
    const std::string type = text_of(member(block, "type"));
    if (type == "tool_result") {
      add_tool_result(block, messages, parts);
    } else if (type == "text") {
      parts.push_back({{"type", "text"}, {"text", text_of(member(block, "text"))}});
    } else if (type == "image") {
      parts.push_back(image_part(block));
    }
  }
  if (parts.empty()) return;
  const bool text_only = std::all_of(parts.begin(), parts.end(),
                                     [](const Json& part) { return part.at("type") == "text"; });
  // Servers without images often read a string only.
  messages.push_back({{"role", "user"}, {"content", text_only ? Json(plain_text(&parts)) : parts}});
}

void add_assistant_blocks(const Json& blocks, Json& messages) {
  Json message = {{"role", "assistant"}, {"content", plain_text(&blocks)}};
  std::string thinking;
  for (const Json& block : blocks) {
    const std::string type = text_of(member(block, "type"));
    if (type == "thinking") thinking += text_of(member(block, "thinking"));
    if (type != "tool_use") continue;
    const Json* const input = member(block, "input");
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

Json messages_of(const Json& request) {
  Json messages = Json::array();
  const std::string system = plain_text(member(request, "system"));
  if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
  const Json* const list = member(request, "messages");
  for (const Json& message : list != nullptr ? *list : Json::array()) {
    const std::string role = text_of(member(message, "role"));
    const Json* const content = member(message, "content");
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
Json tools_of(const Json& tools) {
  Json list = Json::array();
  for (const Json& tool : tools) {
    const Json* const schema = member(tool, "input_schema");
    if (schema == nullptr) continue;
    Json function = {{"name", text_of(member(tool, "name"))}, {"parameters", *schema}};
    const std::string description = text_of(member(tool, "description"));
    if (!description.empty()) function["description"] = description;
    list.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return list;
}

Json tool_choice_of(const Json& choice) {
  const std::string type = text_of(member(choice, "type"));
  if (type == "any") return "required";
  if (type != "tool") return type;  // "auto", "none"
  return {{"type", "function"}, {"function", {{"name", text_of(member(choice, "name"))}}}};
}

}  // namespace

std::string anthropic_to_openai(std::string_view text) {
  const Json request = Json::parse(text, nullptr, false);
  Json body = {{"messages", messages_of(request)}};
  for (const char* name : {"max_tokens", "temperature", "top_p"}) {
    if (const Json* value = member(request, name)) body[name] = *value;
  }
  if (const Json* stops = member(request, "stop_sequences")) body["stop"] = *stops;
  const Json* const tools = member(request, "tools");
  if (Json list = tools != nullptr ? tools_of(*tools) : Json(); !list.empty()) {
    body["tools"] = std::move(list);
    if (const Json* choice = member(request, "tool_choice")) {
      body["tool_choice"] = tool_choice_of(*choice);
      const Json* const alone = member(*choice, "disable_parallel_tool_use");
      if (alone != nullptr && *alone == true) body["parallel_tool_calls"] = false;
    }
  }
  if (const Json* thinking = member(request, "thinking")) {
    const std::string type = text_of(member(*thinking, "type"));
    if (!type.empty()) body["thinking"] = {{"type", type}};
  }
  return dump(body);
}

}  // namespace engramd::server
