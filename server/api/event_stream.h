// EventStream: an answer as server-sent events. Begins when told, or when the client has waited so
// long that it needs a sign of life; then never leaves it without bytes for 15 seconds.
// On the io thread; shared, because its timer holds on to it weakly. Not here: what the events say.
#pragma once

#include <memory>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "server/api/api_call.h"
#include "server/later.h"

namespace engramd::server {

class EventStream : public std::enable_shared_from_this<EventStream> {
 public:
  // keep_alive: one whole event or comment, with its blank line.
  EventStream(ApiCall call, Later later, std::string keep_alive);

  void watch();  // from here on the client waits; once
  void begin();  // the head; again: nothing
  bool begun() const { return begun_; }
  const ApiCall& call() const { return call_; }

  void data(const nlohmann::json& value);                            // begins too
  void event(const std::string& name, const nlohmann::json& value);  // with an `event:` line
  void write(std::string piece);                                     // whole events
  void end();                                                        // nothing may follow
  void fail(const ApiError& error);  // ends: as the answer, or as a last event

 private:
  void rearm();

  const ApiCall call_;
  const Later later_;
  const std::string keep_alive_;
  bool begun_ = false;
  bool wrote_since_tick_ = false;
  LaterHandle timer_;
};

}  // namespace engramd::server
