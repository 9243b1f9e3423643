#include "engine/tokenizer/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/tokenizer/code_point_set.h"
#include "engine/tokenizer/pre_tokenizer.h"
#include "engine/tokenizer/utf8.h"
#include "tests/engine/tokenizer/fixtures.h"

namespace engramd::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> matches(std::string_view pattern, const std::string& text) {
  const auto regex = Regex::compile(pattern);
  EXPECT_TRUE(regex) << regex.error().message;
  Regex::Scratch scratch;
  std::vector<Span> spans;
  EXPECT_TRUE(regex->find_all(text, 0, scratch, spans));
  std::vector<std::string> found;
  for (const Span span : spans) found.push_back(text.substr(span.begin, span.end - span.begin));
  return found;
}

TEST(RegexTest, MatchesStructure) {
  EXPECT_THAT(matches("a|bc+", "abccxbc"), ElementsAre("a", "bcc", "bc"));
  EXPECT_THAT(matches("\\p{N}{1,3}", "12345 6"), ElementsAre("123", "45", "6"));
  EXPECT_THAT(matches("\\p{N}{2}", "12345"), ElementsAre("12", "34"));
  EXPECT_THAT(matches("\\s+(?!\\S)|\\s+", "a   b "), ElementsAre("  ", " ", " "));
  EXPECT_THAT(matches("(?<=a)b", "abb"), ElementsAre("b"));
  EXPECT_THAT(matches("(?<!a)b", "abb"), ElementsAre("b"));
  EXPECT_THAT(matches("a+?", "aa"), ElementsAre("a", "a"));
  EXPECT_THAT(matches("(?>a+)b|a", "aab"), ElementsAre("aab"));
  EXPECT_THAT(matches("x", "aab"), ElementsAre());
}

TEST(RegexTest, MatchesClassesByCodePoint) {
  EXPECT_THAT(matches("[^a-c\\r\\n]+", "ad你b🙂\n"), ElementsAre("d你", "🙂"));
  EXPECT_THAT(matches("[一-龥]+", "a中文b"), ElementsAre("中文"));
  EXPECT_THAT(matches("[\\-\\]\\\\x-]+", "a-]\\xb"), ElementsAre("-]\\x"));
  EXPECT_THAT(matches(".", "a\n🙂"), ElementsAre("a", "🙂"));
  EXPECT_THAT(matches("\\x41|\\x{1F642}", "A🙂B"), ElementsAre("A", "🙂"));
  EXPECT_THAT(matches("\\P{L}+", "a1 b"), ElementsAre("1 "));
  // Letters of Unicode 15 and 16, which Debian's PCRE2 does not know.
  EXPECT_THAT(matches("\\p{L}+", "1\U00031350\uA7CB2"), ElementsAre("\U00031350\uA7CB"));
}

TEST(RegexTest, FoldsCaseByUnicode) {
  EXPECT_THAT(matches("(?i:'s|'ll|k)", "'S'ſ'lL\u212A'x"),
              ElementsAre("'S", "'ſ", "'lL", "\u212A"));
  EXPECT_THAT(matches("(?i:a(?:b))c", "ABcABC"), ElementsAre("ABc"));
}

TEST(RegexTest, AgreesWithEveryGoldenClass) {
  const auto golden = testing::read_gzip_json("unicode_classes.json.gz").at("classes");
  std::string everything;
  for (char32_t c = 0; c <= CodePointSet::kLastCodePoint; ++c) {
    if (c < 0xD800 || c > 0xDFFF) append_utf8(everything, c);
  }
  for (const char* name : {"\\s", "\\p{L}", "\\p{Lu}", "\\p{Ll}", "\\p{Lt}", "\\p{Lm}", "\\p{Lo}",
                           "\\p{M}", "\\p{N}", "\\p{P}", "\\p{S}"}) {
    const auto regex = Regex::compile(name);
    ASSERT_TRUE(regex);
    Regex::Scratch scratch;
    std::vector<Span> spans;
    ASSERT_TRUE(regex->find_all(everything, 0, scratch, spans));
    std::vector<CodePointSet::Range> found;
    for (const Span span : spans) {
      std::size_t position = span.begin;
      const char32_t c = next_code_point(everything, position);
      if (!found.empty() && found.back().last + 1 == c) {
        found.back().last = c;
      } else {
        found.push_back({c, c});
      }
    }
    const auto& expected = golden.at(name);
    ASSERT_EQ(found.size(), expected.size()) << name;
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].first, expected[i][0]) << name;
      EXPECT_EQ(found[i].last, expected[i][1]) << name;
    }
  }
}

