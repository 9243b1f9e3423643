// Short names for the rows of the tools' field tables (mcp/schema.h). Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mcp/schema.h"

namespace engramd::server::field {

struct Range {
  std::optional<double> minimum, maximum;
};

mcp::Field text(std::string name, std::string description);
mcp::Field choice(std::string name, std::string description, std::vector<std::string> values);
mcp::Field integer(std::string name, std::string description, Range range = {});
mcp::Field number(std::string name, std::string description, Range range = {});
mcp::Field boolean(std::string name, std::string description);
mcp::Field object(std::string name, std::string description, std::vector<mcp::Field> children);
mcp::Field list(std::string name, std::string description, mcp::FieldType item_type);
mcp::Field objects(std::string name, std::string description, std::vector<mcp::Field> children);
mcp::Field list_of(std::string name, std::string description, mcp::Field item);

// The same field with one property more.
mcp::Field required(mcp::Field field);
mcp::Field with_default(mcp::Field field, nlohmann::json value);
mcp::Field at_most(mcp::Field field, std::int64_t length_max);
mcp::Field not_empty(mcp::Field field);  // a string or an array
// Every field required, for outputs that are always complete.
std::vector<mcp::Field> all_required(std::vector<mcp::Field> fields);

}  // namespace engramd::server::field
