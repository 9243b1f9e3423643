#include "server/commands/stdio.h"

#include <filesystem>
#include <optional>
#include <system_error>

#include <unistd.h>

#include "server/daemon.h"
#include "server/daemon_lock.h"
#include "server/daemon_settings.h"
#include "server/exit_deadline.h"
#include "server/transport/stdio.h"

namespace engramd::server {
namespace {

constexpr int kShutdownMs = 80;  // clients kill 100 ms after their signal
// A daemon that a client has started ends so long after the last one has gone: an editor that is
// restarted finds it still warm.
constexpr int kIdleExitS = 600;

// Another process of this program with the same settings, for all clients of this user.
Result<void> start_daemon(const config::EffectiveConfig& config) {
  const config::Options& options = config.options;
  std::error_code code;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", code);
  if (code) return environment_error("cannot find this program's file: " + code.message());
  std::vector<std::string> arguments = {"serve", "--tcp-optional"};
  if (options.server.idle_exit_s == 0) {
    arguments.push_back("--idle-exit=" + std::to_string(kIdleExitS));
  }
  for (const std::string& argument : config.arguments) {
    if (argument != "--stdio" && argument != "--standalone") arguments.push_back(argument);
  }
  return start_detached(program, arguments, options.table.state_folder + "/daemon.log");
}

int run_stdio(const config::EffectiveConfig& config) {
  const int output_fd = claim_standard_output();
  std::optional<ExitDeadline> deadline;  // outlives the daemon, whose end it watches
  const auto on_ending = [&deadline] {
    if (!deadline) deadline.emplace(kShutdownMs, kExitOk);
  };
  Daemon daemon(config, {.remote = true});
  const std::string& state_folder = config.options.table.state_folder;
  if (has_flag(config, "--standalone") || ready_state_folder(state_folder).has_error()) {
    return daemon.serve_stdio(STDIN_FILENO, output_fd, on_ending);
  }
  return daemon.attach_stdio(
      STDIN_FILENO, output_fd, on_ending,
      {.socket = socket_path(config.options.server.socket, state_folder),
       .start = [&config] { return start_daemon(config); },
       .differences = [&] { return differing_settings(state_folder, settings_of(config)); }});
}

}  // namespace

Command stdio_command() {
  return {
      .name = "--stdio",
      .usage = "--stdio [--standalone] [OPTION...]",
      .summary = "serve MCP on standard input and output; what an MCP client launches",
      .description =
          "Serves the Model Context Protocol: one JSON message a line, or Content-Length frames\n"
          "when the client starts with those. Answers at once, from the user's daemon (engramd\n"
          "serve), which is started when none runs and ends ten minutes after its last client:\n"
          "all editors and scripts share one model and see the same table edits. With\n"
          "--standalone everything stays in this process. Standard output carries only the\n"
          "protocol; everything else goes to standard error. Ends at end of input, after the last\n"
          "answer; on SIGTERM, SIGINT and SIGHUP; and when the process that launched it is gone.",
      .examples = "claude mcp add --scope user engramd -- /usr/local/bin/engramd --stdio",
      .flags = {{"--stdio", "", "Serve MCP on standard input and output."},
                {"--standalone", "", "Keep everything in this one process: no daemon."}},
      .opens_model = true,
      .run = run_stdio,
  };
}

}  // namespace engramd::server
