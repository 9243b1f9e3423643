#include "server/transport/access.h"

#include <algorithm>
#include <array>

#include "server/transport/header_text.h"
#include "server/transport/http_error.h"
#include "server/transport/token_file.h"

namespace engramd::server {
namespace {

// As long for every token of the same length, however much of it is right.
bool same_secret(std::string_view expected, std::string_view given) {
  if (expected.size() != given.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < given.size(); ++i) {
    difference |= static_cast<unsigned char>(expected[i] ^ given[i]);
  }
  return difference == 0;
}

bool is_accepted(const Access& access, std::optional<std::string_view> token) {
  bool accepted = false;
  for (const std::string& expected : access.tokens) {
    if (token && same_secret(expected, *token)) accepted = true;
  }
  return accepted;
}

bool needs_token(std::string_view path) {
  constexpr std::array<std::string_view, 4> kOpen = {"/health", "/ready", "/register",
                                                     "/.well-known"};
  return std::find(kOpen.begin(), kOpen.end(), path) == kOpen.end() &&
         !path.starts_with("/.well-known/");
}

// The name alone or the name with its port stands in the list.
bool is_listed(const std::vector<std::string>& hosts, const HostName& host) {
  const std::string with_port = host.name + ":" + host.port;
  return std::any_of(hosts.begin(), hosts.end(), [&](const std::string& allowed) {
    return allowed == host.name || allowed == with_port;
  });
}

// The names by which a client reaches this machine without asking anybody who could lie.
bool is_loopback_name(std::string_view name) {
  return name == "localhost" || name == "127.0.0.1" || name == "[::1]";
}

bool is_loopback_origin(std::string_view origin) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!origin.starts_with(scheme)) continue;
    const auto host = parse_host(origin.substr(scheme.size()));
    return host && is_loopback_name(host->name);
  }
  return false;
}

bool is_configured_origin(const Access& access, std::string_view origin) {
  const auto& origins = access.origins;
  return std::find(origins.begin(), origins.end(), lower_case(origin)) != origins.end();
}

std::optional<HttpResponse> host_refusal(const Access& access, const HttpRequest& request) {
  const auto text = request.header("Host");
  if (!text) return std::nullopt;  // HTTP/1.0; no browser sends that
  const auto host = parse_host(*text);
  if (!host) return error_response(400, "the Host header is not a host name with a port");
  if (is_loopback_name(host->name) || is_listed(access.hosts, *host)) return std::nullopt;
  return error_response(403,
                        "host " + host->name +
                            " is not served here: use localhost, or add the name to "
                            "server.allowed_hosts",
                        "host_not_allowed");
}

std::optional<HttpResponse> origin_refusal(const Access& access, const HttpRequest& request) {
  const auto origin = request.header("Origin");
  if (!origin || is_loopback_origin(lower_case(*origin)) || is_configured_origin(access, *origin)) {
    return std::nullopt;
  }
  return error_response(403,
                        "pages of this origin may not call engramd: add it to "
                        "server.allowed_origins",
                        "origin_not_allowed");
}

std::optional<HttpResponse> token_refusal(const Access& access, const HttpRequest& request) {
  if (!access.auth_required || !needs_token(request.path)) return std::nullopt;
  const auto authorization = request.header("Authorization");
  const auto bearer = authorization ? parse_bearer(*authorization) : std::nullopt;
  if (is_accepted(access, bearer) || is_accepted(access, request.header("x-api-key"))) {
    return std::nullopt;
  }
  HttpResponse response = error_response(
      401,
      "a token is needed: send `Authorization: Bearer TOKEN` with the content of the file `token` "
      "in engramd's state folder (~/.local/state/engramd)",
      "invalid_api_key");
  response.headers = {{"WWW-Authenticate", "Bearer"}};
  return response;
}

}  // namespace

bool is_loopback(std::string_view host) {
  if (is_loopback_name(host)) return true;
  const auto digits_and_dots = [](char c) { return (c >= '0' && c <= '9') || c == '.'; };
  return host.starts_with("127.") && std::all_of(host.begin(), host.end(), digits_and_dots);
}

std::string token_path(const std::string& state_folder) {
  return state_folder + "/token";
}

Result<Access> make_access(const config::ServerOptions& options, const std::string& state_folder,
                           const std::string& other_token) {
  Access access;
  access.auth_required = options.auth;
  if (!options.auth && !is_loopback(options.host)) {
    return invalid_argument("server.auth is off and server.host is " + options.host +
                            ": without a token only this machine may reach the port; set "
                            "server.host to 127.0.0.1 or server.auth to true");
  }
  if (options.auth) {
    if (state_folder.empty()) {
      return environment_error(
          "no folder for the token file: set HOME or XDG_STATE_HOME, or server.auth to false");
    }
    Result<std::string> token = read_or_create_token(token_path(state_folder));
    if (token.has_error()) return token.error();
    access.tokens.push_back(std::move(token).value());
    if (!other_token.empty()) access.tokens.push_back(other_token);
  }
  access.hosts.push_back(lower_case(options.host));
  for (const std::string& host : options.allowed_hosts) access.hosts.push_back(lower_case(host));
  for (const std::string& origin : options.allowed_origins) {
    access.origins.push_back(lower_case(origin));
  }
  return access;
}

std::optional<HttpResponse> refusal(const Access& access, const HttpRequest& request) {
  if (auto refused = host_refusal(access, request)) return refused;
  if (auto refused = origin_refusal(access, request)) return refused;
  return token_refusal(access, request);
}

std::optional<HttpResponse> preflight_answer(const Access& access, const HttpRequest& request) {
  const auto origin = request.header("Origin");
  if (request.method != "OPTIONS" || !origin || !request.header("Access-Control-Request-Method")) {
    return std::nullopt;
  }
  if (auto refused = host_refusal(access, request)) return refused;
  if (!is_configured_origin(access, *origin)) {
    return error_response(403,
                          "pages of this origin may not read what engramd says: add it to "
                          "server.allowed_origins",
                          "origin_not_allowed");
  }
  HttpResponse response{.status = 204};
  response.headers = {{"Access-Control-Allow-Methods", "GET, POST, DELETE"},
                      {"Access-Control-Max-Age", "600"}};
  if (const auto headers = request.header("Access-Control-Request-Headers")) {
    response.headers.emplace_back("Access-Control-Allow-Headers", *headers);
  }
  return response;
}

HttpHeaders cors_headers(const Access& access, const HttpRequest& request) {
  const auto origin = request.header("Origin");
  if (!origin || !is_configured_origin(access, *origin)) return {};
  return {{"Access-Control-Allow-Origin", std::string(*origin)},
          {"Access-Control-Expose-Headers", "Mcp-Session-Id, x-request-id, Retry-After"},
          {"Vary", "Origin"}};
}

}  // namespace engramd::server
