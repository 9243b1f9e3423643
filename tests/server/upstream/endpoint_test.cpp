#include "server/upstream/endpoint.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace engramd::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> urls_of(const std::string& base_url) {
  const auto endpoints = parse_base_url(base_url);
  if (endpoints.has_error()) return {endpoints.error().message};
  std::vector<std::string> urls;
  for (const Endpoint& each : *endpoints) {
    urls.push_back((each.tls ? "https://" : "http://") + each.authority() +
                   each.target("/chat/completions"));
  }
  return urls;
}

TEST(BaseUrl, LeadsToOneAddressInEverySpelling) {
  const std::string address = "https://api.example.org/v1/chat/completions";
  for (const char* base_url :
       {"https://api.example.org/v1", "https://api.example.org/v1/",
        " https://api.example.org/v1\n", "https://api.example.org/v1//",
        "HTTPS://API.example.org:443/v1", "https://api.example.org/v1/chat/completions",
        "https://api.example.org/v1#models", "https://api.example.org/v1/chat/completions/"}) {
    EXPECT_THAT(urls_of(base_url), ElementsAre(address)) << base_url;
  }
}

TEST(BaseUrl, WithoutAVersionIsLookedForBelowItFirst) {
  EXPECT_THAT(urls_of("https://taotoken.net/api"),
              ElementsAre("https://taotoken.net/api/v1/chat/completions",
                          "https://taotoken.net/api/chat/completions"));
  EXPECT_THAT(urls_of("http://127.0.0.1:3647"),
              ElementsAre("http://127.0.0.1:3647/v1/chat/completions",
                          "http://127.0.0.1:3647/chat/completions"));
}

TEST(BaseUrl, KeepsVersionsQueriesPortsAndBrackets) {
  EXPECT_THAT(urls_of("https://example.org/v1beta/openai"),
              ElementsAre("https://example.org/v1beta/openai/chat/completions"));
  EXPECT_THAT(urls_of("https://example.org/v4?api-version=2"),
              ElementsAre("https://example.org/v4/chat/completions?api-version=2"));
  EXPECT_THAT(urls_of("http://[::1]:8080/v1"),
              ElementsAre("http://[::1]:8080/v1/chat/completions"));
}

TEST(BaseUrl, RefusesWhatIsNoAddress) {
  for (const char* base_url :
       {"", "example.org/v1", "http", "https:", "HTTPS:/", "ftp://example.org", "https://",
        "https:///v1", "https://example.org:/v1", "https://[]/v1", "https://example.org:0/v1",
        "https://example.org:http/v1", "https://user:secret@example.org/v1", "https://exa mple.org",
        "https://[::1/v1", "https://example.org/\r\nX: y"}) {
    const auto endpoints = parse_base_url(base_url);
    ASSERT_TRUE(endpoints.has_error()) << base_url;
    EXPECT_THAT(endpoints.error().message, Not(HasSubstr("secret")));
  }
}

TEST(ApiKey, IsFreedOfWhatCopyingAdds) {
  for (const char* text : {"sk-1", " sk-1\r\n", "\"sk-1\"", "'sk-1'", "Bearer sk-1",
                           "\xef\xbb\xbf"
                           "sk-1",
                           "\"Bearer sk-1 \""}) {
    const auto key = clean_api_key(text);
    ASSERT_TRUE(key.has_value()) << text;
    EXPECT_EQ(*key, "sk-1") << text;
  }
  EXPECT_EQ(*clean_api_key(" \n"), "");
}

TEST(ApiKey, IsRefusedWithoutBeingShown) {
  for (const char* text : {"sk-1\nX: y", "sk 1", "sk-\xc3\xa4", "sk-\x7f"}) {
    const auto key = clean_api_key(text);
    ASSERT_TRUE(key.has_error()) << text;
    EXPECT_THAT(key.error().message, Not(HasSubstr("sk")));
  }
}

}  // namespace
}  // namespace engramd::server
