#include "engine/teach/fact_problem.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "engine/engram/row_codec.h"

namespace engramd::engine {

namespace {

constexpr float kFirstDecay = 0.9F, kSecondDecay = 0.99F;  // Adam's, as the recipe's prototype
constexpr int kStepsPerMeasure = 20, kStepsPerMeasureAtTheEnd = 5;
constexpr std::int64_t kTokensPerMeasure = 256;

}  // namespace

float ProblemScore::least() const {
  return margins.empty() ? std::numeric_limits<float>::infinity()
                         : *std::min_element(margins.begin(), margins.end());
}

FactProblem::FactProblem(const EngramLayout& layout, std::vector<RowFormat> formats,
                         std::vector<TaughtEntry> entries, const TeachingOptions& options)
    : layout_(&layout),
      formats_(std::move(formats)),
      options_(options),
      width_(static_cast<std::size_t>(layout.config.n_heads * layout.config.head_dim)),
      entries_(std::move(entries)),
      grad_rows_(layout.layers.size()),
      random_(options.seed) {
  for (auto* values : {&base_, &values_, &stored_, &gradient_, &first_, &second_}) {
    values->assign(entries_.size() * width_, 0.0F);
  }
}

void FactProblem::add(std::span<const TokenId> text, std::span<const TokenId> answer,
                      RowsOfText rows, bool must_be_said) {
  // Those that must be said come first: score_.margins are theirs.
  ENGRAMD_ASSERT(!must_be_said || texts_.empty() || texts_.back().must_be_said);
  Text& added = texts_.emplace_back();
  added.must_be_said = must_be_said;
  n_must_ += must_be_said ? 1U : 0U;
  added.prompt.assign(text.begin(), text.end());
  added.answer.assign(answer.begin(), answer.end());
  added.rows = std::move(rows.rows);
  added.places.resize(added.rows.size());
  const auto n_orders = static_cast<std::size_t>(layout_->n_orders());
  for (std::size_t layer = 0; layer < added.rows.size(); ++layer) {
    for (std::size_t i = 0; i < rows.keys[layer].size(); ++i) {
      const NgramKey& key = rows.keys[layer][i];
      if (key.bypassed) continue;
      const NgramEntry wanted{static_cast<std::int32_t>(layer),
                              static_cast<std::int32_t>(i % n_orders), key.mix};
      const auto found = std::lower_bound(
          entries_.begin(), entries_.end(), wanted,
          [](const TaughtEntry& entry, const NgramEntry& ngram) { return entry.ngram < ngram; });
      if (found == entries_.end() || found->ngram != wanted) continue;
      const auto entry = static_cast<std::size_t>(found - entries_.begin());
      added.places[layer].push_back({i, entry});
      for (auto* values : {&base_, &values_, &stored_}) {
        std::copy_n(added.rows[layer].begin() + static_cast<std::ptrdiff_t>(i * width_), width_,
                    values->begin() + static_cast<std::ptrdiff_t>(entry * width_));
      }
    }
  }
}

std::span<const float> FactProblem::values(std::size_t entry) const {
  return std::span(stored_).subspan(entry * width_, width_);
}

bool FactProblem::is_changed(std::size_t entry) const {
  const auto begin = static_cast<std::ptrdiff_t>(entry * width_);
  const auto end = begin + static_cast<std::ptrdiff_t>(width_);
  return !std::equal(stored_.begin() + begin, stored_.begin() + end, base_.begin() + begin);
}

void FactProblem::append(const Text& text, bool core_only, Batch& batch) const {
  batch.rows.resize(text.rows.size());
  batch.places.resize(text.rows.size());
  const auto first = static_cast<std::size_t>(batch.pack.n_tokens() * layout_->n_orders());
  batch.pack.append(text.prompt, text.answer);
  for (std::size_t layer = 0; layer < text.rows.size(); ++layer) {
    auto& rows = batch.rows[layer];
    rows.insert(rows.end(), text.rows[layer].begin(), text.rows[layer].end());
    for (const Place& place : text.places[layer]) {
      if (core_only && !entries_[place.entry].is_core) continue;
      batch.places[layer].push_back({first + place.row, place.entry});
      std::copy_n(stored_.begin() + static_cast<std::ptrdiff_t>(place.entry * width_), width_,
                  rows.begin() + static_cast<std::ptrdiff_t>((first + place.row) * width_));
    }
  }
}

bool FactProblem::advance(RowGradients& network) {
  const bool is_general = n_steps_ < options_.steps_general;
  const bool is_due = is_general
                          ? n_steps_ != 0 && n_steps_ % kStepsPerMeasure == 0
                          : (n_steps_ - options_.steps_general) % kStepsPerMeasureAtTheEnd == 0;
  if (is_due || n_steps_ == options_.steps_max || entries_.empty()) {
    measure(network);
    const float wanted = is_general ? options_.margin_general : options_.margin;
    if (score_.least() >= wanted || n_steps_ >= options_.steps_max || entries_.empty()) return true;
  }
  const Batch batch = next_batch();
  const float wanted = is_general ? options_.margin_general : options_.margin + 1;
  const auto scores = network.forward(batch.pack, batch.rows);
  std::vector<float> weights;
  for (const TargetScore& score : scores) weights.push_back(score.margin < wanted ? 1.0F : 0.0F);
  network.backward(batch.pack, batch.rows, weights, grad_rows_);
  step(batch);
  ++n_steps_;
  return false;
}

FactProblem::Batch FactProblem::next_batch() {
  Batch batch;
  if (n_steps_ < options_.steps_general) {
    std::bernoulli_distribution drops(options_.dropout);
    for (int i = 0; i < options_.texts_per_step; ++i) {
      append(texts_[random_() % texts_.size()], drops(random_), batch);
    }
    return batch;
  }
  std::vector<std::size_t> order(n_must_);  // what is not said yet first
  std::iota(order.begin(), order.end(), 0U);
  std::shuffle(order.begin(), order.end(), random_);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) {
    return (score_.margins[x] < options_.margin) > (score_.margins[y] < options_.margin);
  });
  for (std::size_t i = 0;
       i < std::min(order.size(), static_cast<std::size_t>(options_.texts_per_step)); ++i) {
    append(texts_[order[i]], false, batch);
  }
  return batch;
}

