// Dispatcher: JSON-RPC text in, JSON-RPC text out, for both MCP eras (legacy 2024-11-05 to
// 2025-11-25 by `initialize`; modern 2026-07-28 by per-request _meta), chosen per request. No I/O,
// no threads, no clock but the one it is given: transports are thin adapters around it.
// One Dispatcher per daemon, one Connection per stdio process, WebSocket or HTTP session.
// All calls on one thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "mcp/registry.h"

namespace engramd::mcp {

struct Limits {
  std::int64_t message_bytes_max = 10 * 1024 * 1024;
  int json_depth_max = 64;
  int in_flight_max = 64;  // tool calls per connection
};

// What happened to requests, for the metrics tool; called on the dispatcher's thread.
struct Observer {
  std::function<void(const std::string& tool)> tool_started;
  // outcome: "ok", "error", "cancelled"
  std::function<void(const std::string& tool, const std::string& outcome, double elapsed_ms)>
      tool_finished;
};

class Connection {
 public:
  virtual ~Connection() = default;
  // One message (no framing). Answers go to the sink given at connect(), at once or later.
  virtual void receive(std::string_view message) = 0;
  // The peer has gone: stops everything in flight, nothing is sent afterwards.
  virtual void close() = 0;
  virtual int in_flight() const = 0;  // requests not yet answered
};

class Dispatcher {
 public:
  virtual ~Dispatcher() = default;
  // send: one serialised message without newline; never throws.
  virtual std::unique_ptr<Connection> connect(std::function<void(std::string message)> send) = 0;
};

// `registry` must outlive the dispatcher. `now` is the steady clock unless a test says otherwise.
std::unique_ptr<Dispatcher> make_dispatcher(
    const Registry& registry, Limits limits, Observer observer = {},
    std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now);

}  // namespace engramd::mcp
