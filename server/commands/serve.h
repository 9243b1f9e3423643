// `engramd serve`: the daemon, for all clients of this user.
#pragma once

#include "server/commands/command.h"

namespace engramd::server {

Command serve_command();

}  // namespace engramd::server
