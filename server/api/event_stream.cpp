#include "server/api/event_stream.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "mcp/json_rpc.h"

namespace engramd::server {
namespace {

// Bytes at least every second tick: below the 15 seconds after which proxies and clients give up.
constexpr std::chrono::milliseconds kTick{7000};

}  // namespace

EventStream::EventStream(ApiCall call, Later later, std::string keep_alive)
    : call_(std::move(call)), later_(std::move(later)), keep_alive_(std::move(keep_alive)) {}

void EventStream::watch() {
  rearm();
}

void EventStream::rearm() {
  timer_ = later_(kTick, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    if (!self->wrote_since_tick_) self->write(self->keep_alive_);
    self->wrote_since_tick_ = false;
    self->rearm();
  });
}

void EventStream::begin() {
  if (std::exchange(begun_, true)) return;
  HttpHeaders headers = call_.headers();
  headers.emplace_back("Cache-Control", "no-cache");
  headers.emplace_back("X-Accel-Buffering", "no");  // nginx would hold events back
  call_.exchange().start({.status = 200,
                          .content_type = "text/event-stream",
                          .body = {},
                          .headers = std::move(headers)});
}

void EventStream::write(std::string piece) {
  begin();
  wrote_since_tick_ = true;
  call_.exchange().write(std::move(piece));
}

void EventStream::data(const nlohmann::json& value) {
  write("data: " + mcp::serialise(value) + "\n\n");
}

void EventStream::event(const std::string& name, const nlohmann::json& value) {
  write("event: " + name + "\ndata: " + mcp::serialise(value) + "\n\n");
}

void EventStream::end() {
  timer_.reset();
  call_.exchange().finish();
}

void EventStream::fail(const ApiError& error) {
  timer_.reset();
  if (!begun_) return call_.fail(error);
  const nlohmann::json body = call_.error_json(error);
  if (call_.family() == ApiFamily::kAnthropic) {
    event("error", body);
  } else {
    data(body);  // openai-node 6 swallows an error that has an event line
  }
  call_.exchange().finish();
}

}  // namespace engramd::server
