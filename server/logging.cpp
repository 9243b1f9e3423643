#include "server/logging.h"

#include <mutex>
#include <numeric>

#include <poll.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

namespace engramd::server {
namespace {

class DroppingStderrSink final : public spdlog::sinks::base_sink<std::mutex> {
 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    pollfd out = {STDERR_FILENO, POLLOUT, 0};
    // POLLERR beside it: nobody reads any more, and writing would end the program with SIGPIPE.
    if (::poll(&out, 1, 0) != 1 || (out.revents & (POLLOUT | POLLERR)) != POLLOUT) return;
    // A pipe that is ready takes PIPE_BUF bytes at once (pipe(7)); a longer line is cut.
    const std::size_t size = std::min<std::size_t>(line.size(), 4096);
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), size);
  }
  void flush_() override {}
};

spdlog::level::level_enum to_spdlog(config::LogLevel level) {
  switch (level) {
    case config::LogLevel::kTrace:
      return spdlog::level::trace;
    case config::LogLevel::kDebug:
      return spdlog::level::debug;
    case config::LogLevel::kInfo:
      return spdlog::level::info;
    case config::LogLevel::kWarn:
      return spdlog::level::warn;
    case config::LogLevel::kError:
      return spdlog::level::err;
    case config::LogLevel::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::warn;
}

const char* how_held(engine::TableMode mode) {
  switch (mode) {
    case engine::TableMode::kResident:
      return "mmap disabled, table copied to memory";
    case engine::TableMode::kFile:
      return "mmap disabled, rows read from the file";
    default:
      return "mmap enabled";
  }
}

}  // namespace

std::shared_ptr<spdlog::logger> make_logger(const config::LogOptions& options) {
  auto logger = std::make_shared<spdlog::logger>("engramd", std::make_shared<DroppingStderrSink>());
  logger->set_level(to_spdlog(options.level));
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e engramd %l: %v");
  return logger;
}

void log_warnings(spdlog::logger& logger, const std::vector<std::string>& lines) {
  for (const std::string& line : lines) logger.warn("{}", line);
}

void log_table_loaded(spdlog::logger& logger, const engine::ModelFacts& facts,
                      std::int64_t table_bytes) {
  log_warnings(logger, facts.warnings);
  logger.info("[device] the model runs on {}{}{}", facts.backend,
              facts.device_note.empty() ? "" : ": ", facts.device_note);
  const auto rows =
      std::accumulate(facts.engram_rows.begin(), facts.engram_rows.end(), std::int64_t{0});
  logger.info("[engram] {}, host memory reserved: {:.2f} GB", how_held(facts.engram_mode),
              static_cast<double>(table_bytes) / 1e9);
  // A prime per order and head, so the numbers differ a little: their mean.
  const auto heads = static_cast<std::int64_t>(facts.engram_rows.size()) *
                     (facts.engram_max_ngram_size - 1) * facts.engram_heads;
  logger.info("[engram] hash buckets: {}, order: {}, embed_dim: {}", heads > 0 ? rows / heads : 0,
              facts.engram_max_ngram_size, facts.engram_head_dim);
  logger.info("[engram] deterministic addressing: ON");
  logger.info("[engram] table loaded in {:.2f} s, gpu footprint: 0.0 GB", facts.load_ms / 1000.0);
}

void log_chat(spdlog::logger& logger, const engine::ChatResult& result) {
  engine::EngramCounts counts = result.engram_prompt;
  counts.add(result.engram_generated);
  logger.info("chat: {} prompt and {} generated tokens, {:.0f} tokens/s, engram_hit_rate {:.4f}",
              result.prompt_tokens, result.completion_tokens, result.decode_tokens_per_s,
              counts.hit_rate());
  for (std::size_t i = 0; i < counts.orders.size(); ++i) {
    const auto& order = counts.orders[i];
    logger.debug("order {}: engram lookup miss {}, engram bypass {}", i + 2,
                 order.lookups - order.bypassed - order.owned, order.bypassed);
  }
}

}  // namespace engramd::server
