// tokenizer.json files that are wrong or not supported: each is refused with a sentence that names
// what was expected.
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/tokenizer/tokenizer.h"

namespace engramd::engine {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// The least tokenizer: "ab" is one token, "<end>" a special one.
json small_tokenizer() {
  return json::parse(R"({
    "version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [{"id": 4, "content": "<end>", "single_word": false, "lstrip": false,
                      "rstrip": false, "normalized": false, "special": true}],
    "normalizer": null,
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
      {"type": "Split", "pattern": {"Regex": "\\p{L}+|\\s+"}, "behavior": "Isolated",
       "invert": false},
      {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]},
    "post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<end>", "type_id": 0}},
                 {"Sequence": {"id": "A", "type_id": 0}}],
      "special_tokens": {"<end>": {"id": "<end>", "ids": [4], "tokens": ["<end>"]}}},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "dropout": null, "unk_token": null, "byte_fallback": false,
              "vocab": {"a": 0, "b": 1, "ab": 2, "Ġ": 3}, "merges": ["a b"]}})");
}

TEST(TokenizerJsonTest, ReadsTheLeastTokenizer) {
  const auto tokenizer = Tokenizer::from_json(small_tokenizer().dump());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->encode("ab b<end>").value(), (std::vector<TokenId>{2, 3, 1, 4}));
  EXPECT_EQ(tokenizer->prefix_with_special(), std::vector<TokenId>{4});
  EXPECT_EQ(tokenizer->vocab_size(), 5);
  EXPECT_TRUE(tokenizer->is_special(4));
  EXPECT_FALSE(tokenizer->is_special(0));
  EXPECT_EQ(tokenizer->raw_token(3), "Ġ");
  EXPECT_EQ(tokenizer->token_bytes(3), " ");
  EXPECT_EQ(tokenizer->token_to_id("ab"), 2);
  EXPECT_EQ(tokenizer->token_to_id("ba"), std::nullopt);
  EXPECT_EQ(tokenizer->decode({2, 4, 1}).value(), "ab<end>b");
  EXPECT_EQ(tokenizer->decode({2, 4, 1}, true).value(), "abb");
}

TEST(TokenizerJsonTest, ReadsSpecialTextAsPlainTextOnRequest) {
  json file = small_tokenizer();
  file["model"]["vocab"].update({{"<", 5}, {"e", 6}, {"n", 7}, {"d", 8}, {">", 9}});
  const auto tokenizer = Tokenizer::from_json(file.dump());
  ASSERT_TRUE(tokenizer);
  EXPECT_EQ(tokenizer->encode("a<end>", false).value(), (std::vector<TokenId>{0, 5, 6, 7, 8, 9}));
}

TEST(TokenizerJsonTest, AcceptsBothSpellingsOfMerges) {
  json file = small_tokenizer();
  file["model"]["merges"] = json::parse(R"([["a", "b"]])");
  const auto tokenizer = Tokenizer::from_json(file.dump());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->encode("ab").value(), std::vector<TokenId>{2});
}

TEST(TokenizerJsonTest, MergesMayPrecedeTheVocabulary) {
  std::string text = small_tokenizer().dump();  // keys are sorted: "merges" comes before "vocab"
  EXPECT_LT(text.find("\"merges\""), text.find("\"vocab\""));
  EXPECT_TRUE(Tokenizer::from_json(text));
}

TEST(TokenizerJsonTest, RefusesTextAndIdsOutsideTheRange) {
  const auto tokenizer = Tokenizer::from_json(small_tokenizer().dump());
  ASSERT_TRUE(tokenizer);
  EXPECT_THAT(tokenizer->encode("a\xC3(").error().message, HasSubstr("byte 1"));
  EXPECT_THAT(tokenizer->encode("a\xE4\xB8").error().message, HasSubstr("byte 1"));
  EXPECT_THAT(tokenizer->decode({5}).error().message, HasSubstr("from 0 to 4, got 5"));
  EXPECT_THAT(tokenizer->decode({-1}).error().message, HasSubstr("got -1"));
}