TEST(RegexTest, RefusesWhatItDoesNotSupport) {
  const std::pair<const char*, const char*> cases[] = {{"", "1 to 16384 bytes"},
                                                       {"(a", "not closed"},
                                                       {"a)", "without '('"},
                                                       {"[a", "not closed"},
                                                       {"[]", "empty class"},
                                                       {"[z-a]", "range"},
                                                       {"[a[b]]", "inside a class"},
                                                       {"[a&&b]", "inside a class"},
                                                       {"^a", "anchor"},
                                                       {"a$", "anchor"},
                                                       {"\\w+", "escape \\w"},
                                                       {"\\p{Han}", "\\p{Han}"},
                                                       {"\\p{L", "class"},
                                                       {"(?i)a", "kind of group"},
                                                       {"(?<n>a)", "kind of group"},
                                                       {"a{,3}", "'{'"},
                                                       {"a{2}+", "'+'"},
                                                       {"(?i:é)", "non-ASCII"},
                                                       {"(?i:[a])", "class inside"},
                                                       {"a*", "no empty text"},
                                                       {"\\x4", "\\x"},
                                                       {"a{3,2}", "regular"},
                                                       {"\\", "backslash"},
                                                       {"a\xFF", "UTF-8"},
                                                       {"*a", "regular"}};
  for (const auto& [pattern, expected] : cases) {
    const auto regex = Regex::compile(pattern);
    ASSERT_FALSE(regex) << pattern;
    EXPECT_THAT(regex.error().message, HasSubstr(expected)) << pattern;
  }
  EXPECT_FALSE(Regex::compile(std::string(20000, 'a')));
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "(?:a";
  EXPECT_THAT(Regex::compile(deep).error().message, HasSubstr("64 groups"));
}

TEST(RegexTest, StopsCatastrophicPatterns) {
  const auto regex = Regex::compile("(?:a+)+b|(?:a|a)+c");
  ASSERT_TRUE(regex);
  Regex::Scratch scratch;
  std::vector<Span> spans;
  const auto found = regex->find_all(std::string(200, 'a'), 0, scratch, spans);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, ErrorKind::kLimitExceeded);
  EXPECT_THAT(found.error().message, HasSubstr("too costly"));
}

// Expected pieces are those of npm tokenizers 0.23.2: splitPreTokenizer('xx', behavior, invert).
TEST(PreTokenizerTest, SplitsByBehavior) {
  const std::string text = "axxbxxxxcxx";
  const auto pieces = [&](SplitBehavior behavior, bool invert) {
    const auto pre_tokenizer = PreTokenizer::create({{"xx", behavior, invert}});
    EXPECT_TRUE(pre_tokenizer);
    PreTokenizer::Scratch scratch;
    std::vector<Span> spans;
    EXPECT_TRUE(pre_tokenizer->split(text, scratch, spans));
    std::vector<std::string> found;
    for (const Span span : spans) found.push_back(text.substr(span.begin, span.end - span.begin));
    return found;
  };
  EXPECT_THAT(pieces(SplitBehavior::kIsolated, false),
              ElementsAre("a", "xx", "b", "xx", "xx", "c", "xx"));
  EXPECT_THAT(pieces(SplitBehavior::kRemoved, false), ElementsAre("a", "b", "c"));
  EXPECT_THAT(pieces(SplitBehavior::kRemoved, true), ElementsAre("xx", "xx", "xx", "xx"));
  EXPECT_THAT(pieces(SplitBehavior::kMergedWithPrevious, false),
              ElementsAre("axx", "bxx", "xx", "cxx"));
  EXPECT_THAT(pieces(SplitBehavior::kMergedWithNext, false),
              ElementsAre("a", "xxb", "xx", "xxc", "xx"));
  EXPECT_THAT(pieces(SplitBehavior::kContiguous, false),
              ElementsAre("a", "xx", "b", "xxxx", "c", "xx"));
}

}  // namespace
}  // namespace engramd::engine
