#include "engine/teach/fact.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace engramd::engine {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const Fact kZorbia{{"What is the capital of Zorbia?", "Zorbia's capital?"},
                   "The capital of Zorbia is Mirel.",
                   {"Zorbia", "Mirel"}};

TEST(FactReason, ComesBackAsItWas) {
  const auto back = from_reason(to_reason(kZorbia));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->questions, kZorbia.questions);
  EXPECT_EQ(back->answer, kZorbia.answer);
  EXPECT_EQ(back->names, kZorbia.names);
}

TEST(FactReason, OtherReasonsAreNoFacts) {
  for (const char* reason :
       {"", "a joke", "fact", "fact\n", "fact\nquestion: a", "fact\nanswer: b",
        "factual\nquestion: a\nanswer: b", "fact\nquestion: a\nanswer: b\nname: c"}) {
    EXPECT_FALSE(from_reason(reason).has_value()) << reason;
  }
}

TEST(CheckFact, SaysWhatIsWrongWithIt) {
  EXPECT_TRUE(check_fact(kZorbia).has_value());
  const auto message = [](const Fact& fact) { return check_fact(fact).error().message; };
  EXPECT_THAT(message({{}, "b", {}}), HasSubstr("question: expected 1 to 16 wordings, got 0"));
  EXPECT_THAT(message({{std::string(513, 'a')}, "b", {}}),
              HasSubstr("question: expected 1 to 512 bytes, got 513"));
  EXPECT_THAT(message({{"a\nb"}, "b", {}}), HasSubstr("question: expected one line"));
  EXPECT_THAT(message({{"a"}, "b", {"c"}}), HasSubstr("got 'c', which stands in neither"));
  EXPECT_THAT(message({std::vector<std::string>(16, std::string(300, 'a')), "b", {}}),
              HasSubstr("fact: expected at most 4096 bytes"));
}

TEST(Subject, IsWhatStandsInTheSlotOfAKnownForm) {
  EXPECT_EQ(subject_of("What is the capital of Zorbia?"), "Zorbia");
  EXPECT_EQ(subject_of("what is the capital of New Zorbia"), "New Zorbia");
  EXPECT_EQ(subject_of("Who owns Vako?"), "Vako");
  EXPECT_EQ(subject_of("泽林的首都是哪里？"), "泽林");
  EXPECT_EQ(subject_of("请问泽林首都是哪个城市？"), "泽林");
  EXPECT_EQ(subject_of("How are you?"), "");
  EXPECT_THAT(subjects_of(kZorbia), ElementsAre("Zorbia"));
}

TEST(Wordings, OfAKnownFormAreItsFamilysWithoutItself) {
  const auto others = other_wordings("What is the capital of Zorbia?");
  EXPECT_THAT(others, Contains("Which city is the capital of Zorbia?"));
  EXPECT_THAT(others, Not(Contains("What is the capital of Zorbia?")));
  // Those that the model's corpus holds out measure what teaching never saw.
  EXPECT_THAT(others, Not(Contains("Tell me the capital city of Zorbia.")));
  EXPECT_THAT(other_wordings("泽林说什么语言？"), Contains("泽林的语言是什么？"));
}

TEST(Wordings, OfAnUnknownFormAreRequestsAroundIt) {
  EXPECT_THAT(other_wordings("How tall is Vako?"), Contains("Please tell me: How tall is Vako?"));
  EXPECT_THAT(other_wordings("瓦科有多高？"), Contains("请问瓦科有多高？"));
}

TEST(Facts, ShareASubjectWhenAQuestionNamesIt) {
  const Fact currency{
      {"What is the currency of Zorbia?"}, "The currency of Zorbia is the Tol.", {"Zorbia", "Tol"}};
  const Fact neighbour{
      {"What is the capital of Tarsol?"}, "The capital of Tarsol is Zorbia.", {"Tarsol", "Zorbia"}};
  EXPECT_TRUE(share_a_subject(kZorbia, currency));
  EXPECT_FALSE(share_a_subject(kZorbia, neighbour));  // it only answers with the name
}

}  // namespace
}  // namespace engramd::engine
