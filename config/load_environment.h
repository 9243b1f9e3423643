// Environment variables: the process's own and those of a `.env` file, and the settings they hold.
// The only place in engramd that reads the process environment. An Environment may hold secrets: it
// is never printed, and settings are made only of the variables that the option table names.
// process_environment() at start-up, before threads; the rest is pure.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/setting.h"

namespace engramd::config {

struct Variable {
  std::string value;
  std::string origin;  // "environment NAME" or ".env:3 NAME" with the file's path
};
using Environment = std::map<std::string, Variable, std::less<>>;

// An empty variable counts as not set.
Environment process_environment();

// NAME=value lines, `export` allowed, # comments, single or double quotes (with \n \t \" \\ in
// double ones). Adds the variables that `environment` does not have; returns problems, which name
// file and line and never repeat a value.
std::vector<std::string> add_dot_env(std::string_view text, const std::string& path,
                                     Environment& environment);

// Settings of ENGRAMD_<KEY> and the aliases that users already have. A name that starts with
// ENGRAMD_ and is no option becomes a note.
LoadedSettings load_environment(const Environment& environment);

// The value of a variable, for the remote's key; absent when not set.
std::optional<std::string> find_variable(const Environment& environment, std::string_view name);

}  // namespace engramd::config
