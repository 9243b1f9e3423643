#include "server/tools/registry.h"

#include <utility>

#include "server/tools/chat.h"
#include "server/tools/doctor.h"
#include "server/tools/engram_lookup.h"
#include "server/tools/gate_inspect.h"
#include "server/tools/metrics.h"
#include "server/tools/resources.h"
#include "server/tools/table_fold.h"
#include "server/tools/table_get.h"
#include "server/tools/table_history.h"
#include "server/tools/table_teach.h"
#include "server/tools/table_update.h"

namespace engramd::server {
namespace {

constexpr char kInstructions[] =
    "engramd runs a local language model with Engram conditional memory: hashed N-gram tables that "
    "it reads by address. Use chat to ask the model, engram_lookup to see which N-grams of a text "
    "the tables own, gate_inspect to see which of them an answer rests on, table_get and "
    "table_update to read and change what the tables hold while the model serves, table_history "
    "and table_rollback to see and undo changes, table_fold to make them the base, table_teach to "
    "write a fact into them so that the model says it, table_taught and table_forget, metrics for "
    "speed, memory and hit rates, doctor to find out what is wrong. The "
    "model loads in the background; the first calls may wait for it.";

// The wording that the bundled model was trained on: context first, then the question.
mcp::Prompt retrieval_prompt() {
  return {.name = "retrieval",
          .title = "Answer from a context",
          .description = "Builds a retrieval prompt: the context, then a question about it.",
          .arguments = {{.name = "question", .description = "What to find out.", .required = true},
                        {.name = "context",
                         .description = "Text that holds the answer.",
                         .required = true}},
          .render =
              [](const mcp::PromptArguments& arguments) -> Result<std::vector<mcp::PromptMessage>> {
            std::string question;
            std::string context;
            for (const auto& [name, value] : arguments) {
              if (name == "question") question = value;
              if (name == "context") context = value;
            }
            return std::vector<mcp::PromptMessage>{
                {.role = "user", .text = "Context:\n" + context + "\n\nQuestion: " + question}};
          }};
}

}  // namespace

mcp::Registry make_registry(const Services& services) {
  mcp::Registry registry;
  registry.server_title = "engramd: a local Engram language model";
  registry.server_version = ENGRAMD_VERSION;
  registry.instructions = kInstructions;
  registry.tools = {make_chat_tool(services),           make_engram_lookup_tool(services),
                    make_gate_inspect_tool(services),   make_table_get_tool(services),
                    make_table_update_tool(services),   make_table_history_tool(services),
                    make_table_rollback_tool(services), make_table_fold_tool(services),
                    make_table_teach_tool(services),    make_table_taught_tool(services),
                    make_table_forget_tool(services),   make_metrics_tool(services),
                    make_doctor_tool(services)};
  registry.resources = make_resources(services);
  registry.resource_templates = make_resource_templates(services);
  registry.changing.resources = true;  // the table's is there once the model is
  registry.prompts = {retrieval_prompt()};
  return registry;
}

}  // namespace engramd::server
