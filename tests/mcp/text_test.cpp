#include "mcp/text.h"

#include <gtest/gtest.h>

namespace engramd::mcp {
namespace {

struct Sanitised {
  const char* rule;
  std::string input;
  std::string output;
};

TEST(SanitiseText, StripsWhatDrivesATerminalOrHides) {
  const std::vector<Sanitised> cases = {
      {"plain text stays", "a b\n\tc", "a b\n\tc"},
      {"other languages stay", "\u00e9\u4f60\u597d\U0001F600", "\u00e9\u4f60\u597d\U0001F600"},
      {"joined emoji stay", "\U0001F468\u200D\U0001F469", "\U0001F468\u200D\U0001F469"},
      {"colours", "\x1B[1;31mred\x1B[0m", "red"},
      {"window title, closed by BEL", "\x1B]0;owned\atext", "text"},
      {"hyperlink, closed by ST", "\x1B]8;;http://x\x1B\\text", "text"},
      {"a title that never closes ends with the line", "\x1B]0;owned\ntext", "\ntext"},
      {"two-byte escape",
       "\x1B"
       "cx",
       "x"},
      {"escape at the end", "x\x1B", "x"},
      {"cut colour at the end", "x\x1B[31", "x"},
      {"control characters",
       std::string("a\0b\rc\x07"
                   "d\x7F",
                   8),
       "abcd"},
      {"C1 control in UTF-8",
       "a\xC2\x9B"
       "31mb",
       "a31mb"},
      {"bidirectional override", "a\u202Eb\u2066c", "abc"},
      {"zero-width space, BOM", "a\u200Bb\uFEFFc", "abc"},
      {"tag characters", "a\U000E0041b", "ab"},
      {"bad byte", "a\xFFz", "a\uFFFDz"},
      {"cut sequence", "a\xE4\xBD", "a\uFFFD\uFFFD"},
      {"overlong slash", "\xC0\xAF", "\uFFFD\uFFFD"},
      {"encoded surrogate", "\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"},
  };
  for (const Sanitised& each : cases)
    EXPECT_EQ(sanitise_text(each.input), each.output) << each.rule;
}

TEST(CutAtCodePoint, NeverSplitsACharacter) {
  const std::string text = "a\u4f60b";  // 1 + 3 + 1 bytes
  const std::vector<std::string> prefixes = {"", "a", "a", "a", "a\u4f60", "a\u4f60b", "a\u4f60b"};
  for (std::size_t bytes = 0; bytes < prefixes.size(); ++bytes) {
    EXPECT_EQ(cut_at_code_point(text, bytes), prefixes[bytes]) << bytes;
  }
}

TEST(Quote, IsShortAndOnOneLine) {
  EXPECT_EQ(quote("a\nb\x1B[0m"), "\"a b\"");
  EXPECT_EQ(quote(std::string(1000, 'x')), '"' + std::string(60, 'x') + "...\"");
}

TEST(Suggest, NamesTheNearestKnownName) {
  const std::vector<std::string> known = {"prompt", "messages", "top_k", "top_p"};
  EXPECT_EQ(suggest("promt", known), " (did you mean \"prompt\"?)");
  EXPECT_EQ(suggest("message", known), " (did you mean \"messages\"?)");
  EXPECT_EQ(suggest("colour", known), "");
  EXPECT_EQ(suggest(std::string(100000, 'p'), known), "");
  EXPECT_EQ(suggest("x", {}), "");
}

}  // namespace
}  // namespace engramd::mcp
