// Where the model is: a path, or a name in the model folders. Any thread; touches the file system.
#pragma once

#include <string>

#include "config/options.h"
#include "config/result.h"

namespace engramd::server {

// The folder of this program's own file, for what is installed beside it.
std::string executable_folder();

// options.name as a path, or below each folder of options.search_path, then below the installed
// share/engramd/models (and the source tree's, for a program that has not been installed). An empty
// name is the bundled model. The error lists where it looked.
Result<std::string> find_model_folder(const config::ModelOptions& options,
                                      const std::string& program_folder);

}  // namespace engramd::server
