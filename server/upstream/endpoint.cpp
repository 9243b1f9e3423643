#include "server/upstream/endpoint.h"

#include <algorithm>
#include <charconv>

#include "server/transport/access.h"
#include "server/transport/header_text.h"

namespace engramd::server {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";
constexpr std::string_view kChatPath = "/chat/completions";
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

std::string_view without_blanks(std::string_view text) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// "v1", "v1beta", "v1beta2", "openai".
bool names_a_version(std::string_view segment) {
  if (segment == "openai") return true;
  if (!segment.starts_with('v')) return false;
  segment.remove_prefix(1);
  const auto digits = [&segment] {
    std::size_t n = 0;
    while (n < segment.size() && segment[n] >= '0' && segment[n] <= '9') ++n;
    segment.remove_prefix(n);
    return n;
  };
  if (digits() == 0) return false;
  if (!segment.starts_with("beta")) return segment.empty();
  segment.remove_prefix(4);
  digits();
  return segment.empty();
}

Error bad_url(const std::string& what) {
  return invalid_argument("api.base_url: " + what +
                          "; expected an address as https://api.example.org/v1");
}

Result<void> read_authority(std::string_view text, Endpoint& endpoint) {
  if (text.find('@') != std::string_view::npos) {
    return bad_url("a name and password inside are not used; the key is read from a variable");
  }
  const auto host = parse_host(text);
  if (!host) return bad_url("its host or its port is malformed");
  endpoint.is_loopback = is_loopback(host->name);
  endpoint.host = without_brackets(host->name);
  if (endpoint.host.empty()) return bad_url("there is no host in it");
  endpoint.port = endpoint.tls ? "443" : "80";
  if (text.size() == host->name.size()) return {};
  int number = 0;
  std::from_chars(host->port.data(), host->port.data() + host->port.size(), number);
  if (number < 1 || number > 65535) return bad_url("the port is not a number from 1 to 65535");
  endpoint.port = std::to_string(number);
  return {};
}

}  // namespace

std::string Endpoint::full_authority() const {
  return with_port(host, port);
}

std::string Endpoint::authority() const {
  const std::string full = full_authority();
  const std::string usual_port = tls ? ":443" : ":80";
  return full.ends_with(usual_port) ? full.substr(0, full.size() - usual_port.size()) : full;
}

std::string Endpoint::target(std::string_view path) const {
  return prefix + std::string(path) + query;
}

std::string Endpoint::name() const {
  return (tls ? "https://" : "http://") + authority() + prefix;
}

Result<std::vector<Endpoint>> parse_base_url(std::string_view text) {
  text = without_blanks(text);
  const bool visible = std::all_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) > 0x20 && static_cast<unsigned char>(c) < 0x7f;
  });
  if (!visible) return bad_url("a blank or a character that is not ASCII is inside");
  Endpoint endpoint;
  const std::size_t scheme_end = text.find("://");
  if (scheme_end == std::string_view::npos) return bad_url("there is no :// in it");
  const std::string scheme = lower_case(text.substr(0, scheme_end));
  if (scheme != "http" && scheme != "https")
    return bad_url("it starts with neither http nor https");
  endpoint.tls = scheme == "https";
  text.remove_prefix(scheme_end + 3);
  text = text.substr(0, text.find('#'));
  const auto query = std::min(text.find('?'), text.size());
  endpoint.query = text.substr(query);
  text = text.substr(0, query);
  const auto slash = std::min(text.find('/'), text.size());
  const auto read = read_authority(text.substr(0, slash), endpoint);
  if (read.has_error()) return read.error();
  std::string_view path = text.substr(slash);
  const auto trim = [&path] {
    while (path.ends_with('/')) path.remove_suffix(1);
  };
  trim();
  const bool is_whole = path.ends_with(kChatPath);
  if (is_whole) path.remove_suffix(kChatPath.size());
  trim();
  endpoint.prefix = path;
  if (is_whole || names_a_version(path.substr(path.rfind('/') + 1))) {
    return std::vector<Endpoint>{endpoint};
  }
  Endpoint versioned = endpoint;
  versioned.prefix += "/v1";
  return std::vector<Endpoint>{versioned, endpoint};
}

Result<std::string> clean_api_key(std::string_view text) {
  std::string_view key = without_blanks(text);
  if (key.size() >= 2 && (key[0] == '"' || key[0] == '\'') && key.front() == key.back()) {
    key = without_blanks(key.substr(1, key.size() - 2));
  }
  if (const auto token = parse_bearer(key)) key = without_blanks(*token);
  for (const char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte > 0x20 && byte < 0x7f) continue;
    const std::string kind = byte == ' '    ? "a blank"
                             : byte < 0x20  ? "a control character"
                             : byte == 0x7f ? "a control character"
                                            : "a character that is not ASCII";
    return invalid_argument("the key of " + std::to_string(key.size()) + " bytes has " + kind +
                            " inside; copy it again");
  }
  return std::string(key);
}

}  // namespace engramd::server
