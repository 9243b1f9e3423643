// Framing: bytes to MCP messages and back, for the stdio transport (and later the Unix socket).
// One JSON message a line (MCP 2025-11-25, basic/transports, stdio); CRLF, a byte order mark and
// blank lines are accepted. A client that starts with Content-Length headers (LSP's framing, Cline
// core's fallback) is recognised by its first header and answered the same way.
// Pure: no I/O, no threads. One MessageReader per connection, used from the reading thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace engramd::server {

enum class Framing { kLines, kContentLength };

class MessageReader {
 public:
  // A message longer than `message_bytes_max` is handed on cut to message_bytes_max + 1 bytes, so
  // that the receiver knows it for oversize; its rest is skipped up to the next message.
  explicit MessageReader(std::int64_t message_bytes_max);

  // Calls on_message(message, framing) for each message that `bytes` completes.
  using OnMessage = std::function<void(std::string message, Framing framing)>;
  void push(std::string_view bytes, const OnMessage& on_message);
  // The input has ended: an unterminated last line is a message too.
  void finish(const OnMessage& on_message);

 private:
  void take_line_bytes(std::string_view& bytes, const OnMessage& on_message);
  void take_body_bytes(std::string_view& bytes, const OnMessage& on_message);
  void end_line(const OnMessage& on_message);
  void end_header(const OnMessage& on_message);

  enum class State { kLine, kHeader, kBody };
  std::int64_t message_bytes_max_;
  State state_ = State::kLine;
  bool at_start_ = true;
  std::string pending_;              // of the current line or body, at most the limit + 1 bytes
  std::int64_t content_length_ = 0;  // of the current headers; -1: unreadable
  std::int64_t body_left_ = 0;
};

// One message as it goes out, terminator included. For kContentLength the JSON is pure ASCII,
// because some frame parsers count characters instead of bytes (Connection::set_ascii_only).
std::string frame_message(std::string_view json, Framing framing);

}  // namespace engramd::server
