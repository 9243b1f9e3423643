#include "server/tools/metrics.h"

#include <cstdio>
#include <utility>

#include "server/process_memory.h"
#include "server/tools/engram_counts.h"
#include "server/tools/field.h"
#include "server/tools/model_json.h"

namespace engramd::server {
namespace {

using mcp::json;

constexpr char kMetricsDescription[] =
    "Metrics of the engramd daemon since start and over the last minute: requests, errors and "
    "cancellations per tool, tokens, tokens/s, latency (p50, p99), queue, who served, Engram hit "
    "rate with lookups, misses and bypasses per order, row reads and stalls, memory per part, and "
    "which model and table are open.";

std::vector<mcp::Field> latency_fields() {
  return field::all_required({field::integer("count", "Samples."),
                              field::number("p50_ms", "Median; 0 without samples."),
                              field::number("p99_ms", "99th percentile; 0 without samples.")});
}

json latency_json(const Histogram& histogram) {
  return {{"count", histogram.count()},
          {"p50_ms", histogram.percentile(0.50)},
          {"p99_ms", histogram.percentile(0.99)}};
}

std::vector<mcp::Field> window_fields() {
  using namespace field;
  return all_required({
      objects("tools", "Calls per tool.",
              all_required({text("name", "Tool."), integer("requests", "Calls started."),
                            integer("errors", "Calls that ended in an error."),
                            integer("cancellations", "Calls the client cancelled.")})),
      integer("prompt_tokens", "Prompt tokens of finished chats."),
      integer("generated_tokens", "Generated tokens of finished chats."),
      number("tokens_per_s", "Generation speed of one answer, after its first token."),
      object("first_token", "Time to the first token.", latency_fields()),
      object("per_token", "Time between tokens.", latency_fields()),
      object("served", "Chats by who answered.",
             all_required(
                 {integer("local", "By the local engine."), integer("remote", "By the remote.")})),
      object("engram", "N-gram look-ups of finished chats.", engram_counts_fields()),
  });
}

json window_json(const WindowMetrics& window) {
  json tools = json::array();
  for (const auto& [name, counts] : window.tools) {
    tools.push_back({{"name", name},
                     {"requests", counts.requests},
                     {"errors", counts.errors},
                     {"cancellations", counts.cancellations}});
  }
  return {{"tools", std::move(tools)},
          {"prompt_tokens", window.prompt_tokens},
          {"generated_tokens", window.generated_tokens},
          {"tokens_per_s", window.tokens_per_s()},
          {"first_token", latency_json(window.first_token_ms)},
          {"per_token", latency_json(window.per_token_ms)},
          {"served", {{"local", window.served_local}, {"remote", window.served_remote}}},
          {"engram", to_json(window.engram)}};
}

json memory_json(const engine::EngineMemory& memory) {
  return {{"weights_bytes", memory.weights},
          {"table_bytes", memory.table},
          {"kv_cache_bytes", memory.kv_cache},
          {"activations_bytes", memory.activations},
          {"process_resident_bytes", process_resident_bytes()}};
}

std::string window_text(const char* title, const json& window) {
  std::int64_t requests = 0;
  std::int64_t errors = 0;
  std::int64_t cancellations = 0;
  for (const json& tool : window.at("tools")) {
    requests += tool.at("requests").get<std::int64_t>();
    errors += tool.at("errors").get<std::int64_t>();
    cancellations += tool.at("cancellations").get<std::int64_t>();
  }
  char text[400];
  std::snprintf(text, sizeof text,
                "%s: %lld calls, %lld errors, %lld cancelled; %lld prompt and %lld generated "
                "tokens, %.0f tokens/s; first token p50 %.1f ms, p99 %.1f ms; per token p50 %.2f "
                "ms, p99 %.2f ms; engram_hit_rate %.3f",
                title, static_cast<long long>(requests), static_cast<long long>(errors),
                static_cast<long long>(cancellations),
                static_cast<long long>(window.at("prompt_tokens").get<std::int64_t>()),
                static_cast<long long>(window.at("generated_tokens").get<std::int64_t>()),
                window.at("tokens_per_s").get<double>(),
                window.at("first_token").at("p50_ms").get<double>(),
                window.at("first_token").at("p99_ms").get<double>(),
                window.at("per_token").at("p50_ms").get<double>(),
                window.at("per_token").at("p99_ms").get<double>(),
                window.at("engram").at("engram_hit_rate").get<double>());
  return text;
}

std::string orders_text(const json& engram) {
  std::string text;
  for (const json& order : engram.at("orders")) {
    text += "\n  order " + order.at("order").dump() + ": " + order.at("lookups").dump() +
            " lookups, " + order.at("hits").dump() + " hits, " + order.at("misses").dump() +
            " misses, " + order.at("bypasses").dump() + " bypasses";
  }
  return text;
}

json row_reads_json(const engine::EngineStats& stats) {
  json levels = json::array();
  for (const auto& [name, member] : kRowLevels) {
    json orders = json::array();
    std::int64_t hits = 0;
    for (std::size_t i = 0; i < stats.row_reads.orders.size(); ++i) {
      const std::int64_t rows = stats.row_reads.orders[i].*member;
      orders.push_back({{"order", i + 2}, {"hits", rows}});
      hits += rows;
    }
    levels.push_back({{"name", name}, {"hits", hits}, {"orders", std::move(orders)}});
  }
  return {{"levels", std::move(levels)},
          {"stall_ms", static_cast<double>(stats.row_reads.stall_ns) / 1e6},
          {"stalls", stats.row_reads.n_stalls},
          {"bytes_read", stats.file_reads.bytes_read},
          {"queue_depth_max", stats.file_reads.depth_max}};
}

std::string row_reads_text(const json& reads) {
  std::string text = "\nRows read:";
  for (const json& level : reads.at("levels")) {
    text += " " + level.at("name").get<std::string>() + " " + level.at("hits").dump() + ",";
  }
  char stalls[64];
  std::snprintf(stalls, sizeof stalls, " stalled %.1f ms", reads.at("stall_ms").get<double>());
  return text + stalls;
}

std::string metrics_text(const json& metrics) {
  const auto megabytes = [&](const char* part) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f MB", metrics.at("memory").at(part).get<double>() / 1e6);
    return std::string(text);
  };
  std::string text = window_text("Since start", metrics.at("since_start")) +
                     orders_text(metrics.at("since_start").at("engram")) + "\n" +
                     window_text("Last minute", metrics.at("last_minute"));
  text += row_reads_text(metrics.at("row_cache"));
  text += "\nQueue: " + metrics.at("queue").at("waiting").dump() + " waiting, " +
          metrics.at("queue").at("running").dump() + " running";
  text += "\nMemory: weights " + megabytes("weights_bytes") + ", table " +
          megabytes("table_bytes") + ", KV cache " + megabytes("kv_cache_bytes") + ", process " +
          megabytes("process_resident_bytes");
  text += "\nModel: " + metrics.at("state").get<std::string>();
  if (metrics.contains("model")) {
    text += ", " + metrics.at("model").at("name").get<std::string>() + " on " +
            metrics.at("model").at("backend").get<std::string>();
  }
  return text;
}

}  // namespace

