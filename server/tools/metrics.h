// The `metrics` tool: what the daemon did and what it holds, since start and over the last minute.
#pragma once

#include <cstdint>
#include <utility>

#include "engine/engram/prefetcher.h"
#include "mcp/registry.h"
#include "server/tools/services.h"

namespace engramd::server {

mcp::Tool make_metrics_tool(const Services& services);

// Where rows are read from, in the order in which they are looked for.
inline constexpr std::pair<const char*, std::int64_t engine::RowReadStats::PerOrder::*>
    kRowLevels[] = {{"edited", &engine::RowReadStats::PerOrder::edited},
                    {"resident", &engine::RowReadStats::PerOrder::resident},
                    {"hot", &engine::RowReadStats::PerOrder::hot},
                    {"file", &engine::RowReadStats::PerOrder::file}};

// The tool's structured output, also the engramd://metrics resource.
mcp::json metrics_json(const Services& services);
std::vector<mcp::Field> metrics_output_fields();

}  // namespace engramd::server
