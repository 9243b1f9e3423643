#include "server/api/mcp_peers.h"

#include <utility>

namespace engramd::server {

struct McpPeers::Peer {
  std::shared_ptr<MessagePeer> socket;
  std::unique_ptr<mcp::Connection> connection;
};

McpPeers::McpPeers(mcp::Dispatcher& dispatcher, std::function<void()> peer_gone)
    : dispatcher_(dispatcher), peer_gone_(std::move(peer_gone)) {}

McpPeers::~McpPeers() = default;

void McpPeers::open(std::shared_ptr<MessagePeer> peer) {
  MessagePeer* key = peer.get();
  auto connection = dispatcher_.connect([key](const mcp::Outgoing& outgoing) {
    if (!outgoing.message.empty()) key->send(outgoing.message);
  });
  peers_[key] = std::make_unique<Peer>(Peer{std::move(peer), std::move(connection)});
  key->listen({.message =
                   [this, key](const std::string& message) {
                     const auto found = peers_.find(key);
                     if (found != peers_.end()) found->second->connection->receive(message);
                   },
               .closed =
                   [this, key] {
                     const auto gone = peers_.extract(key);  // its calls are cancelled here
                     if (!gone.empty()) peer_gone_();
                   }});
}

int McpPeers::in_flight() const {
  int n = 0;
  for (const auto& [key, peer] : peers_) n += peer->connection->in_flight();
  return n;
}

void McpPeers::end_subscriptions() {
  for (const auto& [key, peer] : peers_) peer->connection->end_subscriptions();
}

void McpPeers::close_all() {
  for (auto& [key, peer] : std::exchange(peers_, {})) peer->socket->close();
}

}  // namespace engramd::server
