// StopMatcher: finds stop texts in a stream of text, holding back only what may still become one.
// One per generation, one thread.
#pragma once

#include <string>
#include <vector>

namespace engramd::engine {

class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops);

  // Text that is final after `text` has been added. The stop that is complete first ends it (of two
  // that end together, the longer), whatever the pieces that the text arrives in.
  std::string push(const std::string& text);
  std::string flush();  // what was held back, at the end of the stream
  const std::string& matched() const { return matched_; }  // empty until one was found

 private:
  std::vector<std::string> stops_;
  std::string pending_;
  std::string matched_;
};

}  // namespace engramd::engine
