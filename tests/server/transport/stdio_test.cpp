// A session over real descriptors, with a small registry and a hand-driven io thread.
#include "server/transport/stdio.h"

#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <optional>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

namespace engramd::server {
namespace {

using testing::HasSubstr;

// The io thread of these tests: whoever calls run_until().
class Loop {
 public:
  Post post() {
    return [this](std::function<void()> function) {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(function));
      wake_.notify_all();
    };
  }
  void run_until(const std::function<bool()>& done) {
    while (!done()) {
      std::unique_lock lock(mutex_);
      ASSERT_TRUE(wake_.wait_for(lock, std::chrono::seconds(30), [&] { return !queue_.empty(); }));
      const std::function<void()> next = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      next();
    }
  }

 private:
  std::mutex mutex_;  // guards queue_
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
};

struct Pipe {
  int read_fd = -1;
  int write_fd = -1;
  Pipe() {
    int fds[2];
    EXPECT_EQ(::pipe(fds), 0);
    read_fd = fds[0];
    write_fd = fds[1];
  }
  ~Pipe() {
    close_read();
    close_write();
  }
  void close_read() { close_one(read_fd); }
  void close_write() { close_one(write_fd); }

 private:
  static void close_one(int& fd) {
    if (fd >= 0) ::close(fd);
    fd = -1;
  }
};

// "later" keeps its calls until the test finishes them; "big" answers with many bytes.
class StdioTest : public testing::Test {
 protected:
  StdioTest() {
    registry_.server_version = "1";
    mcp::Tool later;
    later.name = "later";
    later.description = "answers later";
    later.handler = [this](std::shared_ptr<mcp::ToolCall> call) { calls_.push_back(call); };
    mcp::Tool big;
    big.name = "big";
    big.description = "answers with many bytes";
    big.handler = [](const std::shared_ptr<mcp::ToolCall>& call) {
      call->finish({.text = std::string(2'000'000, 'b')});
    };
    registry_.tools = {later, big};
    dispatcher_ = mcp::make_dispatcher(registry_, {});
    limits_.message_bytes_max = 1 << 20;
  }

