#include "engine/model/model.h"

#include <utility>

#include "engine/model/weight_binding.h"

namespace engramd::engine {

namespace {

Result<TokenMap> bind_token_map(const Model& model) {
  const auto view = model.checkpoint.tensor("model.engram.token_map", kernels::DType::kI32,
                                            {model.config.vocab_size});
  if (view.has_error()) return view.error();
  return token_map_from_tensor(view->as<std::int32_t>(), model.config.vocab_size,
                               model.layout.config.hashed_vocab_size);
}

}  // namespace

const EngramBlock& Model::engram_block(std::size_t index) const {
  return *layers[static_cast<std::size_t>(layout.layers[index].layer_id)].engram;
}

std::vector<CheckpointRows> Model::engram_rows() const {
  std::vector<CheckpointRows> rows;
  for (std::size_t i = 0; i < layout.layers.size(); ++i) rows.push_back(engram_block(i).rows);
  return rows;
}

std::int32_t Model::pad_class() const {
  if (layout.layers.empty()) return 0;
  return token_map.classes[static_cast<std::size_t>(layout.config.pad_token_id)];
}

Result<std::unique_ptr<const Model>> open_model(const std::string& folder,
                                                const OpenModelOptions& options) {
  auto model = std::make_unique<Model>();
  auto config = read_model_config(folder);
  if (config.has_error()) return config.error();
  model->config = std::move(*config);
  if (options.experts_per_token > 0) {
    if (options.experts_per_token > model->config.n_routed_experts) {
      return invalid_argument(
          "experts per token: expected 1 to " + std::to_string(model->config.n_routed_experts) +
          " (n_routed_experts), got " + std::to_string(options.experts_per_token));
    }
    model->config.num_experts_per_tok = options.experts_per_token;
  }
  auto checkpoint = Checkpoint::open(folder, options.populate);
  if (checkpoint.has_error()) return checkpoint.error();
  model->checkpoint = std::move(*checkpoint);
  if (model->config.engram) {
    auto layout = make_layout(model->config.engram->layout);
    if (layout.has_error()) return layout.error();
    model->layout = std::move(*layout);
    auto map = bind_token_map(*model);
    if (map.has_error()) return map.error();
    model->token_map = std::move(*map);
  }
  const auto bound = bind_weights(*model);
  if (bound.has_error()) return bound.error();
  return std::unique_ptr<const Model>(std::move(model));
}

}  // namespace engramd::engine
