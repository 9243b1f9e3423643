// `engramd client-config`: the block that a client's settings need so that it launches engramd.
#pragma once

#include "server/commands/command.h"

namespace engramd::server {

Command client_config_command();

}  // namespace engramd::server