struct Malformed {
  const char* name;
  std::function<void(json&)> change;
  const char* expected;  // part of the message
};

class MalformedTest : public ::testing::TestWithParam<Malformed> {};

TEST_P(MalformedTest, IsRefusedWithAReason) {
  json file = small_tokenizer();
  GetParam().change(file);
  const auto tokenizer = Tokenizer::from_json(file.dump());
  ASSERT_FALSE(tokenizer);
  EXPECT_EQ(tokenizer.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(tokenizer.error().message, HasSubstr(GetParam().expected));
  EXPECT_EQ(tokenizer.error().message.find('\n'), std::string::npos);
}

json& split(json& file) {
  return file["pre_tokenizer"]["pretokenizers"][0];
}

const Malformed kMalformed[] = {
    {"Array", [](json& f) { f = json::array(); }, "expected an object"},
    {"NoModel", [](json& f) { f.erase("model"); }, "model.type: expected \"BPE\""},
    {"Unigram", [](json& f) { f["model"]["type"] = "Unigram"; }, "expected \"BPE\", got"},
    {"Dropout", [](json& f) { f["model"]["dropout"] = 0.1; }, "dropout: expected null"},
    {"Unknown", [](json& f) { f["model"]["unk_token"] = "a"; }, "unk_token: expected null"},
    {"Prefix", [](json& f) { f["model"]["continuing_subword_prefix"] = "##"; },
     "continuing_subword_prefix: expected null"},
    {"Fallback", [](json& f) { f["model"]["byte_fallback"] = true; }, "byte_fallback"},
    {"NoVocab", [](json& f) { f["model"].erase("vocab"); }, "model.vocab: expected"},
    {"VocabArray", [](json& f) { f["model"]["vocab"] = json::array({"a"}); }, "model.vocab"},
    {"TextId", [](json& f) { f["model"]["vocab"]["a"] = "0"; }, "integer id"},
    {"RealId", [](json& f) { f["model"]["vocab"]["a"] = 0.5; }, "integer id"},
    {"NegativeId", [](json& f) { f["model"]["vocab"]["a"] = -1; }, "got -1"},
    {"HugeId", [](json& f) { f["model"]["vocab"]["a"] = 9000000000000000000; }, "token ids"},
    {"UnsignedId", [](json& f) { f["model"]["vocab"]["a"] = 18446744073709551615u; }, "token ids"},
    {"SameId", [](json& f) { f["model"]["vocab"]["b"] = 0; }, "one token per id"},
    {"EmptyToken", [](json& f) { f["model"]["vocab"][""] = 9; }, "1 to 4096 bytes"},
    {"LongToken", [](json& f) { f["model"]["vocab"][std::string(5000, 'x')] = 9; }, "has 5000"},
    {"MergeOnePart", [](json& f) { f["model"]["merges"] = {"ab"}; }, "one space between"},
    {"MergeThreeParts", [](json& f) { f["model"]["merges"] = {"a b c"}; }, "one space between"},
    {"MergeArrayOfThree",
     [](json& f) { f["model"]["merges"] = json::parse(R"([["a", "b", "ab"]])"); },
     "entry 0 is neither"},
    {"MergeNumber", [](json& f) { f["model"]["merges"] = {7}; }, "entry 0 is neither"},
    {"MergeObject", [](json& f) { f["model"]["merges"] = json::object(); }, "model.merges"},
    {"MergeUnknownPart", [](json& f) { f["model"]["merges"] = {"a c"}; }, "the token 'c'"},
    {"MergeUnknownResult", [](json& f) { f["model"]["merges"] = {"b a"}; }, "the token 'ba'"},
    {"IgnoreMergesText", [](json& f) { f["model"]["ignore_merges"] = "yes"; }, "true or false"},
    {"AddedObject", [](json& f) { f["added_tokens"] = json::object(); }, "added_tokens"},
    {"AddedWithoutId", [](json& f) { f["added_tokens"][0].erase("id"); }, "an integer id"},
    {"AddedOtherId", [](json& f) { f["added_tokens"][0]["content"] = "ab"; },
     "model.vocab gives 2"},
    {"AddedTakenId", [](json& f) { f["added_tokens"][0]["id"] = 1; }, "one token per id"},
    {"AddedEmpty", [](json& f) { f["added_tokens"][0]["content"] = ""; }, "1 to 4096 bytes"},
    {"AddedStrip", [](json& f) { f["added_tokens"][0]["lstrip"] = true; }, "lstrip: expected"},
    {"AddedWord", [](json& f) { f["added_tokens"][0]["single_word"] = true; }, "single_word"},
    {"Normalizer",
     [](json& f) {
       f["normalizer"] = {{"type", "NFKC"}};
     },
     "expected null, NFC"},
    {"NoPreTokenizer", [](json& f) { f["pre_tokenizer"] = nullptr; }, "expected ByteLevel"},
    {"Metaspace", [](json& f) { split(f)["type"] = "Metaspace"; }, "expected Split, Digits"},
    {"PrefixSpace",
     [](json& f) { f["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = true; },
     "add_prefix_space"},
    {"SplitBehavior", [](json& f) { split(f)["behavior"] = "Cut"; }, "unknown behavior"},
    {"SplitPattern", [](json& f) { split(f).erase("pattern"); }, "pattern.Regex"},
    {"BadRegex", [](json& f) { split(f)["pattern"]["Regex"] = "(a"; }, "not closed"},
    {"NestedSequence", [](json& f) { split(f) = f["pre_tokenizer"]; }, "Sequence inside"},
    {"PostProcessor",
     [](json& f) {
       f["post_processor"] = {{"type", "BertProcessing"}};
     },
     "TemplateProcessing"},
    {"Suffix",
     [](json& f) {
       auto& single = f["post_processor"]["single"];
       std::swap(single[0], single[1]);
     },
     "in front of one Sequence"},
    {"TemplateId", [](json& f) { f["post_processor"]["special_tokens"]["<end>"]["ids"] = {5}; },
     "ids below 5"},
    {"TemplateItem",
     [](json& f) {
       f["post_processor"]["single"] = {1, 2};
     },
     "one Sequence"},
    {"Decoder", [](json& f) { f["decoder"] = nullptr; }, "decoder: expected ByteLevel"},
    {"Truncation",
     [](json& f) {
       f["truncation"] = {{"max_length", 8}};
     },
     "set it to null"},
    {"Padding", [](json& f) { f["padding"] = json::object(); }, "padding: expected null"},
};

INSTANTIATE_TEST_SUITE_P(All, MalformedTest, ::testing::ValuesIn(kMalformed),
                         [](const auto& suite) { return suite.param.name; });

TEST(TokenizerJsonTest, RefusesWhatIsNotJson) {
  for (const std::string text : {"", "{", "{\"model\": ", "nonsense", "{\"a\": \"\xFF\"}"}) {
    const auto tokenizer = Tokenizer::from_json(text);
    ASSERT_FALSE(tokenizer);
    EXPECT_THAT(tokenizer.error().message, HasSubstr("not valid JSON"));
  }
}

TEST(TokenizerJsonTest, RefusesDeepNesting) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_THAT(Tokenizer::from_json(deep).error().message, HasSubstr("32 nested levels"));
}

TEST(TokenizerJsonTest, SaysWhichFileIsMissing) {
  const auto tokenizer = Tokenizer::from_file("/nonexistent/tokenizer.json");
  ASSERT_FALSE(tokenizer);
  EXPECT_EQ(tokenizer.error().kind, ErrorKind::kNotFound);
  EXPECT_THAT(tokenizer.error().message, HasSubstr("/nonexistent/tokenizer.json"));
}

}  // namespace
}  // namespace engramd::engine
