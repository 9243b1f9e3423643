// Router: a ChatBackend that asks the local engine, the remote's models, or one after the other,
// and says in each answer who served it and why another did not. A prompt leaves this machine only
// when api.allow_remote, the configuration and the budget let it. start() and its callbacks as
// ChatBackend says; everything else on the io thread. Not here: how a remote is asked
// (upstream_client).
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config/options.h"
#include "engine/runtime/chat_backend.h"
#include "server/api/model_names.h"
#include "server/model_loader.h"
#include "server/post.h"
#include "server/upstream/circuit_breaker.h"
#include "server/upstream/remote_environment.h"
#include "server/upstream/remote_model.h"
#include "server/upstream/token_budget.h"
#include "server/upstream/upstream_client.h"

namespace engramd::server {

// What the remote is, or nullopt where no prompt may go to one; an error when the configuration
// wants one that cannot be.
Result<std::optional<UpstreamSettings>> upstream_settings(const config::ApiOptions& api,
                                                          const RemoteEnvironment& environment);

// One backend after the other that a request may reach.
struct Hop {
  bool is_local = false;
  RemoteModel model = {};       // of the remote
  std::string instead_of = {};  // asked only when the remote does not know this retired name

  bool operator==(const Hop&) const = default;
};
// local_model: its name, or empty when there is none (yet). A remote model that was asked for, or
// default_model, comes before fallback_model; behind a retired name its successor; no model twice.
std::vector<Hop> plan_hops(const engine::ChatRequest& request, const std::string& local_model,
                           const config::ApiOptions& api);

class Router final : public engine::ChatBackend {
 public:
  using Now = std::function<CircuitBreaker::Time()>;
  using Warn = std::function<void(const std::string& what)>;
  Router(const config::Options& options, ModelLoader& loader, UpstreamSettings upstream, Post post,
         Warn warn, Now now = std::chrono::steady_clock::now);

  void start(engine::ChatRequest request, engine::ChatCallbacks callbacks,
             std::stop_token stop) override;

  std::string remote_name() const { return upstream_.name(); }  // its address, for messages

 private:
  class Run;
  CircuitBreaker& breaker_of(const std::string& model);

  const config::Options& options_;
  ModelLoader& loader_;
  const Post post_;
  const Warn warn_;
  const Now now_;
  const ModelAliases aliases_;
  TokenBudget budget_;
  std::set<std::string> gone_;  // retired names that the remote turned out not to know
  std::map<std::string, CircuitBreaker> breakers_;  // per model of the remote
  UpstreamClient upstream_;
};

}  // namespace engramd::server
