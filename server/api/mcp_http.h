// McpHttp: MCP over Streamable HTTP, both eras on one path. A modern request (2026-07-28) is a
// connection of its own: the answer ends it, closing it cancels the call. Legacy clients (up to
// 2025-11-25) hold a session: its POSTs, one listening GET, DELETE, and coming back for what was
// missed. On the io thread. Not here: what messages mean (mcp/), tokens, Host and Origin
// (transport/access).
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "config/options.h"
#include "mcp/dispatcher.h"
#include "server/api/mcp_stream.h"
#include "server/later.h"

namespace engramd::server {

class McpHttp {
 public:
  struct Limits {
    std::int64_t sessions_max = 1024;  // beyond it the one that was quiet longest ends
    std::chrono::milliseconds session_idle{3600 * 1000};
    int json_depth_max = 64;
  };

  // The dispatcher outlives this.
  McpHttp(mcp::Dispatcher& dispatcher, Limits limits, Later later);
  ~McpHttp();

  void handle(const std::shared_ptr<HttpExchange>& exchange);
  void end_subscriptions();  // a graceful shutdown: listening streams end
  int n_sessions() const { return static_cast<int>(sessions_.size()); }

 private:
  struct Session;
  struct Call;

  void post(const std::shared_ptr<HttpExchange>& exchange);
  void post_modern(const std::shared_ptr<HttpExchange>& exchange, mcp::Incoming incoming);
  void post_legacy(const std::shared_ptr<HttpExchange>& exchange, mcp::Incoming incoming);
  void get(const std::shared_ptr<HttpExchange>& exchange);
  void end_session(const std::shared_ptr<HttpExchange>& exchange);
  std::shared_ptr<Session> find_session(const std::shared_ptr<HttpExchange>& exchange);
  std::shared_ptr<Session> open_session();
  void deliver(Session& session, mcp::Outgoing outgoing);
  void expire_sessions();
  void tick();

  mcp::Dispatcher& dispatcher_;
  const Limits limits_;
  const Later later_;
  LaterHandle timer_;
  std::map<std::string, std::shared_ptr<Session>> sessions_;  // by id
  std::map<std::uint64_t, std::shared_ptr<Call>> calls_;      // modern ones that are not answered
  std::uint64_t n_calls_ = 0;
};

}  // namespace engramd::server
