#include "mcp/sealed_state.h"

#include <algorithm>
#include <random>
#include <string_view>

#include <nettle/hmac.h>
#include <nettle/memops.h>

#include "mcp/base64.h"

namespace engramd::mcp {
namespace {

constexpr char kSeparator = '.';

std::int64_t seconds_of(StateSeal::Time time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}

}  // namespace

StateSeal::StateSeal() : key_() {
  std::random_device random;
  std::generate(key_.begin(), key_.end(), [&] { return static_cast<std::uint8_t>(random()); });
}

std::string StateSeal::seal(const json& state, const json& request, Time now) const {
  const std::string payload = serialise(
      {{"state", state},
       {"expires_s", seconds_of(now + std::chrono::duration_cast<Time::duration>(kLifetime))}});
  return to_base64(payload) + kSeparator + sign(payload, request);
}

std::optional<json> StateSeal::open(const std::string& sealed, const json& request,
                                    Time now) const {
  const std::size_t split = sealed.find(kSeparator);
  if (split == std::string::npos) return std::nullopt;
  const auto payload = from_base64(sealed.substr(0, split));
  if (!payload) return std::nullopt;
  const std::string expected = sign(*payload, request);
  const std::string signature = sealed.substr(split + 1);
  if (signature.size() != expected.size() ||
      memeql_sec(signature.data(), expected.data(), expected.size()) == 0) {
    return std::nullopt;
  }
  json content = json::parse(*payload, nullptr, /*allow_exceptions=*/false);  // signed: our own
  if (content["expires_s"].get<std::int64_t>() < seconds_of(now)) return std::nullopt;
  return std::move(content["state"]);
}

std::string StateSeal::sign(const std::string& payload, const json& request) const {
  hmac_sha256_ctx context;
  hmac_sha256_set_key(&context, key_.size(), key_.data());
  const std::string text = payload + '\n' + serialise(request);
  hmac_sha256_update(&context, text.size(), reinterpret_cast<const std::uint8_t*>(text.data()));
  std::array<std::uint8_t, SHA256_DIGEST_SIZE> digest;
  hmac_sha256_digest(&context, digest.size(), digest.data());
  return to_base64({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

}  // namespace engramd::mcp
