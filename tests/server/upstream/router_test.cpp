// Who is asked, in which order, and when not. The chain with real servers: tests/e2e/upstream.mjs.
#include "server/upstream/router.h"

#include <chrono>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace engramd::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const Hop kLocal = {.is_local = true};
Hop remote(const std::string& model) {
  return {.model = {model}};
}

std::vector<Hop> hops(const std::string& model, engine::Route route = engine::Route::kAuto) {
  engine::ChatRequest request;
  request.messages = {{"user", "hello"}};
  request.model = model;
  request.route = route;
  config::ApiOptions api;
  api.default_model = "big";
  api.fallback_model = "cheap";
  return plan_hops(request, "nano", api);
}

TEST(Hops, TheNamedOneIsFirstAndNobodyTwice) {
  EXPECT_THAT(hops(""), ElementsAre(kLocal, remote("big"), remote("cheap")));
  EXPECT_THAT(hops("nano"), ElementsAre(kLocal, remote("big"), remote("cheap")));
  EXPECT_THAT(hops("huge"), ElementsAre(remote("huge"), remote("cheap"), kLocal));
  EXPECT_THAT(hops("cheap"), ElementsAre(remote("cheap"), kLocal));
}

TEST(Hops, BehindARetiredNameStandsItsSuccessor) {
  EXPECT_THAT(hops("deepseek-reasoner"),
              ElementsAre(remote("deepseek-reasoner"),
                          Hop{.model = {"deepseek-flash", true}, .instead_of = "deepseek-reasoner"},
                          remote("cheap"), kLocal));
}

TEST(Hops, ARouteIsKept) {
  EXPECT_THAT(hops("", engine::Route::kLocal), ElementsAre(kLocal));
  EXPECT_THAT(hops("huge", engine::Route::kLocal), ElementsAre(kLocal));
  EXPECT_THAT(hops("", engine::Route::kRemote), ElementsAre(remote("big"), remote("cheap")));
  EXPECT_THAT(hops("huge", engine::Route::kRemote), ElementsAre(remote("huge"), remote("cheap")));
}

TEST(Hops, TextToContinueStaysHere) {
  engine::ChatRequest request;
  request.completion = "Once";
  config::ApiOptions api;
  api.default_model = "big";
  EXPECT_THAT(plan_hops(request, "nano", api), ElementsAre(kLocal));
  request.model = "huge";
  EXPECT_THAT(plan_hops(request, "nano", api), ElementsAre(kLocal));
  request.route = engine::Route::kRemote;
  EXPECT_THAT(plan_hops(request, "nano", api), IsEmpty());
}

TEST(UpstreamSettings, NoPromptLeavesWithoutAddressKeyAndConsent) {
  config::ApiOptions api;
  const auto allowed = [&api](const std::string& key) {
    const auto settings = upstream_settings(api, {key, {}});
    return settings.has_value() && settings->has_value();
  };
  EXPECT_FALSE(allowed("sk-1"));
  api.base_url = "https://api.example.org";
  EXPECT_FALSE(allowed(""));
  EXPECT_FALSE(allowed(" \n"));
  EXPECT_TRUE(allowed("sk-1"));
  api.allow_remote = config::AllowRemote::kFalse;
  EXPECT_FALSE(allowed("sk-1"));
  for (const char* stranger :
       {"http://127.0.0.1.example.org", "http://127.example.org", "http://x.localhost"}) {
    api.base_url = stranger;
    api.allow_remote = config::AllowRemote::kAuto;
    EXPECT_FALSE(allowed("")) << stranger;
  }
  api.base_url = "http://127.0.0.1:8080";
  api.allow_remote = config::AllowRemote::kAuto;
  EXPECT_TRUE(allowed(""));
}

TEST(UpstreamSettings, SaysWhatIsMissingWhereARemoteIsWanted) {
  config::ApiOptions api;
  api.allow_remote = config::AllowRemote::kTrue;
  EXPECT_THAT(upstream_settings(api, {"sk-1", {}}).error().message, HasSubstr("api.base_url"));
  api.base_url = "https://api.example.org";
  EXPECT_THAT(upstream_settings(api, {}).error().message, HasSubstr("TAOTOKEN_API_KEY"));
  const auto broken = upstream_settings(api, {"sk\x01-secret", {}});
  EXPECT_THAT(broken.error().message, HasSubstr("TAOTOKEN_API_KEY"));
  EXPECT_THAT(broken.error().message, Not(HasSubstr("secret")));
}

TEST(CircuitBreaker, OpensAfterThreeFailuresAndLetsOneProbeThrough) {
  CircuitBreaker breaker;
  CircuitBreaker::Time now{};
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(breaker.allow(now));
    breaker.failed(now, std::nullopt);
  }
  EXPECT_FALSE(breaker.allow(now));
  EXPECT_EQ(breaker.remaining(now), milliseconds(5000));
  now += seconds(5);
  EXPECT_TRUE(breaker.allow(now));
  EXPECT_FALSE(breaker.allow(now)) << "while the probe runs";
  breaker.failed(now, std::nullopt);
  EXPECT_EQ(breaker.remaining(now), milliseconds(10000)) << "twice as long";
  now += seconds(10);
  EXPECT_TRUE(breaker.allow(now));
  breaker.ended();
  EXPECT_TRUE(breaker.allow(now)) << "a cancelled probe told nothing";
  breaker.succeeded(now);
  EXPECT_TRUE(breaker.allow(now));
  EXPECT_TRUE(breaker.allow(now));
}

TEST(CircuitBreaker, WaitsAsLongAsTheServerAsksUpToFiveMinutes) {
  CircuitBreaker breaker;
  const CircuitBreaker::Time now{};
  for (int i = 0; i < 3; ++i) breaker.failed(now, seconds(60));
  EXPECT_EQ(breaker.remaining(now), seconds(60));
  for (int i = 0; i < 20; ++i) breaker.failed(now, seconds(100000));
  EXPECT_EQ(breaker.remaining(now), seconds(300));
  breaker.succeeded(now);
  EXPECT_EQ(breaker.remaining(now), milliseconds(0));
}

TEST(CircuitBreaker, OpensWhenMostOfAMinuteFailed) {
  CircuitBreaker breaker;
  CircuitBreaker::Time now{};
  const auto outcome = [&](bool failed) {
    now += seconds(1);
    failed ? breaker.failed(now, std::nullopt) : breaker.succeeded(now);
  };
  for (const bool failed : {true, true, false, true}) outcome(failed);
  EXPECT_TRUE(breaker.allow(now)) << "four are too few to tell";
  outcome(true);
  EXPECT_FALSE(breaker.allow(now));
  now += seconds(5);
  EXPECT_TRUE(breaker.allow(now));
  outcome(false);
  outcome(true);
  EXPECT_TRUE(breaker.allow(now)) << "what was before the probe counts no more";
  now += seconds(61);
  for (const bool failed : {false, true, true}) outcome(failed);
  EXPECT_TRUE(breaker.allow(now));
}

}  // namespace
}  // namespace engramd::server
