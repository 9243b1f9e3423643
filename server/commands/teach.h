// The commands teach, taught and forget: the tools of the same names from a shell.
#pragma once

#include "server/commands/command.h"

namespace engramd::server {

Command teach_command();
Command taught_command();
Command forget_command();

}  // namespace engramd::server
