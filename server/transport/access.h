// Access: who may talk to the TCP port. A web page that the user visits can send requests to any
// port of this machine, under a name of its own (DNS rebinding): the Host header must be one of
// ours and the Origin, where a browser sends one, too. And other users of this machine can reach
// the port: clients know the token. A plain value; pure functions, any thread. Not here: the
// token's file (token_file).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/options.h"
#include "config/result.h"
#include "server/transport/http_exchange.h"

namespace engramd::server {

struct Access {
  bool auth_required = true;
  std::vector<std::string> tokens = {};  // each of them is accepted
  // Besides loopback names; lower case; without a port: on any.
  std::vector<std::string> hosts = {};
  std::vector<std::string> origins = {};  // besides loopback ones; lower case
};

// The token is read from (or made in) the file `token` of the state folder; `other_token` is a
// further one that is accepted, empty: none. Refuses to go without a token except on loopback.
Result<Access> make_access(const config::ServerOptions& options, const std::string& state_folder,
                           const std::string& other_token);
std::string token_path(const std::string& state_folder);

// The answer to a request that may not come in (400, 401, 403); nothing: it may.
// Without a token: /health and /ready, for probes, and what OAuth clients look for (a 404 tells
// them that there is no OAuth, a 401 that there is).
std::optional<HttpResponse> refusal(const Access& access, const HttpRequest& request);

// The answer to a browser that asks before its real request (CORS preflight); nothing: it is none.
std::optional<HttpResponse> preflight_answer(const Access& access, const HttpRequest& request);
// What lets a page of an allowed origin read the answer; empty for everybody else.
HttpHeaders cors_headers(const Access& access, const HttpRequest& request);

// "localhost", an address of 127.0.0.0/8, "[::1]".
bool is_loopback(std::string_view host);

}  // namespace engramd::server
