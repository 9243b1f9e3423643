// WebSocketPeer: one open WebSocket, as the protocol above sees it: whole text messages in and out.
// Its own business and not the caller's: the handshake (`Sec-WebSocket-Protocol: mcp` is echoed
// when offered), pings, close codes (1003 binary, 1007 not UTF-8, 1009 too large, 1001 going away),
// the bounded queue of what is sent. While a peer that does not read has much waiting for it, its
// own messages are not read either.
// On the io thread; who keeps a peer lets go of it before the io context ends. Not here: MCP.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace engramd::server {

class WebSocketPeer {
 public:
  struct Events {
    std::function<void(std::string message)> message;
    std::function<void()> closed;  // once, last; not after close()
  };

  virtual ~WebSocketPeer() = default;
  virtual void listen(Events events) = 0;  // once, inside the function that got the peer
  // A send() that finds more than limits.send_queue_bytes_max waiting ends the connection.
  virtual void send(std::string message) = 0;
  virtual std::int64_t queued_bytes() const = 0;  // handed over and not yet taken by the peer
  virtual void close() = 0;                       // going away; what was sent before still goes out
};

using WebSocketHandler = std::function<void(std::shared_ptr<WebSocketPeer> peer)>;

}  // namespace engramd::server
