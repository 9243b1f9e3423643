// OpenAI's messages as the model's chat template takes them: every role becomes system, user or
// assistant, every content a text. Pure.
#pragma once

#include <vector>

#include "engine/runtime/chat_backend.h"
#include "server/api/request_fields.h"

namespace engramd::server {

std::vector<engine::ChatMessage> read_openai_messages(RequestFields& fields);

}  // namespace engramd::server
