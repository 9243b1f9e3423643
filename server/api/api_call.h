// ApiCall: one request of an HTTP API, and answers in the shape of the family of
// clients that sent it. On the io thread. Not here: what a request means, event streams.
#pragma once

#include <memory>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "server/api/api_error.h"
#include "server/transport/http_exchange.h"

namespace engramd::server {

enum class ApiFamily { kOpenAi, kAnthropic };

// 128 random bits in hexadecimal behind the prefix: unguessable, and ids of two daemons differ too.
std::string make_id(const std::string& prefix);

class ApiCall {
 public:
  ApiCall(std::shared_ptr<HttpExchange> exchange, ApiFamily family);

  HttpExchange& exchange() const { return *exchange_; }
  const HttpRequest& request() const { return exchange_->request(); }
  ApiFamily family() const { return family_; }
  HttpHeaders headers() const;  // that every answer carries; the transport adds its own

  void respond(int status, const nlohmann::json& body) const;
  void fail(const ApiError& error) const;                  // as the whole answer
  nlohmann::json error_json(const ApiError& error) const;  // as a body or an event

 private:
  std::shared_ptr<HttpExchange> exchange_;
  ApiFamily family_;
};

// By the path: /v1/messages and what is below it is Anthropic's.
ApiFamily family_of(const HttpRequest& request);

}  // namespace engramd::server
