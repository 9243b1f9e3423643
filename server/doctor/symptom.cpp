#include "server/doctor/symptom.h"

#include <algorithm>
#include <vector>

#include "server/transport/header_text.h"

namespace engramd::server {
namespace {

struct Row {
  Symptom symptom;
  std::vector<std::string_view> words;  // lower case; any of them
};

// The first that fits counts, so what is particular stands before what is general: a proxy's 401 is
// the proxy's, a web page with status 404 is a wrong path.
const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
      {{"doubled /v1", "the path has /v1 twice, since both the base URL and the client add it",
        "take /v1 off the client's base URL, or off api.base_url"},
       {"/v1/v1"}},
      {{"local proxy failed", "a proxy on the way refused, or is not running",
        "is the proxy there, and its password right? Names that need none go into NO_PROXY; "
        "loopback needs none"},
       {"local proxy failed", "proxy authentication", "the proxy", "err_proxy", "http 407",
        "status code 407", "407 proxy"}},
      {{"OAuth token expired", "the client's own login has ended; engramd has no OAuth",
        "log in to the client again (Claude Code: /login), or give it the key or token instead"},
       {"oauth", "token has expired", "token expired", "invalid_grant"}},
      {{"certificate",
        "the other side's certificate is not signed by an authority known here, or "
        "this machine's clock is wrong",
        "name the authority with SSL_CERT_FILE, and check this machine's clock"},
       {"certificate", "self signed", "self-signed", "unable to verify the first"}},
      {{"https on a plain port", "one side speaks TLS and the other does not",
        "is it https at all? Try http:// or the right port"},
       {"wrong version number", "agreeing on tls", "ssl routines", "eproto"}},
      {{"HTML instead of JSON", "a web page came: a wrong path, a login page or a gateway's error",
        "does api.base_url have the right path? Try it with and without /v1"},
       {"unexpected token '<'", "unexpected token <", "<!doctype", "<html", "web page",
        "not valid json", "no list of models"}},
      {{"reading 'choices'",
        "the client got something else than a completion: an error with status "
        "200, an empty list, or a web page",
        "ask for the same with `engramd chat --route remote`, which shows what the server said"},
       {"reading 'choices'", "'choices'", "no choices", "choices is undefined"}},
      {{"model not found", "the server has no model of that name; providers retire names",
        "see remote.models here for the names it has, and correct api.default_model"},
       {"model not found", "model_not_found", "model not exist", "is not a valid model",
        "unknown model", "not known there", "no available channel",
        "\xe6\x97\xa0\xe5\x8f\xaf\xe7\x94\xa8\xe6\xb8\xa0\xe9\x81\x93", "does not exist"}},
      {{"balance", "the account has no money or no quota left",
        "top up the account, or use another key"},
       {"insufficient balance", "insufficient_quota", "exceeded your current quota", "http 402",
        "status code 402", "402 payment", "balance is used up"}},
      {{"401", "the key is not the key of this server, is not complete, or did not arrive",
        "is the variable that api.api_key_env names set where engramd runs, to the key of this "
        "very server?"},
       {"401", "unauthorized", "invalid api key", "incorrect api key", "invalid_api_key",
        "authentication_error", "invalid x-api-key", "authentication fails"}},
      {{"403", "the key is known, and may not do this",
        "ask whoever gave the key; some servers refuse whole countries"},
       {"http 403", "status code 403", "403 forbidden", "permission_error"}},
      {{"404", "there is nothing under this path",
        "does api.base_url have the right path? Try it with and without /v1"},
       {"404", "http 405", "method not allowed"}},
      {{"too many requests", "the server's limit of requests or tokens is reached",
        "wait, or raise the limit of the account"},
       {"429", "rate limit", "rate_limit", "too many requests"}},
      {{"prompt too long", "prompt and answer together are longer than the model reads",
        "shorten the conversation, ask for fewer max_tokens, or choose a larger model"},
       {"context_length_exceeded", "prompt is too long", "maximum context length"}},
      {{"time-out",
        "nothing came in time: a long prompt, a server under load, or a connection that "
        "a firewall dropped",
        "raise api.timeout (of the remote) or the client's own limit, and stream"},
       {"time-out", "timeout", "timed out", "etimedout", "504 gateway", "http 504", "http 524"}},
      {{"not reachable", "nobody listens there, or the name is not known",
        "check the address, the network and the firewall"},
       {"econnrefused", "connection refused", "enotfound", "eai_again", "host not found",
        "getaddrinfo", "no route to host", "network is unreachable"}},
      {{"the client cannot start engramd",
        "the program that its settings name is not there, or "
        "ended at once",
        "engramd client-config CLIENT --write, where CLIENT is cline, claude-code, vscode or "
        "cursor"},
       {"enoent", "command not found", "-32000", "connection closed", "failed to connect to mcp"}},
      {{"bucket lore",
        "nothing: other loaders want sorted bucket ids or counts that are powers of "
        "two, engramd takes any",
        "none is needed"},
       {"sorted bucket", "power of two"}},
      {{"the server is ill", "the server itself failed", "ask again later, or see its status page"},
       {"http 500", "http 502", "http 503", "http 520", "http 529", "status code 500",
        "status code 502", "status code 503", "internal server error", "bad gateway",
        "service unavailable", "overloaded"}}};
  return all;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// A status is not part of a longer number, as of a port.
bool says(const std::string& text, std::string_view word) {
  for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos; ++at) {
    const std::size_t end = at + word.size();
    const bool joins_before = is_digit(word.front()) && at > 0 && is_digit(text[at - 1]);
    const bool joins_after = is_digit(word.back()) && end < text.size() && is_digit(text[end]);
    if (!joins_before && !joins_after) return true;
  }
  return false;
}

}  // namespace

std::string text_of(const Symptom& symptom) {
  return std::string(symptom.name) + ": " + symptom.meaning + "\n-> " + symptom.remedy;
}

const Symptom* recognise(std::string_view text) {
  const std::string low = lower_case(text);
  const auto has = [&low](std::string_view word) { return says(low, word); };
  const auto found = std::find_if(rows().begin(), rows().end(), [&has](const Row& row) {
    return std::any_of(row.words.begin(), row.words.end(), has);
  });
  return found == rows().end() ? nullptr : &found->symptom;
}

}  // namespace engramd::server
