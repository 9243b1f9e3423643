// A GPU that computes something else than the processor must not answer anybody: before it serves,
// the logits of a few tokens are computed by both and compared. That also puts all weights on it.
#pragma once

#include "config/result.h"
#include "engine/engram/live_tables.h"
#include "engine/model/model.h"
#include "kernels/backend.h"

namespace engramd::engine {

// A normalised mean square error above this is a mistake, not rounding: the fast CPU backends stay
// below it against the golden logits.
inline constexpr double kDeviceErrorMax = 1e-4;
inline constexpr double kRoundedDeviceErrorMax = 1e-2;  // activations rounded to bf16

// The normalised mean square error of the device's logits. Errors: of the device, or of the table.
Result<double> device_error(const Model& model, const LiveTables& tables, kernels::Backend& device,
                            kernels::Backend& reference);

}  // namespace engramd::engine
