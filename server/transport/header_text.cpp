#include "server/transport/header_text.h"

#include <algorithm>

#include "mcp/text.h"

namespace engramd::server {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  c = lower(c);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

template <class Same>
bool has_item(std::string_view list, const Same& same) {
  while (!list.empty()) {
    const std::string_view item = list.substr(0, list.find(','));
    if (same(trimmed(item))) return true;
    list.remove_prefix(std::min(item.size() + 1, list.size()));
  }
  return false;
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = hex_digit(text[i + 1]);
      const int low = hex_digit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (is_control(c)) return std::nullopt;
    out += c;
  }
  return out;
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), lower);
  return out;
}

bool same_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

bool has_token(std::string_view list, std::string_view token) {
  return has_item(list, [&](std::string_view item) { return item == token; });
}

bool has_token_ignoring_case(std::string_view list, std::string_view token) {
  return has_item(list, [&](std::string_view item) { return same_ignoring_case(item, token); });
}

std::optional<RequestTarget> parse_request_target(std::string_view target) {
  RequestTarget parsed;
  constexpr std::string_view kScheme = "http://";
  if (same_ignoring_case(target.substr(0, kScheme.size()), kScheme)) {
    target.remove_prefix(kScheme.size());
    parsed.authority = target.substr(0, target.find_first_of("/?"));
    target.remove_prefix(parsed.authority.size());
    if (parsed.authority.empty() || !target.starts_with('/')) return std::nullopt;
  }
  if (!target.starts_with('/') || target.find('#') != std::string_view::npos) return std::nullopt;
  const std::string_view path = target.substr(0, target.find('?'));
  if (path.size() < target.size()) parsed.query = target.substr(path.size() + 1);
  std::optional<std::string> decoded = percent_decoded(path);
  if (!decoded) return std::nullopt;
  if (mcp::sanitise_text(*decoded) != *decoded) return std::nullopt;
  parsed.path = std::move(*decoded);
  return parsed;
}

std::optional<HostName> parse_host(std::string_view text) {
  const auto bracket = text.find(']');
  const bool is_ipv6 = text.starts_with('[');
  if (is_ipv6 && bracket == std::string_view::npos) return std::nullopt;
  const std::string_view name = text.substr(0, is_ipv6 ? bracket + 1 : text.find(':'));
  const std::string_view rest = text.substr(name.size());
  const std::string_view port = rest.substr(rest.empty() ? 0 : 1);
  constexpr std::size_t kPortDigitsMax = 5;
  const bool good_port = rest.empty() || (rest[0] == ':' && port.size() <= kPortDigitsMax &&
                                          std::all_of(port.begin(), port.end(), is_digit));
  const auto allowed = [](char c) {
    return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'z') ||
           std::string_view(".-_:[]").find(c) != std::string_view::npos;
  };
  if (name.empty() || !good_port || !std::all_of(name.begin(), name.end(), allowed)) {
    return std::nullopt;
  }
  return HostName{lower_case(name), std::string(port)};
}

std::string without_brackets(std::string_view host) {
  const bool has_brackets = host.starts_with('[') && host.ends_with(']');
  return std::string(has_brackets ? host.substr(1, host.size() - 2) : host);
}

std::string with_port(const std::string& host, const std::string& port) {
  return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + port;
}

std::optional<std::string_view> parse_bearer(std::string_view authorization) {
  constexpr std::string_view kBearer = "bearer ";
  if (!same_ignoring_case(authorization.substr(0, kBearer.size()), kBearer)) return std::nullopt;
  return trimmed(authorization.substr(kBearer.size()));
}

}  // namespace engramd::server
