// What `engramd` alone prints, and the manual: `engramd --help` and `engramd help COMMAND`,
// generated from the command table and the option table. Pure text.
#pragma once

#include <string>

#include "server/commands/command.h"

namespace engramd::server {

std::string short_help();  // one screen, for `engramd` alone
std::string program_help();
std::string command_help(const Command& command);

}  // namespace engramd::server
