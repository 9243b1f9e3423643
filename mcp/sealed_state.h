// SealedState: a handler's state that travels through a modern client and back (requestState of
// 2026-07-28, multi-round-trip requests). The client is not trusted with it: it is signed together
// with the request that it belongs to and a time after which it is worth nothing.
// Pure but for the random key. On the dispatcher's thread.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "mcp/json_rpc.h"

namespace engramd::mcp {

class StateSeal {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::minutes kLifetime{10};  // a person may have to answer

  StateSeal();  // a key of its own: what another process has signed is refused

  // `request`: whatever must be the same when the state comes back (tool and arguments).
  std::string seal(const json& state, const json& request, Time now) const;
  // Nothing when it was not sealed here, was changed, is too old or belongs to another request.
  std::optional<json> open(const std::string& sealed, const json& request, Time now) const;

 private:
  std::string sign(const std::string& payload, const json& request) const;

  std::array<std::uint8_t, 32> key_;
};

}  // namespace engramd::mcp
