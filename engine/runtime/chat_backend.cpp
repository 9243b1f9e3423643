#include "engine/runtime/chat_backend.h"

#include <algorithm>

namespace engramd::engine {

double EngramCounts::hit_rate() const {
  std::int64_t owned = 0;
  std::int64_t possible = 0;
  for (const PerOrder& order : orders) {
    owned += order.owned;
    possible += order.lookups - order.bypassed;
  }
  return possible > 0 ? static_cast<double>(owned) / static_cast<double>(possible) : 0.0;
}

void EngramCounts::add(const EngramCounts& other) {
  orders.resize(std::max(orders.size(), other.orders.size()));
  for (std::size_t i = 0; i < other.orders.size(); ++i) {
    orders[i].lookups += other.orders[i].lookups;
    orders[i].bypassed += other.orders[i].bypassed;
    orders[i].occupied += other.orders[i].occupied;
    orders[i].owned += other.orders[i].owned;
  }
}

const char* name_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kToolCalls:
      return "tool_calls";
    case FinishReason::kContentFilter:
      return "content_filter";
    case FinishReason::kCancelled:
      return "cancelled";
  }
  return "";
}

const char* name_of(UsageSource source) {
  switch (source) {
    case UsageSource::kMeasured:
      return "measured";
    case UsageSource::kReported:
      return "reported";
    case UsageSource::kEstimated:
      return "estimated";
  }
  return "";
}

}  // namespace engramd::engine
