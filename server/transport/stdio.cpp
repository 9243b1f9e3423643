#include "server/transport/stdio.h"

#include <csignal>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace engramd::server {
namespace {

// Output that waits for a slow reader: above the first mark we stop reading its requests, above the
// second (in messages of the greatest size) it is taken for dead.
constexpr std::int64_t kQueuePauseBytes = 1 << 20;
constexpr std::int64_t kQueueMessagesMax = 4;

}  // namespace

int claim_standard_output() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    // open() gives the lowest free number, which is the missing one.
    if (::fcntl(fd, F_GETFD) < 0) [[maybe_unused]]
      const int opened = ::open("/dev/null", O_RDWR);
  }
  std::signal(SIGPIPE, SIG_IGN);
  const int output_fd = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  ENGRAMD_ASSERT(output_fd >= 0);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  return output_fd;
}

StdioSession::StdioSession(int input_fd, int output_fd, mcp::Dispatcher& dispatcher,
                           const config::LimitOptions& limits, const Post& post, Events events)
    : alive_(std::make_shared<bool>(true)),
      post_(guarded(post)),
      events_(std::move(events)),
      message_bytes_max_(limits.message_bytes_max) {
  connection_ = dispatcher.connect([this](const mcp::Outgoing& outgoing) {
    if (!outgoing.message.empty()) writer_->send(frame_message(outgoing.message, framing_));
    if (input_ended_)
      post_([this] { check_finished(); });  // after the dispatcher's own bookkeeping
  });
  writer_ = std::make_unique<OutputWriter>(
      output_fd, kQueueMessagesMax * limits.message_bytes_max,
      OutputWriter::Events{
          .closed = [this] { post_([this] { end(SessionEnd::kOutputClosed); }); },
          .drained = [this] { post_([this] { on_output_drained(); }); },
      });
  reader_ = std::make_unique<InputReader>(
      input_fd, limits.message_bytes_max,
      InputReader::Events{
          .message =
              [this](std::string message, Framing framing) {
                post_([this, message = std::move(message), framing] { receive(message, framing); });
              },
          .ended =
              [this] {
                post_([this] {
                  input_ended_ = true;
                  connection_->end_subscriptions();
                  check_finished();
                });
              },
      });
}

StdioSession::~StdioSession() {
  alive_.reset();
  reader_.reset();
  connection_->close();
}

Post StdioSession::guarded(const Post& post) const {
  return [post, alive = std::weak_ptr<bool>(alive_)](std::function<void()> function) {
    post([alive, function = std::move(function)] {
      if (!alive.expired()) function();
    });
  };
}

void StdioSession::receive(const std::string& message, Framing framing) {
  if (ended_) return;
  framing_ = framing;
  connection_->set_ascii_only(framing == Framing::kContentLength);
  if (static_cast<std::int64_t>(message.size()) > message_bytes_max_) {
    connection_->receive_oversize(message);
  } else {
    connection_->receive(message);
  }
  events_.message_handled();
  if (writer_->queued_bytes() > kQueuePauseBytes) {
    ++held_messages_;
  } else {
    reader_->message_handled();
  }
}

void StdioSession::on_output_drained() {
  for (; held_messages_ > 0; --held_messages_) reader_->message_handled();
  check_finished();
}

void StdioSession::check_finished() {
  if (input_ended_ && connection_->in_flight() == 0 && writer_->queued_bytes() == 0) {
    end(SessionEnd::kInputEnded);
  }
}

void StdioSession::end(SessionEnd how) {
  if (ended_) return;
  ended_ = true;
  connection_->close();
  events_.ended(how);
}

}  // namespace engramd::server
