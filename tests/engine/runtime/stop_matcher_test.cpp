#include "engine/runtime/stop_matcher.h"

#include <random>

#include <gtest/gtest.h>

namespace engramd::engine {
namespace {

// Letter by letter: the first prefix of the text that ends in a stop.
std::string expected(const std::string& text, const std::vector<std::string>& stops) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::size_t longest = 0;
    for (const auto& stop : stops) {
      if (text.substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return text.substr(0, end - longest);
  }
  return text;
}

TEST(StopMatcherTest, EqualsASearchOfTheWholeTextHoweverItArrives) {
  std::mt19937 random(1);
  for (int round = 0; round < 5000; ++round) {
    const auto word = [&](int length) {
      std::string s;
      for (int i = 0; i < length; ++i) s += static_cast<char>('a' + random() % 2);
      return s;
    };
    const std::vector<std::string> stops = {word(1 + static_cast<int>(random() % 5)),
                                            word(3 + static_cast<int>(random() % 5))};
    const std::string text = word(static_cast<int>(random() % 20));
    StopMatcher matcher(stops);
    std::string got;
    for (std::size_t i = 0; i < text.size();) {
      const std::size_t n = 1 + random() % 3;
      got += matcher.push(text.substr(i, n));
      i += n;
    }
    if (matcher.matched().empty()) got += matcher.flush();
    EXPECT_EQ(got, expected(text, stops)) << text << " / " << stops[0] << " " << stops[1];
    EXPECT_EQ(matcher.matched().empty(),
              text.find(stops[0]) == std::string::npos && text.find(stops[1]) == std::string::npos);
  }
}

TEST(StopMatcherTest, PassesEverythingAtOnceWithoutStops) {
  StopMatcher matcher({""});
  EXPECT_EQ(matcher.push("abc"), "abc");
  EXPECT_EQ(matcher.flush(), "");
}

}  // namespace
}  // namespace engramd::engine
