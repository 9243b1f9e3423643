// What commands that work for minutes share: a progress line, Ctrl-C that ends them where they can
// go on later. One per process.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <stop_token>

#include "config/effective_config.h"

namespace engramd::server {

// Ctrl-C and SIGTERM request a stop as long as this lives; the work looks at poll() as it goes.
class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;
  void poll();
  std::stop_token token() const { return stop_.get_token(); }

 private:
  std::stop_source stop_;
  struct sigaction before_[2]{};
};

// One line on a terminal's standard error, rewritten a few times a second; --quiet turns it off.
class ProgressLine {
 public:
  explicit ProgressLine(const config::EffectiveConfig& config);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void show(const char* verb, std::int64_t done_bytes, std::int64_t total_bytes);

 private:
  bool on_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point shown_{};
};

}  // namespace engramd::server
