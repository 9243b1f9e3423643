// RequestFields: typed reading of one JSON object of a request. null counts as absent, unknown
// fields are never looked at; the first field that is wrong is remembered, later reads then give
// nothing that matters; so is the first that only a remote can serve. For one parse function, on
// its stack. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "server/api/api_error.h"

namespace engramd::server {

// Of one request, in every API.
inline constexpr std::size_t kMessagesMax = 4096;

struct RequestProblems {
  std::optional<ApiError> wrong;         // whoever is asked
  std::optional<ApiError> beyond_local;  // the local engine cannot do it, a remote perhaps
};

class RequestFields {
 public:
  // `problems` is shared by all objects of one request.
  RequestFields(const nlohmann::json& request, RequestProblems& problems);
  // An object inside: `name` is its path from here ("messages[0]").
  RequestFields inside(const nlohmann::json& object, const std::string& name) const;

  // Present and not null.
  const nlohmann::json* find(const char* name) const;
  std::string path_of(const std::string& name) const;
  void refuse(const std::string& name, const std::string& message);
  void refuse_locally(const std::string& name, const std::string& message);
  void refuse_type(const std::string& name, const char* expected, const nlohmann::json& got);

  std::optional<std::string> text(const char* name);
  std::string required_text(const char* name);
  std::optional<bool> boolean(const char* name);
  std::optional<double> number(const char* name, double minimum, double maximum);
  std::optional<std::int64_t> integer(const char* name, std::int64_t minimum, std::int64_t maximum);
  const nlohmann::json* array(const char* name);
  const nlohmann::json* object(const char* name);

  bool failed() const { return problems_->wrong.has_value(); }

 private:
  RequestFields(const nlohmann::json& object, std::string path, RequestProblems& problems);

  const nlohmann::json* object_;
  std::string path_;
  RequestProblems* problems_;
};

}  // namespace engramd::server
