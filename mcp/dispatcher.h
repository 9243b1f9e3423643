// Dispatcher: JSON-RPC text in, JSON-RPC text out, for both MCP eras (legacy 2024-11-05 to
// 2025-11-25 by `initialize`; modern 2026-07-28 by per-request _meta), chosen per request. No I/O,
// no threads, no clock but the one it is given: transports are thin adapters around it.
// One Dispatcher per daemon, one Connection per stdio process, WebSocket or HTTP session.
// All calls on one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "mcp/registry.h"

namespace engramd::mcp {

struct Limits {
  std::int64_t message_bytes_max = 10 * 1024 * 1024;
  int json_depth_max = 64;
  int in_flight_max = 64;          // tool calls and subscriptions per connection
  int batch_messages_max = 64;     // 2025-03-26 only
  int progress_interval_ms = 100;  // between two progress notifications of one call
};

// What happened to requests, for the metrics tool; called on the dispatcher's thread.
struct Observer {
  std::function<void(const std::string& tool)> tool_started;
  // outcome: "ok", "error", "cancelled"
  std::function<void(const std::string& tool, const std::string& outcome, double elapsed_ms)>
      tool_finished;
};

// One thing to send. Transports with one pipe need only `message`; HTTP sends each thing on the
// stream of the request that it belongs to.
struct Outgoing {
  std::string message = {};  // serialised, without newline; empty: nothing, only `last` counts
  std::uint64_t stream = 0;  // the number receive() was given; 0: belongs to no received message
  bool last = false;         // nothing more follows on that stream
  int error_code = 0;        // of an answer that is an error
};
using Sink = std::function<void(Outgoing outgoing)>;

class Connection {
 public:
  virtual ~Connection() = default;
  // One message (no framing). Answers go to the sink given at connect(), at once or later. `stream`
  // comes back with everything that is sent because of this message.
  virtual void receive(std::string_view message, std::uint64_t stream = 0) = 0;
  // The same for a message that was parsed already (with the limits of the dispatcher).
  virtual void receive(Incoming incoming, std::uint64_t stream) = 0;
  // A message over the limit, of which the transport kept only the beginning: answers with an error
  // (under the message's id if the beginning shows it). receive() does this by itself.
  virtual void receive_oversize(std::string_view beginning) = 0;
  // For peers whose frame parser counts characters, not bytes: everything sent is ASCII, escaped.
  virtual void set_ascii_only(bool ascii_only) = 0;
  // Ends every open subscriptions/listen with its result; part of a graceful shutdown.
  virtual void end_subscriptions() = 0;
  // The peer has gone: stops everything in flight, nothing is sent afterwards. The destructor does
  // this too.
  virtual void close() = 0;
  // Tool calls not yet answered: what a shutdown waits for. Subscriptions, which never end by
  // themselves, do not count.
  virtual int in_flight() const = 0;
};

// tools, prompts, resources: that list. Else the resource `uri`.
struct Change {
  enum class What { kTools, kPrompts, kResources, kResource } what = What::kResource;
  std::string uri = {};
};

class Dispatcher {
 public:
  virtual ~Dispatcher() = default;
  // send: never throws. It may be called inside receive() and may itself call any function of the
  // Connection.
  virtual std::unique_ptr<Connection> connect(Sink send) = 0;
  // Tells every client that asked: a list of the registry is another now (Registry::changing
  // says that it can be), or a resource reads otherwise.
  virtual void announce(Change change) = 0;
};

// `registry` must outlive the dispatcher and its connections, and lint_registry() be content. `now`
// is the steady clock unless a test says otherwise.
std::unique_ptr<Dispatcher> make_dispatcher(
    const Registry& registry, Limits limits, Observer observer = {},
    std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now);

}  // namespace engramd::mcp
