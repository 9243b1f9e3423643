// `engramd config`: every effective option, where it came from and what became of it.
#pragma once

#include "server/commands/command.h"

namespace engramd::server {

Command config_command();

}  // namespace engramd::server
