// The file with the daemon's bearer token: one line, readable by its owner alone. Made with 32
// random bytes at the first start. Not here: who needs a token (access).
#pragma once

#include <string>

#include "config/result.h"

namespace engramd::server {

inline constexpr std::size_t kTokenBytesMin = 16;  // also of a token that the user wrote there

// The token in the file; makes the file, and the folders above it, when it is not there. A file
// that others may read, that belongs to another user or is a link is refused, with the remedy.
Result<std::string> read_or_create_token(const std::string& path);

}  // namespace engramd::server
