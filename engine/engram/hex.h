// Bytes as lower-case hexadecimal text, and back. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace engramd::engine {

std::string hex_of_bytes(std::string_view bytes);
// Nothing when a digit is no hexadecimal one or half a byte is left.
std::optional<std::vector<std::uint8_t>> bytes_of_hex(std::string_view hex);

}  // namespace engramd::engine
