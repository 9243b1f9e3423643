#include "mcp/tool_call.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "mcp/protocol.h"
#include "mcp/text.h"

namespace engramd::mcp {

RunningCall::RunningCall(Owner owner, json arguments, CallContext context)
    : owner_(std::move(owner)), arguments_(std::move(arguments)), context_(std::move(context)) {}

RunningCall::~RunningCall() {
  if (!done_)
    finish(ToolResult::error("the tool ended without a result; this is a bug in engramd"));
}

void RunningCall::progress(double done, std::optional<double> total, const std::string& message) {
  if (done_ || !wants_progress() || !std::isfinite(done)) return;
  if (reported_ && done <= *reported_) return;
  // The last step is always told: a bar that stops at 97 % looks like a fault.
  const bool last = total && done >= *total;
  const auto now = owner_.now();
  if (reported_ && !last && now - reported_at_ < owner_.progress_interval) return;
  reported_ = done;
  reported_at_ = now;
  json params = {{kProgressToken, context_.progress_token}, {"progress", done}};
  if (total && std::isfinite(*total)) params["total"] = *total;
  if (!message.empty()) params["message"] = sanitise_text(message);
  owner_.notify(kProgress, std::move(params));
}

void RunningCall::log(std::string_view level, json data) {
  const auto rank = [](std::string_view name) {
    return std::find(kLogLevels.begin(), kLogLevels.end(), name) - kLogLevels.begin();
  };
  if (done_ || context_.log_level.empty() || rank(level) < rank(context_.log_level)) return;
  owner_.notify(kLogMessage, {{"level", level}, {"data", std::move(data)}});
}

bool RunningCall::client_can(std::string_view capability) const {
  return context_.client_capabilities.contains(std::string(capability));
}

void RunningCall::require_input(json questions, json state) {
  end(Questions{std::move(questions), std::move(state)});
}

void RunningCall::end(CallEnd how) {
  if (std::exchange(done_, true)) return;
  owner_.end(std::move(how));
}

void RunningCall::cancel() {
  done_ = true;  // first, because a stop callback may call finish()
  stop_.request_stop();
}

}  // namespace engramd::mcp
