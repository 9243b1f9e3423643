// Peer: a client of the dispatcher without a transport, with a small registry behind it, a clock
// that the test turns and the calls that are still running in the test's hands.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mcp/dispatcher.h"

namespace engramd::mcp {

class Peer {
 public:
  explicit Peer(Limits limits = {});
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  // Everything the server sent since the last call of this or ask().
  std::vector<json> take();
  // Sends one message and takes what came back at once.
  std::vector<json> send(std::string_view message);
  // Sends one message and takes the one reply to it; fails the test when there is not exactly one.
  json ask(std::string_view message);
  void initialize(const std::string& revision);

  Registry registry;
  // Tools: "echo" answers at once, "wait" puts its call here, "drop" never answers, "lie" breaks
  // its schema. Resources test://note and test://broken; prompt "greet" with name (required) and
  // tone.
  std::vector<std::shared_ptr<ToolCall>> running;
  std::vector<std::string> observed;  // "start wait", "ok wait 12"
  std::chrono::steady_clock::time_point now;
  std::vector<std::string> raw;   // every message as text
  std::function<void()> on_send;  // called inside every send
  std::unique_ptr<Dispatcher> dispatcher;
  std::unique_ptr<Connection> connection;

 private:
  std::vector<json> sent_;
};

// `request` with the modern _meta added to its params.
std::string modern(const std::string& request);

// Everything in `expected` is in `actual`: members of objects recursively, arrays element by
// element.
testing::AssertionResult contains(const json& actual, const json& expected);

// One line of a table of requests and what their reply must contain.
struct Exchange {
  const char* rule;
  const char* request;
  const char* reply;  // empty: silence
};

}  // namespace engramd::mcp
