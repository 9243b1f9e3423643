#include "engine/runtime/chat_template.h"

#include <string>
#include <utility>

#include "engine/runtime/template/interpreter.h"
#include "engine/runtime/template/parser.h"

namespace engramd::engine {

struct ChatTemplate::Impl {
  jinja::Body body;
  TemplateBudget budget;
};

ChatTemplate::ChatTemplate(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::parse(std::string_view source, TemplateBudget budget) {
  if (static_cast<std::int64_t>(source.size()) > budget.source_bytes_max) {
    return limit_exceeded("chat template has " + std::to_string(source.size()) +
                          " bytes, expected at most " + std::to_string(budget.source_bytes_max) +
                          " (source_bytes_max); use the model's own template");
  }
  Result<jinja::Body> body = jinja::parse(source, budget.depth_max);
  if (!body.has_value()) return body.error();
  return ChatTemplate(std::make_unique<const Impl>(Impl{std::move(*body), budget}));
}

Result<std::string> ChatTemplate::render(const TemplateValue& variables) const {
  return jinja::run_template(impl_->body, variables, impl_->budget);
}

}  // namespace engramd::engine
