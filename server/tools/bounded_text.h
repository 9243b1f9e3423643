// BoundedText: lines for a model to read, up to a size; what did not fit is counted and named at
// the end. Plain value.
#pragma once

#include <cstdint>
#include <string>

namespace engramd::server {

class BoundedText {
 public:
  // About 2,000 tokens of English.
  static constexpr std::size_t kDefaultBytesMax = 6000;
  explicit BoundedText(std::size_t bytes_max = kDefaultBytesMax) : bytes_max_(bytes_max) {}

  void line(const std::string& text) {
    if (n_left_out_ > 0 || text_.size() + text.size() + 1 > bytes_max_) {
      ++n_left_out_;
    } else {
      text_ += text + '\n';
    }
  }
  // remedy: where the rest is, said when something was left out.
  std::string finish(const std::string& remedy) && {
    if (n_left_out_ > 0)
      text_ += "(" + std::to_string(n_left_out_) + " more lines: " + remedy + ")\n";
    if (!text_.empty()) text_.pop_back();
    return std::move(text_);
  }

 private:
  std::size_t bytes_max_;
  std::string text_;
  std::int64_t n_left_out_ = 0;
};

}  // namespace engramd::server
