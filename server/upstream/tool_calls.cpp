#include "server/upstream/tool_calls.h"

#include <algorithm>
#include <cstdio>
#include <random>
#include <utility>

#include <nlohmann/json.hpp>

#include "server/upstream/remote_json.h"

namespace engramd::server {
namespace {

using nlohmann::json;

constexpr std::size_t kCallsMax = 128;
constexpr std::size_t kBytesMax = 16UL << 20;

bool is_whole(const std::string& arguments) {
  return !arguments.empty() && !parse_remote_json(arguments).is_discarded();
}

// For servers that give none; of its own in every answer, since a conversation has many.
std::string make_call_id() {
  std::random_device random;
  char text[24];
  std::snprintf(text, sizeof text, "call_%08x%08x", random(), random());
  return text;
}

}  // namespace

// Which call a piece belongs to, opened when it is a new one.
ToolCalls::Call& ToolCalls::place_of(std::int64_t index, const std::string& id,
                                     const std::string& name) {
  const auto open = [&]() -> Call& {
    calls_.push_back({{}, index, false});
    return calls_.back();
  };
  if (calls_.empty()) return open();
  if (!id.empty()) {
    const auto same = std::find_if(calls_.begin(), calls_.end(),
                                   [&id](const Call& call) { return call.call.id == id; });
    if (same != calls_.end()) return *same;
    const bool is_late = calls_.back().call.id.empty() && !calls_.back().told &&
                         (index < 0 || index == calls_.back().index);
    return is_late ? calls_.back() : open();
  }
  if (!name.empty() && !calls_.back().call.name.empty() &&
      (is_whole(calls_.back().call.arguments) || index > calls_.back().index)) {
    return open();
  }
  // Calls whose pieces take turns; an index that several have tells nothing.
  const auto has_index = [index](const Call& call) { return index >= 0 && call.index == index; };
  if (std::count_if(calls_.begin(), calls_.end(), has_index) == 1) {
    return *std::find_if(calls_.begin(), calls_.end(), has_index);
  }
  return calls_.back();
}

void ToolCalls::tell(Call& call, std::string arguments, std::vector<engine::ToolCallDelta>& added) {
  // Calls are told of in their order: those before it whose arguments have not begun, too.
  for (Call* each = calls_.data(); each <= &call; ++each) {
    if (std::exchange(each->told, true)) continue;
    if (each->call.id.empty()) each->call.id = make_call_id();
    added.push_back(
        {static_cast<std::size_t>(each - calls_.data()), {each->call.id, each->call.name, ""}});
  }
  const auto place = static_cast<std::size_t>(&call - calls_.data());
  if (added.empty() || added.back().index != place) added.push_back({place, {}});
  added.back().piece.arguments += arguments;
}

bool ToolCalls::push_one(const json& piece, std::vector<engine::ToolCallDelta>& added) {
  const json* const function = member(piece, "function");
  const json nothing = json::object();
  const json& what = function != nullptr ? *function : nothing;
  const json* const number = member(piece, "index");
  const std::int64_t index =
      number != nullptr && number->is_number_integer() ? number->get<std::int64_t>() : -1;
  const std::string id = text_of(member(piece, "id"));
  const std::string name = text_of(member(what, "name"));
  std::string arguments = text_of(member(what, "arguments"));
  const json* const object = member(what, "arguments");
  if (object != nullptr && object->is_object()) arguments = object->dump();  // not deep
  n_bytes_ += id.size() + name.size() + arguments.size();
  Call& call = place_of(index, id, name);
  if (calls_.size() > kCallsMax || n_bytes_ > kBytesMax) return false;
  if (!call.told) {
    if (call.call.id.empty()) call.call.id = id;
    if (call.call.name != name) call.call.name += name;
  }
  if (arguments.empty()) return true;  // the name may go on
  call.call.arguments += arguments;
  tell(call, std::move(arguments), added);
  return true;
}

bool ToolCalls::push(const json& pieces, std::vector<engine::ToolCallDelta>& added) {
  if (!pieces.is_array()) return true;
  return std::all_of(pieces.begin(), pieces.end(),
                     [&](const json& piece) { return push_one(piece, added); });
}

bool ToolCalls::finish(std::vector<engine::ToolCallDelta>& added) {
  for (Call& call : calls_) {
    if (call.call.arguments.find_first_not_of(" \t\r\n") == std::string::npos) {
      call.call.arguments = "{}";
      tell(call, "{}", added);
    }
    if (!is_whole(call.call.arguments)) return false;
  }
  return true;
}

std::vector<engine::ToolCall> ToolCalls::take() {
  std::vector<engine::ToolCall> calls;
  for (Call& call : calls_) calls.push_back(std::move(call.call));
  return calls;
}

}  // namespace engramd::server
