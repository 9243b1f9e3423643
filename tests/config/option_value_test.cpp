#include "config/option_value.h"

#include <gtest/gtest.h>

#include "config/option_table.h"

namespace engramd::config {
namespace {

std::string refusal(const char* key, const char* text) {
  const Result<Value> value = parse_text(*find_option(key), text);
  return value ? "accepted " + to_toml(*value) : value.error().message;
}

TEST(OptionValue, MessagesSayWhatWasExpectedAndGot) {
  EXPECT_EQ(refusal("inference.max_batch_size", "0"), "expected an integer from 1 to 1024, got 0");
  EXPECT_EQ(refusal("inference.max_batch_size", "8x"),
            "expected an integer from 1 to 1024, got \"8x\"");
  EXPECT_EQ(refusal("sampling.temperature", "nan"), "expected a number from 0 to 2, got nan");
  EXPECT_EQ(refusal("engram.enable", "maybe"), "expected true or false, got \"maybe\"");
  EXPECT_EQ(refusal("model.dtype", "int4"), "expected one of float32, bfloat16, got \"int4\"");
  EXPECT_EQ(refusal("model.device", "gpu"), "expected auto, cpu or cuda:N, got \"gpu\"");
  EXPECT_EQ(refusal("model.device", "cuda:"), "expected auto, cpu or cuda:N, got \"cuda:\"");
}

TEST(OptionValue, TextsThatMayBeSecretsAreNotRepeated) {
  const std::string key = refusal("api.api_key_env", "sk-very-secret");
  EXPECT_EQ(key,
            "expected the name of an environment variable (never the key itself), got a text of 14 "
            "bytes");
  const std::string url = refusal("api.base_url", "https://user:secret@host/v1");
  EXPECT_EQ(url.find("secret"), std::string::npos) << url;
}

TEST(OptionValue, AddressesNeedASchemeAndAHost) {
  for (const char* good : {"http://h", "https://taotoken.net/api", "https://h:8443/v1?a=b@c", ""}) {
    EXPECT_TRUE(parse_text(*find_option("api.base_url"), good).has_value()) << good;
  }
  for (const char* bad : {"taotoken.net", "ftp://h", "http://", "https://a b", "https:///v1"}) {
    EXPECT_FALSE(parse_text(*find_option("api.base_url"), bad).has_value()) << bad;
  }
}

TEST(OptionValue, ListsAndBooleansHaveSeveralSpellings) {
  const OptionRow& orders = *find_option("engram.ngram_orders");
  const Value expected = std::vector<std::int64_t>{2, 3, 4};
  for (const char* text : {"2,3,4", "[2, 3, 4]", " 2 , 3,4"}) {
    const Result<Value> value = parse_text(orders, text);
    ASSERT_TRUE(value.has_value()) << text;
    EXPECT_EQ(*value, expected);
  }
  EXPECT_FALSE(parse_text(orders, "2,,3").has_value());
  EXPECT_FALSE(parse_text(orders, "[2").has_value());
  for (const char* word : {"true", "on", "yes", "1"}) EXPECT_EQ(parse_bool_word(word), true);
  for (const char* word : {"false", "off", "no", "0"}) EXPECT_EQ(parse_bool_word(word), false);
  EXPECT_EQ(parse_bool_word("TRUE"), std::nullopt);
}

TEST(OptionValue, HostsAndOriginsAreListsOfTexts) {
  const OptionRow& hosts = *find_option("server.allowed_hosts");
  const Value expected = std::vector<std::string>{"a.example", "[::1]:80", "10.0.0.1:8080"};
  EXPECT_EQ(*parse_text(hosts, "a.example, [::1]:80,10.0.0.1:8080"), expected);
  EXPECT_EQ(*convert(hosts, {std::vector<std::int64_t>{}, {}}), Value(std::vector<std::string>{}));
  EXPECT_EQ(to_text(expected), "a.example,[::1]:80,10.0.0.1:8080");
  EXPECT_EQ(to_toml(expected), R"(["a.example", "[::1]:80", "10.0.0.1:8080"])");
  for (const char* bad : {"http://a", "a/b", "a b", "[::1", "a:b", "a:123456", ":80", "a,,b"}) {
    EXPECT_FALSE(parse_text(hosts, bad).has_value()) << bad;
  }
  const OptionRow& origins = *find_option("server.allowed_origins");
  for (const char* good : {"https://a.example", "vscode-webview://x", "http://[::1]:80", ""}) {
    EXPECT_TRUE(parse_text(origins, good).has_value()) << good;
  }
  for (const char* bad : {"*", "null", "a.example", "https://a.example/", "://a", "https://"}) {
    EXPECT_FALSE(parse_text(origins, bad).has_value()) << bad;
  }
}

TEST(OptionValue, IntegersServeAsNumbersButNotTheOtherWayRound) {
  EXPECT_EQ(*convert(*find_option("sampling.temperature"), {std::int64_t{1}, {}}), Value(1.0));
  EXPECT_FALSE(convert(*find_option("moe.top_k"), {6.0, {}}).has_value());
}

TEST(OptionValue, TomlSpellingKeepsTypeAndEscapes) {
  EXPECT_EQ(to_toml(48.0), "48.0");
  EXPECT_EQ(to_toml(6e20), "6e+20");
  EXPECT_EQ(to_toml(std::string("a\"b\\c\x01")), R"("a\"b\\c\u0001")");
  EXPECT_EQ(to_toml(std::vector<double>{0.75, 0.8}), "[0.75, 0.8]");
}

}  // namespace
}  // namespace engramd::config
