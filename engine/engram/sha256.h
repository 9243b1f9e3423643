// SHA-256 as lower-case hex. Pure.
#pragma once

#include <string>
#include <string_view>

namespace engramd::engine {

std::string sha256_hex(std::string_view bytes);

}  // namespace engramd::engine
