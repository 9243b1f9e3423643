#include "server/daemon.h"

#include <chrono>
#include <csignal>
#include <optional>
#include <utility>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "mcp/dispatcher.h"
#include "server/bridge.h"
#include "server/conformance.h"
#include "server/engine_options.h"
#include "server/later.h"
#include "server/logging.h"
#include "server/model_folder.h"
#include "server/model_loader.h"
#include "server/tools/registry.h"
#include "server/tools/resources.h"
#include "server/transport/stdio.h"
#include "server/upstream/router.h"

namespace engramd::server {
namespace {

namespace asio = boost::asio;

// A launcher that dies without closing our input is noticed this much later.
constexpr std::chrono::milliseconds kParentCheckInterval{250};
// How often, within server.idle_exit_s, the daemon looks whether it has clients.
constexpr std::chrono::milliseconds::rep kIdleLooks = 10;

mcp::Limits to_mcp_limits(const config::Options& options) {
  mcp::Limits limits;
  limits.message_bytes_max = options.limits.message_bytes_max;
  limits.json_depth_max = static_cast<int>(options.limits.json_depth_max);
  limits.in_flight_max = static_cast<int>(options.limits.in_flight_max);
  limits.progress_interval_ms = static_cast<int>(options.server.progress_interval_ms);
  return limits;
}

}  // namespace

// Members in the order of construction; destruction is the shutdown order, last to first.
struct Daemon::Impl {
  Impl(config::EffectiveConfig given, DaemonParts parts)
      : config(std::move(given)),
        logger(make_logger(options.log)),
        router(parts.remote ? make_router() : nullptr),
        loader([this] { return open_model(); }, post()),
        services(make_services()),
        registry(make_full_registry(parts.conformance)),
        dispatcher(mcp::make_dispatcher(registry, to_mcp_limits(options), make_observer())),
        signals(io),
        parent_timer(io),
        idle_timer(io),
        watchdog_timer(io) {}

  Post post() {
    return [this](std::function<void()> function) { asio::post(io, std::move(function)); };
  }

  // Tells who subscribed, when the work has edited the tables.
  Post editing(asio::thread_pool& thread) {
    return [this, &thread](std::function<void()> function) {
      asio::post(thread, [this, function = std::move(function)]() mutable {
        std::exchange(function, nullptr)();
        asio::post(io, [this] { announce_edits(); });
      });
    };
  }

  Services make_services() {
    return {.config = config,
            .options = options,
            .loader = loader,
            .metrics = metrics,
            .post = post(),
            .table_thread = editing(table_thread),
            .doctor_thread =
                [this](std::function<void()> function) {
                  asio::post(doctor_thread, std::move(function));
                },
            .teach_thread = editing(teach_thread),
            .when_chat_ready =
                [this](const Services::ChatReady& ready) {
                  if (router) return ready(router.get());  // waits for the model where it needs it
                  loader.when_ready([ready](Result<engine::LocalEngine*> engine) {
                    if (engine.has_error()) return ready(engine.error());
                    ready(static_cast<engine::ChatBackend*>(engine.value()));
                  });
                },
            .remote_router = router.get(),
            .chat_log = [this](const engine::ChatResult& result) { log_chat(*logger, result); }};
  }

  // Null: no prompt leaves this machine.
  std::unique_ptr<Router> make_router() {
    auto settings = upstream_settings(options.api, remote_environment(config));
    if (settings.has_error()) {
      logger->error("no remote: {}", settings.error().message);
      return nullptr;
    }
    if (!settings->has_value()) return nullptr;
    return std::make_unique<Router>(options, loader, std::move(**settings), post(),
                                    [this](const std::string& what) { logger->warn("{}", what); });
  }

  mcp::Registry make_full_registry(bool conformance) {
    mcp::Registry all = make_registry(services);
    if (conformance) {
      add_conformance_fixtures(all, make_later(io), [this](mcp::Change change) {
        dispatcher->announce(std::move(change));
      });
    }
    return all;
  }

  mcp::Observer make_observer() {
    return {.tool_started = [this](const std::string& tool) { metrics.tool_started(tool); },
            .tool_finished =
                [this](const std::string& tool, const std::string& outcome, double) {
                  metrics.tool_finished(tool, outcome);
                  asio::post(io, [this] {  // after the dispatcher's own bookkeeping
                    if (listeners) listeners->check_drained();
                  });
                }};
  }

