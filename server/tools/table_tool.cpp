#include "server/tools/table_tool.h"

#include <utility>

namespace engramd::server {

std::function<void(std::shared_ptr<mcp::ToolCall>)> table_handler(const Services& services,
                                                                  TableWork work) {
  return long_table_handler(
      services, services.table_thread,
      [work = std::move(work)](TableJob& job) { return work(job.arguments, job.engine.editor()); });
}

std::function<void(std::shared_ptr<mcp::ToolCall>)> long_table_handler(const Services& services,
                                                                       Post thread,
                                                                       LongTableWork work) {
  return [services, thread = std::move(thread),
          work = std::move(work)](const std::shared_ptr<mcp::ToolCall>& call) {
    services.loader.when_ready([services, thread, work, call](Result<engine::LocalEngine*> engine) {
      if (engine.has_error()) return call->finish(mcp::ToolResult::error(engine.error().message));
      thread([services, work, call = std::shared_ptr(call), engine = engine.value()]() mutable {
        // The call belongs to the io thread: whatever touches it goes there.
        TableJob job{
            call->arguments(), *engine, call->stop_token(),
            [&services, &call](std::int64_t n_done, std::int64_t n_total, const char* what) {
              services.post([call, n_done, n_total, what] {
                call->progress(static_cast<double>(n_done), static_cast<double>(n_total), what);
              });
            }};
        auto result = work(job);
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
