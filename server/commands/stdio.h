// `engramd --stdio`: one MCP session on standard input and output.
#pragma once

#include "server/commands/command.h"

namespace engramd::server {

Command stdio_command();

}  // namespace engramd::server