  void start(int input_fd) {
    session_ = std::make_unique<StdioSession>(
        input_fd, output_.write_fd, *dispatcher_, limits_, loop_.post(),
        StdioSession::Events{[] {}, [this](SessionEnd how) { end_ = how; }});
  }
  static void write_all(int fd, const std::string& text) {
    ASSERT_EQ(::write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  std::string read_output() {
    session_.reset();
    output_.close_write();
    std::string text;
    char buffer[4096];
    while (const ssize_t count = ::read(output_.read_fd, buffer, sizeof buffer)) {
      if (count < 0) break;
      text.append(buffer, static_cast<std::size_t>(count));
    }
    return text;
  }
  void run_to_end() {
    loop_.run_until([this] { return end_.has_value(); });
  }
  static std::string call(int id, const std::string& tool) {
    return R"({"jsonrpc":"2.0","id":)" + std::to_string(id) +
           R"(,"method":"tools/call","params":{"name":")" + tool + "\"}}\n";
  }

  Loop loop_;
  mcp::Registry registry_;
  config::LimitOptions limits_;
  std::unique_ptr<mcp::Dispatcher> dispatcher_;
  std::vector<std::shared_ptr<mcp::ToolCall>> calls_;
  Pipe output_;
  std::optional<SessionEnd> end_;
  std::unique_ptr<StdioSession> session_;
};

constexpr char kPing[] = R"({"jsonrpc":"2.0","id":1,"method":"ping"})";

TEST_F(StdioTest, AnswersFromAPipeAndEndsWithIt) {
  Pipe input;
  write_all(input.write_fd, std::string(kPing) + "\r\n");
  input.close_write();
  start(input.read_fd);
  run_to_end();
  EXPECT_EQ(end_, SessionEnd::kInputEnded);
  EXPECT_EQ(read_output(), "{\"id\":1,\"jsonrpc\":\"2.0\",\"result\":{}}\n");
}

TEST_F(StdioTest, ReadsRegularFilesAndDevNull) {
  char path[] = "/tmp/engramd-stdio-XXXXXX";
  const int file = ::mkstemp(path);
  write_all(file, kPing);
  ::lseek(file, 0, SEEK_SET);
  start(file);
  run_to_end();
  EXPECT_THAT(read_output(), HasSubstr("\"result\":{}"));
  ::close(file);
  ::unlink(path);

  end_.reset();
  const int null = ::open("/dev/null", O_RDONLY);
  Pipe other;
  std::swap(output_.write_fd, other.write_fd);
  start(null);
  run_to_end();
  EXPECT_EQ(end_, SessionEnd::kInputEnded);
  session_.reset();
  ::close(null);
}

TEST_F(StdioTest, WorksOverOneSocketForBothDirections) {
  int fds[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  output_.close_write();
  output_.write_fd = fds[0];
  write_all(fds[1], std::string(kPing) + "\n");
  ::shutdown(fds[1], SHUT_WR);
  start(fds[0]);
  run_to_end();
  EXPECT_EQ(end_, SessionEnd::kInputEnded);
  char buffer[200];
  EXPECT_GT(::read(fds[1], buffer, sizeof buffer), 10);
  session_.reset();
  ::close(fds[1]);
}

TEST_F(StdioTest, EndOfInputWaitsForWhatIsInFlight) {
  Pipe input;
  write_all(input.write_fd, call(1, "later") + call(2, "later"));
  input.close_write();
  start(input.read_fd);
  loop_.run_until([this] { return calls_.size() == 2; });
  EXPECT_FALSE(end_.has_value());
  calls_[1]->finish({.text = "second"});
  calls_[0]->finish({.text = "first"});
  run_to_end();
  const std::string output = read_output();
  EXPECT_THAT(output, HasSubstr("first"));
  EXPECT_THAT(output, HasSubstr("second"));
}

TEST_F(StdioTest, AReaderThatHasGoneEndsTheSessionAndStopsCalls) {
  ::signal(SIGPIPE, SIG_IGN);
  Pipe input;
  write_all(input.write_fd, call(1, "later"));
  start(input.read_fd);
  loop_.run_until([this] { return calls_.size() == 1; });
  output_.close_read();  // noticed without any write
  run_to_end();
  EXPECT_EQ(end_, SessionEnd::kOutputClosed);
  EXPECT_TRUE(calls_[0]->stop_token().stop_requested());
}

TEST_F(StdioTest, AReaderThatStopsReadingIsTakenForDead) {
  Pipe input;
  start(input.read_fd);
  // Two megabytes each; the session gives up above four messages of the greatest size.
  for (int i = 0; i < 8; ++i) write_all(input.write_fd, call(i, "big") + call(100 + i, "later"));
  run_to_end();
  EXPECT_EQ(end_, SessionEnd::kOutputClosed);
}

TEST_F(StdioTest, LargeOutputArrivesWhole) {
  Pipe input;
  write_all(input.write_fd, call(1, "big"));
  input.close_write();
  std::string output;
  std::thread reader([&] {  // a pipe holds less than the answer
    char buffer[65536];
    while (output.empty() || output.back() != '\n') {
      const ssize_t count = ::read(output_.read_fd, buffer, sizeof buffer);
      if (count <= 0) break;
      output.append(buffer, static_cast<std::size_t>(count));
    }
  });
  start(input.read_fd);
  run_to_end();
  reader.join();
  EXPECT_GT(output.size(), 2'000'000U);
}

TEST_F(StdioTest, FramedClientsGetFramedAnswers) {
  Pipe input;
  write_all(input.write_fd,
            "Content-Length: " + std::to_string(sizeof kPing - 1) + "\r\n\r\n" + kPing);
  input.close_write();
  start(input.read_fd);
  run_to_end();
  EXPECT_THAT(read_output(), testing::StartsWith("Content-Length: 36\r\n\r\n{"));
}

TEST_F(StdioTest, OversizeLinesAreRefusedUnderTheirId) {
  limits_.message_bytes_max = 200;
  mcp::Limits mcp_limits;
  mcp_limits.message_bytes_max = 200;
  dispatcher_ = mcp::make_dispatcher(registry_, mcp_limits);
  Pipe input;
  write_all(input.write_fd, R"({"jsonrpc":"2.0","id":77,"method":"ping","params":{"x":")" +
                                std::string(1000, 'x') + "\"}}\n" + kPing + "\n");
  input.close_write();
  start(input.read_fd);
  run_to_end();
  const std::string output = read_output();
  EXPECT_THAT(output, HasSubstr("\"id\":77"));
  EXPECT_THAT(output, HasSubstr("-32600"));
  EXPECT_THAT(output, HasSubstr("\"id\":1,"));
}

TEST_F(StdioTest, DestroyedWithInputOpenAndOutputFull) {
  Pipe input;
  start(input.read_fd);
  for (int i = 0; i < 2; ++i) write_all(input.write_fd, call(i, "big"));
  write_all(input.write_fd, call(9, "later"));
  loop_.run_until([this] { return calls_.size() == 1; });
  session_.reset();  // joins both threads though nobody reads and nobody writes
  EXPECT_TRUE(calls_[0]->stop_token().stop_requested());
  calls_[0]->finish({.text = "too late"});
}

}  // namespace
}  // namespace engramd::server
