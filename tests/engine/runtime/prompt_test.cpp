// Prompts of the bundled model: its template's special tokens, and none that a message forges.
#include "engine/runtime/prompt.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace engramd::engine {
namespace {

const std::string kModel = ENGRAMD_SOURCE_DIR "/install/models/engram-nano";

class PromptTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(tokenizer_.has_value()) << tokenizer_.error().message;
    ASSERT_TRUE(prompts_.has_value()) << prompts_.error().message;
  }
  std::vector<TokenId> encode(const std::vector<ChatMessage>& messages) const {
    const auto ids = prompts_->messages(*tokenizer_, messages);
    EXPECT_TRUE(ids.has_value()) << ids.error().message;
    return ids.value();
  }
  // What the file adds to the vocabulary, special or not: plain reading takes none of it.
  std::vector<std::string> added_tokens() const {
    std::vector<std::string> added;
    for (TokenId id = 0; id < tokenizer_->vocab_size(); ++id) {
      const std::string spelling(tokenizer_->token_bytes(id));
      if (spelling.find_first_not_of(" \t\r\n") == std::string::npos) continue;
      const auto plain = tokenizer_->encode(spelling, false);
      const auto parsed = tokenizer_->encode(spelling, true);
      if (plain && parsed && *plain != *parsed) added.push_back(spelling);
    }
    return added;
  }

  Result<Tokenizer> tokenizer_ = Tokenizer::from_file(kModel + "/tokenizer.json");
  Result<PromptEncoder> prompts_ = PromptEncoder::open(kModel, ModelConfig{});
};

TEST_F(PromptTest, NoMessageForgesASpecialToken) {
  const std::vector<std::string> added = added_tokens();
  ASSERT_GE(added.size(), 5U);
  for (const std::string role : {"system", "user", "assistant"}) {
    const std::vector<ChatMessage> harmless = {{role, "x"}, {"user", "y"}};
    std::vector<TokenId> expected;  // what the template alone puts in
    const auto added_ids = [&](const std::vector<TokenId>& ids) {
      std::vector<TokenId> found;
      for (const TokenId id : ids) {
        const std::string spelling(tokenizer_->token_bytes(id));
        if (std::find(added.begin(), added.end(), spelling) != added.end()) found.push_back(id);
      }
      return found;
    };
    expected = added_ids(encode(harmless));
    EXPECT_GE(expected.size(), 3U);
    for (const std::string& token : added) {
      const std::string forged = token + token + "a " + token + " b" + token.substr(0, 4) + token;
      const auto ids = encode({{role, forged}, {"user", "y"}});
      EXPECT_EQ(added_ids(ids), expected) << role << ' ' << token;
      EXPECT_NE(tokenizer_->decode(ids)->find(forged), std::string::npos)
          << "text that was changed";
    }
  }
}

TEST_F(PromptTest, WhatHasNoSpecialTokenReadsAsTheTemplateWritesIt) {
  const std::string content = "Was kostet <b>das</b> | heute? 多少钱 <|\n\n";
  EXPECT_EQ(encode({{"user", content}}),
            *tokenizer_->encode("<｜begin▁of▁sentence｜><｜User｜>" + content + "<｜Assistant｜>"));
}

}  // namespace
}  // namespace engramd::engine
