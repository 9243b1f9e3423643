// MessagePeer: one open connection that carries whole text messages both ways, a WebSocket or a
// connection of the Unix socket, as the protocol above sees it. Its own business and not the
// caller's: framing, pings and close codes, the bounded queue of what is sent. While a peer that
// does not read has much waiting for it, its own messages are not read either. On the io thread;
// who keeps a peer lets go of it before the io context ends. Not here: MCP.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace engramd::server {

class MessagePeer {
 public:
  struct Events {
    std::function<void(std::string message)> message;
    std::function<void()> closed;  // once, last; not after close()
  };

  virtual ~MessagePeer() = default;
  virtual void listen(Events events) = 0;  // once, inside the function that got the peer
  // A send() that finds more than limits.send_queue_bytes_max waiting ends the connection.
  virtual void send(std::string message) = 0;
  virtual std::int64_t queued_bytes() const = 0;  // handed over and not yet taken by the peer
  virtual void close() = 0;                       // going away; what was sent before still goes out
};

using MessagePeerHandler = std::function<void(std::shared_ptr<MessagePeer> peer)>;

}  // namespace engramd::server
