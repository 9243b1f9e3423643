// UnixSocket: the daemon's socket in the file system, for processes of the same user: MCP with the
// framing of stdio, no token (the file's mode is the access rule). Listening, and the connections
// that it hands on. A socket file that a dead daemon left behind is replaced; whoever listens holds
// the daemon's lock (server/daemon_lock), so nobody else's socket is. On the io thread. Not here:
// MCP, the client's side (server/daemon_link).
#pragma once

#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>

#include "config/options.h"
#include "config/result.h"
#include "server/transport/message_peer.h"

namespace engramd::server {

class UnixSocket {
 public:
  // Errors: a path that is too long for a socket, a folder that others may write to.
  static Result<std::unique_ptr<UnixSocket>> listen(boost::asio::io_context& io,
                                                    const std::string& path,
                                                    const config::LimitOptions& limits,
                                                    MessagePeerHandler handler);
  virtual ~UnixSocket() = default;  // and the file goes

  virtual void stop_accepting() = 0;
};

}  // namespace engramd::server
