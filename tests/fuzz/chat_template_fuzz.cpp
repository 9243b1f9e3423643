// links: engramd_chat_template
// A chat template is untrusted: whatever it says, rendering ends within its budget.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/runtime/chat_template.h"

using engramd::engine::ChatTemplate;
using engramd::engine::TemplateValue;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const auto text = [](const char* value) { return TemplateValue{std::string(value)}; };
  const TemplateValue call{TemplateValue::Object{{"name", text("f")}, {"arguments", {}}}};
  const TemplateValue message{TemplateValue::Object{{"role", text("user")},
                                                    {"content", text("Gr\xC3\xBC\xC3\x9F \xFF")},
                                                    {"tool_calls", {TemplateValue::List{call}}}}};
  const TemplateValue variables{
      TemplateValue::Object{{"messages", {TemplateValue::List{message, message, {}}}},
                            {"tools", {}},
                            {"add_generation_prompt", {true}},
                            {"n", {std::int64_t{-7}}},
                            {"f", {2.5}},
                            {"bos_token", text("<s>")},
                            {"eos_token", text("</s>")}}};
  const auto parsed =
      ChatTemplate::parse(source, {.steps_max = 20'000, .output_bytes_max = 100'000});
  if (parsed.has_value()) static_cast<void>(parsed->render(variables).has_value());
  return 0;
}
