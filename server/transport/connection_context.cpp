#include "server/transport/connection_context.h"

#include <cstdio>
#include <random>
#include <utility>
#include <vector>

namespace engramd::server {

ConnectionContext::ConnectionContext(boost::asio::io_context& io_context,
                                     config::ServerOptions server_options,
                                     config::LimitOptions limit_options, Access who_may_come,
                                     HttpHandlers handler)
    : io(io_context),
      server(std::move(server_options)),
      limits(limit_options),
      access(std::move(who_may_come)),
      handlers(std::move(handler)),
      rate_limiter(limits.requests_per_minute) {
  std::random_device random;
  request_id_prefix_ = (static_cast<std::uint64_t>(random()) << 32) | random();
}

void ConnectionContext::add(const std::shared_ptr<Connection>& connection) {
  connections.emplace(connection.get(), connection);
}

void ConnectionContext::remove(Connection* connection) {
  if (connections.erase(connection) == 0 || !connections.empty()) return;
  if (draining && on_empty) std::exchange(on_empty, nullptr)();
}

void ConnectionContext::drain_all() {
  draining = true;
  const auto now = connections;  // some of them end inside
  for (const auto& [pointer, weak] : now) {
    if (const auto connection = weak.lock()) connection->drain();
  }
}

void ConnectionContext::abort_all() {
  on_empty = nullptr;
  const auto now = connections;
  for (const auto& [pointer, weak] : now) {
    if (const auto connection = weak.lock()) connection->abort();
  }
  handlers = {};
}

std::string ConnectionContext::make_request_id() {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "req_%016llx%08x",
                static_cast<unsigned long long>(request_id_prefix_), ++n_requests_);
  return text.data();
}

std::string_view ConnectionContext::date() {
  const std::time_t now = std::time(nullptr);
  if (now == date_time_ && !date_.empty()) return date_;
  date_time_ = now;
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 64> text;
  const std::size_t n_bytes =  // RFC 9110, section 5.6.7; the daemon keeps the C locale
      std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  date_.assign(text.data(), n_bytes);
  return date_;
}

}  // namespace engramd::server
