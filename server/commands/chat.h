// `engramd chat`: the chat tool from a shell, one-shot or as a conversation.
#pragma once

#include "server/commands/command.h"

namespace engramd::server {

Command chat_command();

}  // namespace engramd::server
