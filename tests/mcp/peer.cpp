#include "tests/mcp/peer.h"

#include <utility>

namespace engramd::mcp {
namespace {

Tool echo_tool() {
  Tool tool;
  tool.name = "echo";
  tool.description = "Echoes a text.";
  tool.annotations.title = "Echo";
  tool.input = {{.name = "text", .description = "what to echo", .required = true},
                {.name = "times",
                 .type = FieldType::kInteger,
                 .description = "how often",
                 .default_value = 1,
                 .minimum = 1,
                 .maximum = 3}};
  tool.output = {{.name = "text", .description = "the echo", .required = true}};
  tool.handler = [](const std::shared_ptr<ToolCall>& call) {
    std::string text;
    for (int i = 0; i < call->arguments()["times"].get<int>(); ++i) {
      text += call->arguments()["text"].get<std::string>();
    }
    call->finish({.text = "echo: " + text, .structured = {{"text", text}}});
  };
  return tool;
}

Tool lying_tool() {
  Tool tool;
  tool.name = "lie";
  tool.description = "Breaks its own schema.";
  tool.output = {{.name = "count", .type = FieldType::kInteger, .description = "a count"}};
  tool.handler = [](const std::shared_ptr<ToolCall>& call) {
    call->finish({.text = "five", .structured = {{"count", "five"}}});
  };
  return tool;
}

Prompt greeting() {
  Prompt prompt;
  prompt.name = "greet";
  prompt.title = "Greeting";
  prompt.description = "Greets somebody.";
  prompt.arguments = {{.name = "name", .description = "who", .required = true},
                      {.name = "tone", .description = "how", .values = [] {
                         return std::vector<std::string>{"friendly", "formal", "curt"};
                       }}};
  prompt.render = [](const auto& arguments) -> Result<std::vector<PromptMessage>> {
    for (const auto& [name, value] : arguments) {
      if (name == "name" && value == "nobody") return invalid_argument("name: expected a person");
      if (name == "name") return std::vector<PromptMessage>{{"user", "Hello, " + value + "!"}};
    }
    return not_found("no name");
  };
  return prompt;
}

}  // namespace

Peer::Peer(Limits limits) {
  registry.server_title = "Engram daemon";
  registry.server_version = "1.2.3";
  registry.instructions = "Ask away.";
  Tool wait{.name = "wait", .description = "Waits.", .handler = [this](auto call) {
              running.push_back(std::move(call));
            }};
  Tool drop{.name = "drop", .description = "Forgets.", .handler = [](const auto&) {}};
  registry.tools = {echo_tool(), std::move(wait), std::move(drop), lying_tool()};
  registry.resources = {
      {"test://note", "note", "Note", "A note.", "text/plain",
       []() -> Result<std::string> { return std::string("all is well"); }},
      {"test://broken", "broken", "", "Cannot be read.", "",
       []() -> Result<std::string> { return environment_error("disk says no"); }}};
  registry.prompts = {greeting()};
  Observer observer;
  observer.tool_started = [this](const std::string& tool) { observed.push_back("start " + tool); };
  observer.tool_finished = [this](const std::string& tool, const std::string& outcome, double ms) {
    observed.push_back(outcome + ' ' + tool + ' ' + std::to_string(static_cast<int>(ms)));
  };
  dispatcher = make_dispatcher(registry, limits, observer, [this] { return now; });
  connection = dispatcher->connect([this](Outgoing outgoing) {
    if (outgoing.message.empty()) return;
    sent_.push_back(json::parse(outgoing.message));
    raw.push_back(std::move(outgoing.message));
    if (on_send) on_send();
  });
}

std::vector<json> Peer::take() {
  return std::exchange(sent_, {});
}

std::vector<json> Peer::send(std::string_view message) {
  sent_.clear();
  connection->receive(message);
  return take();
}

json Peer::ask(std::string_view message) {
  std::vector<json> replies = send(message);
  EXPECT_EQ(replies.size(), 1u) << message.substr(0, 200);
  return replies.empty() ? json() : replies.front();
}

void Peer::initialize(const std::string& revision) {
  const json reply =
      ask(R"({"jsonrpc":"2.0","id":"i","method":"initialize","params":)"
          R"({"protocolVersion":")" +
          revision + R"(","capabilities":{},"clientInfo":{"name":"t","version":"0"}}})");
  EXPECT_EQ(reply["result"]["protocolVersion"], revision);
  EXPECT_TRUE(send(R"({"jsonrpc":"2.0","method":"notifications/initialized"})").empty());
}

std::string modern(const std::string& request) {
  json message = json::parse(request);
  json& meta = message["params"]["_meta"];
  meta["io.modelcontextprotocol/protocolVersion"] = "2026-07-28";
  meta["io.modelcontextprotocol/clientCapabilities"] = json::object();
  return message.dump();
}

testing::AssertionResult contains(const json& actual, const json& expected) {
  if (expected.is_object() && actual.is_object()) {
    for (const auto& [name, value] : expected.items()) {
      if (!actual.contains(name)) {
        return testing::AssertionFailure() << "no \"" << name << "\" in " << actual;
      }
      if (auto inner = contains(actual[name], value); !inner) return inner;
    }
    return testing::AssertionSuccess();
  }
  if (expected.is_array() && actual.is_array() && expected.size() == actual.size()) {
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (auto inner = contains(actual[i], expected[i]); !inner) return inner;
    }
    return testing::AssertionSuccess();
  }
  if (actual == expected && actual.is_number_float() == expected.is_number_float()) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << "expected " << expected << ", got " << actual;
}

}  // namespace engramd::mcp