  // On the loader's thread.
  Result<std::unique_ptr<engine::LocalEngine>> open_model() {
    auto folder = find_model_folder(options.model, executable_folder());
    if (folder.has_error()) return folder.error();
    if (const auto note = missing_model(options.model, folder.value()); !note.empty()) {
      logger->warn(note);
    }
    const std::string& named = options.table.path;
    if (!named.empty() && table_file(options.table).empty()) {
      logger->warn("[engram] table file {} is not there: the model's own table is used", named);
    }
    logger->info("[engram] loading ngram table from {}",
                 table_file(options.table).empty() ? folder.value() : named);
    return engine::LocalEngine::open(to_engine_options(options, std::move(folder).value()));
  }

  void start_loading() {  // once
    if (std::exchange(loading_started, true)) return;
    if (router) {
      logger->info("prompts may go to {} (api.allow_remote = \"false\" keeps them here)",
                   router->remote_name());
    }
    loader.start();
    loader.when_ready([this](Result<engine::LocalEngine*> engine) {
      if (engine.has_value()) {
        log_table_loaded(*logger, engine.value()->facts(), engine.value()->memory().table);
      } else {
        logger->error("the model could not be opened: {}", engine.error().message);
      }
      dispatcher->announce({mcp::Change::What::kResources});
      dispatcher->announce({mcp::Change::What::kResource, kModelResource});
      announce_edits();
    });
  }

  // After work on the tables, which may have changed nothing.
  void announce_edits() {
    const auto engine = loader.current();
    if (engine.has_error()) return;
    const engine::TableStamp stamp = engine.value()->editor().tables().view().stamp();
    if (std::exchange(announced, stamp) == stamp) return;
    dispatcher->announce({mcp::Change::What::kResource, kTableResource});
  }

  void run_io(const std::function<void()>& on_signal) {
    io.restart();
    const auto work = asio::make_work_guard(io);
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) signals.add(number);
    signals.async_wait([on_signal](const boost::system::error_code& error, int) {
      if (!error) on_signal();
    });
    io.run();
    signals.clear();  // the default actions again, for a command that waits for input
  }

  void watch_parent(pid_t parent, const std::function<void()>& on_gone) {
    parent_timer.expires_after(kParentCheckInterval);
    parent_timer.async_wait([this, parent, on_gone](const boost::system::error_code& error) {
      if (error) return;
      if (::getppid() != parent) return on_gone();
      watch_parent(parent, on_gone);
    });
  }

  // One MCP session until it ends or a signal comes; after_message runs once each message is
  // handled and its reply, if it came at once, is on its way.
  int run_session(int input_fd, int output_fd, mcp::Dispatcher& behind,
                  const std::function<void()>& on_ending,
                  const std::function<void()>& after_message) {
    int exit_code = 0;
    const auto end = [this, &on_ending] {
      on_ending();
      io.stop();
    };
    watch_parent(::getppid(), end);
    session = std::make_unique<StdioSession>(
        input_fd, output_fd, behind, options.limits, services.post,
        StdioSession::Events{
            .message_handled = [this, &after_message] { asio::post(io, after_message); },
            .ended =
                [&exit_code, end](SessionEnd how) {
                  exit_code = how == SessionEnd::kOutputClosed ? 1 : 0;
                  end();
                },
        });
    run_io(end);
    session.reset();
    return exit_code;
  }

  // Looks again and again, since clients over HTTP come and go without a word.
  void watch_idleness(std::chrono::steady_clock::time_point idle_since) {
    const std::chrono::seconds limit(options.server.idle_exit_s);
    if (limit.count() == 0) return;
    idle_timer.expires_after(std::chrono::milliseconds(limit) / kIdleLooks);
    idle_timer.async_wait([this, idle_since, limit](const boost::system::error_code& error) {
      if (error) return;
      const auto now = std::chrono::steady_clock::now();
      if (listeners->n_clients() > 0) return watch_idleness(now);
      if (now - idle_since < limit) return watch_idleness(idle_since);
      logger->info("no client for {} s: the daemon ends", options.server.idle_exit_s);
      io.stop();
    });
  }

  void feed_watchdog(const ServiceManager& manager) {
    if (!manager.watchdog_interval()) return;
    manager.notify("WATCHDOG=1");
    watchdog_timer.expires_after(*manager.watchdog_interval());
    watchdog_timer.async_wait([this, &manager](const boost::system::error_code& error) {
      if (!error) feed_watchdog(manager);
    });
  }

