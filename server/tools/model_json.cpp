#include "server/tools/model_json.h"

#include <nlohmann/json.hpp>

#include "server/tools/field.h"

namespace engramd::server {

using nlohmann::json;

std::vector<mcp::Field> model_fields() {
  using namespace field;
  return all_required({
      text("name", "Folder name of the model."),
      text("folder", "Where it was opened."),
      text("type", "Architecture."),
      text("backend", "Implementation that runs it."),
      text("dtype", "Arithmetic type."),
      integer("threads", "Compute threads."),
      integer("vocab_size", "Tokens in the vocabulary."),
      integer("hidden_size", "Width of one residual stream."),
      integer("num_hidden_layers", "Layers."),
      integer("num_attention_heads", "Attention heads."),
      integer("n_routed_experts", "Routed experts per layer."),
      integer("num_experts_per_tok", "Experts chosen per token."),
      integer("n_shared_experts", "Experts that every token uses."),
      integer("n_streams", "Residual streams (hyper-connections)."),
      integer("context_length", "Most tokens of prompt and answer together."),
      number("load_ms", "Time to open it."),
  });
}

json model_json(const engine::ModelFacts& facts) {
  return {{"name", facts.name},
          {"folder", facts.folder},
          {"type", facts.model_type},
          {"backend", facts.backend},
          {"dtype", facts.dtype},
          {"threads", facts.threads},
          {"vocab_size", facts.vocab_size},
          {"hidden_size", facts.hidden_size},
          {"num_hidden_layers", facts.num_hidden_layers},
          {"num_attention_heads", facts.num_attention_heads},
          {"n_routed_experts", facts.n_routed_experts},
          {"num_experts_per_tok", facts.num_experts_per_tok},
          {"n_shared_experts", facts.n_shared_experts},
          {"n_streams", facts.n_streams},
          {"context_length", facts.context_length},
          {"load_ms", facts.load_ms}};
}

std::vector<mcp::Field> table_fields() {
  using namespace field;
  return all_required({
      list("layers", "Layers with Engram, from 0.", mcp::FieldType::kInteger),
      integer("max_ngram_size", "Highest order; orders are 2 to this."),
      integer("heads", "Hash heads per order."),
      integer("head_dim", "Columns of one row."),
      list("rows", "Rows per Engram layer.", mcp::FieldType::kInteger),
      integer("compressed_vocab_size", "Token classes that are hashed."),
      text("codec", "How a row is stored."),
  });
}

json table_json(const engine::ModelFacts& facts) {
  return {
      {"layers", facts.engram_layer_ids}, {"max_ngram_size", facts.engram_max_ngram_size},
      {"heads", facts.engram_heads},      {"head_dim", facts.engram_head_dim},
      {"rows", facts.engram_rows},        {"compressed_vocab_size", facts.compressed_vocab_size},
      {"codec", facts.engram_codec}};
}

}  // namespace engramd::server
