// Proxy: through which proxy a remote is reached: curl's variables, with more spellings of
// NO_PROXY, and loopback always direct. Pure; any thread. No message holds a proxy's password. Not
// here: how a proxy is spoken to (remote_connection).
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "config/result.h"
#include "server/upstream/endpoint.h"

namespace engramd::server {

struct Proxy {
  std::string host;  // without brackets
  std::string port;
  std::string credentials;  // "name:password", decoded; empty: none

  std::string authority() const;      // for messages; without credentials
  std::string authorization() const;  // the header with its line's end, or empty
};

struct ProxySettings {
  std::string for_all;     // of the variable that api.proxy_env names; empty: the others count
  std::string for_http;    // http_proxy, lower case only (a CGI's HTTP_PROXY is a client's header)
  std::string for_https;   // https_proxy, HTTPS_PROXY
  std::string exceptions;  // no_proxy, NO_PROXY
};
// variable: its value, empty when it is not set. all_proxy and ALL_PROXY stand for missing ones.
ProxySettings read_proxy_settings(const std::string& proxy_env,
                                  const std::function<std::string(const char*)>& variable);

// Nullopt: directly. An error when what is set is no http:// proxy.
Result<std::optional<Proxy>> proxy_for(const Endpoint& endpoint, const ProxySettings& settings);

// Whether a list as NO_PROXY has it, of commas and blanks, names the host: "*", a name (which
// stands for what is below it too, with or without "." or "*." before it), an address, a network
// ("10.0.0.0/8"), each but the network also with a port.
bool is_exception(const std::string& list, const std::string& host, const std::string& port);

}  // namespace engramd::server
