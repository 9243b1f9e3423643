// Base64 (RFC 4648): what headers, signed states, embeddings and tokens are written in. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace engramd::mcp {

std::string to_base64(std::string_view bytes);
std::string to_base64url(std::string_view bytes);  // for names and headers; without padding
// Nothing: it is none.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace engramd::mcp
