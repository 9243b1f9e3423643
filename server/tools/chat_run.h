// One chat on a backend, with its events brought back to the io thread and its times measured.
// Shared by the chat tool and the interactive command. Call on the io thread.
#pragma once

#include <functional>
#include <stop_token>
#include <string>

#include "engine/runtime/chat_backend.h"
#include "server/tools/services.h"

namespace engramd::server {

struct ChatEvents {                                                       // all on the io thread
  std::function<void(std::int64_t done, std::int64_t total)> on_prefill;  // optional
  std::function<void(const std::string& text, std::int64_t n_generated)> on_text;  // optional
  std::function<void(const engine::ChatDelta&)> on_delta;                          // optional
  std::function<void(Result<engine::ChatResult>)> on_done;
};

// `backend` must live until on_done.
void run_chat(engine::ChatBackend& backend, engine::ChatRequest request, ChatEvents events,
              std::stop_token stop, const Services& services);

}  // namespace engramd::server
