#include "server/tools/table_tool.h"

#include <utility>

namespace engramd::server {

std::function<void(std::shared_ptr<mcp::ToolCall>)> table_handler(const Services& services,
                                                                  TableWork work) {
  return long_table_handler(services, [work = std::move(work)](TableJob& job) {
    return work(job.arguments, job.editor);
  });
}

std::function<void(std::shared_ptr<mcp::ToolCall>)> long_table_handler(const Services& services,
                                                                       LongTableWork work) {
  return [services, work = std::move(work)](const std::shared_ptr<mcp::ToolCall>& call) {
    services.loader.when_ready([services, work, call](Result<engine::LocalEngine*> engine) {
      if (engine.has_error()) return call->finish(mcp::ToolResult::error(engine.error().message));
      services.table_thread(
          [services, work, call = std::shared_ptr(call), engine = engine.value()]() mutable {
            // The call belongs to the io thread: whatever touches it goes there.
            TableJob job{call->arguments(), engine->editor(), call->stop_token(),
                         [&services, &call](std::int64_t done_bytes, std::int64_t total_bytes) {
                           services.post([call, done_bytes, total_bytes] {
                             call->progress(static_cast<double>(done_bytes),
                                            static_cast<double>(total_bytes), "bytes written");
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
