#include "engine/runtime/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>

namespace engramd::engine {
namespace {

// Four floats, the widest vector of every x86-64 and AArch64; written out because compilers do not
// vectorise such loops without leave to reorder floating-point operations.
using Float4 = float __attribute__((vector_size(16)));
using Bits4 = std::uint32_t __attribute__((vector_size(16)));
constexpr std::size_t kLanes = 4;
constexpr std::size_t kBlock = 64;  // floats whose maximum is kept; four cache lines
static_assert(kBlock % (4 * kLanes) == 0);
constexpr float kPadding = -std::numeric_limits<float>::infinity();

Float4 load4(const float* x) {
  Float4 value;
  std::memcpy(&value, x, sizeof(value));
  return value;
}
void store4(float* x, Float4 value) {
  std::memcpy(x, &value, sizeof(value));
}
Float4 broadcast(float x) {
  return Float4{x, x, x, x};
}

constexpr int kTopLogprobsMax = 20;   // OpenAI's chat completions reference
constexpr double kBiasMax = 100;      // OpenAI's chat completions reference
constexpr std::size_t kNucleus = 64;  // first guess of a top-p nucleus; grows by kNucleusGrowth
constexpr std::size_t kNucleusGrowth = 8;

Float4 to_finite(Float4 x) {
  const Float4 lowest = broadcast(-FLT_MAX), greatest = broadcast(FLT_MAX);
  const Float4 at_least = x > lowest ? x : lowest;  // also for NaN
  return at_least < greatest ? at_least : greatest;
}
float to_finite(float x) {
  return to_finite(broadcast(x))[0];
}

// e^x for x <= 0; relative error below 3e-7, 0 below -87. Range reduction by Cody and Waite,
// polynomial of Cephes' expf.
Float4 exp_nonpositive(Float4 x) {
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  const Float4 lowest = broadcast(-87.0F);
  const Float4 clamped = x > lowest ? x : lowest;
  const Float4 shifted = clamped * 1.44269504F + kRound;
  const Float4 n = shifted - kRound;
  const Float4 r = (clamped - n * 0.693359375F) + n * 2.12194440e-4F;
  Float4 p = r * 1.9875691500e-4F + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const Float4 e = p * r * r + r + 1.0F;
  const auto scale = std::bit_cast<Float4>((std::bit_cast<Bits4>(shifted) + 127U) << 23U);
  return x > lowest ? e * scale : broadcast(0.0F);
}
float exp_nonpositive(float x) {
  return exp_nonpositive(broadcast(x))[0];
}

float max_of_block(const float* x) {
  std::array<Float4, 4> lanes;  // four chains hide the latency of one comparison
  for (std::size_t j = 0; j < 4; ++j) lanes[j] = load4(x + j * kLanes);
  for (std::size_t i = 4 * kLanes; i < kBlock; i += 4 * kLanes) {
    for (std::size_t j = 0; j < 4; ++j) {
      const Float4 next = load4(x + i + j * kLanes);
      lanes[j] = next > lanes[j] ? next : lanes[j];
    }
  }
  const Float4 a = lanes[0] > lanes[1] ? lanes[0] : lanes[1];
  const Float4 b = lanes[2] > lanes[3] ? lanes[2] : lanes[3];
  const Float4 c = a > b ? a : b;
  return std::max(std::max(c[0], c[1]), std::max(c[2], c[3]));
}

// weights[i] = e^((logits[i] - max) * inverse_temperature); returns their sum, which adds blocks
// in double precision.
double exponentiate(const std::vector<float>& logits, float max, float inverse_temperature,
                    float* weights) {
  double sum = 0;
  for (std::size_t begin = 0; begin < logits.size(); begin += kBlock) {
    Float4 block_sum = broadcast(0.0F);
    for (std::size_t i = begin; i < begin + kBlock; i += kLanes) {
      const Float4 weight = exp_nonpositive((load4(&logits[i]) - max) * inverse_temperature);
      if (weights != nullptr) store4(weights + i, weight);
      block_sum += weight;
    }
    sum += static_cast<double>((block_sum[0] + block_sum[1]) + (block_sum[2] + block_sum[3]));
  }
  return sum;
}

// The lowest id of the greatest logit.
TokenId argmax(const std::vector<float>& logits, const std::vector<float>& block_maxima) {
  const auto block = std::max_element(block_maxima.begin(), block_maxima.end());
  const auto first = logits.begin() + (block - block_maxima.begin()) * std::int64_t{kBlock};
  return static_cast<TokenId>(std::find(first, first + kBlock, *block) - logits.begin());
}

// The n greatest logits in order. The n-th greatest block maximum is a lower bound for the n-th
// greatest logit, so one scan keeps little more than n candidates of a large vocabulary.
template <class Candidate>
void rank(const std::vector<float>& logits, const std::vector<float>& block_maxima, std::size_t n,
          std::vector<float>& maxima_order, std::vector<Candidate>& candidates) {
  float threshold = -FLT_MAX;
  if (n < block_maxima.size()) {
    maxima_order = block_maxima;
    const auto nth = maxima_order.begin() + static_cast<std::ptrdiff_t>(n) - 1;
    std::nth_element(maxima_order.begin(), nth, maxima_order.end(), std::greater<>());
    threshold = *nth;
  }
  candidates.clear();
  for (std::size_t block = 0; block < block_maxima.size(); ++block) {
    if (block_maxima[block] < threshold) continue;
    for (std::size_t i = block * kBlock; i < (block + 1) * kBlock; ++i) {
      if (logits[i] >= threshold) candidates.push_back({logits[i], static_cast<TokenId>(i)});
    }
  }
  const auto before = [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  };
  const std::size_t kept = std::min(n, candidates.size());
  const auto end = candidates.begin() + static_cast<std::ptrdiff_t>(kept);
  std::nth_element(candidates.begin(), end, candidates.end(), before);
  std::sort(candidates.begin(), end, before);
  candidates.resize(kept);
}

std::string number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%g", value);
  return text.data();
}

Result<void> check_range(const char* name, double value, double low, double high,
                         bool low_open = false) {
  // written so that NaN fails
  if ((low_open ? value > low : value >= low) && value <= high) return {};
  return invalid_argument(std::string(name) + " must be " + (low_open ? "greater than " : "from ") +
                          number(low) + (low_open ? " and at most " : " to ") + number(high) +
                          ", got " + number(value) + "; choose a value in that range");
}

std::uint64_t splitmix64(std::uint64_t& state) {  // Steele, Lea, Flood 2014; Vigna's constants
  std::uint64_t z = (state += 0x9E3779B97F4A7C15U);
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

}  // namespace

Result<void> validate(const SamplingOptions& options, std::int64_t vocab_size) {
  const Result<void> checks[] = {
      check_range("temperature", options.temperature, 0, 2),
      check_range("top_k", options.top_k, 0, std::numeric_limits<int>::max()),
      check_range("top_p", options.top_p, 0, 1, true),
      check_range("min_p", options.min_p, 0, 1),
      check_range("repetition_penalty", options.repetition_penalty, 0.1, 10),
      check_range("presence_penalty", options.presence_penalty, -2, 2),
      check_range("frequency_penalty", options.frequency_penalty, -2, 2),
      check_range("top_logprobs", options.top_logprobs, 0, kTopLogprobsMax)};
  for (const Result<void>& check : checks) {
    if (!check.has_value()) return check;
  }
  for (const auto& [token, bias] : options.logit_bias) {
    if (token < 0 || token >= vocab_size) {
      return invalid_argument("logit_bias names token " + std::to_string(token) +
                              ", expected an id from 0 to " + std::to_string(vocab_size - 1) +
                              "; use ids of this model's tokenizer");
    }
    const std::string name = "logit_bias of token " + std::to_string(token);
    auto check = check_range(name.c_str(), static_cast<double>(bias), -kBiasMax, kBiasMax);
    if (!check.has_value()) return check;
  }
  return {};
}

Sampler::Sampler(const SamplingOptions& options, std::int64_t vocab_size)
    : options_(options),
      vocab_size_(vocab_size),
      random_state_(options.seed),
      penalties_on_(options.repetition_penalty != 1.0 || options.presence_penalty != 0.0 ||
                    options.frequency_penalty != 0.0) {
  ENGRAMD_ASSERT(vocab_size > 0);
  ENGRAMD_ASSERT(validate(options, vocab_size).has_value());
}

void Sampler::observe_prompt(std::span<const TokenId> prompt) {
  if (!penalties_on_) return;
  for (const TokenId token : prompt) {
    ENGRAMD_ASSERT(token >= 0 && token < vocab_size_);
    output_counts_.try_emplace(token, 0);
  }
}

// Copies the logits, made finite and with the bias added, and notes every block's maximum.
void Sampler::load(std::span<const float> logits, Scratch& scratch) const {
  ENGRAMD_ASSERT(static_cast<std::int64_t>(logits.size()) == vocab_size_);
  const std::size_t n_blocks = (logits.size() + kBlock - 1) / kBlock;
  scratch.logits.resize(n_blocks * kBlock, kPadding);
  scratch.block_maxima.resize(n_blocks);
  float* const out = scratch.logits.data();
  const std::size_t whole = logits.size() / kBlock * kBlock;
  for (std::size_t i = 0; i < whole; i += kLanes) store4(out + i, to_finite(load4(&logits[i])));
  for (std::size_t i = whole; i < logits.size(); ++i) out[i] = to_finite(logits[i]);
  for (const auto& [token, bias] : options_.logit_bias) out[token] = to_finite(out[token] + bias);
  for (std::size_t b = 0; b < n_blocks; ++b) {
    scratch.block_maxima[b] = max_of_block(out + b * kBlock);
  }
}

void Sampler::penalise(Scratch& scratch) const {
  if (!penalties_on_) return;
  for (const auto& [token, count] : output_counts_) {
    float& logit = scratch.logits[static_cast<std::size_t>(token)];
    double penalised = static_cast<double>(logit);
    penalised = penalised > 0 ? penalised / options_.repetition_penalty
                              : penalised * options_.repetition_penalty;
    if (count > 0) penalised -= options_.presence_penalty;
    penalised -= options_.frequency_penalty * static_cast<double>(count);
    logit = static_cast<float>(std::clamp(penalised, double{-FLT_MAX}, double{FLT_MAX}));
  }
  for (std::size_t b = 0; b < scratch.block_maxima.size(); ++b) {
    scratch.block_maxima[b] = max_of_block(scratch.logits.data() + b * kBlock);
  }
}

bool Sampler::weigh(Scratch& scratch) const {
  const float max = *std::max_element(scratch.block_maxima.begin(), scratch.block_maxima.end());
  // capped so that a temperature near 0 gives 0 * finite, not 0 * infinity, for the best token
  const auto inverse_temperature =
      static_cast<float>(std::min(1.0 / options_.temperature, double{FLT_MAX}));
  std::vector<float>& weights = scratch.weights;
  const auto min_weight = static_cast<float>(options_.min_p);  // the best token's weight is 1

  if (options_.top_k == 0 && options_.top_p == 1.0) {
    weights.resize(scratch.logits.size());
    exponentiate(scratch.logits, max, inverse_temperature, weights.data());
    for (float& weight : weights) weight = weight < min_weight ? 0.0F : weight;
    return false;
  }
  const auto vocab_size = static_cast<std::size_t>(vocab_size_);
  const bool top_k_on = options_.top_k > 0;
  double total = top_k_on ? 0 : exponentiate(scratch.logits, max, inverse_temperature, nullptr);
  const std::size_t limit =
      top_k_on ? std::min(static_cast<std::size_t>(options_.top_k), vocab_size) : vocab_size;
  std::size_t kept = 0;
  for (std::size_t n = top_k_on ? limit : std::min(kNucleus, limit);;
       n = std::min(n * kNucleusGrowth, limit)) {
    rank(scratch.logits, scratch.block_maxima, n, scratch.maxima_order, scratch.candidates);
    weights.resize(n);
    for (std::size_t i = 0; i < n; ++i) {
      weights[i] = exp_nonpositive((scratch.candidates[i].logit - max) * inverse_temperature);
    }
    if (top_k_on) {
      total = 0;
      for (const float weight : weights) total += static_cast<double>(weight);
    }
    double sum = 0;
    for (kept = 0; kept < n && sum < options_.top_p * total; ++kept) {
      sum += static_cast<double>(weights[kept]);
    }
    if (sum >= options_.top_p * total || n == limit) break;
  }
  while (kept > 1 && weights[kept - 1] < min_weight) --kept;
  weights.resize(kept);
  return true;
}

TokenId Sampler::draw(Scratch& scratch) {
  const bool ranked = weigh(scratch);
  const std::vector<float>& weights = scratch.weights;
  double total = 0;
  for (const float weight : weights) total += static_cast<double>(weight);
  const double unit = static_cast<double>(splitmix64(random_state_) >> 11U) * 0x1p-53;  // [0, 1)
  double left = unit * total;
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) continue;
    chosen = i;  // rounding may leave `left` just above the last weight: the last one is drawn
    left -= static_cast<double>(weights[i]);
    if (left < 0) break;
  }
  return ranked ? scratch.candidates[chosen].token : static_cast<TokenId>(chosen);
}

