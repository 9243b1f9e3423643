#include "server/upstream/proxy.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/network_v4.hpp>
#include <boost/asio/ip/network_v6.hpp>

#include "mcp/base64.h"
#include "server/transport/header_text.h"

namespace engramd::server {
namespace {

namespace ip = boost::asio::ip;
using boost::system::error_code;

constexpr char kDefaultPort[] = "1080";  // curl's

Error bad_proxy(const std::string& what) {
  return invalid_argument("the proxy: " + what + "; expected http://name:password@host:port");
}

int hex_value(char digit) {
  int value = -1;
  std::from_chars(&digit, &digit + 1, value, 16);
  return value;
}

std::string percent_decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool coded = text[i] == '%' && i + 2 < text.size() && hex_value(text[i + 1]) >= 0 &&
                       hex_value(text[i + 2]) >= 0;
    decoded +=
        coded ? static_cast<char>(16 * hex_value(text[i + 1]) + hex_value(text[i + 2])) : text[i];
    if (coded) i += 2;
  }
  return decoded;
}

bool is_scheme(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  });
}

Result<Proxy> parse_proxy(std::string_view text) {
  text = trimmed(text);
  const std::size_t scheme_end = text.find("://");
  if (is_scheme(text.substr(0, std::min(scheme_end, text.size()))) && scheme_end != text.npos) {
    const std::string scheme = lower_case(text.substr(0, scheme_end));
    if (scheme != "http") return bad_proxy(scheme + ":// is not supported");
    text.remove_prefix(scheme_end + 3);
  }
  // First of all what is secret, which may hold any character.
  Proxy proxy;
  if (const auto at = text.rfind('@'); at != std::string_view::npos) {
    proxy.credentials = percent_decoded(text.substr(0, at));
    text.remove_prefix(at + 1);
  }
  text = text.substr(0, text.find('/'));
  const auto host = parse_host(text);
  if (!host || host->name.empty()) return bad_proxy("its host or its port is malformed");
  proxy.host = without_brackets(host->name);
  proxy.port = host->port.empty() ? kDefaultPort : host->port;
  return proxy;
}

bool is_in_network(const std::string& network, const ip::address& address) {
  error_code error;
  if (address.is_v4()) {
    const auto v4 = ip::make_network_v4(network, error);
    if (error) return false;
    const auto mask = v4.netmask().to_uint();
    return (address.to_v4().to_uint() & mask) == (v4.network().to_uint() & mask);
  }
  const auto v6 = ip::make_network_v6(network, error);
  return !error &&
         ip::make_network_v6(address.to_v6(), v6.prefix_length()).canonical() == v6.canonical();
}

std::string_view without_outer_dots(std::string_view name) {
  if (name.starts_with("*.")) name.remove_prefix(1);
  if (name.starts_with('.')) name.remove_prefix(1);
  if (name.ends_with('.')) name.remove_suffix(1);
  return name;
}

bool names(std::string item, const std::string& host, const std::string& port) {
  if (item == "*") return true;
  error_code is_name;
  const ip::address address = ip::make_address(host, is_name);
  if (item.find('/') != std::string::npos) return !is_name && is_in_network(item, address);
  error_code is_no_address;
  ip::address same = ip::make_address(item, is_no_address);
  if (is_no_address) {  // a name, or something with a port
    const auto parsed = parse_host(item.starts_with('.') ? item.substr(1) : item);
    if (item.starts_with('*') || !parsed) {
      item = lower_case(item);
    } else {
      if (!parsed->port.empty() && parsed->port != port) return false;
      item = without_brackets(parsed->name);
      same = ip::make_address(item, is_no_address);
    }
  }
  if (!is_no_address) return !is_name && same == address;
  const std::string_view suffix = without_outer_dots(item);
  const std::string_view name = without_outer_dots(host);
  if (suffix.empty() || !is_name) return false;
  if (name == suffix) return true;
  return name.size() > suffix.size() && name.ends_with(suffix) &&
         name[name.size() - suffix.size() - 1] == '.';
}

}  // namespace

std::string Proxy::authority() const {
  return with_port(host, port);
}

std::string Proxy::authorization() const {
  if (credentials.empty()) return "";
  return "Proxy-Authorization: Basic " + mcp::to_base64(credentials) + "\r\n";
}

ProxySettings read_proxy_settings(const std::string& proxy_env,
                                  const std::function<std::string(const char*)>& variable) {
  const auto first_of = [&variable](std::initializer_list<const char*> names) {
    for (const char* name : names) {
      if (std::string value = variable(name); !value.empty()) return value;
    }
    return std::string();
  };
  return {.for_all = proxy_env.empty() ? std::string() : variable(proxy_env.c_str()),
          .for_http = first_of({"http_proxy", "all_proxy", "ALL_PROXY"}),
          .for_https = first_of({"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"}),
          .exceptions = first_of({"no_proxy", "NO_PROXY"})};
}

Result<std::optional<Proxy>> proxy_for(const Endpoint& endpoint, const ProxySettings& settings) {
  using Chosen = std::optional<Proxy>;
  std::string text = settings.for_all;
  if (text.empty()) {
    text = endpoint.tls ? settings.for_https : settings.for_http;
    const bool direct = endpoint.is_loopback ||
                        is_exception(settings.exceptions, lower_case(endpoint.host), endpoint.port);
    if (text.empty() || direct) return Chosen();
  }
  auto proxy = parse_proxy(text);
  if (proxy.has_error()) return proxy.error();
  return Chosen(std::move(*proxy));
}

bool is_exception(const std::string& list, const std::string& host, const std::string& port) {
  constexpr std::string_view kSeparators = ", \t";
  std::size_t start = 0;
  while ((start = list.find_first_not_of(kSeparators, start)) != std::string::npos) {
    const std::size_t end = std::min(list.find_first_of(kSeparators, start), list.size());
    if (names(list.substr(start, end - start), host, port)) return true;
    start = end;
  }
  return false;
}

}  // namespace engramd::server
