#include "server/api/openai_chat_request.h"

#include <utility>

#include "engine/runtime/constraint/json_schema.h"
#include "server/api/json_body.h"
#include "server/api/openai_messages.h"

namespace engramd::server {
namespace {

using nlohmann::json;

constexpr std::size_t kSchemaBytesMax = 65536;

bool has_entries(const json* value) {
  return value != nullptr && !(value->is_array() && value->empty());
}

// The templates of the models that engramd opens have no place for tools. With tool_choice "none"
// no call is expected, so a list of tools does no harm.
void refuse_tools(RequestFields& fields) {
  const json* choice = fields.find("tool_choice");
  const bool unused = choice != nullptr && *choice == "none";
  for (const char* name : {"tools", "functions"}) {
    if (has_entries(fields.find(name)) && !unused) {
      fields.refuse_locally(
          name,
          "this model's chat template has no tools; leave them out, or ask for JSON "
          "with response_format");
    }
  }
  const bool demanded = choice != nullptr && *choice != "none" && *choice != "auto";
  if (demanded) {
    fields.refuse_locally("tool_choice",
                          "this model's chat template has no tools; expected \"none\" or \"auto\"");
  }
}

void refuse_other_than_text(RequestFields& fields) {
  const json* modalities = fields.array("modalities");
  for (const json& modality : modalities != nullptr ? *modalities : json::array()) {
    if (modality != "text") {
      fields.refuse_locally("modalities", "this model answers with text only");
    }
  }
}

void read_logprobs(RequestFields& fields, engine::ChatRequest& chat) {
  chat.logprobs = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, 20);
  if (!top) return;
  if (!chat.logprobs) fields.refuse("top_logprobs", "only with logprobs true");
  chat.sampling.top_logprobs = static_cast<int>(*top);
}

void read_schema(RequestFields& format, std::string_view body, engine::ChatRequest& chat) {
  const json* named = format.object("json_schema");
  if (named == nullptr) return format.refuse("json_schema", "required, got none");
  RequestFields inside = format.inside(*named, "json_schema");
  const json* schema = inside.object("schema");
  if (schema == nullptr) return inside.refuse("schema", "required, got none");
  if (schema->dump().size() > kSchemaBytesMax) {
    return inside.refuse("schema", "larger than " + std::to_string(kSchemaBytesMax) + " bytes");
  }
  auto grammar = engine::compile_json_schema(
      value_in_order(body, {"response_format", "json_schema", "schema"}));
  if (grammar.has_error()) return inside.refuse("schema", grammar.error().message);
  chat.grammar = std::move(*grammar);
}

void read_response_format(RequestFields& fields, std::string_view body, engine::ChatRequest& chat) {
  const json* object = fields.object("response_format");
  if (object == nullptr) return;
  RequestFields format = fields.inside(*object, "response_format");
  const std::string type = format.required_text("type");
  if (type == "json_object") {
    chat.grammar = engine::any_json_object();
  } else if (type == "json_schema") {
    read_schema(format, body, chat);
  } else if (type != "text") {
    format.refuse("type", "expected text, json_object or json_schema, got \"" + type + "\"");
  }
}

}  // namespace

ApiResult<GenerationRequest> parse_openai_chat(std::string_view body,
                                               const config::Options& options) {
  const auto parsed = parse_json_body(body, options.limits.json_depth_max);
  if (parsed.has_error()) return parsed.error();
  RequestProblems problems;
  RequestFields fields(*parsed, problems);
  GenerationRequest request = read_generation(fields, options.sampling);
  request.chat.messages = read_openai_messages(fields);
  refuse_tools(fields);
  refuse_other_than_text(fields);
  read_logprobs(fields, request.chat);
  read_response_format(fields, body, request.chat);
  if (problems.wrong) return *problems.wrong;
  request.beyond_local = problems.beyond_local;
  return request;
}

}  // namespace engramd::server
