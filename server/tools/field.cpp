#include "server/tools/field.h"

#include <utility>

namespace engramd::server::field {
namespace {

mcp::Field make(std::string name, mcp::FieldType type, std::string description) {
  mcp::Field field;
  field.name = std::move(name);
  field.type = type;
  field.description = std::move(description);
  return field;
}

}  // namespace

mcp::Field text(std::string name, std::string description) {
  return make(std::move(name), mcp::FieldType::kString, std::move(description));
}

mcp::Field choice(std::string name, std::string description, std::vector<std::string> values) {
  mcp::Field field = text(std::move(name), std::move(description));
  field.enumeration = std::move(values);
  return field;
}

mcp::Field integer(std::string name, std::string description, Range range) {
  mcp::Field field = make(std::move(name), mcp::FieldType::kInteger, std::move(description));
  field.minimum = range.minimum;
  field.maximum = range.maximum;
  return field;
}

mcp::Field number(std::string name, std::string description, Range range) {
  mcp::Field field = integer(std::move(name), std::move(description), range);
  field.type = mcp::FieldType::kNumber;
  return field;
}

mcp::Field boolean(std::string name, std::string description) {
  return make(std::move(name), mcp::FieldType::kBoolean, std::move(description));
}

mcp::Field object(std::string name, std::string description, std::vector<mcp::Field> children) {
  mcp::Field field = make(std::move(name), mcp::FieldType::kObject, std::move(description));
  field.children = std::move(children);
  return field;
}

mcp::Field list(std::string name, std::string description, mcp::FieldType item_type) {
  mcp::Field field = make(std::move(name), mcp::FieldType::kArray, std::move(description));
  field.item_type = item_type;
  return field;
}

mcp::Field objects(std::string name, std::string description, std::vector<mcp::Field> children) {
  mcp::Field field = list(std::move(name), std::move(description), mcp::FieldType::kObject);
  field.children = std::move(children);
  return field;
}

mcp::Field list_of(std::string name, std::string description, mcp::Field item) {
  mcp::Field field = list(std::move(name), std::move(description), item.type);
  field.nested_item.push_back(std::move(item));
  return field;
}

mcp::Field required(mcp::Field field) {
  field.required = true;
  return field;
}

mcp::Field with_default(mcp::Field field, nlohmann::json value) {
  field.default_value = std::move(value);
  return field;
}

mcp::Field at_most(mcp::Field field, std::int64_t length_max) {
  field.length_max = length_max;
  return field;
}

mcp::Field not_empty(mcp::Field field) {
  field.may_be_empty = false;
  return field;
}

std::vector<mcp::Field> all_required(std::vector<mcp::Field> fields) {
  for (mcp::Field& field : fields) field.required = true;
  return fields;
}

}  // namespace engramd::server::field
