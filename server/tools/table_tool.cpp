#include "server/tools/table_tool.h"

#include <utility>

namespace engramd::server {

std::function<void(std::shared_ptr<mcp::ToolCall>)> table_handler(const Services& services,
                                                                  TableWork work) {
  return [services, work = std::move(work)](const std::shared_ptr<mcp::ToolCall>& call) {
    services.loader.when_ready([services, work, call](Result<engine::LocalEngine*> engine) {
      if (engine.has_error()) return call->finish(mcp::ToolResult::error(engine.error().message));
      services.table_thread(
          [services, work, call = std::shared_ptr(call), engine = engine.value()]() mutable {
            auto result = work(call->arguments(), engine->editor());
            // The last handle of the call goes on the io thread.
            services.post([call = std::move(call), result = std::move(result)]() mutable {
              call->finish(result.has_value() ? std::move(result).value()
                                              : mcp::ToolResult::error(result.error().message));
            });
          });
    });
  };
}

}  // namespace engramd::server
