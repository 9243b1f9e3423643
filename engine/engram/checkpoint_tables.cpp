#include "engine/engram/checkpoint_tables.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "engine/checkpoint/model_config.h"
#include "engine/tokenizer/tokenizer.h"

namespace engramd::engine {
namespace {

using kernels::DType;
using kernels::TensorView;

constexpr char kTokenMapTensor[] = "model.engram.token_map";

Result<RowCodec> codec_of(const std::string& name, DType weight, const TensorView* scale) {
  if (!scale && weight == DType::kF32) return RowCodec::kF32;
  if (!scale && weight == DType::kF16) return RowCodec::kF16;
  if (!scale && weight == DType::kBF16) return RowCodec::kBF16;
  if (!scale && weight == DType::kF8E4M3) return RowCodec::kF8E4M3;
  if (scale && weight == DType::kF8E4M3 && scale->dtype == DType::kF8E8M0) {
    return RowCodec::kF8E4M3E8M0;
  }
  if (scale && weight == DType::kF8E4M3 && scale->dtype == DType::kF32) {
    return RowCodec::kF8E4M3TensorScale;
  }
  if (scale && weight == DType::kI8 && scale->dtype == DType::kF32) return RowCodec::kI8Scale;
  return invalid_argument("tensor " + name +
                          ": expected F32, F16, BF16, F8_E4M3 (with an F8_E8M0 or F32 scale, or "
                          "none) or I8 with an F32 scale per row, got another combination");
}

// The token map's checks are TokenMap's own; its size is the config's vocabulary.
Result<TokenMap> read_token_map(const Checkpoint& checkpoint, const std::string& folder,
                                const ModelConfig& config, const EngramLayout& layout) {
  if (checkpoint.has(kTokenMapTensor)) {
    const auto view = checkpoint.tensor(kTokenMapTensor, DType::kI32, {config.vocab_size});
    if (!view) return view.error();
    return token_map_from_tensor(view->as<std::int32_t>(), config.vocab_size,
                                 layout.config.hashed_vocab_size);
  }
  const auto tokenizer = Tokenizer::from_file(folder + "/tokenizer.json");
  if (!tokenizer) return tokenizer.error();
  return build_token_map(*tokenizer);
}

std::string identity_of(const std::string& folder) {
  std::vector<std::string> lines;
  std::error_code code;  // a folder that changes underneath gives another identity, no failure
  for (auto entry = std::filesystem::directory_iterator(folder, code);
       entry != std::filesystem::directory_iterator() && !code; entry.increment(code)) {
    if (entry->path().extension() != ".safetensors") continue;
    const auto bytes = entry->file_size(code);
    const auto time = entry->last_write_time(code).time_since_epoch().count();
    lines.push_back(entry->path().filename().string() + " " + std::to_string(bytes) + " " +
                    std::to_string(time) + "\n");
  }
  std::sort(lines.begin(), lines.end());
  std::string identity = "checkpoint\n";
  for (const std::string& line : lines) identity += line;
  return identity;
}

}  // namespace

Result<CheckpointRows> CheckpointRows::bind(const Checkpoint& checkpoint, const std::string& prefix,
                                            std::int64_t n_rows, int n_columns) {
  const auto weight = checkpoint.tensor(prefix + ".weight");
  if (!weight) return weight.error();
  std::optional<TensorView> scale;
  if (checkpoint.has(prefix + ".scale")) {
    const auto view = checkpoint.tensor(prefix + ".scale");
    if (!view) return view.error();
    scale = *view;
  }
  const auto codec = codec_of(prefix + ".weight", weight->dtype, scale ? &*scale : nullptr);
  if (!codec) return codec.error();
  CheckpointRows rows;
  rows.n_rows_ = n_rows;
  rows.format_.codec = *codec;
  rows.format_.n_columns = n_columns;
  // Asking again with a shape is what validates it.
  const auto codes = checkpoint.tensor(prefix + ".weight", weight->dtype, {n_rows, n_columns});
  if (!codes) return codes.error();
  rows.codes_ = static_cast<const std::uint8_t*>(codes->data);
  if (*codec == RowCodec::kF8E4M3TensorScale) {
    if (scale->n_elements() != 1) {
      return invalid_argument("tensor " + prefix + ".scale: expected one number, got " +
                              std::to_string(scale->n_elements()));
    }
    rows.format_.tensor_scale = *scale->as<float>();
  } else if (scale) {
    const bool per_row = *codec == RowCodec::kI8Scale;
    const std::int64_t n_scales = scale->n_elements() / std::max<std::int64_t>(n_rows, 1);
    const std::int64_t expected = per_row ? 1 : rows.format_.scales_bytes();
    if (scale->n_elements() != n_rows * expected) {
      return invalid_argument("tensor " + prefix + ".scale: expected " + std::to_string(expected) +
                              " scales for each of " + std::to_string(n_rows) + " rows, got " +
                              std::to_string(n_scales));
    }
    rows.scales_ = static_cast<const std::uint8_t*>(scale->data);
  }
  if (checkpoint.has(prefix + ".owner")) {
    const auto owner = checkpoint.tensor(prefix + ".owner", DType::kU16, {n_rows});
    if (!owner) return owner.error();
    rows.owner_ = owner->as<std::uint16_t>();
  }
  return rows;
}

std::int64_t CheckpointRows::bytes() const {
  const std::int64_t owner_bytes = owner_ != nullptr ? sizeof(std::uint16_t) : 0;
  return n_rows_ * (format_.row_bytes() + owner_bytes);
}

RowBytes CheckpointRows::resident(std::int64_t row) const {
  ENGRAMD_ASSERT(row >= 0 && row < n_rows_);
  return {codes_ + row * format_.codes_bytes(),
          scales_ != nullptr ? scales_ + row * format_.scales_bytes() : nullptr};
}

Result<void> CheckpointRows::read(std::span<const std::int64_t> rows, std::uint8_t* images,
                                  std::stop_token stop) {
  const auto codes_bytes = static_cast<std::size_t>(format_.codes_bytes());
  const auto scales_bytes = static_cast<std::size_t>(format_.scales_bytes());
  for (const std::int64_t row : rows) {
    if (stop.stop_requested()) return cancelled("reading table rows was stopped");
    const RowBytes bytes = resident(row);
    std::memcpy(images, bytes.codes, codes_bytes);
    images += codes_bytes;
    if (scales_bytes > 0) std::memcpy(images, bytes.scales, scales_bytes);
    images += scales_bytes;
  }
  return {};
}

std::string table_prefix(const Checkpoint& checkpoint, std::int64_t layer_id) {
  const std::string tail = "layers." + std::to_string(layer_id) + ".engram.embed";
  return checkpoint.has("model." + tail + ".weight") ? "model." + tail : tail;
}

Result<CheckpointTables> open_checkpoint_layout(const std::string& folder) {
  const auto config = read_model_config(folder);
  if (!config) return config.error();
  if (!config->engram) {
    return invalid_argument(folder + ": this model has no Engram tables (config.json names none)");
  }
  auto layout = make_layout(config->engram->layout);
  if (!layout) return layout.error();
  auto checkpoint = Checkpoint::open(folder);
  if (!checkpoint) return checkpoint.error();
  auto map = read_token_map(*checkpoint, folder, *config, *layout);
  if (!map) return map.error();
  return CheckpointTables{std::move(*layout), std::move(*map), std::move(*checkpoint), {}};
}

Result<CheckpointTables> open_checkpoint_tables(const std::string& folder) {
  auto tables = open_checkpoint_layout(folder);
  if (!tables) return tables.error();
  for (const EngramLayer& layer : tables->layout.layers) {
    const std::string prefix = table_prefix(tables->checkpoint, layer.layer_id);
    auto rows = CheckpointRows::bind(tables->checkpoint, prefix, layer.n_rows,
                                     tables->layout.config.head_dim);
    if (!rows) return Error{rows.error().kind, folder + ": " + rows.error().message};
    tables->layers.push_back(std::move(*rows));
  }
  return tables;
}

CheckpointContent::CheckpointContent(CheckpointTables& tables, const std::string& folder)
    : tables_(&tables), identity_(identity_of(folder)) {}

Result<TableHeader> CheckpointContent::header() const {
  const RowFormat format = tables_->layers.front().format();
  bool has_owner_tags = true;
  for (const CheckpointRows& layer : tables_->layers) {
    const RowFormat other = layer.format();
    if (other.codec != format.codec || other.tensor_scale != format.tensor_scale) {
      return invalid_argument(std::string("Engram layers are stored differently (") +
                              name_of(format.codec) + ", " + name_of(other.codec) +
                              " or their scales); a row file holds one codec for all layers");
    }
    has_owner_tags = has_owner_tags && layer.owner() != nullptr;
  }
  return make_table_header(tables_->layout, format, has_owner_tags, sha256_hex(tables_->token_map),
                           1);
}

Result<void> CheckpointContent::rows(int layer, std::int64_t first, std::int64_t count,
                                     std::uint8_t* images) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) rows[static_cast<std::size_t>(i)] = first + i;
  return tables_->layers[static_cast<std::size_t>(layer)].read(rows, images, {});
}

Result<void> CheckpointContent::owner_tags(int layer, std::int64_t first,
                                           std::span<std::uint16_t> tags) {
  const std::uint16_t* owner = tables_->layers[static_cast<std::size_t>(layer)].owner() + first;
  std::copy(owner, owner + tags.size(), tags.begin());
  return {};
}

}  // namespace engramd::engine
