#include <cstdio>
#include <future>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/cuda/cuda_backend.h"
#include "server/daemon_lock.h"
#include "server/doctor/check.h"
#include "server/model_folder.h"
#include "server/process_memory.h"
#include "server/transport/access.h"

namespace engramd::server {
namespace {

namespace asio = boost::asio;

constexpr char kQuestion[] = "What is the capital of France?";
constexpr int kAnswerTokens = 8;
// Below this share of owned rows the table does little for plain factual prompts.
constexpr double kHitRateMin = 0.3;

template <class... Values>
std::string formatted(const char* format, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

std::string size_text(std::int64_t bytes) {
  const auto size = static_cast<double>(bytes);
  return size < 1e9 ? formatted("%.1f MB", size / 1e6) : formatted("%.2f GB", size / 1e9);
}

Check model_files_check(const config::EffectiveConfig& config) {
  Check check = {"model.files", CheckStatus::kPass, "", ""};
  const auto folder = find_model_folder(config.options.model, executable_folder());
  if (folder.has_error()) {
    return {check.name, CheckStatus::kFail, folder.error().message,
            "name a model folder with --model, or leave model.name empty for the bundled one"};
  }
  check.detail = *folder;
  if (const std::string missing = missing_model(config.options.model, *folder); !missing.empty()) {
    check.status = CheckStatus::kWarn;
    check.detail = missing;
    check.remedy = "put the model into a model folder, or ask the remote for it";
  }
  return check;
}

Result<engine::ChatResult> answer_of(engine::LocalEngine& engine, std::stop_token stop) {
  std::promise<Result<engine::ChatResult>> promise;
  engine::ChatRequest request;
  request.route = engine::Route::kLocal;
  request.messages = {{"user", kQuestion}};
  request.max_tokens = kAnswerTokens;
  engine::ChatCallbacks callbacks;
  callbacks.on_done = [&promise](Result<engine::ChatResult> result) {
    promise.set_value(std::move(result));
  };
  engine.start(std::move(request), std::move(callbacks), std::move(stop));
  return promise.get_future().get();
}

// That the tokenizer belongs to the table is checked when the model is opened.
Check layout_check(const engine::ModelFacts& facts) {
  const char* const name = "table.layout";
  if (facts.engram_layer_ids.empty()) return not_checked(name, "this model has no Engram");
  std::string layers;
  for (const std::int64_t layer : facts.engram_layer_ids) {
    layers += (layers.empty() ? "" : ", ") + std::to_string(layer);
  }
  return {name, CheckStatus::kPass,
          formatted("orders 2 to %d, %d heads, %lld rows of %d in each of the layers %s; %lld "
                    "tokens in %lld classes, as tokenizer.json has them",
                    facts.engram_max_ngram_size, facts.engram_heads,
                    static_cast<long long>(facts.engram_rows.front()), facts.engram_head_dim,
                    layers.c_str(), static_cast<long long>(facts.vocab_size),
                    static_cast<long long>(facts.compressed_vocab_size)),
          ""};
}

// A prompt that is shorter than the order has no N-gram of it; nothing is wrong with that, unless
// no longer one is allowed.
Check order_check(const engine::ModelFacts& facts, const engine::ChatResult& answer,
                  const config::Options& options) {
  const char* const name = "table.order";
  if (facts.engram_layer_ids.empty()) return not_checked(name, "this model has no Engram");
  const std::int64_t order = facts.engram_max_ngram_size;
  const std::int64_t longest =
      std::min<std::int64_t>(options.limits.prompt_tokens_max, facts.context_length);
  Check check = {
      name, CheckStatus::kPass,
      formatted("the highest order is %lld; a prompt of %lld tokens has %lld N-grams of "
                "it, one of fewer than %lld has none",
                static_cast<long long>(order), static_cast<long long>(answer.prompt_tokens),
                static_cast<long long>(std::max<std::int64_t>(answer.prompt_tokens - order + 1, 0)),
                static_cast<long long>(order)),
      ""};
  if (longest < order) {
    check.status = CheckStatus::kWarn;
    check.detail +=
        formatted("; no prompt may have more than %lld tokens", static_cast<long long>(longest));
    check.remedy = "raise limits.prompt_tokens_max";
  }
  return check;
}

Check hit_rate_check(const engine::ModelFacts& facts, const engine::ChatResult& answer,
                     bool engram_enabled) {
  const char* const name = "table.hit_rate";
  if (facts.engram_layer_ids.empty()) return not_checked(name, "this model has no Engram");
  if (!engram_enabled) return not_checked(name, "Engram is off");
  engine::EngramCounts counts = answer.engram_prompt;
  counts.add(answer.engram_generated);
  Check check = {name, CheckStatus::kPass,
                 formatted("%.0f %% of the looked-up rows", 100 * counts.hit_rate()), ""};
  if (counts.hit_rate() < kHitRateMin) {
    check.status = CheckStatus::kWarn;
    check.remedy = "does the table belong to this model? `engramd table verify TABLE MODEL`";
  }
  return check;
}

// What is mapped from files may leave memory again; what is resident may not.
Check memory_check(const engine::ModelFacts& facts, const engine::EngineMemory& memory) {
  const bool is_resident = facts.engram_mode == engine::TableMode::kResident;
  const std::int64_t own = memory.kv_cache + memory.activations + (is_resident ? memory.table : 0);
  const std::int64_t left = available_memory_bytes();
  const std::int64_t mapped = memory.weights + (is_resident ? 0 : memory.table);
  Check check = {"machine.memory", CheckStatus::kPass,
                 size_text(own) + " of its own (KV cache " + size_text(memory.kv_cache) +
                     ", activations " + size_text(memory.activations) + ", resident table " +
                     size_text(is_resident ? memory.table : 0) + "), " + size_text(mapped) +
                     " mapped from files; the machine has " + size_text(left) + " left",
                 ""};
  if (left > 0 && mapped > left + process_resident_bytes()) {
    check.status = CheckStatus::kWarn;
    check.remedy =
        "close other programs, choose a smaller model, or set "
        "engram.host_memory_limit_gb so that rows are read from the file";
  }
  return check;
}

void engine_checks(const Examination& examination, std::vector<Check>& checks) {
  const auto failed = [&checks](const Error& error) {
    checks.push_back({"model.answer", CheckStatus::kFail, error.message,
                      "repair what the message names, or choose another model with --model"});
    for (const char* name : {"table.layout", "table.order", "table.hit_rate", "machine.memory"}) {
      checks.push_back(not_checked(name, "there was no answer"));
    }
  };
  if (examination.engine.has_error()) return failed(examination.engine.error());
  engine::LocalEngine& engine = **examination.engine;
  const auto answer = answer_of(engine, examination.stop);
  if (answer.has_error()) return failed(answer.error());
  const config::Options& options = examination.config.options;
  checks.push_back({"model.answer", CheckStatus::kPass,
                    answer->model + formatted(" answered: %lld tokens, %.0f tokens/s",
                                              static_cast<long long>(answer->completion_tokens),
                                              answer->decode_tokens_per_s),
                    ""});
  checks.push_back(layout_check(engine.facts()));
  checks.push_back(order_check(engine.facts(), *answer, options));
  checks.push_back(hit_rate_check(engine.facts(), *answer, options.engram.enable));
  checks.push_back(memory_check(engine.facts(), engine.memory()));
}

Check state_check(const config::TableOptions& table) {
  Check check = {"machine.state_folder", CheckStatus::kPass, table.state_folder, ""};
  struct stat status {};
  if (::stat(table.state_folder.c_str(), &status) != 0) {
    check.detail += " is not there yet";
  } else if (status.st_uid != ::geteuid() || ::access(table.state_folder.c_str(), W_OK) != 0) {
    check.status = CheckStatus::kFail;
    check.detail += " cannot be written by this user";
    check.remedy = "chown it to yourself";
  } else if ((status.st_mode & 077) != 0) {
    check.status = CheckStatus::kWarn;
    check.detail += " can be entered by others";
    check.remedy = "chmod 700 " + table.state_folder;
  }
  return check;
}

Check token_check(const config::TableOptions& table) {
  const std::string path = token_path(table.state_folder);
  Check check = {"machine.token_file", CheckStatus::kPass, path, ""};
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    check.detail += " is made when the daemon starts";
  } else if ((status.st_mode & 077) != 0) {
    check.status = CheckStatus::kFail;
    check.detail += " can be read by others; the daemon refuses it";
    check.remedy = "chmod 600 " + path;
  }
  return check;
}

Check port_check(const config::ServerOptions& server, bool daemon_runs) {
  const char* const name = "machine.port";
  const std::string where = server.host + ":" + std::to_string(server.port);
  if (daemon_runs) return {name, CheckStatus::kPass, where + " is the running daemon's", ""};
  if (server.port == 0) return {name, CheckStatus::kPass, "any free one", ""};
  asio::io_context io;
  asio::ip::tcp::acceptor acceptor(io);
  boost::system::error_code error;
  const auto address = asio::ip::make_address(server.host, error);
  if (error) return not_checked(name, server.host + " is no address");
  const asio::ip::tcp::endpoint endpoint(address, static_cast<std::uint16_t>(server.port));
  if (!acceptor.open(endpoint.protocol(), error)) {
    acceptor.set_option(asio::socket_base::reuse_address(true), error);
    acceptor.bind(endpoint, error);
  }
  if (!error) return {name, CheckStatus::kPass, where + " is free", ""};
  return {name, CheckStatus::kWarn, where + ": " + error.message(),
          "choose another one with --port, or end the program that has it"};
}

Check gpu_check(const Examination& examination) {
  const kernels::GpuList list = kernels::list_gpus();
  if (list.gpus.empty()) return not_checked("machine.gpu", list.problem);
  Check check = {"machine.gpu", CheckStatus::kPass, "", ""};
  for (const kernels::GpuFacts& gpu : list.gpus) {
    check.detail += formatted("cuda:%d %s (sm_%d), %s of %s free; ", gpu.index, gpu.name.c_str(),
                              gpu.compute_capability, size_text(gpu.free_bytes).c_str(),
                              size_text(gpu.total_bytes).c_str());
  }
  if (examination.engine.has_error()) {
    check.detail += "no model is open";
    return check;
  }
  const engine::ModelFacts& facts = examination.engine.value()->facts();
  check.detail += "the model runs on " + facts.backend + " and needs " + facts.device_plan;
  if (facts.device_note.empty()) return check;
  check.status = CheckStatus::kWarn;
  check.remedy = facts.device_note;
  return check;
}

}  // namespace

std::vector<Check> local_checks(const Examination& examination) {
  const config::Options& options = examination.config.options;
  std::vector<Check> checks = {model_files_check(examination.config)};
  engine_checks(examination, checks);
  checks.push_back(gpu_check(examination));
  checks.push_back(state_check(options.table));
  checks.push_back(token_check(options.table));
  const std::string daemon = DaemonLock::holder(options.table.state_folder);
  checks.push_back({"machine.daemon", CheckStatus::kPass,
                    daemon.empty() ? "none runs; `engramd --stdio` starts one" : daemon, ""});
  checks.push_back(port_check(options.server, !daemon.empty()));
  return checks;
}

}  // namespace engramd::server
