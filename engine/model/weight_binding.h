// Binding: asks the checkpoint for every tensor of the engram_moe architecture, by name, dtype and
// shape. Private to this room; called once by open_model.
#pragma once

#include "config/result.h"
#include "engine/model/model.h"

namespace engramd::engine {

// model.config, model.layout and model.checkpoint are set; fills the rest.
Result<void> bind_weights(Model& model);

}  // namespace engramd::engine
