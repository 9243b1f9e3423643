// WakeEvent: an eventfd that ends another thread's poll(2). signal() from any thread.
#pragma once

namespace engramd::server {

class WakeEvent {
 public:
  WakeEvent();
  ~WakeEvent();
  WakeEvent(const WakeEvent&) = delete;
  WakeEvent& operator=(const WakeEvent&) = delete;

  int fd() const { return fd_; }  // readable after signal()
  void signal();
  void clear();

 private:
  int fd_;
};

}  // namespace engramd::server
