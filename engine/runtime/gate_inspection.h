// GateInspection: computes a GateReport in short turns on the engine thread. One traced pass over
// the text; then, from the last position back, each position once more without its Engram update,
// on the cached prefix. Has a cache and activations of its own, so chats keep theirs.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <vector>

#include "engine/inspect/gate_report.h"
#include "engine/inspect/lookup_report.h"
#include "engine/runtime/step.h"

namespace engramd::engine {

struct GateJob {
  std::vector<TokenId> ids;  // checked against the vocabulary and positions_max
  GateOptions options;
  std::function<void(std::int64_t done, std::int64_t total)> on_progress;  // optional
  std::function<void(Result<GateReport>)> on_done;
  std::stop_token stop;
};

class GateInspection {
 public:
  // Sees the tables as `view` shows them, whatever is edited meanwhile. looked_up: of the job's ids
  // in all layers under that view.
  GateInspection(GateJob job, LookupReport looked_up, const Model& model, TableView view,
                 kernels::Backend& backend, std::stop_token engine_stop);

  // A turn; true when on_done has been called. Shorter when chats run beside it.
  bool advance(bool chats_run);

 private:
  bool stopped() const { return job_.stop.stop_requested() || engine_stop_.stop_requested(); }
  bool prepare();
  Result<void> trace_chunk(std::int64_t n_tokens);
  Result<void> ablate();
  void note_gates(const ForwardTrace& trace, std::int64_t begin, std::int64_t end);
  bool done(Result<GateReport> result);

  GateJob job_;
  const Model* model_;
  TableView view_;
  kernels::Backend* backend_;
  std::stop_token engine_stop_;
  std::optional<KvCache> cache_;
  std::unique_ptr<Step> step_;
  std::unique_ptr<Sequence> sequence_;
  std::vector<double> logprobs_;  // [n_positions - 1] of the actual next token
  std::int64_t next_ablation_ = -1;
  std::chrono::steady_clock::time_point started_;
  GateReport report_;
};

}  // namespace engramd::engine