SampledToken Sampler::sample(std::span<const float> logits) {
  load(logits, scratch_);
  const TokenId best = argmax(scratch_.logits, scratch_.block_maxima);
  const float max = scratch_.logits[static_cast<std::size_t>(best)];
  const bool logprobs = options_.logprobs || options_.top_logprobs > 0;
  const double log_sum =
      !logprobs
          ? 0
          : static_cast<double>(max) + std::log(exponentiate(scratch_.logits, max, 1.0F, nullptr));
  SampledToken result;
  if (options_.top_logprobs > 0) {
    rank(scratch_.logits, scratch_.block_maxima, static_cast<std::size_t>(options_.top_logprobs),
         scratch_.maxima_order, scratch_.candidates);
    for (const Candidate& candidate : scratch_.candidates) {
      result.top.push_back({candidate.token, static_cast<double>(candidate.logit) - log_sum});
    }
  }
  penalise(scratch_);
  if (options_.temperature > 0) {
    result.chosen.token = draw(scratch_);
  } else {
    result.chosen.token = penalties_on_ ? argmax(scratch_.logits, scratch_.block_maxima) : best;
  }
  if (penalties_on_) ++output_counts_[result.chosen.token];
  if (!logprobs) return result;
  float logit = to_finite(logits[static_cast<std::size_t>(result.chosen.token)]);
  for (const auto& [token, bias] : options_.logit_bias) {
    if (token == result.chosen.token) logit = to_finite(logit + bias);
  }
  result.chosen.logprob = static_cast<double>(logit) - log_sum;
  return result;
}

std::vector<double> Sampler::probabilities(std::span<const float> logits) const {
  std::vector<double> result(logits.size(), 0.0);
  Scratch scratch;
  load(logits, scratch);
  penalise(scratch);
  if (options_.temperature == 0) {
    result[static_cast<std::size_t>(argmax(scratch.logits, scratch.block_maxima))] = 1.0;
    return result;
  }
  const bool ranked = weigh(scratch);
  double total = 0;
  for (const float weight : scratch.weights) total += static_cast<double>(weight);
  for (std::size_t i = 0; i < scratch.weights.size(); ++i) {
    const std::size_t token = ranked ? static_cast<std::size_t>(scratch.candidates[i].token) : i;
    if (token < result.size()) result[token] = static_cast<double>(scratch.weights[i]) / total;
  }
  return result;
}

}  // namespace engramd::engine
