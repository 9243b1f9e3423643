// ServiceManager: what systemd wants to hear from a service of Type=notify (sd_notify(3)): that it
// is ready, that it stops, and, when a watchdog is set, that it is alive. Without systemd nothing.
// On the io thread, whose turning is what the watchdog watches.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "config/load_environment.h"

namespace engramd::server {

class ServiceManager {
 public:
  explicit ServiceManager(const config::Environment& environment);

  void notify(const std::string& state) const;  // "READY=1"
  // How often "WATCHDOG=1" has to come: half of what the unit allows. Nothing: no watchdog.
  std::optional<std::chrono::milliseconds> watchdog_interval() const { return watchdog_interval_; }

 private:
  std::string socket_;  // empty: no service manager
  std::optional<std::chrono::milliseconds> watchdog_interval_;
};

}  // namespace engramd::server
