// What stands on the wire decides a remote's answer, not the pieces it arrives in; and nothing that
// a remote says can break the reading of it.
//
// links: engramd_upstream_parsers
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "config/assert.h"
#include "server/upstream/answer_reader.h"
#include "server/upstream/endpoint.h"
#include "server/upstream/proxy.h"
#include "server/upstream/response_reader.h"
#include "server/upstream/sse_parser.h"

namespace {

using namespace engramd::server;

std::string read(std::string_view bytes, std::size_t piece_bytes) {
  ResponseReader response(4096);
  std::string body;
  bool whole = true;
  for (std::size_t at = 0; at < bytes.size() && whole; at += piece_bytes) {
    whole = response.push(bytes.substr(at, piece_bytes));
    if (whole && response.has_head()) body += response.take_body();
  }
  if (!whole) return "refused";
  const bool ended = response.finish();
  if (!response.has_head()) return "no head";
  body += response.take_body();
  std::string all = std::to_string(response.head().status) + (ended ? " whole " : " cut ");
  SseParser parser(1024);
  if (!parser.push(body)) return all + "too long";
  parser.finish();
  AnswerReader reader;
  while (const auto event = parser.next()) {
    const auto piece = reader.read(*event);
    if (piece.has_error()) return all + piece.error().message;
    all += piece->text + piece->reasoning;
    for (const auto& call : piece->tool_calls) all += call.piece.name + call.piece.arguments;
  }
  ENGRAMD_ASSERT(failure_of(response.head(), body).message.find('\n') == std::string::npos);
  if (reader.is_complete() && reader.finish_reason() == engramd::engine::FinishReason::kToolCalls) {
    for (const engramd::engine::ToolCall& call : reader.take_tool_calls()) {
      ENGRAMD_ASSERT(nlohmann::json::accept(call.arguments) && !call.id.empty());
    }
  }
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string whole = read(bytes, size + 1);
  ENGRAMD_ASSERT(read(bytes, 1) == whole);
  ENGRAMD_ASSERT(read(bytes, 7) == whole);
  if (const auto endpoints = parse_base_url(bytes); endpoints.has_value()) {
    ENGRAMD_ASSERT(endpoints->front().target("/x").find_first_of("\r\n ") == std::string::npos);
    ENGRAMD_ASSERT(endpoints->front().authority().find_first_of("\r\n /") == std::string::npos);
  }
  is_exception(std::string(bytes), "api.example.org", "443");
  is_exception(std::string(bytes), "::1", "443");
  if (const auto key = clean_api_key(bytes); key.has_value()) {
    ENGRAMD_ASSERT(key->find_first_of("\r\n") == std::string::npos);
  }
  return 0;
}
