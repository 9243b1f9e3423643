// Daemon: builds everything in order, runs the io thread, and takes it down in the reverse order.
// The one place that sees all options and all parts. The thread that calls run() is the io thread:
// dispatcher, tools and transports live on it; the loader, the engine and the transports' own
// threads post() to it. Not here: what any part does.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/effective_config.h"
#include "mcp/registry.h"
#include "server/daemon_link.h"
#include "server/listeners.h"
#include "server/service_manager.h"
#include "server/tools/services.h"

namespace engramd::server {

struct DaemonParts {
  bool remote = false;       // prompts may leave this machine where the configuration lets them
  bool conformance = false;  // the fixtures of the public MCP suite (server/conformance)
};

class Daemon {
 public:
  explicit Daemon(config::EffectiveConfig config, DaemonParts parts = {});
  ~Daemon();  // ends the engine, after the step that it is in; waits for a model that still loads

  const Services& services() const;
  const mcp::Registry& registry() const;

  // Loads the model in the background and runs until stop() or a signal that `on_signal` turns into
  // stop(). May be called again.
  void run(const std::function<void()>& on_signal);
  void stop();  // on the io thread

  // Listens for clients of all kinds until a signal comes, or until none has been there for
  // server.idle_exit_s. on_listening: clients can come now; port 0: not by TCP.
  Result<void> serve(const Listeners::Settings& settings, const ServiceManager& manager,
                     const std::function<void(int port)>& on_listening);

  // One MCP session over the two descriptors, until it ends or a signal comes: the exit code.
  // on_ending runs first thing then, before anything is taken down.
  int serve_stdio(int input_fd, int output_fd, const std::function<void()>& on_ending);
  // The same with the user's daemon behind it; this process opens a model only when no daemon can
  // be had.
  struct Attachment {
    std::string socket;
    DaemonLink::Start start;                                // when no daemon listens there
    std::function<std::vector<std::string>()> differences;  // of its settings, to be warned of
  };
  int attach_stdio(int input_fd, int output_fd, const std::function<void()>& on_ending,
                   const Attachment& attachment);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace engramd::server
