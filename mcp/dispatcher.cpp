#include "mcp/dispatcher.h"

#include <utility>

#include "mcp/session.h"

namespace engramd::mcp {
namespace {

// Every function keeps the session alive while it runs: `send` may destroy the connection.
class SessionConnection final : public Connection {
 public:
  explicit SessionConnection(std::shared_ptr<Session> session) : session_(std::move(session)) {}
  ~SessionConnection() override { close(); }
  SessionConnection(const SessionConnection&) = delete;
  SessionConnection& operator=(const SessionConnection&) = delete;

  void receive(std::string_view message, std::uint64_t stream) override {
    const auto session = session_;
    session->receive(message, stream);
  }
  void receive(Incoming incoming, std::uint64_t stream) override {
    const auto session = session_;
    session->receive(std::move(incoming), stream);
  }
  void receive_oversize(std::string_view beginning) override {
    const auto session = session_;
    session->receive_oversize(beginning);
  }
  void set_ascii_only(bool ascii_only) override { session_->ascii_only = ascii_only; }
  void end_subscriptions() override {
    const auto session = session_;
    session->end_subscriptions();
  }
  void close() override {
    const auto session = session_;
    session->close();
  }
  int in_flight() const override { return session_->tools_in_flight(); }

 private:
  const std::shared_ptr<Session> session_;
};

class SessionDispatcher final : public Dispatcher {
 public:
  explicit SessionDispatcher(std::shared_ptr<const SharedParts> shared)
      : shared_(std::move(shared)) {}

  std::unique_ptr<Connection> connect(Sink send) override {
    std::erase_if(sessions_, [](const auto& session) { return session.expired(); });
    auto session = std::make_shared<Session>(shared_, std::move(send));
    sessions_.push_back(session);
    return std::make_unique<SessionConnection>(std::move(session));
  }

  void announce(Change change) override {
    const auto sessions = sessions_;  // sending may connect and close
    for (const auto& each : sessions) {
      if (const auto session = each.lock()) session->announce(change);
    }
  }

 private:
  const std::shared_ptr<const SharedParts> shared_;
  std::vector<std::weak_ptr<Session>> sessions_;
};

}  // namespace

std::unique_ptr<Dispatcher> make_dispatcher(
    const Registry& registry, Limits limits, Observer observer,
    std::function<std::chrono::steady_clock::time_point()> now) {
  return std::make_unique<SessionDispatcher>(std::make_shared<const SharedParts>(
      SharedParts{registry, limits, std::move(observer), std::move(now)}));
}

}  // namespace engramd::mcp
