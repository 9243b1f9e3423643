// `engramd lookup`: the engram_lookup tool from a shell; also layout files without a model.
#pragma once

#include "server/commands/command.h"

namespace engramd::server {

Command lookup_command();

}  // namespace engramd::server
