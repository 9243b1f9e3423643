// ChatTemplate: renders a model's Jinja chat template over typed messages. A template is untrusted
// input: no I/O, no attribute access beyond data, with step and output budgets. Immutable after
// parse; any thread may render. Semantics: jinja2's sandbox with trim_blocks, lstrip_blocks, loop
// controls, and Python-style tojson.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "config/result.h"

namespace engramd::engine {

// The data a template sees; JSON's types, object keys in the order given.
struct TemplateEntry;
struct TemplateValue {
  using List = std::vector<TemplateValue>;
  using Object = std::vector<TemplateEntry>;
  std::variant<std::monostate, bool, std::int64_t, double, std::string, List, Object> value;
};
struct TemplateEntry {  // not a std::pair: clang wants its members complete where Object is named
  TemplateEntry(std::string key, TemplateValue item)
      : first(std::move(key)), second(std::move(item)) {}
  std::string first;
  TemplateValue second;
};

struct TemplateBudget {
  std::int64_t steps_max = 1'000'000;
  std::int64_t output_bytes_max = 4'000'000;
  std::int64_t source_bytes_max = 1'000'000;
  int depth_max = 64;
};

class ChatTemplate {
 public:
  static Result<ChatTemplate> parse(std::string_view source, TemplateBudget budget = {});
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // `variables`: an Object; usually messages, tools (null when absent), add_generation_prompt,
  // bos_token, eos_token. Errors carry the template's line, or what raise_exception said.
  Result<std::string> render(const TemplateValue& variables) const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace engramd::engine
