// `engramd doctor`: what works, what does not, and what to do about it.
#pragma once

#include "server/commands/command.h"

namespace engramd::server {

Command doctor_command();

}  // namespace engramd::server
