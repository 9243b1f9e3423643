#include "server/daemon.h"

#include <chrono>
#include <csignal>
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
#include "server/engine_options.h"
#include "server/logging.h"
#include "server/model_folder.h"
#include "server/model_loader.h"
#include "server/tools/registry.h"
#include "server/transport/stdio.h"

namespace engramd::server {
namespace {

namespace asio = boost::asio;

// A launcher that dies without closing our input is noticed this much later.
constexpr std::chrono::milliseconds kParentCheckInterval{250};

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
  explicit Impl(config::Options given)
      : options(std::move(given)),
        logger(make_logger(options.log)),
        loader([this] { return open_model(); }, post()),
        services(make_services()),
        registry(make_registry(services)),
        dispatcher(mcp::make_dispatcher(registry, to_mcp_limits(options), make_observer())),
        signals(io),
        parent_timer(io) {}

  Post post() {
    return [this](std::function<void()> function) { asio::post(io, std::move(function)); };
  }

  Services make_services() {
    return {.options = options,
            .loader = loader,
            .metrics = metrics,
            .post = post(),
            .table_thread =
                [this](std::function<void()> function) {
                  asio::post(table_thread, std::move(function));
                },
            .when_chat_ready =
                [this](const Services::ChatReady& ready) {
                  loader.when_ready([ready](Result<engine::LocalEngine*> engine) {
                    if (engine.has_error()) return ready(engine.error());
                    ready(static_cast<engine::ChatBackend*>(engine.value()));
                  });
                },
            .chat_log = [this](const engine::ChatResult& result) { log_chat(*logger, result); }};
  }

  mcp::Observer make_observer() {
    return {.tool_started = [this](const std::string& tool) { metrics.tool_started(tool); },
            .tool_finished =
                [this](const std::string& tool, const std::string& outcome, double) {
                  metrics.tool_finished(tool, outcome);
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
    loader.start();
    loader.when_ready([this](Result<engine::LocalEngine*> engine) {
      if (engine.has_value()) {
        log_table_loaded(*logger, engine.value()->facts(), engine.value()->memory().table);
      } else {
        logger->error("the model could not be opened: {}", engine.error().message);
      }
    });
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

  const config::Options options;
  std::shared_ptr<spdlog::logger> logger;
  asio::io_context io{1};
  Metrics metrics;
  ModelLoader loader;
  const Services services;
  const mcp::Registry registry;
  std::unique_ptr<mcp::Dispatcher> dispatcher;
  asio::signal_set signals;
  asio::steady_timer parent_timer;
  asio::thread_pool table_thread{1};  // ends before the engine that its work uses
  std::unique_ptr<StdioSession> session;
  bool loading_started = false;
};

Daemon::Daemon(config::Options options) : impl_(std::make_unique<Impl>(std::move(options))) {}

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

int Daemon::serve_stdio(int input_fd, int output_fd, const std::function<void()>& on_ending) {
  int exit_code = 0;
  const auto end = [this, &on_ending] {
    on_ending();
    stop();
  };
  impl_->watch_parent(::getppid(), end);
  // The model waits for the first reply: while its pages are mapped in, the whole process is slow.
  impl_->session = std::make_unique<StdioSession>(
      input_fd, output_fd, *impl_->dispatcher, impl_->options.limits, impl_->services.post,
      StdioSession::Events{
          .message_handled = [this] { asio::post(impl_->io, [this] { impl_->start_loading(); }); },
          .ended =
              [&exit_code, end](SessionEnd how) {
                exit_code = how == SessionEnd::kOutputClosed ? 1 : 0;
                end();
              },
      });
  impl_->run_io(end);
  impl_->session.reset();
  return exit_code;
}

}  // namespace engramd::server
