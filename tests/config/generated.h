// Texts in the repository that are made from the code: the test compares them, the program
// config_update_generated rewrites them.
#pragma once

#include <string>
#include <vector>

#include "config/verdict.h"

namespace engramd::config {

struct GeneratedFile {
  std::string path;  // absolute
  std::string text;
};

// The bundled model on a machine without a GPU (install/models/engram-nano/config.json).
ModelFacts bundled_facts();

// The users' folders in tests/data/configs, whatever is there.
std::vector<std::string> user_sets();
// Loads one of the users' folders with an empty environment.
EffectiveConfig load_user_set(const std::string& name);

// Sample file and golden verdicts.
std::vector<GeneratedFile> generated_files();

std::string read_file(const std::string& path);  // empty when there is none
// `readme` with the text between the option markers replaced; empty when a marker is missing.
std::string with_option_table(const std::string& readme);

}  // namespace engramd::config
