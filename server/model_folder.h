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
// name is the bundled model, and so is a name that is nowhere (missing_model says so): users' files
// name models that only a remote has. A path must be a model. The error lists where it looked.
Result<std::string> find_model_folder(const config::ModelOptions& options,
                                      const std::string& program_folder);

// Empty, or one line: options.name is in no model folder, and `folder` is opened in its place.
std::string missing_model(const config::ModelOptions& options, const std::string& folder);

}  // namespace engramd::server
