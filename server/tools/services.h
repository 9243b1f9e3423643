// Services: what the tools work with. Everything lives on the io thread and outlives the registry.
#pragma once

#include <functional>

#include "config/options.h"
#include "config/result.h"
#include "engine/runtime/chat_backend.h"
#include "server/metrics.h"
#include "server/model_loader.h"
#include "server/post.h"

namespace engramd::server {

struct Services {
  const config::Options& options;
  ModelLoader& loader;
  Metrics& metrics;
  Post post;
  Post table_thread;  // the one thread on which table tools work
  // The backend that answers chats, when it can: the local engine after loading.
  using ChatReady = std::function<void(Result<engine::ChatBackend*>)>;
  std::function<void(ChatReady)> when_chat_ready;
  engine::ChatBackend* remote_router = nullptr;  // asks the remote too; null: no prompt leaves here
  std::function<void(const engine::ChatResult&)> chat_log;  // never sees prompts' texts in a log
};

}  // namespace engramd::server
