#include "server/conformance.h"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "mcp/protocol.h"

namespace engramd::server {
namespace {

using mcp::json;
using Call = std::shared_ptr<mcp::ToolCall>;

constexpr std::chrono::milliseconds kStep{50};  // between two messages, as the scenarios want

// One red pixel, and a wave file of no samples.
constexpr char kPng[] =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg"
    "==";
constexpr char kWav[] = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=";

json text_block(const std::string& text) {
  return {{"type", "text"}, {"text", text}};
}
json image_block() {
  return {{"type", "image"}, {"data", kPng}, {"mimeType", "image/png"}};
}
json resource_block(const std::string& uri, const std::string& mime_type, const std::string& text) {
  return {{"type", "resource"},
          {"resource", {{"uri", uri}, {"mimeType", mime_type}, {"text", text}}}};
}

mcp::Tool tool(const std::string& name, std::vector<mcp::Field> input,
               std::function<void(const Call&)> handler) {
  return {.name = name,
          .description = "Fixture of the MCP conformance suite.",
          .input = std::move(input),
          .handler = std::move(handler)};
}

mcp::Field text_field(const std::string& name) {
  return {.name = name, .description = "a text", .required = true};
}

mcp::Tool says(const std::string& name, json blocks) {
  return tool(name, {},
              [blocks = std::move(blocks)](const Call& call) { call->finish({.blocks = blocks}); });
}

void finish_with(const Call& call, const std::string& text) {
  call->finish({.text = text});
}

// Does each of `steps`, one every kStep, then ends the call.
using Steps = std::vector<std::function<void(mcp::ToolCall&)>>;
void run_steps(const Later& later, const Call& call, const Steps& steps, std::size_t next) {
  if (next == steps.size()) return finish_with(call, "done");
  steps[next](*call);
  auto timer = std::make_shared<LaterHandle>();
  *timer = later(kStep, [later, call, steps, next, timer] {
    const auto keep = std::exchange(*timer, nullptr);
    run_steps(later, call, steps, next + 1);
  });
}

mcp::Tool in_steps(const std::string& name, const Later& later, Steps steps) {
  return tool(name, {}, [later, steps = std::move(steps)](const Call& call) {
    run_steps(later, call, steps, 0);
  });
}

Steps log_steps() {
  Steps steps;
  for (const char* text :
       {"Tool execution started", "Tool processing data", "Tool execution completed"}) {
    steps.push_back([text](mcp::ToolCall& call) { call.log("info", text); });
  }
  return steps;
}

Steps progress_steps() {
  Steps steps;
  for (const double done : {0.0, 50.0, 100.0}) {
    steps.push_back([done](mcp::ToolCall& call) {
      call.progress(done, 100, "Completed step " + std::to_string(static_cast<int>(done)));
    });
  }
  return steps;
}

json object_schema(const json& properties, const json& required = json::array()) {
  return {{"type", "object"}, {"properties", properties}, {"required", required}};
}
json elicitation(const std::string& message, json schema) {
  return {{"method", "elicitation/create"},
          {"params", {{"message", message}, {"requestedSchema", std::move(schema)}}}};
}
json sampling(const std::string& prompt, int max_tokens) {
  return {{"method", "sampling/createMessage"},
          {"params",
           {{"messages", json::array({{{"role", "user"}, {"content", text_block(prompt)}}})},
            {"maxTokens", max_tokens}}}};
}
json roots() {
  return {{"method", "roots/list"}, {"params", json::object()}};
}
json name_question() {
  return elicitation("What is your name?",
                     object_schema({{"name", {{"type", "string"}}}}, {"name"}));
}

std::string sampled_text(const json& answer) {
  const json content = answer.is_object() ? answer.value("content", json()) : json();
  return content.is_object() ? content.value("text", std::string()) : std::string();
}
std::string elicited(const json& answer, const std::string& field) {
  const json content =
      answer.is_object() ? answer.value("content", json::object()) : json::object();
  return content.is_object() ? content.value(field, std::string()) : std::string();
}
std::string elicitation_summary(const json& answer) {
  const json given = answer.is_object() ? answer : json::object();
  return "Elicitation completed: action=" + given.value("action", std::string("none")) +
         ", content=" + given.value("content", json::object()).dump();
}

// Asks `questions` as one round and ends with what `sum_up` makes of the answers.
mcp::Tool asks(const std::string& name, std::vector<mcp::Field> input,
               std::function<json(const mcp::ToolCall&)> questions,
               std::function<std::string(const json& answers)> sum_up, json state = nullptr) {
  return tool(name, std::move(input),
              [questions = std::move(questions), sum_up = std::move(sum_up),
               state = std::move(state)](const Call& call) {
                const json wanted = questions(*call);
                const json& answers = call->inputs().responses;
                for (const auto& [key, question] : wanted.items()) {
                  if (!answers.contains(key) || !answers[key].is_object()) {
                    return call->require_input(wanted, state);
                  }
                }
                finish_with(call, sum_up(answers));
              });
}

void add_contents(mcp::Registry& registry, const Later& later) {
  auto& tools = registry.tools;
  tools.push_back(
      says("test_simple_text", {text_block("This is a simple text response for testing.")}));
  tools.push_back(says("test_image_content", {image_block()}));
  tools.push_back(
      says("test_audio_content", {{{"type", "audio"}, {"data", kWav}, {"mimeType", "audio/wav"}}}));
  tools.push_back(
      says("test_embedded_resource", {resource_block("test://embedded-resource", "text/plain",
                                                     "This is an embedded resource content.")}));
  tools.push_back(says("test_multiple_content_types",
                       {text_block("Multiple content types test:"), image_block(),
                        resource_block("test://mixed-content-resource", "application/json",
                                       R"({"test":"data","value":123})")}));
  tools.push_back(in_steps("test_tool_with_logging", later, log_steps()));
  tools.push_back(in_steps("test_logging_tool", later, log_steps()));
  tools.push_back(in_steps("test_tool_with_progress", later, progress_steps()));
  tools.push_back(tool("test_error_handling", {}, [](const Call& call) {
    call->finish(mcp::ToolResult::error("This tool intentionally returns an error for testing"));
  }));
}

json default_fields() {
  return object_schema(
      {{"name", {{"type", "string"}, {"default", "John Doe"}}},
       {"age", {{"type", "integer"}, {"default", 30}}},
       {"score", {{"type", "number"}, {"default", 95.5}}},
       {"status",
        {{"type", "string"}, {"enum", {"active", "inactive", "pending"}}, {"default", "active"}}},
       {"verified", {{"type", "boolean"}, {"default", true}}}});
}

json enum_fields() {
  const auto titled = [](const char* prefix) {
    json options = json::array();
    for (int i = 1; i <= 3; ++i) {
      const std::string n = std::to_string(i);
      options.push_back({{"const", prefix + n}, {"title", "Option " + n}});
    }
    return options;
  };
  const json plain = {"option1", "option2", "option3"};
  return object_schema(
      {{"untitledSingle", {{"type", "string"}, {"enum", plain}}},
       {"titledSingle", {{"type", "string"}, {"oneOf", titled("value")}}},
       {"legacyEnum",
        {{"type", "string"},
         {"enum", {"opt1", "opt2", "opt3"}},
         {"enumNames", {"Option One", "Option Two", "Option Three"}}}},
       {"untitledMulti", {{"type", "array"}, {"items", {{"type", "string"}, {"enum", plain}}}}},
       {"titledMulti", {{"type", "array"}, {"items", {{"anyOf", titled("value")}}}}}});
}

void add_questions(mcp::Registry& registry) {
  auto& tools = registry.tools;
  tools.push_back(asks(
      "test_sampling", {text_field("prompt")},
      [](const mcp::ToolCall& call) {
        return json{{"answer", sampling(call.arguments()["prompt"].get<std::string>(), 100)}};
      },
      [](const json& answers) { return "LLM response: " + sampled_text(answers["answer"]); }));
  tools.push_back(asks(
      "test_elicitation", {text_field("message")},
      [](const mcp::ToolCall& call) {
        return json{{"answer", elicitation(call.arguments()["message"].get<std::string>(),
                                           object_schema({{"username", {{"type", "string"}}},
                                                          {"email", {{"type", "string"}}}},
                                                         {"username", "email"}))}};
      },
      [](const json& answers) { return "User response: " + answers["answer"].dump(); }));
  const auto one = [&](const char* name, const char* message, json (*schema)()) {
    tools.push_back(asks(
        name, {},
        [message, schema](const mcp::ToolCall&) {
          return json{{"answer", elicitation(message, schema())}};
        },
        [](const json& answers) { return elicitation_summary(answers["answer"]); }));
  };
  one("test_elicitation_sep1034_defaults", "Please review the defaults", default_fields);
  one("test_elicitation_sep1330_enums", "Please choose", enum_fields);
}

// 2026-07-28 basic/patterns/mrtr.
void add_rounds(mcp::Registry& registry) {
  auto& tools = registry.tools;
  const auto add = [&](const char* name, json questions, auto sum_up, json state = nullptr) {
    tools.push_back(asks(
        std::string("test_input_required_result_") + name, {},
        [questions](const mcp::ToolCall&) { return questions; }, sum_up, state));
  };
  add("elicitation", {{"user_name", name_question()}},
      [](const json& answers) { return "Hello, " + elicited(answers["user_name"], "name") + "!"; });
  add("sampling", {{"capital_question", sampling("What is the capital of France?", 100)}},
      [](const json& answers) { return sampled_text(answers["capital_question"]); });
  add("list_roots", {{"client_roots", roots()}}, [](const json& answers) {
    std::string text = "Roots:";
    for (const json& root : answers["client_roots"].value("roots", json::array())) {
      text += ' ' + root.value("name", std::string()) + ' ' + root.value("uri", std::string());
    }
    return text;
  });
  const json confirm =
      elicitation("Please confirm", object_schema({{"ok", {{"type", "boolean"}}}}, {"ok"}));
  add("request_state", {{"confirm", confirm}}, [](const json&) { return std::string("state-ok"); },
      {{"round", 1}});
  add("tampered_state", {{"confirm", confirm}}, [](const json&) { return std::string("state-ok"); },
      {{"round", 1}});
  add("multiple_inputs",
      {{"user_name", name_question()},
       {"greeting", sampling("Write a short greeting.", 50)},
       {"client_roots", roots()}},
      [](const json& answers) {
        return sampled_text(answers["greeting"]) + ' ' + elicited(answers["user_name"], "name");
      },
      {{"round", 1}});
  tools.push_back(tool("test_input_required_result_multi_round", {}, [](const Call& call) {
    const mcp::Inputs& inputs = call->inputs();
    const int round = inputs.state.is_object() ? inputs.state.value("round", 0) : 0;
    const auto answered = [&](const char* key) {
      return inputs.responses.contains(key) && inputs.responses[key].is_object();
    };
    if (round == 2 && answered("step2")) {
      return finish_with(call, inputs.state.value("name", std::string()) + " likes " +
                                   elicited(inputs.responses["step2"], "color"));
    }
    if (round == 1 && answered("step1")) {
      return call->require_input(
          {{"step2", elicitation("What is your favourite colour?",
                                 object_schema({{"color", {{"type", "string"}}}}, {"color"}))}},
          {{"round", 2}, {"name", elicited(inputs.responses["step1"], "name")}});
    }
    call->require_input({{"step1", name_question()}}, {{"round", 1}});
  }));
  tools.push_back(tool("test_input_required_result_capabilities", {}, [](const Call& call) {
    json questions = json::object();
    if (call->client_can("elicitation")) questions["user_name"] = name_question();
    if (call->client_can("sampling")) questions["greeting"] = sampling("Say hello.", 50);
    if (call->client_can("roots")) questions["client_roots"] = roots();
    for (const auto& [key, question] : questions.items()) {
      if (!call->inputs().responses.contains(key)) return call->require_input(questions, nullptr);
    }
    finish_with(call, "complete");
  }));
}

void add_modern(mcp::Registry& registry, const Later& later,
                const std::function<void(mcp::Change)>& announce) {
  auto& tools = registry.tools;
  tools.push_back(tool("test_missing_capability", {}, [](const Call& call) {
    if (call->client_can("sampling")) return finish_with(call, "sampling is declared");
    call->refuse({mcp::kMissingClientCapability,
                  "this tool needs a client that can sample",
                  {{"requiredCapabilities", {{"sampling", json::object()}}}}});
  }));
  tools.push_back(in_steps("test_streaming_elicitation", later, progress_steps()));
  const auto triggers = [&](const char* name, mcp::Change::What what) {
    tools.push_back(tool(name, {}, [announce, what](const Call& call) {
      announce({what});
      finish_with(call, "announced");
    }));
  };
  triggers("test_trigger_tool_change", mcp::Change::What::kTools);
  triggers("test_trigger_prompt_change", mcp::Change::What::kPrompts);
}

mcp::Resource text_resource(const std::string& uri, const std::string& text) {
  return {.uri = uri,
          .name = uri.substr(uri.rfind('/') + 1),
          .description = "Fixture of the MCP conformance suite.",
          .mime_type = "text/plain",
          .read = [text]() -> Result<std::string> { return text; }};
}

void add_resources(mcp::Registry& registry) {
  registry.resources.push_back(
      text_resource("test://static-text", "This is the content of the static text resource."));
  registry.resources.push_back(text_resource("test://watched-resource", "Watched."));
  mcp::Resource image = text_resource("test://static-binary", kPng);
  image.mime_type = "image/png";
  image.is_base64 = true;
  registry.resources.push_back(std::move(image));
  registry.resource_templates.push_back(
      {.uri_template = "test://template/{id}/data",
       .name = "template",
       .description = "Fixture of the MCP conformance suite.",
       .mime_type = "application/json",
       .read = [](const std::string& id) -> Result<std::string> {
         return json{{"id", id}, {"templateTest", true}, {"data", "Data for ID: " + id}}.dump();
       }});
}

std::string value_of(const mcp::PromptArguments& arguments, const std::string& name) {
  for (const auto& [key, value] : arguments) {
    if (key == name) return value;
  }
  return {};
}

void add_prompts(mcp::Registry& registry) {
  using Messages = std::vector<mcp::PromptMessage>;
  const auto add = [&](const char* name, std::vector<mcp::PromptArgument> arguments,
                       std::function<Messages(const mcp::PromptArguments&)> render) {
    registry.prompts.push_back(
        {.name = name,
         .description = "Fixture of the MCP conformance suite.",
         .arguments = std::move(arguments),
         .render = [render](const mcp::PromptArguments& given) -> Result<Messages> {
           return render(given);
         }});
  };
  const auto argument = [](const char* name) {
    return mcp::PromptArgument{
        .name = name, .description = "a text", .required = true, .values = [] {
          return std::vector<std::string>{"test", "testing"};
        }};
  };
  add("test_simple_prompt", {}, [](const auto&) {
    return Messages{{.role = "user", .text = "This is a simple prompt for testing."}};
  });
  add("test_prompt_with_arguments", {argument("arg1"), argument("arg2")}, [](const auto& given) {
    return Messages{{.role = "user",
                     .text = "Prompt with arguments: arg1='" + value_of(given, "arg1") +
                             "', arg2='" + value_of(given, "arg2") + "'"}};
  });
  add("test_prompt_with_embedded_resource", {argument("resourceUri")}, [](const auto& given) {
    return Messages{{.role = "user",
                     .block = resource_block(value_of(given, "resourceUri"), "text/plain",
                                             "Embedded resource content for testing.")},
                    {.role = "user", .text = "Please process the embedded resource above."}};
  });
  add("test_prompt_with_image", {}, [](const auto&) {
    return Messages{{.role = "user", .block = image_block()},
                    {.role = "user", .text = "Please analyze the image above."}};
  });
  add("test_input_required_result_prompt", {},
      [](const auto&) { return Messages{{.role = "user", .text = "The context was given."}}; });
  registry.prompts.back().questions = [](const mcp::Inputs& inputs) -> json {
    if (inputs.responses.contains("user_context")) return nullptr;
    return {{"user_context",
             elicitation("What is the context?",
                         object_schema({{"context", {{"type", "string"}}}}, {"context"}))}};
  };
}

}  // namespace

void add_conformance_fixtures(mcp::Registry& registry, Later later,
                              std::function<void(mcp::Change)> announce) {
  registry.changing = {.tools = true, .prompts = true, .resources = true};
  add_contents(registry, later);
  add_questions(registry);
  add_rounds(registry);
  add_modern(registry, later, announce);
  add_resources(registry);
  add_prompts(registry);
}

}  // namespace engramd::server
