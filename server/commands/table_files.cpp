#include "server/commands/table_files.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <utility>

#include "engine/checkpoint/model_config.h"
#include "engine/engram/checkpoint_tables.h"
#include "engine/engram/live_tables.h"
#include "engine/engram/table_verify.h"
#include "engine/engram/table_writer.h"
#include "mcp/text.h"
#include "server/commands/command.h"
#include "server/commands/long_command.h"
#include "server/engine_options.h"
#include "server/model_folder.h"
#include "server/process_memory.h"

namespace engramd::server {
namespace {

using nlohmann::json;

// The folder named among the words, or the configured model.
Result<std::string> model_folder(const config::EffectiveConfig& config, const std::string& named) {
  if (!named.empty()) return named;
  return find_model_folder(config.options.model, executable_folder());
}

bool is_folder(const std::string& path) {
  std::error_code error;  // an unreadable path is no folder; opening it says why
  return std::filesystem::is_directory(path, error);
}

std::string word(const TableArguments& words, std::size_t i) {
  return i < words.size() ? words[i] : std::string();
}

// (N - 1) orders x heads x buckets x row bytes, with the real counts when heads differ.
std::string size_arithmetic(const engine::TableHeader& header) {
  const engine::EngramLayout& layout = header.layout;
  std::string text;
  for (const engine::EngramLayer& layer : layout.layers) {
    const auto [least, most] = std::minmax_element(layer.primes.begin(), layer.primes.end());
    const std::string buckets = *least == *most
                                    ? std::to_string(*least)
                                    : std::to_string(*least) + " to " + std::to_string(*most);
    text += "  layer " + std::to_string(layer.layer_id) + ": " + std::to_string(layout.n_orders()) +
            " orders x " + std::to_string(layout.config.n_heads) + " heads x " + buckets +
            " buckets x " + std::to_string(header.row_bytes()) +
            " B = " + engine::gigabytes(layer.n_rows * header.row_bytes()) + " (" +
            std::to_string(layer.n_rows) + " rows)\n";
  }
  return text;
}

json header_json(const engine::TableHeader& header) {
  json layers = json::array();
  for (const engine::EngramLayer& layer : header.layout.layers) {
    layers.push_back({{"layer_id", layer.layer_id},
                      {"n_rows", layer.n_rows},
                      {"buckets", layer.primes},
                      {"multipliers", layer.multipliers},
                      {"rows_bytes", layer.n_rows * header.row_bytes()}});
  }
  const engine::EngramLayoutConfig& config = header.layout.config;
  return {{"variant", engine::name_of(config.variant)},
          {"max_ngram_size", config.max_ngram_size},
          {"n_heads", config.n_heads},
          {"head_dim", config.head_dim},
          {"hashed_vocab_size", config.hashed_vocab_size},
          {"codec", engine::name_of(header.format.codec)},
          {"row_bytes", header.row_bytes()},
          {"rows_per_page", header.rows_per_page},
          {"n_rows", header.n_rows()},
          {"owner_tags", header.has_owner_tags},
          {"file_bytes", header.file_bytes},
          {"layout_sha256", engine::layout_sha256(header.layout)},
          {"token_map_sha256", header.token_map_sha256},
          {"layers", std::move(layers)}};
}

std::string header_text(const engine::TableHeader& header) {
  const engine::EngramLayoutConfig& config = header.layout.config;
  return std::string("layout: ") + engine::name_of(config.variant) + ", orders 2.." +
         std::to_string(config.max_ngram_size) + ", " + std::to_string(config.n_heads) +
         " heads, embed_dim " + std::to_string(config.head_dim) + ", rows " +
         engine::name_of(header.format.codec) + " of " + std::to_string(header.row_bytes()) +
         " B, " + std::to_string(header.rows_per_page) + " per 4096-B page" +
         (header.has_owner_tags ? ", owner tags\n" : ", no owner tags\n") +
         "layout sha256:    " + engine::layout_sha256(header.layout) + "\n" +
         "token map sha256: " + header.token_map_sha256 + "\nsize:\n" + size_arithmetic(header);
}

json plan_json(const Result<engine::TableMemoryPlan>& plan) {
  if (!plan) return {{"refused", plan.error().message}};
  return {{"mode", engine::name_of(plan->mode)}, {"reason", plan->reason},
          {"table_bytes", plan->table_bytes},    {"checksums_bytes", plan->checksums_bytes},
          {"owner_bytes", plan->owner_bytes},    {"cache_bytes", plan->cache_bytes},
          {"buffer_bytes", plan->buffer_bytes},  {"total_bytes", plan->total_bytes()},
          {"direct_io", plan->direct_io}};
}

std::string plan_text(const Result<engine::TableMemoryPlan>& plan) {
  if (!plan) return "memory: opening it would be refused: " + plan.error().message + "\n";
  return std::string("memory: ") + engine::name_of(plan->mode) + " (" + plan->reason + "): rows " +
         engine::gigabytes(plan->table_bytes) + ", checksums " +
         engine::gigabytes(plan->checksums_bytes) + ", owner tags " +
         engine::gigabytes(plan->owner_bytes) + ", hot rows " +
         engine::gigabytes(plan->cache_bytes) + ", buffers " +
         engine::gigabytes(plan->buffer_bytes) + (plan->direct_io ? ", past the page cache" : "") +
         "; of a GPU's memory nothing, rows stay in host memory\n";
}

// Where serving goes instead when the edits of these tables say that they moved on.
void add_successors(const config::EffectiveConfig& config, const std::string& folder,
                    const std::string& row_file, const engine::EngramLayout& layout,
                    const std::string& token_map_sha256,
                    const std::vector<engine::CheckpointRows>& tensors, TableAnswer& answer) {
  engine::LiveTablesOptions options = to_engine_options(config.options, folder).tables;
  options.model_name = engine::model_name_of(folder);
  options.row_file = row_file;
  const auto chain = engine::LiveTables::successors(layout, token_map_sha256, tensors, options);
  if (!chain) {
    answer.text += "edits: " + chain.error().message + "\n";
    answer.structured["edits_error"] = chain.error().message;
    return;
  }
  answer.structured["moved_on_to"] = *chain;
  if (chain->empty()) return;
  answer.text += "moved on (table fold): serving this table serves " + chain->back() + "\n";
}

// Table files say everything themselves; a model folder is described as the file it would become.
Result<TableAnswer> info_of_folder(const config::EffectiveConfig& config, const std::string& folder,
                                   const engine::TableOpenOptions& open_options) {
  auto tables = engine::open_checkpoint_tables(folder);
  if (!tables) return tables.error();
  const auto header = engine::CheckpointContent(*tables, folder).header();
  if (!header) return header.error();
  const auto plan = engine::plan_table_memory(*header, open_options);
  json structured = header_json(*header);
  structured["path"] = folder;
  structured["source"] = "checkpoint";
  structured["memory_plan"] = plan_json(plan);
  TableAnswer answer{"table: the tensors of " + folder + ", in place\n" + header_text(*header) +
                         "as a row file " + plan_text(plan),
                     std::move(structured)};
  add_successors(config, folder, "", tables->layout, header->token_map_sha256, tables->layers,
                 answer);
  return answer;
}

Result<TableAnswer> info_of_file(const config::EffectiveConfig& config, const std::string& path,
                                 const engine::TableOpenOptions& open_options) {
  const auto file = engine::TableFile::open(path);
  if (!file) return file.error();
  const engine::TableHeader& header = file->header();
  const auto plan = engine::plan_table_memory(header, open_options);
  json structured = header_json(header);
  structured["path"] = path;
  structured["source"] = "row_file";
  structured["generation"] = header.generation;
  structured["memory_plan"] = plan_json(plan);
  TableAnswer answer{"table: " + path + ", generation " + std::to_string(header.generation) + ", " +
                         engine::gigabytes(header.file_bytes) + "\n" + header_text(header) +
                         plan_text(plan),
                     std::move(structured)};
  add_successors(config, "", path, header.layout, header.token_map_sha256, {}, answer);
  return answer;
}

Result<engine::RowCodec> row_codec(const config::EffectiveConfig& config) {
  const auto names = flag_values(config, "--rows");
  if (names.empty()) {
    switch (config.options.table.lookup_dtype) {
      case config::Dtype::kFloat16:
        return engine::RowCodec::kF16;
      case config::Dtype::kBfloat16:
        return engine::RowCodec::kBF16;
      default:
        return engine::RowCodec::kF32;
    }
  }
  // A scale for the whole table says nothing about rows that are still to come.
  for (const engine::RowCodec codec :
       {engine::RowCodec::kF32, engine::RowCodec::kF16, engine::RowCodec::kBF16,
        engine::RowCodec::kF8E4M3, engine::RowCodec::kF8E4M3E8M0, engine::RowCodec::kI8Scale}) {
    if (names.back() == engine::name_of(codec)) return codec;
  }
  return invalid_argument(
      "flag --rows: expected f32, f16, bf16, f8_e4m3, f8_e4m3_e8m0 or i8_scale, got " +
      mcp::quote(names.back()));
}

Result<std::vector<std::int64_t>> layer_list(const config::EffectiveConfig& config,
                                             std::vector<std::int64_t> otherwise) {
  const auto lists = flag_values(config, "--layers");
  if (lists.empty()) return otherwise;
  std::vector<std::int64_t> layers;
  std::istringstream parts(lists.back());
  for (std::string part; std::getline(parts, part, ',');) {
    std::istringstream reader(part);
    std::int64_t layer = 0;
    if (!(reader >> layer) || !(reader >> std::ws).eof()) {
      return invalid_argument("flag --layers: expected integers separated by commas, got " +
                              mcp::quote(lists.back()));
    }
    layers.push_back(layer);
  }
  return layers;
}

// The model's layout where the configuration states nothing else; otherwise `hash_buckets` rows for
// every order and head.
Result<engine::EngramLayout> layout_to_create(const config::EffectiveConfig& config,
                                              const engine::EngramLayout& model) {
  const config::EngramOptions& wanted = config.options.engram;
  engine::EngramLayoutConfig layout = model.config;
  auto layers = layer_list(config, layout.layer_ids);
  if (!layers) return layers.error();
  if (wanted.ngram_order > 0) layout.max_ngram_size = static_cast<int>(wanted.ngram_order);
  if (wanted.hash_heads > 0) layout.n_heads = static_cast<int>(wanted.hash_heads);
  if (wanted.embed_dim > 0) layout.head_dim = static_cast<int>(wanted.embed_dim);
  const bool same = *layers == layout.layer_ids &&
                    layout.max_ngram_size == model.config.max_ngram_size &&
                    layout.n_heads == model.config.n_heads &&
                    layout.head_dim == model.config.head_dim && wanted.hash_buckets == 0;
  if (same) return model;
  layout.layer_ids = std::move(*layers);
  const std::int64_t buckets =
      wanted.hash_buckets > 0 ? wanted.hash_buckets : model.config.vocab_size.front();
  return engine::make_bucket_layout(std::move(layout), buckets);
}

Result<TableAnswer> write_and_describe(const config::EffectiveConfig& config, const char* verb,
                                       const std::string& path, const engine::TableHeader& header,
                                       engine::TableContent& content) {
  ProgressLine line(config);
  Interruption interruption;
  std::int64_t resumed = 0;
  const auto start = std::chrono::steady_clock::now();
  engine::TableWriteOptions options;
  options.stop = interruption.token();
  options.progress = [&](const engine::TableProgress& progress) {
    resumed = progress.pages_resumed;
    interruption.poll();
    line.show(verb, progress.pages_done * engine::kTablePageBytes,
              progress.pages_total * engine::kTablePageBytes);
  };
  if (const auto written = engine::write_table(path, header, content, options); !written) {
    return written.error();
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  auto answer = info_of_file(config, path,
                             to_table_open_options(config.options.table, available_memory_bytes()));
  if (!answer) return answer.error();
  char took[96];
  std::snprintf(took, sizeof took, "written in %.1f s", seconds);
  answer->text += took;
  if (resumed > 0) {
    answer->text += ", " + engine::gigabytes(resumed * engine::kTablePageBytes) +
                    " of it found in the partial file";
  }
  answer->text += "\n";
  answer->structured["seconds"] = seconds;
  answer->structured["resumed_bytes"] = resumed * engine::kTablePageBytes;
  return answer;
}

// engram.table.path when no file is named.
std::string file_named(const config::EffectiveConfig& config, const TableArguments& words) {
  return words.empty() ? config.options.table.path : words.front();
}

}  // namespace

Result<void> expect_words(const char* verb, const TableArguments& words, std::size_t least,
                          std::size_t most, const char* usage) {
  if (words.size() >= least && words.size() <= most) return {};
  return invalid_argument(std::string("table ") + verb + ": expected " + usage + ", got " +
                          std::to_string(words.size()) + " words");
}

Result<TableAnswer> table_info(const config::EffectiveConfig& config, const TableArguments& words) {
  if (const auto checked = expect_words("info", words, 0, 1, "[FILE|FOLDER]"); !checked) {
    return checked.error();
  }
  const auto options = to_table_open_options(config.options.table, available_memory_bytes());
  const std::string path = file_named(config, words);
  if (!path.empty() && !is_folder(path)) return info_of_file(config, path, options);
  const auto folder = model_folder(config, path);
  if (!folder) return folder.error();
  return info_of_folder(config, *folder, options);
}

Result<TableAnswer> table_open(const config::EffectiveConfig& config, const TableArguments& words) {
  auto answer = table_info(config, words);
  if (!answer) return answer;
  const auto options = to_table_open_options(config.options.table, available_memory_bytes());
  const std::string path = file_named(config, words);
  const auto start = std::chrono::steady_clock::now();
  std::string how = "mapped";
  if (!path.empty() && !is_folder(path)) {
    const auto rows = engine::TableRows::open(path, options);
    if (!rows) return rows.error();
    how =
        std::string(engine::name_of((*rows)->plan().mode)) + ", rows by " + (*rows)->reader_name();
  } else {
    const auto folder = model_folder(config, path);
    if (!folder) return folder.error();
    const auto tables = engine::open_checkpoint_tables(*folder);
    if (!tables) return tables.error();
  }
  const double ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  char took[64];
  std::snprintf(took, sizeof took, "opened in %.1f ms: ", ms);
  answer->text += took + how + "\n";
  answer->structured["opened_ms"] = ms;
  answer->structured["opened_as"] = how;
  return answer;
}

Result<TableAnswer> table_create(const config::EffectiveConfig& config,
                                 const TableArguments& words) {
  if (const auto checked = expect_words("create", words, 1, 1, "FILE"); !checked) {
    return checked.error();
  }
  const auto folder = model_folder(config, "");
  if (!folder) return folder.error();
  const auto model = engine::open_checkpoint_layout(*folder);
  if (!model) return model.error();
  auto layout = layout_to_create(config, model->layout);
  if (!layout) return layout.error();
  const auto codec = row_codec(config);
  if (!codec) return codec.error();
  const int head_dim = layout->config.head_dim;
  auto header = engine::make_table_header(std::move(*layout), {*codec, head_dim, 1.0F}, false,
                                          engine::sha256_hex(model->token_map), 1);
  if (!header) return header.error();
  auto content = engine::ZeroContent::make(header->format);
  if (!content) return content.error();
  return write_and_describe(config, "create", words.front(), *header, *content);
}

Result<TableAnswer> table_import(const config::EffectiveConfig& config,
                                 const TableArguments& words) {
  if (const auto checked = expect_words("import", words, 1, 2, "[FOLDER] FILE"); !checked) {
    return checked.error();
  }
  const auto folder = model_folder(config, words.size() == 2 ? words.front() : std::string());
  if (!folder) return folder.error();
  auto tables = engine::open_checkpoint_tables(*folder);
  if (!tables) return tables.error();
  engine::CheckpointContent content(*tables, *folder);
  const auto header = content.header();
  if (!header) return header.error();
  return write_and_describe(config, "import", words.back(), *header, content);
}

Result<TableAnswer> table_verify(const config::EffectiveConfig& config,
                                 const TableArguments& words) {
  if (const auto checked = expect_words("verify", words, 0, 2, "FILE [FOLDER]"); !checked) {
    return checked.error();
  }
  const std::string path = file_named(config, words);
  if (path.empty()) return invalid_argument("table verify: expected FILE, got none");
  const auto file = engine::TableFile::open(path);
  if (!file) return file.error();
  ProgressLine line(config);
  Interruption interruption;
  const auto report = engine::verify_table(
      *file,
      [&](std::int64_t pages) {
        interruption.poll();
        line.show("verify", pages * engine::kTablePageBytes,
                  file->header().n_pages() * engine::kTablePageBytes);
      },
      interruption.token());
  if (!report) return report.error();
  TableAnswer answer;
  answer.ok = report->n_damaged == 0;
  answer.text = path + ": header and layout are sound; " + std::to_string(report->n_pages) +
                " pages, " + std::to_string(report->n_damaged) + " damaged\n";
  for (const std::string& damaged : report->damaged) answer.text += "  " + damaged + "\n";
  answer.structured = {{"path", path},
                       {"n_pages", report->n_pages},
                       {"n_damaged", report->n_damaged},
                       {"damaged", report->damaged}};
  if (words.size() < 2 && config.options.model.name.empty()) return answer;
  const auto folder = model_folder(config, word(words, 1));
  if (!folder) return folder.error();
  const auto model = engine::open_checkpoint_layout(*folder);
  if (!model) return model.error();
  const auto match = engine::check_table_matches(file->header(), model->layout,
                                                 engine::sha256_hex(model->token_map));
  answer.ok = answer.ok && match.has_value();
  answer.text += match ? "layout and token map are those of " + *folder + "\n"
                       : *folder + ": " + match.error().message + "\n";
  answer.structured["model"] = *folder;
  answer.structured["matches_model"] = match.has_value();
  if (!match) answer.structured["mismatch"] = match.error().message;
  return answer;
}

}  // namespace engramd::server
