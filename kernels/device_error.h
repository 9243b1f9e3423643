// DeviceError: what a backend on a GPU throws when the device fails: out of memory, a kernel that
// failed, a device that is gone; the message says which. Caught where an engine is opened and where
// the engine thread runs a step, nowhere else. Standard library only.
#pragma once

#include <stdexcept>

namespace engramd::kernels {

struct DeviceError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace engramd::kernels