  const config::EffectiveConfig config;
  const config::Options& options = config.options;
  std::shared_ptr<spdlog::logger> logger;
  asio::io_context io{1};
  Metrics metrics;
  std::unique_ptr<Router> router;  // before the loader, whose engine calls back into it
  ModelLoader loader;
  const Services services;
  const mcp::Registry registry;
  std::unique_ptr<mcp::Dispatcher> dispatcher;
  asio::signal_set signals;
  asio::steady_timer parent_timer;
  asio::steady_timer idle_timer;
  asio::steady_timer watchdog_timer;
  asio::thread_pool doctor_thread{1};
  asio::thread_pool table_thread{1};  // these two end before the engine that their work uses
  asio::thread_pool teach_thread{1};
  std::unique_ptr<StdioSession> session;
  std::unique_ptr<Listeners> listeners;
  bool loading_started = false;
  std::optional<engine::TableStamp> announced;  // of the table, to who subscribed
};

Daemon::Daemon(config::EffectiveConfig config, DaemonParts parts)
    : impl_(std::make_unique<Impl>(std::move(config), parts)) {}

Daemon::~Daemon() = default;

const Services& Daemon::services() const {
  return impl_->services;
}

const mcp::Registry& Daemon::registry() const {
  return impl_->registry;
}

void Daemon::run(const std::function<void()>& on_signal) {
  impl_->start_loading();
  impl_->run_io(on_signal);
}

void Daemon::stop() {
  impl_->io.stop();
}

Result<void> Daemon::serve(const Listeners::Settings& settings, const ServiceManager& manager,
                           const std::function<void(int port)>& on_listening) {
  auto listeners =
      Listeners::open(impl_->io, impl_->services, *impl_->dispatcher, settings,
                      [this](const std::string& what) { impl_->logger->warn("{}", what); });
  if (!listeners) return listeners.error();
  impl_->listeners = std::move(*listeners);
  on_listening(impl_->listeners->port());
  impl_->start_loading();
  impl_->loader.when_ready([&manager](const Result<engine::LocalEngine*>& engine) {
    manager.notify(engine.has_value() ? "READY=1\nSTATUS=serving"
                                      : "READY=1\nSTATUS=" + engine.error().message);
  });
  impl_->feed_watchdog(manager);
  impl_->watch_idleness(std::chrono::steady_clock::now());
  impl_->run_io([&] {
    manager.notify("STOPPING=1");
    impl_->listeners->drain([this] { stop(); });
    impl_->signals.async_wait([this](const boost::system::error_code& error, int) {
      if (!error) stop();  // a second signal: at once
    });
  });
  impl_->listeners.reset();
  return {};
}

int Daemon::serve_stdio(int input_fd, int output_fd, const std::function<void()>& on_ending) {
  // The model waits for the first reply: while its pages are mapped in, the whole process is slow.
  return impl_->run_session(input_fd, output_fd, *impl_->dispatcher, on_ending,
                            [this] { impl_->start_loading(); });
}

int Daemon::attach_stdio(int input_fd, int output_fd, const std::function<void()>& on_ending,
                         const Attachment& attachment) {
  const config::LimitOptions& limits = impl_->options.limits;
  Bridge bridge(*impl_->dispatcher, {.message_bytes_max = limits.message_bytes_max,
                                     .json_depth_max = static_cast<int>(limits.json_depth_max)});
  std::unique_ptr<DaemonLink> link;
  DaemonLink::Events events;
  bool warned = false;
  events.connected = [&](auto send) {
    bridge.daemon_connected(std::move(send));
    if (std::exchange(warned, true)) return;
    for (const std::string& line : attachment.differences()) {
      impl_->logger->warn(
          "the daemon that runs has other settings: {}; stop it, or use --standalone", line);
    }
  };
  events.message = [&](const std::string& message) { bridge.daemon_message(message); };
  events.lost = [&] { bridge.daemon_lost(); };
  events.failed = [&](const std::string& why) {
    impl_->logger->warn("{}; this process serves its client itself", why);
    impl_->start_loading();
    bridge.serve_here();
  };
  return impl_->run_session(input_fd, output_fd, bridge, on_ending, [&] {
    if (!link) link = DaemonLink::open(impl_->io, attachment.socket, attachment.start, events);
  });
}

}  // namespace engramd::server
