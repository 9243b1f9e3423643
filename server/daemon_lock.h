// DaemonLock: one daemon per state folder. Holds a lock on the file engramd.lock there as long as
// the process lives, however it ends, and says in it who that is. Not here: who edits which tables
// (their edit files have locks of their own).
#pragma once

#include <string>

#include "config/result.h"

namespace engramd::server {

class DaemonLock {
 public:
  // kUnavailable: another daemon has it; the message names its process.
  static Result<DaemonLock> take(const std::string& state_folder);
  // What the message of take() would say; empty: it is free. Changes nothing.
  static std::string holder(const std::string& state_folder);
  DaemonLock(DaemonLock&& other) noexcept;
  DaemonLock(const DaemonLock&) = delete;
  DaemonLock& operator=(const DaemonLock&) = delete;
  ~DaemonLock();

 private:
  explicit DaemonLock(int fd) : fd_(fd) {}

  int fd_ = -1;
};

// The folder, made when it is not there, the user's alone.
Result<std::string> ready_state_folder(const std::string& state_folder);
std::string socket_path(const std::string& configured, const std::string& state_folder);

}  // namespace engramd::server
