#include "mcp/tool_call.h"

#include <cmath>
#include <utility>

#include "mcp/protocol.h"
#include "mcp/text.h"

namespace engramd::mcp {

RunningCall::RunningCall(Owner owner, json arguments, json progress_token)
    : owner_(std::move(owner)),
      arguments_(std::move(arguments)),
      progress_token_(std::move(progress_token)) {}

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
  json params = {{kProgressToken, progress_token_}, {"progress", done}};
  if (total && std::isfinite(*total)) params["total"] = *total;
  if (!message.empty()) params["message"] = sanitise_text(message);
  owner_.notify(std::move(params));
}

void RunningCall::finish(ToolResult result) {
  if (std::exchange(done_, true)) return;
  owner_.finish(std::move(result));
}

void RunningCall::cancel() {
  done_ = true;  // first, because a stop callback may call finish()
  stop_.request_stop();
}

}  // namespace engramd::mcp
