// Services: what the tools work with. Everything lives on the io thread and outlives the registry.
#pragma once

#include <functional>

#include "config/effective_config.h"
#include "config/result.h"
#include "engine/runtime/chat_backend.h"
#include "server/metrics.h"
#include "server/model_loader.h"
#include "server/post.h"

namespace engramd::server {

struct Services {
  const config::EffectiveConfig& config;  // with secrets, for the doctor
  const config::Options& options;         // of it
  ModelLoader& loader;
  Metrics& metrics;
  Post post;
  Post table_thread;        // the one thread on which table tools work
  Post doctor_thread = {};  // another one, for what waits for the network
  Post teach_thread = {};   // another one: teaching takes minutes, and other edits go on
  // The backend that answers chats, when it can: the local engine after loading.
  using ChatReady = std::function<void(Result<engine::ChatBackend*>)>;
  std::function<void(ChatReady)> when_chat_ready;
  engine::ChatBackend* remote_router = nullptr;  // asks the remote too; null: no prompt leaves here
  std::function<void(const engine::ChatResult&)> chat_log;  // never sees prompts' texts in a log
};

}  // namespace engramd::server
