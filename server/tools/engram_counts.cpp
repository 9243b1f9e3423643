#include "server/tools/engram_counts.h"

#include <nlohmann/json.hpp>

#include "server/tools/field.h"

namespace engramd::server {

std::vector<mcp::Field> engram_counts_fields() {
  return field::all_required({
      field::number("engram_hit_rate",
                    "Owned rows divided by addressed rows that are not bypassed, all orders."),
      field::objects("orders", "The same per N-gram order.",
                     field::all_required({
                         field::integer("order", "Tokens in the N-gram."),
                         field::integer("lookups", "Rows addressed, over token, layer and head."),
                         field::integer("hits", "Rows owned by exactly this N-gram."),
                         field::integer("misses", "Rows of another N-gram, or of none."),
                         field::integer("bypasses", "Positions with too few predecessors."),
                         field::integer("occupied", "Rows that some training N-gram reached."),
                     })),
  });
}

nlohmann::json to_json(const engine::EngramCounts& counts) {
  nlohmann::json orders = nlohmann::json::array();
  for (std::size_t i = 0; i < counts.orders.size(); ++i) {
    const auto& order = counts.orders[i];
    orders.push_back({{"order", i + 2},
                      {"lookups", order.lookups},
                      {"hits", order.owned},
                      {"misses", order.lookups - order.bypassed - order.owned},
                      {"bypasses", order.bypassed},
                      {"occupied", order.occupied}});
  }
  return {{"engram_hit_rate", counts.hit_rate()}, {"orders", std::move(orders)}};
}

}  // namespace engramd::server