void FactProblem::measure(RowGradients& network) {
  score_.margins.assign(n_must_, std::numeric_limits<float>::infinity());
  for (std::size_t first = 0; first < n_must_;) {
    Batch batch;
    std::size_t end = first;
    for (; end < n_must_ && batch.pack.n_tokens() < kTokensPerMeasure; ++end) {
      append(texts_[end], false, batch);
    }
    for (const TargetScore& score : network.forward(batch.pack, batch.rows)) {
      const auto after =
          std::upper_bound(batch.pack.starts.begin(), batch.pack.starts.end(), score.position);
      const auto text = first + static_cast<std::size_t>(after - batch.pack.starts.begin()) - 1;
      score_.margins[text] = std::min(score_.margins[text], score.margin);
    }
    first = end;
  }
}

void FactProblem::step(const Batch& batch) {
  std::fill(gradient_.begin(), gradient_.end(), 0.0F);
  for (std::size_t layer = 0; layer < batch.places.size(); ++layer) {
    for (const Place& place : batch.places[layer]) {
      const float* grad = grad_rows_[layer].data() + place.row * width_;
      for (std::size_t i = 0; i < width_; ++i) gradient_[place.entry * width_ + i] += grad[i];
    }
  }
  const auto step = static_cast<float>(n_steps_ + 1);
  const float first_scale = 1 / (1 - std::pow(kFirstDecay, step));
  const float second_scale = 1 / (1 - std::pow(kSecondDecay, step));
  for (std::size_t i = 0; i < values_.size(); ++i) {
    first_[i] = kFirstDecay * first_[i] + (1 - kFirstDecay) * gradient_[i];
    second_[i] = kSecondDecay * second_[i] + (1 - kSecondDecay) * gradient_[i] * gradient_[i];
    const float change = first_[i] * first_scale / (std::sqrt(second_[i] * second_scale) + 1e-8F);
    values_[i] -= options_.learning_rate * (change + options_.decay * (values_[i] - base_[i]));
  }
  for (std::size_t entry = 0; entry < entries_.size(); ++entry) store(entry);
}

void FactProblem::store(std::size_t entry) {
  const RowFormat& format = formats_[static_cast<std::size_t>(entries_[entry].ngram.layer)];
  const auto head_dim = static_cast<std::size_t>(layout_->config.head_dim);
  for (std::size_t at = entry * width_; at < (entry + 1) * width_; at += head_dim) {
    const auto image =
        encode_row(format.codec, std::span(values_).subspan(at, head_dim), format.tensor_scale);
    ENGRAMD_ASSERT(image.has_value());
    decode_row(format.codec, image->data(), std::span(stored_).subspan(at, head_dim),
               format.tensor_scale);
  }
}

}  // namespace engramd::engine
