// Metrics: what happened, since start and over the last minute. Counted on the io thread only;
// bounded memory (one small record per second of the last minute). The engine keeps its own
// counters (EngineStats); this adds requests per tool, latencies and who served.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/runtime/chat_backend.h"
#include "server/histogram.h"

namespace engramd::server {

struct ToolCounts {
  std::int64_t requests = 0, errors = 0, cancellations = 0;
};

struct WindowMetrics {
  std::map<std::string, ToolCounts> tools;
  std::int64_t prompt_tokens = 0, generated_tokens = 0;
  std::int64_t served_local = 0, served_remote = 0;
  engine::EngramCounts engram;
  Histogram first_token_ms, per_token_ms;
  double decode_ms = 0;  // time between first and last tokens
  std::int64_t decode_tokens = 0;

  void add(const WindowMetrics& other);
  double tokens_per_s() const {
    return decode_ms > 0 ? 1000.0 * static_cast<double>(decode_tokens) / decode_ms : 0;
  }
};

class Metrics {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Metrics(std::function<Clock::time_point()> now = Clock::now);

  void tool_started(const std::string& tool);
  void tool_finished(const std::string& tool, const std::string& outcome);
  // token_intervals_ms: between the tokens of the answer, in order.
  void chat_finished(const engine::ChatResult& result,
                     const std::vector<double>& token_intervals_ms);

  double uptime_s() const;
  const WindowMetrics& since_start() const { return total_; }
  WindowMetrics last_minute() const;
  std::int64_t running() const { return running_; }  // tool calls not finished yet

 private:
  struct Second {
    std::int64_t second = -1;                // since start; a slot is reused 60 seconds later
    std::unique_ptr<WindowMetrics> metrics;  // made when used: an idle start touches no memory
  };
  static constexpr std::int64_t kSeconds = 60;
  std::int64_t current_second() const;
  void count(const std::function<void(WindowMetrics&)>& change);

  const std::function<Clock::time_point()> now_;
  const Clock::time_point start_;
  WindowMetrics total_;
  std::array<Second, kSeconds> ring_;
  std::int64_t running_ = 0;
};

}  // namespace engramd::server
