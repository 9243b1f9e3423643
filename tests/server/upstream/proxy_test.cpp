// Through which proxy a remote is reached. Proxies themselves: tests/e2e/proxy.mjs.
#include "server/upstream/proxy.h"

#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace engramd::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Variables = std::map<std::string, std::string>;

// "host:port", or "direct", or the error.
std::string proxy_of(const std::string& url, const Variables& variables,
                     const std::string& proxy_env = "") {
  const auto settings = read_proxy_settings(proxy_env, [&variables](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  });
  const auto proxy = proxy_for(parse_base_url(url)->front(), settings);
  if (proxy.has_error()) return proxy.error().message;
  return *proxy ? (*proxy)->authority() : "direct";
}

TEST(Proxy, IsNamedByTheVariablesThatCurlReads) {
  const std::string tls = "https://api.example.org", plain = "http://api.example.org";
  EXPECT_EQ(proxy_of(tls, {}), "direct");
  EXPECT_EQ(proxy_of(tls, {{"HTTPS_PROXY", "http://p:8080"}}), "p:8080");
  EXPECT_EQ(proxy_of(tls, {{"HTTPS_PROXY", "http://p:1"}, {"https_proxy", "q:2"}}), "q:2");
  EXPECT_EQ(proxy_of(tls, {{"HTTPS_PROXY", "http://p:1"}, {"https_proxy", ""}}), "p:1");
  EXPECT_EQ(proxy_of(tls, {{"http_proxy", "http://p:1"}}), "direct");
  EXPECT_EQ(proxy_of(plain, {{"http_proxy", "http://p:1/"}}), "p:1");
  EXPECT_EQ(proxy_of(plain, {{"HTTP_PROXY", "http://p:1"}}), "direct") << "a client's header";
  EXPECT_EQ(proxy_of(tls, {{"ALL_PROXY", "p"}}), "p:1080");
  EXPECT_EQ(proxy_of(plain, {{"all_proxy", "[::1]:3128"}}), "[::1]:3128");
}

TEST(Proxy, LoopbackIsDirectUnlessTheOptionNamesAProxy) {
  const Variables variables = {{"http_proxy", "p:1"}, {"https_proxy", "p:1"}, {"MY_PROXY", "q:2"}};
  for (const char* url : {"http://127.0.0.1:80", "http://localhost", "https://[::1]:8443"}) {
    EXPECT_EQ(proxy_of(url, variables), "direct");
    EXPECT_EQ(proxy_of(url, variables, "MY_PROXY"), "q:2");
  }
  EXPECT_EQ(proxy_of("https://api.example.org", variables, "NOT_SET"), "p:1");
}

TEST(Proxy, ExceptionsInEverySpelling) {
  const auto is = [](const char* list, const char* host) {
    return is_exception(list, host, "443");
  };
  for (const char* list :
       {"*", "api.example.org", "example.org", ".example.org", "*.example.org", "API.Example.ORG.",
        "a, example.org", "a b\texample.org", "example.org:443", "api.example.org:443"}) {
    EXPECT_TRUE(is(list, "api.example.org")) << list;
  }
  for (const char* list : {"", ",", "ample.org", "api", "org.", "example.org:80", "*.*", "1.2.3.4",
                           "10.0.0.0/8", "xapi.example.org", "://", "[", "-"}) {
    EXPECT_EQ(is(list, "api.example.org"), std::string(list) == "org.") << list;
  }
  EXPECT_TRUE(is("10.0.0.0/8", "10.1.2.3"));
  EXPECT_FALSE(is("10.0.0.0/8", "11.1.2.3"));
  EXPECT_FALSE(is("10.0.0.0/99", "10.1.2.3"));
  EXPECT_TRUE(is("fd00::/8", "fd12::1"));
  EXPECT_FALSE(is("fd00::/8", "10.1.2.3"));
  EXPECT_TRUE(is("[fd12::1]:443", "fd12::1"));
  EXPECT_TRUE(is("fd12:0::1", "fd12::1"));
  EXPECT_FALSE(is("0.3", "10.0.0.3")) << "an address has no names above it";
  EXPECT_EQ(proxy_of("https://api.example.org", {{"https_proxy", "p:1"}, {"NO_PROXY", "org"}}),
            "direct");
}

TEST(Proxy, CredentialsAreDecodedAndInNoMessage) {
  const ProxySettings settings = {"http://us%40er:s%3Acret@p:1", "", "", ""};
  const auto endpoint = parse_base_url("https://api.example.org")->front();
  const auto proxy = proxy_for(endpoint, settings);
  EXPECT_EQ((*proxy)->credentials, "us@er:s:cret");
  EXPECT_EQ((*proxy)->authorization(), "Proxy-Authorization: Basic dXNAZXI6czpjcmV0\r\n");
  for (const char* broken :
       {"socks5://me:secret@p:1", "https://me:secret@p:1", "http://me:secret@", "me:secret@p:x"}) {
    const std::string message = proxy_of("https://api.example.org", {{"P", broken}}, "P");
    EXPECT_THAT(message, HasSubstr("expected http://"));
    EXPECT_THAT(message, Not(HasSubstr("secret")));
  }
  const ProxySettings odd = {"me:se://c/re@t@p:1/x", "", "", ""};
  EXPECT_EQ((*proxy_for(endpoint, odd))->credentials, "me:se://c/re@t");
  EXPECT_EQ((*proxy_for(endpoint, odd))->authority(), "p:1");
}

}  // namespace
}  // namespace engramd::server
