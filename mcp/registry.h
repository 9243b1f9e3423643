// Registry: the tools, resources and prompts that a server offers, as data. Filled once at start by
// server/tools/*, read by the dispatcher; deterministic order (order of registration).
// A handler gets validated arguments and answers through its Call, at once or later. Everything in
// mcp/ runs on one thread (the io thread); a handler that finishes elsewhere posts back first.
// Not here: I/O, threads, the engine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "config/result.h"
#include "mcp/json_rpc.h"
#include "mcp/schema.h"

namespace engramd::mcp {

// What a tool gives back. Failures that a model can act on are ToolResult::error (isError), not
// protocol errors.
// `text` becomes the one text block of the reply (sanitised), `structured` its structuredContent
// (checked against the output fields first; a tool that breaks its own schema is reported as an
// error). The specification suggests the serialised JSON as the text block; engramd sends that only
// when `text` is empty, because a matrix as text would drown the model while a summary serves it.
struct ToolResult {
  std::string text = {};  // what a person or a model reads; empty: `structured`, serialised
  json structured = {};   // conforms to the tool's output schema; null for errors
  bool is_error = false;
  json blocks = {};  // instead of `text`: an array of content blocks (images, resources)

  static ToolResult error(std::string message);
};

// What a client has answered to the questions of require_input(), when a request comes again.
struct Inputs {
  json responses = json::object();  // by key
  json state = nullptr;             // as it was given to require_input(); nobody has changed it
};

// One running tools/call. Shared handle; finish() takes effect once, later calls are ignored, and
// nothing is sent after the client has cancelled. A call that is dropped without finish() is
// answered with an error, so the last handle of an unfinished call must go on the io thread.
class ToolCall {
 public:
  virtual ~ToolCall() = default;
  virtual const json& arguments() const = 0;  // validated, defaults filled in
  virtual std::stop_token stop_token() const = 0;
  virtual bool wants_progress() const = 0;
  // Increasing values only; rate-limited; dropped when the client gave no token.
  virtual void progress(double done, std::optional<double> total, const std::string& message) = 0;
  virtual void finish(ToolResult result) = 0;

  // What follows is for MCP clients; a caller from a shell is none and has the defaults.
  // To the client's log, when it wants this level (RFC 5424's names); `data`: a text or an object.
  virtual void log(std::string_view, json) {}
  virtual void refuse(RpcError error);  // a protocol error instead of a result
  // Has the client declared "sampling", "elicitation" or "roots"?
  virtual bool client_can(std::string_view) const { return false; }
  // Ends this call with questions to the client: {key: {method, params}}, only of methods that it
  // has declared. Once it has answered, the handler runs again, with a call whose inputs() hold the
  // answers given so far and `state`. (Legacy clients are asked by requests of ours, modern ones by
  // an input_required result.)
  virtual void require_input(json questions, json state);
  virtual const Inputs& inputs() const;
};

struct ToolAnnotations {
  std::string title = {};
  bool read_only = true;
  bool destructive = false;
  bool idempotent = true;
  bool open_world = false;
};

struct Tool {
  std::string name = {};         // [A-Za-z0-9_-]{1,40}
  std::string description = {};  // key words first; static text
  ToolAnnotations annotations = {};
  std::vector<Field> input = {};
  std::vector<Field> output = {};
  std::function<void(std::shared_ptr<ToolCall>)> handler = {};
};

struct Resource {
  std::string uri = {};
  std::string name = {};
  std::string title = {};
  std::string description = {};
  std::string mime_type = {};
  std::function<Result<std::string>()> read = {};  // text contents
  bool is_base64 = false;                          // what read() gives is a blob
  std::function<bool()> available = {};            // null: always
};

// The values that an argument can take now; those that begin with what was typed are proposed.
using KnownValues = std::function<std::vector<std::string>()>;

// Resources that differ in one part of their URI: "engramd://snapshot/{name}".
struct ResourceTemplate {
  std::string uri_template = {};  // with exactly one {variable}
  std::string name = {};
  std::string title = {};
  std::string description = {};
  std::string mime_type = {};
  std::function<Result<std::string>(const std::string& value)> read = {};  // kNotFound: no such one
  KnownValues values = {};                                                 // null: proposes nothing
};

struct PromptArgument {
  std::string name = {};
  std::string description = {};
  bool required = false;
  KnownValues values = {};  // null: proposes nothing
};

struct PromptMessage {
  std::string role = {};  // "user" or "assistant"
  std::string text = {};
  json block = {};  // instead of `text`: a content block
};

using PromptArguments = std::vector<std::pair<std::string, std::string>>;  // those given, by name

struct Prompt {
  std::string name = {};
  std::string title = {};
  std::string description = {};
  std::vector<PromptArgument> arguments = {};
  std::function<Result<std::vector<PromptMessage>>(const PromptArguments&)> render = {};
  // Modern clients only: the questions (as for ToolCall::require_input) that are open while these
  // answers are there; null: none, render() may run. Absent: never asks.
  std::function<json(const Inputs&)> questions = {};
};

// Which lists can become others while the daemon runs; each change is announced
// (Dispatcher::announce).
struct ChangingLists {
  bool tools = false;
  bool prompts = false;
  bool resources = false;
};

struct Registry {
  std::string server_name = "engramd";
  std::string server_title;
  std::string server_version;
  std::string instructions;
  std::vector<Tool> tools;
  std::vector<Resource> resources;
  std::vector<ResourceTemplate> resource_templates;
  std::vector<Prompt> prompts;
  ChangingLists changing;
};

// What in a registry would make a client drop or mistake an entry: names, missing or overlong
// descriptions, schemas (lint_schema), absent handlers, duplicates. Empty when all is well.
std::vector<std::string> lint_registry(const Registry& registry);

}  // namespace engramd::mcp
