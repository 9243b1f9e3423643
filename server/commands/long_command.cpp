#include "server/commands/long_command.h"

#include <cstdio>

#include <unistd.h>

#include "engine/engram/table_rows.h"
#include "server/commands/command.h"

namespace engramd::server {
namespace {

volatile std::sig_atomic_t interrupted_by_signal = 0;  // a signal handler may only touch a flag

}  // namespace

Interruption::Interruption() {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted_by_signal = 1; };
  ::sigaction(SIGINT, &action, &before_[0]);
  ::sigaction(SIGTERM, &action, &before_[1]);
}

Interruption::~Interruption() {
  ::sigaction(SIGINT, &before_[0], nullptr);
  ::sigaction(SIGTERM, &before_[1], nullptr);
}

void Interruption::poll() {
  if (interrupted_by_signal != 0) stop_.request_stop();
}

ProgressLine::ProgressLine(const config::EffectiveConfig& config)
    : on_(::isatty(STDERR_FILENO) == 1 && !has_flag(config, "--quiet")) {}

ProgressLine::~ProgressLine() {
  if (drawn_) std::fputs("\r\033[K", stderr);
}

void ProgressLine::show(const char* verb, std::int64_t done_bytes, std::int64_t total_bytes) {
  const auto now = std::chrono::steady_clock::now();
  if (!on_ || now - shown_ < std::chrono::milliseconds(200)) return;
  shown_ = now;
  drawn_ = true;
  std::fprintf(stderr, "\r%s: %s of %s (%lld %%)\033[K", verb,
               engine::gigabytes(done_bytes).c_str(), engine::gigabytes(total_bytes).c_str(),
               static_cast<long long>(total_bytes > 0 ? 100 * done_bytes / total_bytes : 100));
}

}  // namespace engramd::server
