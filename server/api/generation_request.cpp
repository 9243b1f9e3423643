#include "server/api/generation_request.h"

#include <charconv>
#include <limits>
#include <random>

namespace engramd::server {
namespace {

using nlohmann::json;

constexpr int kChoicesMax = 16;
constexpr std::size_t kStopTextsMax = 16;
constexpr std::size_t kLogitBiasMax = 1024;
constexpr std::int64_t kTokensMax = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kSeedMax = std::numeric_limits<std::int64_t>::max();
constexpr double kTopPMin = 1e-6;  // the engine refuses 0; as sampling.top_p has it

// {"1734": -100}
void read_logit_bias(RequestFields& fields, engine::SamplingOptions& sampling) {
  const json* object = fields.object("logit_bias");
  if (object == nullptr) return;
  if (object->size() > kLogitBiasMax) {
    return fields.refuse("logit_bias", "expected at most " + std::to_string(kLogitBiasMax) +
                                           " tokens, got " + std::to_string(object->size()));
  }
  for (const auto& [key, value] : object->items()) {
    engine::TokenId token = 0;
    const auto read = std::from_chars(key.data(), key.data() + key.size(), token);
    if (read.ec != std::errc() || read.ptr != key.data() + key.size()) {
      return fields.refuse("logit_bias", "expected token ids as keys, got \"" + key + "\"");
    }
    if (!value.is_number()) return fields.refuse_type("logit_bias." + key, "a number", value);
    sampling.logit_bias.emplace_back(token, value.get<float>());
  }
}

void read_sampling(RequestFields& fields, const config::SamplingDefaults& defaults,
                   engine::SamplingOptions& sampling) {
  sampling.temperature = fields.number("temperature", 0, 2).value_or(defaults.temperature);
  sampling.top_p = fields.number("top_p", kTopPMin, 1).value_or(defaults.top_p);
  sampling.top_k = static_cast<int>(fields.integer("top_k", 0, 1000000).value_or(defaults.top_k));
  sampling.min_p = fields.number("min_p", 0, 1).value_or(defaults.min_p);
  sampling.repetition_penalty = fields.number("repetition_penalty", 0.1, 10).value_or(1);
  sampling.presence_penalty = fields.number("presence_penalty", -2, 2).value_or(0);
  sampling.frequency_penalty = fields.number("frequency_penalty", -2, 2).value_or(0);
  const auto seed = fields.integer("seed", -kSeedMax, kSeedMax);
  sampling.seed = seed ? static_cast<std::uint64_t>(*seed) : random_seed();
  read_logit_bias(fields, sampling);
}

// true, false, "on" or "off"
bool read_engram(RequestFields& fields) {
  const json* value = fields.find("engram");
  if (value == nullptr || *value == true || *value == "on") return true;
  if (*value == false || *value == "off") return false;
  fields.refuse("engram", "expected \"on\" or \"off\"");
  return true;
}

}  // namespace

engine::Route read_route(RequestFields& fields) {
  const std::string route = fields.text("route").value_or("auto");
  if (route == "local") return engine::Route::kLocal;
  if (route == "remote") return engine::Route::kRemote;
  if (route != "auto") fields.refuse("route", "expected auto, local or remote");
  return engine::Route::kAuto;
}

std::uint64_t random_seed() {
  std::random_device random;
  return (std::uint64_t{random()} << 32U) | random();
}

std::vector<std::string> read_stop_texts(RequestFields& fields, const char* name) {
  const json* value = fields.find(name);
  if (value == nullptr) return {};
  if (value->is_string()) {
    if (value->get_ref<const std::string&>().empty()) return {};
    return {value->get<std::string>()};
  }
  if (!value->is_array()) {
    fields.refuse_type(name, "a string or an array of strings", *value);
    return {};
  }
  std::vector<std::string> stops;
  for (const json& stop : *value) {
    if (!stop.is_string()) fields.refuse_type(name, "strings in it", stop);
    if (stop.is_string() && stop != "") stops.push_back(stop.get<std::string>());
  }
  if (stops.size() > kStopTextsMax) {
    fields.refuse(name, "expected at most " + std::to_string(kStopTextsMax) + " texts, got " +
                            std::to_string(stops.size()));
  }
  return stops;
}

GenerationRequest read_generation(RequestFields& fields, const config::SamplingDefaults& defaults) {
  GenerationRequest request;
  request.model = fields.text("model").value_or("");
  request.stream = fields.boolean("stream").value_or(false);
  if (const json* options = fields.object("stream_options")) {
    if (!request.stream) fields.refuse("stream_options", "only with stream true");
    request.include_usage = options->value("include_usage", json(false)) == true;
  }
  request.n_choices = static_cast<int>(fields.integer("n", 1, kChoicesMax).value_or(1));
  const auto max_tokens = fields.integer("max_tokens", 1, kTokensMax);
  const auto max_completion = fields.integer("max_completion_tokens", 1, kTokensMax);
  request.chat.max_tokens =
      static_cast<int>(max_completion.value_or(max_tokens.value_or(defaults.max_tokens)));
  request.chat.stop = read_stop_texts(fields, "stop");
  request.chat.engram_enabled = read_engram(fields);
  request.chat.route = read_route(fields);
  read_sampling(fields, defaults, request.chat.sampling);
  return request;
}

engine::ChatRequest GenerationRequest::choice(int index) const {
  engine::ChatRequest copy = chat;
  copy.sampling.seed += static_cast<std::uint64_t>(index);
  return copy;
}

}  // namespace engramd::server
