// RemoteModel: a model of a remote by its name there, and what became of names that users still
// have in their settings but providers have retired. Pure.
#pragma once

#include <optional>
#include <string>

namespace engramd::server {

struct RemoteModel {
  std::string id;
  std::optional<bool> thinking = {};  // asked for by a member of its own; nullopt: not mentioned

  bool operator==(const RemoteModel&) const = default;
};

struct Retirement {
  std::string since;      // a date
  RemoteModel successor;  // does what the old name did
};
// Nullopt: not known to be retired. A gateway may still know such a name.
std::optional<Retirement> retirement_of(const std::string& model);

}  // namespace engramd::server
