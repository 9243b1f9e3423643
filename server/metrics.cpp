#include "server/metrics.h"

#include <utility>

namespace engramd::server {

void WindowMetrics::add(const WindowMetrics& other) {
  for (const auto& [name, counts] : other.tools) {
    ToolCounts& sum = tools[name];
    sum.requests += counts.requests;
    sum.errors += counts.errors;
    sum.cancellations += counts.cancellations;
  }
  prompt_tokens += other.prompt_tokens;
  generated_tokens += other.generated_tokens;
  served_local += other.served_local;
  served_remote += other.served_remote;
  engram.add(other.engram);
  first_token_ms.add(other.first_token_ms);
  per_token_ms.add(other.per_token_ms);
  decode_ms += other.decode_ms;
  decode_tokens += other.decode_tokens;
}

Metrics::Metrics(std::function<Clock::time_point()> now) : now_(std::move(now)), start_(now_()) {}

std::int64_t Metrics::current_second() const {
  return std::chrono::duration_cast<std::chrono::seconds>(now_() - start_).count();
}

double Metrics::uptime_s() const {
  return std::chrono::duration<double>(now_() - start_).count();
}

void Metrics::count(const std::function<void(WindowMetrics&)>& change) {
  change(total_);
  const std::int64_t second = current_second();
  Second& slot = ring_[static_cast<std::size_t>(second % kSeconds)];
  if (slot.second != second) slot = {second, std::make_unique<WindowMetrics>()};
  change(*slot.metrics);
}

void Metrics::tool_started(const std::string& tool) {
  ++running_;
  count([&](WindowMetrics& window) { ++window.tools[tool].requests; });
}

void Metrics::tool_finished(const std::string& tool, const std::string& outcome) {
  --running_;
  count([&](WindowMetrics& window) {
    if (outcome == "error") ++window.tools[tool].errors;
    if (outcome == "cancelled") ++window.tools[tool].cancellations;
  });
}

void Metrics::chat_finished(const engine::ChatResult& result,
                            const std::vector<double>& token_intervals_ms) {
  count([&](WindowMetrics& window) {
    window.prompt_tokens += result.prompt_tokens;
    window.generated_tokens += result.completion_tokens;
    ++(result.served_by == "remote" ? window.served_remote : window.served_local);
    window.engram.add(result.engram_prompt);
    window.engram.add(result.engram_generated);
    if (result.completion_tokens > 0) window.first_token_ms.add(result.first_token_ms);
    for (const double interval_ms : token_intervals_ms) {
      window.per_token_ms.add(interval_ms);
      window.decode_ms += interval_ms;
    }
    window.decode_tokens += static_cast<std::int64_t>(token_intervals_ms.size());
  });
}

WindowMetrics Metrics::last_minute() const {
  WindowMetrics sum;
  const std::int64_t now_second = current_second();
  for (const Second& slot : ring_) {
    if (slot.second >= 0 && now_second - slot.second < kSeconds) sum.add(*slot.metrics);
  }
  return sum;
}

}  // namespace engramd::server
