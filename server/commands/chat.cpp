#include "server/commands/chat.h"

#include <charconv>
#include <cstdio>
#include <iostream>
#include <utility>

#include <unistd.h>

#include "mcp/text.h"
#include "server/commands/run_tool.h"
#include "server/tools/chat.h"
#include "server/tools/chat_run.h"

namespace engramd::server {
namespace {

using mcp::json;

constexpr char kDim[] = "\x1b[2m";
constexpr char kReset[] = "\x1b[0m";

// The flags as the chat tool's arguments; the options that are in the option table arrive through
// the tool's defaults.
Result<json> chat_arguments(const config::EffectiveConfig& config) {
  json arguments = json::object();
  for (const char* name : {"seed", "top-logprobs"}) {
    for (const std::string& text : flag_values(config, std::string("--") + name)) {
      std::int64_t number = 0;
      const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
      if (status != std::errc() || end != text.data() + text.size()) {
        return invalid_argument("flag --" + std::string(name) + ": expected an integer, got " +
                                mcp::quote(text));
      }
      arguments[name == std::string("seed") ? "seed" : "top_logprobs"] = number;
    }
  }
  for (const std::string& route : flag_values(config, "--route")) arguments["route"] = route;
  for (const std::string& name : flag_values(config, "--ask")) arguments["model"] = name;
  const auto stop = flag_values(config, "--stop");
  if (!stop.empty()) arguments["stop"] = stop;
  return Result<json>(boost::system::in_place_value, std::move(arguments));
}

// The line about who served: part of the answer for people, beside it for scripts.
void print_served_line(const std::string& line, bool colour) {
  std::FILE* const out = ::isatty(STDOUT_FILENO) == 1 ? stdout : stderr;
  std::fflush(stdout);  // the answer first, where both go into one file
  std::fprintf(out, "%s[%s]%s\n", colour ? kDim : "", line.c_str(), colour ? kReset : "");
}

// One answer, written as it is generated. Ctrl-C ends the answer, not the program, unless the model
// still loads. Only on_done stops the daemon, so what the callbacks refer to outlives them.
Result<engine::ChatResult> stream_chat(Daemon& daemon, const engine::ChatRequest& request) {
  std::stop_source stop;
  std::optional<Result<engine::ChatResult>> outcome;
  ChatEvents events;
  events.on_text = [](const std::string& text, std::int64_t) {
    std::fputs(mcp::sanitise_text(text).c_str(), stdout);
    std::fflush(stdout);
  };
  events.on_done = [&](Result<engine::ChatResult> result) {
    outcome = std::move(result);
    daemon.stop();
  };
  const Services& services = daemon.services();
  services.post([&] {
    services.when_chat_ready([&](Result<engine::ChatBackend*> backend) {
      if (backend.has_error()) return events.on_done(backend.error());
      run_chat(*backend.value(), request, events, stop.get_token(), services);
    });
  });
  bool interrupted = false;
  daemon.run([&] {
    if (services.loader.loading()) end_while_loading();
    interrupted = true;
    stop.request_stop();
  });
  ENGRAMD_ASSERT(outcome.has_value());
  if (outcome->has_error()) return outcome->error();
  if (interrupted) outcome->value().finish_reason = engine::FinishReason::kCancelled;
  return std::move(*outcome);
}

Result<engine::ChatRequest> make_request(Daemon& daemon, const json& arguments) {
  const auto checked = mcp::validate(chat_input_fields(daemon.services().options), arguments);
  if (checked.has_error()) return checked.error();
  return to_chat_request(checked.value());
}

int answer_once(const config::EffectiveConfig& config, json arguments) {
  auto text = read_text(config);
  if (text.has_error()) return fail(text.error());
  arguments[has_flag(config, "--completion") ? "completion" : "prompt"] = std::move(text).value();
  Daemon daemon(config, {.remote = true});
  if (has_flag(config, "--json")) {
    const auto result = run_tool(daemon, "chat", arguments);
    if (result.has_error()) return fail(result.error());
    std::fputs(json_text(result.value().structured).c_str(), stdout);
    return kExitOk;
  }
  const auto request = make_request(daemon, arguments);
  if (request.has_error()) return fail(request.error());
  const auto result = stream_chat(daemon, request.value());
  if (result.has_error()) return fail(result.error());
  std::fputc('\n', stdout);
  print_served_line(served_line(result.value(), config.options.engram.enable),
                    colour_wanted(config));
  const bool cancelled = result.value().finish_reason == engine::FinishReason::kCancelled;
  return cancelled ? kExitInterrupted : kExitOk;
}

int converse(const config::EffectiveConfig& config, const json& arguments) {
  const bool colour = colour_wanted(config);
  Daemon daemon(config, {.remote = true});
  json messages = json::array();
  std::puts("Ask something. /clear starts over, /quit or Ctrl-D ends; Ctrl-C stops an answer.");
  std::string line;
  while (std::fputs("> ", stdout), std::fflush(stdout), std::getline(std::cin, line)) {
    if (line == "/quit" || line == "/exit") break;
    if (line == "/clear") messages.clear();
    if (line.empty() || line == "/clear") continue;
    messages.push_back({{"role", "user"}, {"content", line}});
    json turn = arguments;
    turn["messages"] = messages;
    const auto request = make_request(daemon, turn);
    if (request.has_error()) return fail(request.error());
    const auto result = stream_chat(daemon, request.value());
    if (result.has_error()) {
      messages.erase(messages.size() - 1);
      fail(result.error());
      if (daemon.services().loader.current().has_error()) return kExitFailed;
      continue;
    }
    std::fputc('\n', stdout);
    print_served_line(served_line(result.value(), config.options.engram.enable), colour);
    messages.push_back({{"role", "assistant"}, {"content", result.value().text}});
  }
  return kExitOk;
}

int run_chat_command(const config::EffectiveConfig& config) {
  const auto arguments = chat_arguments(config);
  if (arguments.has_error()) return fail(arguments.error());
  const bool conversation = config.positional.empty() && ::isatty(STDIN_FILENO) == 1;
  return conversation ? converse(config, arguments.value())
                      : answer_once(config, arguments.value());
}

}  // namespace

Command chat_command() {
  return {
      .name = "chat",
      .usage = "chat [TEXT] [--json] [OPTION...]",
      .summary = "ask the model: one answer, or a conversation on a terminal",
      .description =
          "With TEXT, or with text on standard input, prints the answer as it is generated. On a\n"
          "terminal without TEXT it is a conversation: /clear starts over, /quit or Ctrl-D ends,\n"
          "Ctrl-C stops the answer. Who served, the speed and the Engram hit rate follow the\n"
          "answer: on standard output when that is a terminal, else on standard error, so that a\n"
          "script reads the answer alone. With a remote configured (api.base_url) its models "
          "answer\n"
          "when the local one cannot, and the answer says why.",
      .examples =
          "engramd chat \"What is the capital of France?\"\n"
          "engramd chat --engram off \"What is the capital of France?\"\n"
          "echo \"The capital of France is\" | engramd chat --completion --max-tokens 8\n"
          "engramd chat --json \"法国的首都是哪里？\"",
      .flags = {{"--json", "", "Print the chat tool's whole structured result."},
                {"--completion", "", "Continue TEXT as it is, without the chat format."},
                {"--route", "ROUTE", "auto, local or remote: who may answer."},
                {"--ask", "NAME", "The model that is to answer, of the remote or here."},
                {"--seed", "N", "Equal seeds give equal answers."},
                {"--stop", "TEXT", "Text that ends the answer; may be repeated."},
                {"--top-logprobs", "N", "With --json: alternatives per token."}},
      .takes_words = true,
      .opens_model = true,
      .run = run_chat_command,
  };
}

}  // namespace engramd::server
