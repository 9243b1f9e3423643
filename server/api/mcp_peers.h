// McpPeers: MCP over connections that carry whole messages both ways: WebSockets and Unix sockets.
// One connection is one legacy session; modern requests on it are stateless. On the io thread. Not
// here: bytes (transport/websocket, transport/unix_socket), what messages mean.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "mcp/dispatcher.h"
#include "server/transport/message_peer.h"

namespace engramd::server {

class McpPeers {
 public:
  // The dispatcher outlives this. peer_gone: one has closed.
  McpPeers(mcp::Dispatcher& dispatcher, std::function<void()> peer_gone);
  ~McpPeers();

  void open(std::shared_ptr<MessagePeer> peer);
  int n_peers() const { return static_cast<int>(peers_.size()); }
  int in_flight() const;
  void end_subscriptions();
  void close_all();

 private:
  struct Peer;

  mcp::Dispatcher& dispatcher_;
  const std::function<void()> peer_gone_;
  std::map<MessagePeer*, std::unique_ptr<Peer>> peers_;
};

}  // namespace engramd::server
