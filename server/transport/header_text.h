// The small grammar of HTTP header values and of the request target. Pure functions on text that a
// stranger sent, any thread. Not here: requests as a whole (request_reader), what is allowed
// (access).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace engramd::server {

std::string_view trimmed(std::string_view text);  // without outer spaces and tabs
std::string lower_case(std::string_view text);    // ASCII letters only
bool same_ignoring_case(std::string_view a, std::string_view b);
// Whether a comma-separated list ("keep-alive, Upgrade") has the token; case counts or not.
bool has_token(std::string_view list, std::string_view token);
bool has_token_ignoring_case(std::string_view list, std::string_view token);

struct RequestTarget {
  std::string path;       // decoded: valid UTF-8 without control or hidden characters
  std::string query;      // after the '?', as sent
  std::string authority;  // of "http://host:port/path"; empty when there was none
};
// Nothing: not a path or an address, or badly encoded.
std::optional<RequestTarget> parse_request_target(std::string_view target);

struct HostName {
  std::string name;  // lower case; an IPv6 address keeps its brackets
  std::string port;  // digits; empty when there was none
};
std::optional<HostName> parse_host(std::string_view text);
// An IPv6 address with brackets as an address without, as a resolver wants it; other names stay.
std::string without_brackets(std::string_view host);
// The way back: "[::1]:80", "example.org:443".
std::string with_port(const std::string& host, const std::string& port);

// The token of "Bearer X", whatever the case of the word.
std::optional<std::string_view> parse_bearer(std::string_view authorization);

}  // namespace engramd::server
