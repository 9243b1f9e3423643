// ToolCalls: puts together the calls that a remote streams in pieces. Servers differ: an index may
// be missing or always 0, an id or a name may come late, again, in pieces or as null. Bounded.
// Pure; one per answer.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "engine/runtime/chat_backend.h"

namespace engramd::server {

class ToolCalls {
 public:
  // Reads `tool_calls` of a delta or message; what it adds, for who follows along: id and name in a
  // call's first piece. False: too many or too long.
  bool push(const nlohmann::json& pieces, std::vector<engine::ToolCallDelta>& added);
  // The answer is over: what was held back. False: the arguments of a call are not JSON.
  bool finish(std::vector<engine::ToolCallDelta>& added);

  bool empty() const { return calls_.empty(); }
  std::vector<engine::ToolCall> take();

 private:
  struct Call {
    engine::ToolCall call;
    std::int64_t index = -1;  // as the server counts; -1: it did not say
    bool told = false;        // its id and name have been passed on
  };
  Call& place_of(std::int64_t index, const std::string& id, const std::string& name);
  bool push_one(const nlohmann::json& piece, std::vector<engine::ToolCallDelta>& added);
  void tell(Call& call, std::string arguments, std::vector<engine::ToolCallDelta>& added);

  std::vector<Call> calls_;
  std::size_t n_bytes_ = 0;
};

}  // namespace engramd::server
