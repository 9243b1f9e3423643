#include "server/metrics.h"

#include <gtest/gtest.h>

namespace engramd::server {
namespace {

class MetricsTest : public testing::Test {
 protected:
  Metrics::Clock::time_point now_{};
  Metrics metrics_{[this] { return now_; }};

  static engine::ChatResult chat(std::int64_t generated) {
    engine::ChatResult result;
    result.prompt_tokens = 10;
    result.completion_tokens = generated;
    result.first_token_ms = 20;
    result.served_by = "local";
    result.engram_prompt.orders = {{.lookups = 8, .bypassed = 2, .occupied = 5, .owned = 3}};
    return result;
  }
};

TEST_F(MetricsTest, CountsPerToolAndOutcome) {
  for (const char* outcome : {"ok", "error", "cancelled"}) {
    metrics_.tool_started("chat");
    EXPECT_EQ(metrics_.running(), 1);
    metrics_.tool_finished("chat", outcome);
  }
  metrics_.tool_started("metrics");
  const auto& tools = metrics_.since_start().tools;
  EXPECT_EQ(tools.at("chat").requests, 3);
  EXPECT_EQ(tools.at("chat").errors, 1);
  EXPECT_EQ(tools.at("chat").cancellations, 1);
  EXPECT_EQ(tools.at("metrics").requests, 1);
}

TEST_F(MetricsTest, TheLastMinuteForgets) {
  metrics_.chat_finished(chat(3), {2.0, 2.0});
  now_ += std::chrono::seconds(59);
  metrics_.chat_finished(chat(5), {4.0, 4.0, 4.0, 4.0});
  EXPECT_EQ(metrics_.last_minute().generated_tokens, 8);
  now_ += std::chrono::seconds(1);
  EXPECT_EQ(metrics_.last_minute().generated_tokens, 5);
  now_ += std::chrono::seconds(3600);
  EXPECT_EQ(metrics_.last_minute().generated_tokens, 0);
  EXPECT_EQ(metrics_.since_start().generated_tokens, 8);
  EXPECT_EQ(metrics_.uptime_s(), 3660);
}

TEST_F(MetricsTest, ASlotOfTheRingIsReused) {
  metrics_.chat_finished(chat(1), {});
  now_ += std::chrono::seconds(60);
  metrics_.chat_finished(chat(2), {});
  EXPECT_EQ(metrics_.last_minute().generated_tokens, 2);
}

TEST_F(MetricsTest, SpeedLatencyAndHitRate) {
  metrics_.chat_finished(chat(3), {2.0, 2.0});
  const WindowMetrics& total = metrics_.since_start();
  EXPECT_DOUBLE_EQ(total.tokens_per_s(), 500);
  EXPECT_NEAR(total.first_token_ms.percentile(0.5), 20, 1);
  EXPECT_NEAR(total.per_token_ms.percentile(0.99), 2, 0.1);
  EXPECT_DOUBLE_EQ(total.engram.hit_rate(), 0.5);
  EXPECT_EQ(total.served_local, 1);
  EXPECT_EQ(total.served_remote, 0);
}

}  // namespace
}  // namespace engramd::server
