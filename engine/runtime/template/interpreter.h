// Runs a syntax tree over variables. Private to this folder and chat_template.cpp.
#pragma once

#include <string>

#include "config/result.h"
#include "engine/runtime/chat_template.h"
#include "engine/runtime/template/syntax.h"

namespace engramd::engine::jinja {

Result<std::string> run_template(const Body& body, const TemplateValue& variables,
                                 const TemplateBudget& budget);

}  // namespace engramd::engine::jinja
