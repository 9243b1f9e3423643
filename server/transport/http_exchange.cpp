#include "server/transport/http_exchange.h"

#include <algorithm>

#include "server/transport/header_text.h"

namespace engramd::server {

std::optional<std::string_view> HttpRequest::header(std::string_view name) const {
  const auto found = std::find_if(headers.begin(), headers.end(), [&](const auto& pair) {
    return same_ignoring_case(pair.first, name);
  });
  if (found == headers.end()) return std::nullopt;
  return trimmed(found->second);
}

}  // namespace engramd::server
