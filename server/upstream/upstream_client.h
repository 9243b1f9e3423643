// UpstreamClient: chats with an OpenAI-compatible remote: wording, attempts, and what may be asked
// again. Each chat waits on one of a few threads of its own, where its callbacks run too; on_done
// exactly once and last. start() from any thread. Not here: when a remote is asked (router).
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include <boost/asio/thread_pool.hpp>

#include "engine/runtime/chat_backend.h"
#include "server/upstream/http_client.h"
#include "server/upstream/remote_model.h"

namespace engramd::server {

struct UpstreamSettings {
  std::vector<Endpoint> endpoints;  // of parse_base_url(); not empty
  std::string key;                  // clean; empty: none is sent
  ProxySettings proxies;
  HttpTimeouts timeouts;
  int retries_max = 2;
};

struct UpstreamOutcome {
  std::optional<UpstreamFailure> failure;
  engine::ChatResult result;  // without a failure
  // That all attempts may have cost: as reported, else estimated for whatever was sent and said.
  std::int64_t tokens = 0;
  int attempts = 0;    // that reached for the network
  bool spoke = false;  // on_delta was called
};

class UpstreamClient {
 public:
  explicit UpstreamClient(UpstreamSettings settings);
  ~UpstreamClient();  // cancels what runs

  struct Events {
    std::function<void(const engine::ChatDelta&)> on_delta;  // optional
    std::function<void(UpstreamOutcome)> on_done;
  };
  void start(const engine::ChatRequest& request, const RemoteModel& model, Events events,
             std::stop_token stop);

  std::string name() const { return settings_.endpoints[endpoint_].name(); }  // for messages

 private:
  class Chat;

  // Made with the first chat: certificates to read, threads to start.
  struct Machinery {
    HttpClient http;
    boost::asio::thread_pool threads;
    explicit Machinery(const UpstreamSettings& settings);
  };

  const UpstreamSettings settings_;
  std::atomic<std::size_t> endpoint_ = 0;  // of settings_.endpoints: which answered
  // What the server turned out not to take, said once by a 400: kept, so that it is not said again.
  std::atomic<unsigned> refused_words_ = 0;
  std::stop_source shutdown_;
  std::once_flag started_;
  std::unique_ptr<Machinery> machinery_;
};

}  // namespace engramd::server
