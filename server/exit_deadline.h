// ExitDeadline: the end of a shutdown that hangs. Ends the process with `exit_code` when it is
// still there after `deadline_ms`; destroying it in time cancels that. Nothing durable is lost by
// it: state is written when it changes, not at exit.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

namespace engramd::server {

class ExitDeadline {
 public:
  ExitDeadline(int deadline_ms, int exit_code);
  ~ExitDeadline();

 private:
  std::mutex mutex_;  // guards cancelled_
  std::condition_variable wake_;
  bool cancelled_ = false;
  std::thread thread_;
};

}  // namespace engramd::server
