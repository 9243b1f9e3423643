#include "server/commands/stdio.h"

#include <optional>

#include <unistd.h>

#include "server/daemon.h"
#include "server/exit_deadline.h"
#include "server/transport/stdio.h"

namespace engramd::server {
namespace {

constexpr int kShutdownMs = 80;  // clients kill 100 ms after their signal

int run_stdio(const config::EffectiveConfig& config) {
  const int output_fd = claim_standard_output();
  std::optional<ExitDeadline> deadline;  // outlives the daemon, whose end it watches
  Daemon daemon(config.options);
  return daemon.serve_stdio(STDIN_FILENO, output_fd, [&deadline] {
    if (!deadline) deadline.emplace(kShutdownMs, kExitOk);
  });
}

}  // namespace

Command stdio_command() {
  return {
      .name = "--stdio",
      .usage = "--stdio [--standalone] [OPTION...]",
      .summary = "serve MCP on standard input and output; what an MCP client launches",
      .description =
          "Serves the Model Context Protocol: one JSON message a line, or Content-Length frames\n"
          "when the client starts with those. Answers at once and loads the model in the\n"
          "background. Standard output carries only the protocol; everything else goes to\n"
          "standard error. Ends at end of input, after the last answer; on SIGTERM, SIGINT and\n"
          "SIGHUP; and when the process that launched it is gone.",
      .examples = "claude mcp add --scope user engramd -- /usr/local/bin/engramd --stdio",
      .flags = {{"--stdio", "", "Serve MCP on standard input and output."},
                {"--standalone", "", "Keep everything in this one process (as it is now)."}},
      .opens_model = true,
      .run = run_stdio,
  };
}

}  // namespace engramd::server
