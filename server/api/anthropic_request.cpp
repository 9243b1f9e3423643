#include "server/api/anthropic_request.h"

#include <limits>
#include <utility>

#include "server/api/generation_request.h"
#include "server/api/json_body.h"
#include "server/api/request_fields.h"

namespace engramd::server {
namespace {

using nlohmann::json;

std::string blocks_text(RequestFields& owner, const char* name);

// What a template without tools can read of a block; thinking of earlier turns is left out, as the
// API does.
std::string block_text(RequestFields block, const json& value) {
  const std::string type = block.required_text("type");
  if (type == "text") return block.required_text("text");
  if (type == "thinking" || type == "redacted_thinking") return "";
  if (type == "tool_result") return blocks_text(block, "content");
  if (type == "tool_use") {
    const json call = {{"name", value.value("name", json())},
                       {"input", value.value("input", json())}};
    return call.dump(-1, ' ', false, json::error_handler_t::replace);
  }
  if (type == "image") {
    if (block.object("source") == nullptr) block.refuse("source", "required, got none");
    block.refuse_locally("type", "this model reads text only, not images");
    return "";
  }
  block.refuse("type", "expected text, image, tool_use or tool_result, got \"" + type + "\"");
  return "";
}

// A string, or blocks a line each.
std::string blocks_text(RequestFields& owner, const char* name) {
  const json* content = owner.find(name);
  if (content == nullptr) return "";
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) {
    owner.refuse_type(name, "a string or an array of blocks", *content);
    return "";
  }
  std::string text;
  for (std::size_t i = 0; i < content->size(); ++i) {
    const std::string place = std::string(name) + "[" + std::to_string(i) + "]";
    const json& block = (*content)[i];
    if (!block.is_object()) {
      owner.refuse_type(place, "a block", block);
      continue;
    }
    const std::string more = block_text(owner.inside(block, place), block);
    if (!text.empty() && !more.empty()) text += "\n";
    text += more;
  }
  return text;
}

void read_messages(RequestFields& fields, engine::ChatRequest& chat) {
  const std::string system = blocks_text(fields, "system");
  if (!system.empty()) chat.messages.push_back({"system", system});
  const json* list = fields.array("messages");
  if (list == nullptr || list->empty() || list->size() > kMessagesMax) {
    return fields.refuse("messages", "expected 1 to " + std::to_string(kMessagesMax) + ", got " +
                                         std::to_string(list == nullptr ? 0 : list->size()));
  }
  for (std::size_t i = 0; i < list->size() && !fields.failed(); ++i) {
    const std::string place = "messages[" + std::to_string(i) + "]";
    const json& item = (*list)[i];
    if (!item.is_object()) return fields.refuse_type(place, "an object", item);
    RequestFields message = fields.inside(item, place);
    const std::string role = message.required_text("role");
    if (role != "user" && role != "assistant" && role != "system") {
      message.refuse("role", "expected user or assistant, got \"" + role + "\"");
    }
    if (message.find("content") == nullptr) message.refuse("content", "required, got none");
    chat.messages.push_back({role, blocks_text(message, "content")});
  }
  chat.continue_last = !fields.failed() && chat.messages.back().role == "assistant";
}

void refuse_tool_use(RequestFields& fields) {
  const json* tools = fields.array("tools");
  const json* choice = fields.object("tool_choice");
  const bool unused = choice != nullptr && choice->value("type", json()) == "none";
  if (tools != nullptr && !tools->empty() && !unused) {
    fields.refuse_locally("tools", "this model's chat template has no tools; leave them out");
  }
}

}  // namespace

ApiResult<AnthropicRequest> parse_anthropic(std::string_view body, const config::Options& options,
                                            AnthropicCall call) {
  const auto parsed = parse_json_body(body, options.limits.json_depth_max);
  if (parsed.has_error()) return parsed.error();
  RequestProblems problems;
  RequestFields fields(*parsed, problems);
  const config::SamplingDefaults& defaults = options.sampling;
  AnthropicRequest request;
  request.model = fields.text("model").value_or("");
  request.stream = fields.boolean("stream").value_or(false);
  const auto max_tokens = fields.integer("max_tokens", 1, std::numeric_limits<std::int32_t>::max());
  if (!max_tokens && call == AnthropicCall::kMessages) {
    fields.refuse("max_tokens", "required, got none");
  }
  request.chat.max_tokens = static_cast<int>(max_tokens.value_or(1));
  request.chat.stop = read_stop_texts(fields, "stop_sequences");
  request.chat.route = read_route(fields);
  engine::SamplingOptions& sampling = request.chat.sampling;
  sampling.temperature = fields.number("temperature", 0, 2).value_or(defaults.temperature);
  sampling.top_p = fields.number("top_p", 1e-6, 1).value_or(defaults.top_p);
  sampling.top_k = static_cast<int>(fields.integer("top_k", 0, 1000000).value_or(defaults.top_k));
  sampling.seed = random_seed();
  read_messages(fields, request.chat);
  refuse_tool_use(fields);
  if (problems.wrong) return *problems.wrong;
  request.beyond_local = problems.beyond_local;
  return request;
}

}  // namespace engramd::server
