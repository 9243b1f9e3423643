#include "server/commands/serve.h"

#include <csignal>
#include <cstdio>

#include "server/daemon.h"
#include "server/daemon_lock.h"
#include "server/daemon_settings.h"
#include "server/transport/access.h"
#include "server/upstream/remote_environment.h"

namespace engramd::server {
namespace {

int run_serve(const config::EffectiveConfig& config) {
  std::signal(SIGPIPE, SIG_IGN);
  const auto folder = ready_state_folder(config.options.table.state_folder);
  if (folder.has_error()) return fail(folder.error());
  const auto lock = DaemonLock::take(*folder);
  if (lock.has_error()) return fail(lock.error());
  if (const auto written = write_daemon_settings(*folder, settings_of(config)); !written) {
    return fail(written.error());
  }
  const ServiceManager manager(config.environment);
  Daemon daemon(config, {.remote = true, .conformance = has_flag(config, "--conformance")});
  const Listeners::Settings settings = {remote_environment(config).api_key,
                                        has_flag(config, "--tcp-optional")};
  const auto served = daemon.serve(settings, manager, [&config](int port) {
    if (port == 0) return;
    const config::ServerOptions& server = config.options.server;
    std::printf("listening on http://%s:%d/mcp, token: %s\n", server.host.c_str(), port,
                server.auth ? token_path(config.options.table.state_folder).c_str() : "none");
    std::fflush(stdout);
  });
  return served.has_error() ? fail(served.error()) : kExitOk;
}

}  // namespace

Command serve_command() {
  return {
      .name = "serve",
      .usage = "serve [--port N] [--socket FILE] [--no-auth] [OPTION...]",
      .summary =
          "the daemon: MCP over HTTP, WebSocket and a Unix socket, OpenAI and Anthropic APIs",
      .description =
          "Serves all clients of this user from one model in memory, until a signal comes:\n"
          "  http://127.0.0.1:3647/mcp      MCP over Streamable HTTP; ws:// for WebSocket\n"
          "  http://127.0.0.1:3647/v1       OpenAI's chat, completions, embeddings, models\n"
          "  http://127.0.0.1:3647          Anthropic's base URL: /v1/messages\n"
          "  /metrics, /health, /ready      for monitoring\n"
          "  ~/.local/state/engramd/engramd.sock   what `engramd --stdio` attaches to\n"
          "The TCP port asks for the bearer token in ~/.local/state/engramd/token, which is made\n"
          "at the first start; the value of the variable that api.api_key_env names is accepted\n"
          "too. SIGTERM and SIGINT let what runs end, for server.shutdown_timeout_ms.",
      .examples =
          "engramd serve --port 8080\n"
          "curl -H \"Authorization: Bearer $(cat ~/.local/state/engramd/token)\" "
          "localhost:3647/v1/models",
      .flags = {{"--conformance", "",
                 "Add the fixtures of the public MCP conformance suite, for tests."},
                {"--tcp-optional", "",
                 "Go on without the TCP port when it is taken; so `engramd --stdio` starts it."}},
      .opens_model = true,
      .run = run_serve,
  };
}

}  // namespace engramd::server
