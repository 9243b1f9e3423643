#include "server/upstream/remote_model.h"

namespace engramd::server {
namespace {

constexpr char kSince[] = "2026-07-24";  // DeepSeek's change log
constexpr char kSuccessor[] = "deepseek-flash";

}  // namespace

std::optional<Retirement> retirement_of(const std::string& model) {
  if (model == "deepseek-chat") return Retirement{kSince, {kSuccessor, false}};
  if (model == "deepseek-reasoner") return Retirement{kSince, {kSuccessor, true}};
  return std::nullopt;
}

}  // namespace engramd::server
