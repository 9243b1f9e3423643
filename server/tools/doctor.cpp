#include "server/tools/doctor.h"

#include <utility>

#include "server/doctor/check.h"
#include "server/doctor/symptom.h"
#include "server/tools/field.h"

namespace engramd::server {
namespace {

using mcp::json;

constexpr char kDescription[] =
    "Check this installation: configuration, model, table, memory, port, the remote step by step "
    "(name, connection, proxy, TLS, models), and the settings of Cline, Claude Code and others. "
    "Each check is pass, warn, fail or not checked, with one remedy. With explain, says what an "
    "error message usually means instead. Changes nothing and shows no key.";
constexpr std::int64_t kMessageCharactersMax = 4096;

mcp::ToolResult explained(const std::string& message) {
  const Symptom* const symptom = recognise(message);
  if (symptom == nullptr) {
    return {"Not a message that engramd knows. Without explain everything is looked at.",
            {{"checks", json::array()}},
            false};
  }
  const Check check = {symptom->name, CheckStatus::kFail, symptom->meaning, symptom->remedy};
  return {text_of(*symptom), to_json({check}), false};
}

void examine_here(const Services& services, const std::shared_ptr<mcp::ToolCall>& call,
                  Result<engine::LocalEngine*> engine) {
  services.doctor_thread([services, call, engine] {
    const std::vector<Check> checks = examine({.config = services.config,
                                               .engine = engine,
                                               .live = call->arguments().at("live"),
                                               .stop = call->stop_token()});
    auto result = std::make_shared<mcp::ToolResult>(
        mcp::ToolResult{text_of(checks, false), to_json(checks), false});
    services.post([call, result] { call->finish(std::move(*result)); });
  });
}

}  // namespace

mcp::Tool make_doctor_tool(const Services& services) {
  using namespace field;
  mcp::Tool tool;
  tool.name = "doctor";
  tool.description = kDescription;
  tool.annotations.title = "Check this installation";
  tool.annotations.read_only = true;
  tool.input = {
      with_default(boolean("live", "Ask the remote for one token, which costs."), false),
      at_most(text("explain", "An error message of a client or server, to be explained."),
              kMessageCharactersMax),
  };
  tool.output = {required(objects(
      "checks", "What was looked at.",
      all_required({text("name", "What: remote.key."),
                    choice("status", "How it is.", {"pass", "warn", "fail", "not checked"}),
                    text("detail", "What was found."),
                    text("remedy", "What to do about it; empty where nothing is wrong.")})))};
  tool.handler = [services](const std::shared_ptr<mcp::ToolCall>& call) {
    const std::string message = call->arguments().value("explain", std::string());
    if (!message.empty()) return call->finish(explained(message));
    services.loader.when_ready([services, call](Result<engine::LocalEngine*> engine) {
      examine_here(services, call, std::move(engine));
    });
  };
  return tool;
}

}  // namespace engramd::server
