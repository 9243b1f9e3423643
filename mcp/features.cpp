#include "mcp/features.h"

#include <algorithm>
#include <utility>

#include "mcp/text.h"

namespace engramd::mcp {
namespace {

// The string at `key`, or null when it is absent or something else.
const std::string* string_at(const json& object, const char* key) {
  const auto member = object.find(key);
  return member != object.end() && member->is_string() ? member->get_ptr<const std::string*>()
                                                       : nullptr;
}

void set_unless_empty(json& object, const char* key, const std::string& value) {
  if (!value.empty()) object[key] = value;
}

void set_title(json& object, const std::string& title, Revision revision) {
  if (revision >= Revision::k2025_06_18) set_unless_empty(object, "title", title);
}

// Every list fits one page, so no cursor was ever handed out and none can be right.
std::optional<Outcome> refuse_cursor(const json& params) {
  const auto cursor = params.find("cursor");
  if (cursor == params.end() || cursor->is_null()) return std::nullopt;
  return Outcome::failure(kInvalidParams, "unknown cursor; leave it out, the list has one page");
}

json describe_tool(const Tool& tool, Revision revision) {
  json entry = {{"name", tool.name},
                {"description", tool.description},
                {"inputSchema", to_json_schema(tool.input)}};
  set_title(entry, tool.annotations.title, revision);
  if (revision >= Revision::k2025_06_18 && !tool.output.empty()) {
    entry["outputSchema"] = to_json_schema(tool.output);
  }
  if (revision >= Revision::k2025_03_26) {
    entry["annotations"] = {{"readOnlyHint", tool.annotations.read_only},
                            {"destructiveHint", tool.annotations.destructive},
                            {"idempotentHint", tool.annotations.idempotent},
                            {"openWorldHint", tool.annotations.open_world}};
    set_unless_empty(entry["annotations"], "title", tool.annotations.title);
  }
  return entry;
}

Outcome list_tools(const Registry& registry, const json& params, Revision revision) {
  if (auto refusal = refuse_cursor(params)) return *refusal;
  json tools = json::array();
  for (const Tool& tool : registry.tools) tools.push_back(describe_tool(tool, revision));
  return Outcome::success({{"tools", std::move(tools)}});
}

Outcome list_resources(const Registry& registry, const json& params, Revision revision) {
  if (auto refusal = refuse_cursor(params)) return *refusal;
  json resources = json::array();
  for (const Resource& resource : registry.resources) {
    if (resource.available && !resource.available()) continue;
    json entry = {{"uri", resource.uri}, {"name", resource.name}};
    set_title(entry, resource.title, revision);
    set_unless_empty(entry, "description", resource.description);
    set_unless_empty(entry, "mimeType", resource.mime_type);
    resources.push_back(std::move(entry));
  }
  return Outcome::success({{"resources", std::move(resources)}});
}

Outcome list_resource_templates(const Registry& registry, const json& params, Revision revision) {
  if (auto refusal = refuse_cursor(params)) return *refusal;
  json templates = json::array();
  for (const ResourceTemplate& resource : registry.resource_templates) {
    json entry = {{"uriTemplate", resource.uri_template}, {"name", resource.name}};
    set_title(entry, resource.title, revision);
    set_unless_empty(entry, "description", resource.description);
    set_unless_empty(entry, "mimeType", resource.mime_type);
    templates.push_back(std::move(entry));
  }
  return Outcome::success({{"resourceTemplates", std::move(templates)}});
}

// What stands for the variable of the template in `uri`; nothing when the URI does not fit.
std::optional<std::string> variable_in(const ResourceTemplate& resource, const std::string& uri) {
  const std::string& pattern = resource.uri_template;
  const std::size_t open = pattern.find('{');
  const std::size_t n_after = pattern.size() - pattern.find('}') - 1;
  if (uri.size() <= open + n_after || uri.compare(0, open, pattern, 0, open) != 0 ||
      uri.compare(uri.size() - n_after, n_after, pattern, pattern.size() - n_after, n_after) != 0) {
    return std::nullopt;
  }
  return uri.substr(open, uri.size() - n_after - open);
}

std::string variable_name(const ResourceTemplate& resource) {
  const std::size_t open = resource.uri_template.find('{') + 1;
  return resource.uri_template.substr(open, resource.uri_template.find('}') - open);
}

Outcome resource_not_found(const std::string& uri, Revision revision) {
  return Outcome::failure(revision == kModern ? kInvalidParams : kResourceNotFound,
                          "resource not found: " + quote(uri) + "; see resources/list",
                          {{"uri", uri}});
}

Outcome contents_of(const std::string& uri, const std::string& mime_type, bool is_base64,
                    const Result<std::string>& text, Revision revision) {
  if (text.has_error()) {
    return text.error().kind == ErrorKind::kNotFound
               ? resource_not_found(uri, revision)
               : Outcome::failure(kInternalError, text.error().message);
  }
  json contents = {{"uri", uri}};
  contents[is_base64 ? "blob" : "text"] = is_base64 ? *text : sanitise_text(*text);
  set_unless_empty(contents, "mimeType", mime_type);
  return Outcome::success({{"contents", json::array({std::move(contents)})}});
}

Outcome read_resource(const Registry& registry, const json& params, Revision revision) {
  const std::string* uri = string_at(params, "uri");
  if (!uri) return Outcome::failure(kInvalidParams, "uri must be a string");
  for (const Resource& each : registry.resources) {
    if (each.uri != *uri || (each.available && !each.available())) continue;
    return contents_of(*uri, each.mime_type, each.is_base64, each.read(), revision);
  }
  for (const ResourceTemplate& each : registry.resource_templates) {
    if (const auto value = variable_in(each, *uri)) {
      return contents_of(*uri, each.mime_type, false, each.read(*value), revision);
    }
  }
  return resource_not_found(*uri, revision);
}

Outcome list_prompts(const Registry& registry, const json& params, Revision revision) {
  if (auto refusal = refuse_cursor(params)) return *refusal;
  json prompts = json::array();
  for (const Prompt& prompt : registry.prompts) {
    json entry = {{"name", prompt.name}, {"arguments", json::array()}};
    set_title(entry, prompt.title, revision);
    set_unless_empty(entry, "description", prompt.description);
    for (const PromptArgument& argument : prompt.arguments) {
      json described = {{"name", argument.name}, {"required", argument.required}};
      set_unless_empty(described, "description", argument.description);
      entry["arguments"].push_back(std::move(described));
    }
    prompts.push_back(std::move(entry));
  }
  return Outcome::success({{"prompts", std::move(prompts)}});
}

// The prompt of that name, or the error that says which there are.
struct PromptLookup {
  const Prompt* prompt = nullptr;
  Outcome failure;
};

PromptLookup find_prompt(const Registry& registry, const std::string* name) {
  if (!name) return {nullptr, Outcome::failure(kInvalidParams, "name must be a string")};
  std::vector<std::string> known;
  for (const Prompt& prompt : registry.prompts) {
    if (prompt.name == *name) return {&prompt, {}};
    known.push_back(prompt.name);
  }
  return {nullptr, Outcome::failure(kInvalidParams,
                                    "unknown prompt " + quote(*name) + suggest(*name, known))};
}

// Null when the prompt has no such argument; then `failure` says so.
std::optional<Outcome> refuse_argument(const Prompt& prompt, const std::string& name) {
  std::vector<std::string> known;
  for (const PromptArgument& argument : prompt.arguments) {
    if (argument.name == name) return std::nullopt;
    known.push_back(argument.name);
  }
  return Outcome::failure(kInvalidParams, "prompt " + quote(prompt.name) + " has no argument " +
                                              quote(name) + suggest(name, known));
}

// 2026-07-28 basic/patterns/mrtr: what the prompt still has to ask; nothing when it can be
// rendered.
std::optional<Outcome> ask_first(const Prompt& prompt, const json& params, Revision revision) {
  if (!prompt.questions || revision != kModern) return std::nullopt;
  Inputs inputs;
  inputs.responses = params.value("inputResponses", json::object());
  if (!inputs.responses.is_object()) {
    return Outcome::failure(kInvalidParams, "inputResponses must be an object");
  }
  json questions = prompt.questions(inputs);
  if (questions.is_null()) return std::nullopt;
  return Outcome::success(
      {{"resultType", "input_required"}, {"inputRequests", std::move(questions)}});
}

Outcome get_prompt(const Registry& registry, const json& params, Revision revision) {
  const auto [prompt, failure] = find_prompt(registry, string_at(params, "name"));
  if (!prompt) return failure;
  json given = params.value("arguments", json());
  if (given.is_null()) given = json::object();
  if (!given.is_object()) return Outcome::failure(kInvalidParams, "arguments must be an object");
  PromptArguments arguments;
  for (const auto& [name, value] : given.items()) {
    if (auto refusal = refuse_argument(*prompt, name)) return *refusal;
    if (!value.is_string()) {
      return Outcome::failure(kInvalidParams, "argument " + quote(name) + " must be a string");
    }
    arguments.emplace_back(name, value.get<std::string>());
  }
  for (const PromptArgument& argument : prompt->arguments) {
    if (argument.required && !given.contains(argument.name)) {
      return Outcome::failure(kInvalidParams, "missing argument " + quote(argument.name));
    }
  }
  if (auto questions = ask_first(*prompt, params, revision)) return *questions;
  const auto rendered = prompt->render(arguments);
  if (!rendered.has_value()) {
    const bool callers_fault = rendered.error().kind == ErrorKind::kInvalidArgument;
    return Outcome::failure(callers_fault ? kInvalidParams : kInternalError,
                            rendered.error().message);
  }
  json messages = json::array();
  for (const PromptMessage& message : *rendered) {
    json block = message.block;
    if (block.is_null()) block = {{"type", "text"}, {"text", sanitise_text(message.text)}};
    messages.push_back({{"role", message.role}, {"content", std::move(block)}});
  }
  json result = {{"messages", std::move(messages)}};
  set_unless_empty(result, "description", prompt->description);
  return Outcome::success(std::move(result));
}

// server/utilities/completion: at most 100 values.
constexpr std::size_t kCompletionsMax = 100;

Outcome completions(const KnownValues& values, const std::string& prefix) {
  json proposed = json::array();
  std::size_t total = 0;
  for (const std::string& value : values ? values() : std::vector<std::string>()) {
    if (!value.starts_with(prefix)) continue;
    if (++total <= kCompletionsMax) proposed.push_back(value);
  }
  return Outcome::success({{"completion",
                            {{"values", std::move(proposed)},
                             {"total", total},
                             {"hasMore", total > kCompletionsMax}}}});
}

Outcome complete_resource(const Registry& registry, const std::string* uri,
                          const std::string& argument, const std::string& prefix) {
  if (!uri) return Outcome::failure(kInvalidParams, "ref.uri must be a string");
  for (const ResourceTemplate& each : registry.resource_templates) {
    if (each.uri_template != *uri) continue;
    if (variable_name(each) != argument) {
      return Outcome::failure(kInvalidParams, "the template has no variable " + quote(argument));
    }
    return completions(each.values, prefix);
  }
  return Outcome::failure(kInvalidParams, "unknown resource template " + quote(*uri) +
                                              "; see resources/templates/list");
}

Outcome complete(const Registry& registry, const json& params, Revision) {
  const json reference = params.value("ref", json());
  const json argument = params.value("argument", json());
  if (!reference.is_object() || !argument.is_object() || !string_at(reference, "type") ||
      !string_at(argument, "name") || !string_at(argument, "value")) {
    return Outcome::failure(kInvalidParams,
                            "expected ref {type, ...} and argument {name, value}, all strings");
  }
  const std::string& type = *string_at(reference, "type");
  const std::string& name = *string_at(argument, "name");
  const std::string& prefix = *string_at(argument, "value");
  if (type == "ref/resource") {
    return complete_resource(registry, string_at(reference, "uri"), name, prefix);
  }
  if (type != "ref/prompt")
    return Outcome::failure(kInvalidParams, "unknown ref type " + quote(type));
  const auto [prompt, failure] = find_prompt(registry, string_at(reference, "name"));
  if (!prompt) return failure;
  if (auto refusal = refuse_argument(*prompt, name)) return *refusal;
  for (const PromptArgument& each : prompt->arguments) {
    if (each.name == name) return completions(each.values, prefix);
  }
  return completions(nullptr, prefix);
}

constexpr Feature kFeatures[] = {
    {kToolsList, Caching::kList, list_tools},
    {kResourcesList, Caching::kList, list_resources},
    {kResourceTemplatesList, Caching::kList, list_resource_templates},
    {kResourcesRead, Caching::kContents, read_resource},
    {kPromptsList, Caching::kList, list_prompts},
    {kPromptsGet, Caching::kNone, get_prompt},
    {kCompletionComplete, Caching::kNone, complete},
};

}  // namespace

const Feature* find_feature(std::string_view method) {
  const auto* found =
      std::find_if(std::begin(kFeatures), std::end(kFeatures),
                   [&](const Feature& feature) { return feature.method == method; });
  return found == std::end(kFeatures) ? nullptr : found;
}

json server_info(const Registry& registry, Revision revision) {
  json info = {{"name", registry.server_name}, {"version", registry.server_version}};
  set_title(info, registry.server_title, revision);
  return info;
}

// Everything is offered even when a registry leaves a list empty: clients ask for all four at start
// and an empty list reads better than an error.
json server_capabilities(const Registry& registry, Revision revision) {
  json capabilities = {{"tools", json::object()},
                       {"resources", {{"subscribe", true}}},
                       {"prompts", json::object()},
                       {"logging", json::object()}};
  if (registry.changing.tools) capabilities["tools"]["listChanged"] = true;
  if (registry.changing.prompts) capabilities["prompts"]["listChanged"] = true;
  if (registry.changing.resources) capabilities["resources"]["listChanged"] = true;
  if (revision >= Revision::k2025_03_26) capabilities["completions"] = json::object();
  return capabilities;
}

bool has_resource(const Registry& registry, const std::string& uri) {
  return std::any_of(registry.resources.begin(), registry.resources.end(),
                     [&](const Resource& each) { return each.uri == uri; }) ||
         std::any_of(
             registry.resource_templates.begin(), registry.resource_templates.end(),
             [&](const ResourceTemplate& each) { return variable_in(each, uri).has_value(); });
}

json tool_result(ToolResult result, Revision revision) {
  const bool has_structure = !result.is_error && !result.structured.is_null();
  std::string text = result.text.empty() && has_structure ? serialise(result.structured)
                                                          : sanitise_text(result.text);
  json reply = {{"content", std::move(result.blocks)}};
  if (reply["content"].is_null()) {
    reply["content"] = json::array({{{"type", "text"}, {"text", std::move(text)}}});
  }
  if (has_structure && revision >= Revision::k2025_06_18) {
    reply["structuredContent"] = std::move(result.structured);
  }
  if (result.is_error) reply["isError"] = true;
  return reply;
}

}  // namespace engramd::mcp
