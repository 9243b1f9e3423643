// `engramd gates`: the gate_inspect tool from a shell, as a heat map.
#pragma once

#include "server/commands/command.h"

namespace engramd::server {

Command gates_command();

}  // namespace engramd::server
