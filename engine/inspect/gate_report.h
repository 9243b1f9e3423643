// GateReport: how strongly each Engram gate opened over a text and what that changed. Plain data;
// made on the engine thread (engine/runtime/local_engine), formatted by server/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/tokenizer/tokenizer.h"

namespace engramd::engine {

struct GateLayer {
  std::int64_t layer_id = 0;
  std::vector<float> gate;            // [n_streams], 0..1
  std::vector<float> dot;             // [n_streams], before the signed root
  std::vector<float> residual_share;  // [n_streams], norm of the update over norm of the stream
  float value_norm = 0;
};

struct GatePosition {
  TokenId token = 0;
  std::string text;
  std::vector<std::string> ngrams;  // [n_orders] text of the N-gram of each order that ends here
  std::vector<bool> bypassed;       // [n_orders] too few predecessors: no row is read
  std::vector<bool> owned;          // [n_orders] any head of any layer owned by this N-gram
  // [n_orders] rows over layers and heads that the N-gram reads, and those whose image was edited
  std::vector<int> n_rows, n_edited;
  std::vector<std::int64_t> edited_by;  // [n_orders] the newest transaction that did; 0: none
  std::vector<GateLayer> layers;  // Engram layers
  // log p(actual next token) minus the same with this position's whole update left out; absent at
  // the last position, or when not asked for.
  std::optional<double> ablation_delta_logprob;
};

struct GateReport {
  std::vector<GatePosition> positions;
  double elapsed_ms = 0;
};

struct GateOptions {
  bool with_ablation = true;
  std::int64_t positions_max = 512;
};

}  // namespace engramd::engine
