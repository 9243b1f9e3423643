// `engramd table VERB`: row files and what is in them. This file chooses the verb; the verbs on
// files (info, create, import, verify) are in table_files.
#pragma once

#include "server/commands/command.h"

namespace engramd::server {

Command table_command();

}  // namespace engramd::server
