// Endpoint: where an OpenAI-compatible server is, from the base URL that a user wrote in whatever
// form, and the key for it from whatever stands in a variable. Pure; any thread. Neither ever puts
// a key into a message.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/result.h"

namespace engramd::server {

struct Endpoint {
  bool tls = true;
  std::string host;    // without brackets
  std::string port;    // "443"
  std::string prefix;  // path before "/chat/completions", without a slash at its end: "/api/v1"
  std::string query;   // "?api-version=1", or empty
  bool is_loopback = false;

  std::string authority() const;                    // as the Host header has it
  std::string full_authority() const;               // always with the port
  std::string target(std::string_view path) const;  // path: "/chat/completions"
  std::string name() const;  // for messages: scheme, host and prefix; no query
};

// The places where the API can be, best first. A prefix that ends in a version ("/v1") or in
// "openai" is taken as it is, as the official clients do; a full ".../chat/completions" leads to
// its siblings. Without either both "/v1" below it and the prefix itself are possible (routers are
// split); a 404 of the first, which costs nothing, leads to the second.
Result<std::vector<Endpoint>> parse_base_url(std::string_view text);

// Without blanks, a byte-order mark, one pair of quotes and a leading "Bearer "; refused unless the
// rest is visible ASCII. The message tells the length and the wrong kind of character only.
Result<std::string> clean_api_key(std::string_view text);

}  // namespace engramd::server