std::vector<mcp::Field> metrics_output_fields() {
  using namespace field;
  std::vector<mcp::Field> fields = all_required({
      choice("state", "Whether the model is open.", {"loading", "ready", "failed"}),
      number("uptime_s", "Seconds since start."),
      object("since_start", "Since start.", window_fields()),
      object("last_minute", "Over the last 60 seconds.", window_fields()),
      object("queue", "Work at hand.",
             all_required({integer("waiting", "Requests that wait for the engine."),
                           integer("running", "Sequences that the engine works on."),
                           integer("calls", "Tool calls not finished yet, this one included.")})),
      object("memory", "Bytes per part.",
             all_required({integer("weights_bytes", "Weights, mapped from the file."),
                           integer("table_bytes", "Engram rows, scales and owner tags."),
                           integer("kv_cache_bytes", "Keys and values of sequences."),
                           integer("activations_bytes", "Work space."),
                           integer("process_resident_bytes", "The whole process, resident.")})),
      object(
          "row_cache", "Where Engram rows came from.",
          all_required(
              {objects("levels", "edited, resident, hot (kept from the file), file.",
                       all_required({text("name", "Level."), integer("hits", "Rows read from it."),
                                     objects("orders", "The same per N-gram order.",
                                             all_required({integer("order", "N-gram order."),
                                                           integer("hits", "Rows.")}))})),
               number("stall_ms", "Time that passes waited for rows from the file."),
               integer("stalls", "Passes that waited."),
               integer("bytes_read", "From the table file."),
               integer("queue_depth_max", "Most pages of the file asked for at once.")})),
  });
  fields.push_back(text("error", "Why the model could not be opened."));
  fields.push_back(object("model", "The open model.", model_fields()));
  fields.push_back(object("table", "Its Engram table.", table_fields()));
  return fields;
}

json metrics_json(const Services& services) {
  const Metrics& metrics = services.metrics;
  const auto engine = services.loader.current();
  const engine::EngineStats stats =
      engine.has_value() ? engine.value()->stats() : engine::EngineStats();
  const engine::EngineMemory memory =
      engine.has_value() ? engine.value()->memory() : engine::EngineMemory();
  json out = {
      {"state", services.loader.loading() ? "loading"
                : engine.has_value()      ? "ready"
                                          : "failed"},
      {"uptime_s", metrics.uptime_s()},
      {"since_start", window_json(metrics.since_start())},
      {"last_minute", window_json(metrics.last_minute())},
      {"queue",
       {{"waiting", stats.queue_length}, {"running", stats.running}, {"calls", metrics.running()}}},
      {"memory", memory_json(memory)},
      {"row_cache", row_reads_json(stats)},
  };
  if (engine.has_value()) {
    out["model"] = model_json(engine.value()->facts());
    out["table"] = table_json(engine.value()->facts());
  } else if (!services.loader.loading()) {
    out["error"] = engine.error().message;
  }
  return out;
}

mcp::Tool make_metrics_tool(const Services& services) {
  mcp::Tool tool;
  tool.name = "metrics";
  tool.description = kMetricsDescription;
  tool.annotations.title = "Daemon metrics";
  tool.annotations.idempotent = false;
  tool.output = metrics_output_fields();
  tool.handler = [services](const std::shared_ptr<mcp::ToolCall>& call) {
    json metrics = metrics_json(services);
    std::string text = metrics_text(metrics);
    call->finish({std::move(text), std::move(metrics), false});
  };
  return tool;
}

}  // namespace engramd::server
