#include "server/api/prometheus.h"

#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include "server/process_memory.h"
#include "server/tools/metrics.h"

namespace engramd::server {
namespace {

using Labels = std::vector<std::pair<std::string, std::string>>;

// Label values escape what the format reserves: model names come from users.
std::string escaped(const std::string& value) {
  std::string text;
  for (const char c : value) {
    if (c == '\\' || c == '"') text += '\\';
    c == '\n' ? text += "\\n" : text += c;
  }
  return text;
}

class Exposition {
 public:
  void family(const char* name, const char* type, const char* help) {
    name_ = name;
    text_ += "# HELP " + name_ + " " + help + "\n# TYPE " + name_ + " " + type + "\n";
  }
  void sample(const Labels& labels, double value) { sample("", labels, value); }
  void sample(const char* suffix, const Labels& labels, double value) {
    text_ += name_ + suffix;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      text_ += (i == 0 ? "{" : ",") + labels[i].first + "=\"" + escaped(labels[i].second) + "\"";
    }
    char number[40];
    const bool whole = std::floor(value) == value && std::abs(value) < 1e15;
    std::snprintf(number, sizeof number, whole ? " %.0f\n" : " %.9g\n", value);
    text_ += (labels.empty() ? "" : "}") + std::string(number);
  }
  void one(const char* name, const char* type, const char* help, double value) {
    family(name, type, help);
    sample({}, value);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string name_;
  std::string text_;
};

double number(std::int64_t value) {
  return static_cast<double>(value);
}

void add_calls(Exposition& out, const Metrics& metrics) {
  constexpr std::pair<const char*, std::int64_t ToolCounts::*> kCounts[] = {
      {"engramd_calls_total", &ToolCounts::requests},
      {"engramd_call_errors_total", &ToolCounts::errors},
      {"engramd_call_cancellations_total", &ToolCounts::cancellations}};
  constexpr const char* kHelp[] = {"Calls started, by tool or API.",
                                   "Calls that ended in an error.",
                                   "Calls that the client cancelled or left."};
  for (std::size_t i = 0; i < std::size(kCounts); ++i) {
    out.family(kCounts[i].first, "counter", kHelp[i]);
    for (const auto& [tool, counts] : metrics.since_start().tools) {
      out.sample({{"call", tool}}, number(counts.*kCounts[i].second));
    }
  }
  out.one("engramd_calls_running", "gauge", "Calls not finished yet.", number(metrics.running()));
}

void add_latency(Exposition& out, const char* name, const char* help, const Histogram& histogram) {
  out.family(name, "summary", help);
  for (const auto& [label, share] : {std::pair{"0.5", 0.5}, std::pair{"0.99", 0.99}}) {
    out.sample({{"quantile", label}}, histogram.percentile(share) / 1000);
  }
  out.sample("_sum", {}, histogram.sum_ms() / 1000);
  out.sample("_count", {}, number(histogram.count()));
}

void add_chats(Exposition& out, const WindowMetrics& total) {
  out.family("engramd_chats_total", "counter", "Finished chats, by who answered.");
  out.sample({{"served_by", "local"}}, number(total.served_local));
  out.sample({{"served_by", "remote"}}, number(total.served_remote));
  out.one("engramd_prompt_tokens_total", "counter", "Prompt tokens of finished chats.",
          number(total.prompt_tokens));
  out.one("engramd_generated_tokens_total", "counter", "Generated tokens of finished chats.",
          number(total.generated_tokens));
  out.one("engramd_tokens_per_second", "gauge",
          "Generation speed of one answer after its first token, mean since start.",
          total.tokens_per_s());
  add_latency(out, "engramd_first_token_seconds", "Time to the first token.", total.first_token_ms);
  add_latency(out, "engramd_token_interval_seconds", "Time between tokens.", total.per_token_ms);
}

void add_engram(Exposition& out, const engine::EngramCounts& counts) {
  using PerOrder = engine::EngramCounts::PerOrder;
  const auto rows = [&](const char* name, const char* help, const auto& value) {
    out.family(name, "counter", help);
    for (std::size_t i = 0; i < counts.orders.size(); ++i) {
      out.sample({{"order", std::to_string(i + 2)}}, number(value(counts.orders[i])));
    }
  };
  out.one("engram_hit_rate", "gauge", "Owned rows of those addressed and not bypassed.",
          counts.hit_rate());
  rows("engramd_engram_lookups_total", "Rows addressed, over token, layer and head.",
       [](const PerOrder& order) { return order.lookups; });
  rows("engramd_engram_hits_total", "Rows owned by exactly this N-gram.",
       [](const PerOrder& order) { return order.owned; });
  rows("engramd_engram_misses_total", "Rows of another N-gram, or of none.",
       [](const PerOrder& order) { return order.lookups - order.bypassed - order.owned; });
  rows("engramd_engram_bypasses_total", "Positions with too few predecessors.",
       [](const PerOrder& order) { return order.bypassed; });
}

void add_row_reads(Exposition& out, const engine::EngineStats& stats) {
  out.family("engramd_row_reads_total", "counter", "Engram rows read, by where they came from.");
  for (const auto& [level, member] : kRowLevels) {
    for (std::size_t i = 0; i < stats.row_reads.orders.size(); ++i) {
      out.sample({{"level", level}, {"order", std::to_string(i + 2)}},
                 number(stats.row_reads.orders[i].*member));
    }
  }
  out.one("engramd_row_stall_seconds_total", "counter",
          "Time that passes waited for rows from the file.",
          number(stats.row_reads.stall_ns) / 1e9);
  out.one("engramd_row_stalls_total", "counter", "Passes that waited.",
          number(stats.row_reads.n_stalls));
  out.one("engramd_table_bytes_read_total", "counter", "Bytes read from the table file.",
          number(stats.file_reads.bytes_read));
}

void add_memory(Exposition& out, const engine::EngineMemory& memory) {
  out.family("engramd_memory_bytes", "gauge", "Bytes per part.");
  out.sample({{"part", "weights"}}, number(memory.weights));
  out.sample({{"part", "table"}}, number(memory.table));
  out.sample({{"part", "kv_cache"}}, number(memory.kv_cache));
  out.sample({{"part", "activations"}}, number(memory.activations));
  out.one("process_resident_memory_bytes", "gauge", "The whole process, resident.",
          number(process_resident_bytes()));
}

}  // namespace

std::string prometheus_text(const Services& services) {
  const Metrics& metrics = services.metrics;
  const auto engine = services.loader.current();
  const bool ready = engine.has_value();
  const engine::EngineStats stats = ready ? engine.value()->stats() : engine::EngineStats();
  Exposition out;
  out.one("engramd_up_seconds", "gauge", "Seconds since start.", metrics.uptime_s());
  out.one("engramd_ready", "gauge", "1 when the model is open.", ready ? 1 : 0);
  if (ready) {
    const engine::ModelFacts& facts = engine.value()->facts();
    out.family("engramd_model_info", "gauge", "The open model.");
    out.sample({{"model", facts.name}, {"backend", facts.backend}, {"dtype", facts.dtype}}, 1);
  }
  add_calls(out, metrics);
  add_chats(out, metrics.since_start());
  add_engram(out, metrics.since_start().engram);
  out.one("engramd_queue_waiting", "gauge", "Requests that wait for the engine.",
          number(stats.queue_length));
  out.one("engramd_queue_running", "gauge", "Sequences that the engine works on.",
          number(stats.running));
  add_row_reads(out, stats);
  add_memory(out, ready ? engine.value()->memory() : engine::EngineMemory());
  return out.take();
}

HttpHandler make_prometheus(const ApiContext& context) {
  return [context](const std::shared_ptr<HttpExchange>& exchange) {
    exchange->respond({.status = 200,
                       .content_type = "text/plain; version=0.0.4; charset=utf-8",
                       .body = prometheus_text(context.services),
                       .headers = {}});
  };
}

}  // namespace engramd::server
