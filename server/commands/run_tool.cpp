#include "server/commands/run_tool.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "server/commands/command.h"

namespace engramd::server {
namespace {

class ShellCall final : public mcp::ToolCall {
 public:
  ShellCall(mcp::json arguments, std::function<void()> on_finish)
      : arguments_(std::move(arguments)), on_finish_(std::move(on_finish)) {}

  const mcp::json& arguments() const override { return arguments_; }
  std::stop_token stop_token() const override { return stop_.get_token(); }
  bool wants_progress() const override { return false; }
  void progress(double, std::optional<double>, const std::string&) override {}
  void finish(mcp::ToolResult result) override {
    if (result_) return;
    result_ = std::move(result);
    on_finish_();
  }

  void cancel() { stop_.request_stop(); }
  std::optional<mcp::ToolResult> take_result() { return std::move(result_); }

 private:
  const mcp::json arguments_;
  const std::function<void()> on_finish_;
  std::stop_source stop_;
  std::optional<mcp::ToolResult> result_;
};

}  // namespace

Result<mcp::ToolResult> run_tool(Daemon& daemon, const std::string& tool,
                                 const mcp::json& arguments) {
  const auto& tools = daemon.registry().tools;
  const auto found = std::find_if(tools.begin(), tools.end(),
                                  [&](const mcp::Tool& entry) { return entry.name == tool; });
  ENGRAMD_ASSERT(found != tools.end());
  auto checked = mcp::validate(found->input, arguments);
  if (checked.has_error()) return checked.error();

  const auto call =
      std::make_shared<ShellCall>(std::move(checked).value(), [&daemon] { daemon.stop(); });
  daemon.services().post([&] { found->handler(call); });
  bool interrupted = false;
  daemon.run([&] {  // a signal: the tool ends by itself
    if (daemon.services().loader.loading()) end_while_loading();
    interrupted = true;
    call->cancel();
  });
  auto result = call->take_result();  // only its end stopped the daemon
  if (!result || interrupted) return cancelled("interrupted");
  if (result->is_error) return unavailable(std::move(result->text));
  return std::move(*result);
}

void end_while_loading() {
  const int exit_code = fail(cancelled("interrupted"));
  std::fflush(stdout);
  std::_Exit(exit_code);
}

std::string json_text(const mcp::json& value) {
  return value.dump(2, ' ', false, mcp::json::error_handler_t::replace) + '\n';
}

}  // namespace engramd::server
