// StdioSession: one MCP connection over a pair of file descriptors, newline-delimited (or framed by
// Content-Length, see framing.h). A thin adapter: bytes in and out here, everything else in mcp/.
// Owns the connection, the reading and the writing thread. Lives on the io thread.
// Ends by itself: at end of input, once every request is answered and every answer written; at once
// when nobody reads the output.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "config/options.h"
#include "mcp/dispatcher.h"
#include "server/post.h"
#include "server/transport/input_reader.h"
#include "server/transport/output_writer.h"

namespace engramd::server {

// Takes the protocol's output away from everybody else: a duplicate of fd 1 for the session, while
// fd 1 itself becomes another name of fd 2. Opens /dev/null for standard descriptors that the
// launcher closed, and ignores SIGPIPE. Call first, before any thread or file.
int claim_standard_output();

enum class SessionEnd { kInputEnded, kOutputClosed };

class StdioSession {
 public:
  struct Events {                                   // on the io thread
    std::function<void()> message_handled = [] {};  // after each message; its reply may be written
    std::function<void(SessionEnd)> ended;  // once; the session may not be destroyed inside it
  };
  StdioSession(int input_fd, int output_fd, mcp::Dispatcher& dispatcher,
               const config::LimitOptions& limits, const Post& post, Events events);
  ~StdioSession();  // cancels what runs; nothing is sent afterwards

 private:
  void check_finished();
  void receive(const std::string& message, Framing framing);
  void on_output_drained();
  void end(SessionEnd how);
  Post guarded(const Post& post) const;

  std::shared_ptr<bool> alive_;  // posted functions hold it weakly
  const Post post_;
  const Events events_;
  const std::int64_t message_bytes_max_;
  Framing framing_ = Framing::kLines;  // of the latest message
  bool input_ended_ = false;
  bool ended_ = false;
  int held_messages_ = 0;  // handled, but the reader waits for the output to drain
  std::unique_ptr<mcp::Connection> connection_;
  std::unique_ptr<OutputWriter> writer_;
  std::unique_ptr<InputReader> reader_;
};

}  // namespace engramd::server
