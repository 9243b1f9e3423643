#include "mcp/registry.h"

#include <algorithm>
#include <set>
#include <utility>

namespace engramd::mcp {
namespace {

// The shortest limits among real clients: Cursor joins server and tool name to 60 characters,
// Claude Code cuts descriptions at 2048.
constexpr std::size_t kNameCharactersMax = 40;
constexpr std::size_t kDescriptionBytesMax = 2048;

class RegistryLinter {
 public:
  std::vector<std::string> complaints;

  void name(const std::string& kind, const std::string& name) {
    const bool legal = std::all_of(name.begin(), name.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '_' || c == '-';
    });
    if (name.empty() || name.size() > kNameCharactersMax || !legal) {
      complaints.push_back(kind + " \"" + name + "\" is not [A-Za-z0-9_-]{1,40}");
    }
    unique(kind, name);
  }

  void unique(const std::string& kind, const std::string& name) {
    if (!seen_.insert(kind + ' ' + name).second) {
      complaints.push_back(kind + " \"" + name + "\" is there twice");
    }
  }

  void description(const std::string& what, const std::string& text) {
    if (text.empty()) complaints.push_back(what + " has no description");
    if (text.size() > kDescriptionBytesMax) {
      complaints.push_back(what + " has a description over 2048 bytes");
    }
  }

  void schema(const std::string& what, const std::vector<Field>& fields) {
    for (const std::string& complaint : lint_schema(to_json_schema(fields))) {
      complaints.push_back(what + ": " + complaint);
    }
  }

 private:
  std::set<std::string> seen_;
};

}  // namespace

ToolResult ToolResult::error(std::string message) {
  return {std::move(message), nullptr, true};
}

void ToolCall::refuse(RpcError error) {
  finish(ToolResult::error(std::move(error.message)));
}

void ToolCall::require_input(json, json) {
  finish(ToolResult::error("this tool asks its client, and here is nobody to ask"));
}

const Inputs& ToolCall::inputs() const {
  static const Inputs none;
  return none;
}

std::vector<std::string> lint_registry(const Registry& registry) {
  RegistryLinter lint;
  for (const Tool& tool : registry.tools) {
    lint.name("tool", tool.name);
    lint.description("tool " + tool.name, tool.description);
    lint.schema("tool " + tool.name + " input", tool.input);
    lint.schema("tool " + tool.name + " output", tool.output);
    if (!tool.handler) lint.complaints.push_back("tool " + tool.name + " has no handler");
  }
  for (const Resource& resource : registry.resources) {
    lint.unique("resource", resource.uri);
    lint.description("resource " + resource.uri, resource.description);
    if (resource.uri.find("://") == std::string::npos) {
      lint.complaints.push_back("resource \"" + resource.uri + "\" is no URI");
    }
    if (resource.name.empty()) lint.complaints.push_back(resource.uri + " has no name");
    if (!resource.read) lint.complaints.push_back(resource.uri + " has no reader");
  }
  for (const Prompt& prompt : registry.prompts) {
    lint.name("prompt", prompt.name);
    lint.description("prompt " + prompt.name, prompt.description);
    for (const PromptArgument& argument : prompt.arguments) {
      lint.name("argument of " + prompt.name, argument.name);
      lint.description(prompt.name + '.' + argument.name, argument.description);
    }
    if (!prompt.render) lint.complaints.push_back("prompt " + prompt.name + " has no renderer");
  }
  return lint.complaints;
}

}  // namespace engramd::mcp
