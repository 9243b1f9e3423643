#include "server/tools/resources.h"

#include <algorithm>
#include <utility>

#include "server/tools/metrics.h"
#include "server/tools/model_json.h"

namespace engramd::server {
namespace {

using mcp::json;

constexpr char kJson[] = "application/json";

std::string to_text(const json& value) {
  return value.dump(2, ' ', false, json::error_handler_t::replace);
}

mcp::Resource model_resource(const Services& services) {
  return {.uri = kModelResource,
          .name = "model",
          .title = "Open model and Engram table",
          .description = "Which model is open, its sizes, its backend and its Engram table.",
          .mime_type = kJson,
          .read = [services]() -> Result<std::string> {
            const auto engine = services.loader.current();
            if (services.loader.loading()) return to_text({{"state", "loading"}});
            if (engine.has_error()) {
              return to_text({{"state", "failed"}, {"error", engine.error().message}});
            }
            return to_text({{"state", "ready"},
                            {"model", model_json(engine.value()->facts())},
                            {"table", table_json(engine.value()->facts())}});
          }};
}

mcp::Resource table_resource(const Services& services) {
  return {.uri = kTableResource,
          .name = "table",
          .title = "Engram table and its edits",
          .description = "The table's layout and sizes, its generation, and how far it was edited.",
          .mime_type = kJson,
          .read = [services]() -> Result<std::string> {
            const auto engine = services.loader.current();
            if (engine.has_error()) return engine.error();
            const engine::LiveTables& tables = engine.value()->editor().tables();
            const engine::TableView view = tables.view();
            json table = table_json(engine.value()->facts());
            table["generation"] = view.base->identity.base_generation;
            table["edits_file"] = tables.edits_file();
            table["last_transaction"] = view.edits->number();
            return to_text(table);
          },
          .available = [services] { return services.loader.current().has_value(); }};
}

mcp::Resource metrics_resource(const Services& services) {
  return {.uri = "engramd://metrics",
          .name = "metrics",
          .title = "Daemon metrics",
          .description = "The same as the metrics tool: since start and over the last minute.",
          .mime_type = kJson,
          .read = [services]() -> Result<std::string> { return to_text(metrics_json(services)); }};
}

std::vector<std::string> layer_names(const Services& services) {
  std::vector<std::string> names;
  const auto engine = services.loader.current();
  if (engine.has_error()) return names;
  for (const auto& layer : engine.value()->editor().tables().layout().layers) {
    names.push_back(std::to_string(layer.layer_id));
  }
  return names;
}

mcp::ResourceTemplate layer_template(const Services& services) {
  return {.uri_template = "engramd://layers/{layer}",
          .name = "layer",
          .title = "One layer of the Engram table",
          .description = "Rows, orders, heads and buckets of an Engram layer, by its number.",
          .mime_type = kJson,
          .read = [services](const std::string& name) -> Result<std::string> {
            const auto engine = services.loader.current();
            if (engine.has_error()) return engine.error();
            const auto names = layer_names(services);
            const auto found = std::find(names.begin(), names.end(), name);
            if (found == names.end()) return not_found("no such Engram layer");
            const auto index = static_cast<std::size_t>(found - names.begin());
            const engine::TableView view = engine.value()->editor().tables().view();
            return to_text({{"layer", std::stoll(name)},
                            {"rows", view.base->layers[index]->n_rows()},
                            {"buckets", engine.value()->facts().engram_primes[index]},
                            {"edited", view.edits->has_edits(static_cast<int>(index))}});
          },
          .values = [services] { return layer_names(services); }};
}

// None while there is no store of edits: nothing was ever named then.
std::vector<engine::Snapshot> snapshots(const Services& services) {
  const auto engine = services.loader.current();
  if (engine.has_error()) return {};
  const auto store = engine.value()->editor().tables().opened_store();
  if (!store) return {};
  auto listed = store->snapshots();
  return listed ? std::move(*listed) : std::vector<engine::Snapshot>();
}

mcp::ResourceTemplate snapshot_template(const Services& services) {
  return {.uri_template = "engramd://snapshots/{snapshot}",
          .name = "snapshot",
          .title = "A named state of the Engram table",
          .description = "Which transaction a snapshot names and when it was taken.",
          .mime_type = kJson,
          .read = [services](const std::string& name) -> Result<std::string> {
            for (const engine::Snapshot& snapshot : snapshots(services)) {
              if (snapshot.name != name) continue;
              return to_text({{"snapshot", name},
                              {"transaction", snapshot.transaction},
                              {"created_unix_ms", snapshot.created_unix_ms}});
            }
            return not_found("no such snapshot");
          },
          .values =
              [services] {
                std::vector<std::string> names;
                for (auto& snapshot : snapshots(services))
                  names.push_back(std::move(snapshot.name));
                return names;
              }};
}

mcp::ResourceTemplate named_model_template(const Services& services) {
  return {.uri_template = "engramd://models/{model}",
          .name = "named-model",
          .title = "A model by its name",
          .description = "Sizes and backend of a model that chat can be asked for.",
          .mime_type = kJson,
          .read = [services](const std::string& name) -> Result<std::string> {
            const auto engine = services.loader.current();
            if (engine.has_error()) return engine.error();
            const engine::ModelFacts& facts = engine.value()->facts();
            if (facts.name != name) return not_found("no such model");
            return to_text(model_json(facts));
          },
          .values =
              [services] {
                const auto engine = services.loader.current();
                return engine.has_error() ? std::vector<std::string>()
                                          : std::vector<std::string>{engine.value()->facts().name};
              }};
}

}  // namespace

std::vector<mcp::Resource> make_resources(const Services& services) {
  return {model_resource(services), table_resource(services), metrics_resource(services)};
}

std::vector<mcp::ResourceTemplate> make_resource_templates(const Services& services) {
  return {named_model_template(services), layer_template(services), snapshot_template(services)};
}

}  // namespace engramd::server
