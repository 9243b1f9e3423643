#include "server/upstream/failure.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace engramd::server {
namespace {

using ::testing::HasSubstr;

UpstreamFailure failed(int status, const std::string& body,
                       const std::string& content_type = "application/json") {
  UpstreamAnswerHead head;
  head.status = status;
  head.content_type = content_type;
  return failure_of(head, body);
}

TEST(UpstreamFailure, StatusDecidesWhatMayBeAskedAgain) {
  for (const int status : {408, 409, 425, 429, 500, 503, 529}) {
    EXPECT_EQ(failed(status, "{}").which, FailureClass::kRefused) << status;
  }
  for (const int status : {502, 504, 520, 524}) {
    EXPECT_EQ(failed(status, "{}").which, FailureClass::kAmbiguous) << status;
  }
  for (const int status : {301, 307, 400, 401, 402, 403, 404, 405, 413, 415, 422}) {
    EXPECT_EQ(failed(status, "{}").which, FailureClass::kFinal) << status;
  }
}

TEST(UpstreamFailure, QuotaAndUnknownModelsAreFinalWhateverTheStatus) {
  for (const UpstreamFailure& failure :
       {failed(429, R"({"error":{"code":"insufficient_quota","message":"x"}})"),
        failed(429, R"({"error":{"message":"You exceeded your current quota"}})"),
        failed(402, R"({"error":{"message":"Insufficient Balance"}})"),
        failed(503, R"({"error":{"code":"model_not_found","message":"x"}})"),
        failed(503, R"({"error":{"message":"No available channel for model x"}})"),
        failed(503, "{\"error\":{\"message\":\"\u65e0\u53ef\u7528\u6e20\u9053\"}}"),
        failed(404, R"({"error":{"message":"The model `x` does not exist"}})")}) {
    EXPECT_EQ(failure.which, FailureClass::kFinal) << failure.message;
  }
  EXPECT_FALSE(
      failed(503, R"({"error":{"code":"model_not_found","message":"x"}})").counts_for_breaker);
  EXPECT_TRUE(failed(503, "{}").counts_for_breaker);
}

TEST(UpstreamFailure, EveryShapeOfAnErrorIsRead) {
  for (const char* body :
       {R"({"error":{"message":"too hot","type":"t"}})", R"({"error":"too hot"})",
        R"({"detail":"too hot"})", R"({"detail":[{"msg":"too hot"}]})",
        R"({"code":20012,"message":"too hot"})", R"({"object":"error","message":"too hot"})",
        R"({"type":"error","error":{"type":"t","message":"too hot"}})"}) {
    EXPECT_THAT(failed(400, body).message, HasSubstr("too hot")) << body;
  }
}

TEST(UpstreamFailure, AWebPageIsNotAMissingModel) {
  const UpstreamFailure page = failed(404, "<!doctype html><p>model not found", "text/html");
  EXPECT_TRUE(page.path_may_be_wrong);
  EXPECT_THAT(page.message, HasSubstr("a web page came instead of JSON"));
  EXPECT_FALSE(failed(404, R"({"error":{"code":"model_not_found"}})").path_may_be_wrong);
}

TEST(UpstreamFailure, WaitsAsAskedButNotForLong) {
  UpstreamAnswerHead head;
  head.status = 429;
  const auto asked = [&](const char* seconds) {
    head.retry_after = seconds;
    return failure_of(head, "{}");
  };
  EXPECT_EQ(asked("20").retry_after_ms, 20000);
  EXPECT_EQ(asked("20").which, FailureClass::kRefused);
  EXPECT_EQ(asked("0").retry_after_ms, 0);
  EXPECT_EQ(asked("61").which, FailureClass::kFinal);
  for (const char* nonsense : {"-10", "inf", "nan", "", "soon", "Wed, 21 Oct 2026 07:28:00 GMT"}) {
    EXPECT_EQ(asked(nonsense).retry_after_ms, std::nullopt) << nonsense;
  }
  head.retry_after_ms = "1500";
  EXPECT_EQ(asked("20").retry_after_ms, 1500);
  head.should_retry = "false";
  EXPECT_EQ(asked("20").which, FailureClass::kFinal);
}

TEST(UpstreamFailure, MessagesAreOneShortLine) {
  const auto failure =
      failed(400, "{\"error\":\"a\\nb\\u001b[31m" + std::string(1000, 'x') + "\"}");
  EXPECT_EQ(failure.message.find_first_of("\n\x1b"), std::string::npos);
  EXPECT_LT(failure.message.size(), 400U);
}

TEST(UpstreamFailure, SecretsAreTakenOutAlsoInPart) {
  const auto hidden = [](std::string text) {
    hide_secret(text, "sk-0123456789abcdef");
    return text;
  };
  EXPECT_EQ(hidden("bad key sk-0123456789abcdef."), "bad key [hidden].");
  EXPECT_EQ(hidden("bad key sk-0123456***, sk-0123456789abcdef"), "bad key [hidden]***, [hidden]");
  EXPECT_EQ(hidden("sk-012"), "sk-012");
  std::string text = "abc";
  hide_secret(text, "");
  EXPECT_EQ(text, "abc");
  hide_secret(text, "b");
  EXPECT_EQ(text, "a[hidden]c");
}

TEST(UpstreamFailure, OnlyWhatMayBeAskedAgainSaysSo) {
  EXPECT_EQ(to_error(failed(503, "{}")).kind, ErrorKind::kUnavailable);
  EXPECT_EQ(to_error(failed(401, "{}")).kind, ErrorKind::kRemoteFailed);
  EXPECT_EQ(to_error(failed(502, "{}")).kind, ErrorKind::kRemoteFailed);
  EXPECT_EQ(to_error(failed(400, "{}")).kind, ErrorKind::kInvalidArgument);
}

TEST(UpstreamFailure, ReadsADateOfRetryAfter) {
  constexpr std::int64_t kNow = 1792567680;  // 2026-10-21T07:28:00Z
  const auto wait_ms = [](const std::string& text) {
    UpstreamAnswerHead head;
    head.status = 503;
    head.retry_after = text;
    return failure_of(head, "{}", kNow).retry_after_ms;
  };
  EXPECT_EQ(wait_ms("Wed, 21 Oct 2026 07:28:20 GMT"), 20000);
  EXPECT_EQ(wait_ms("Wed, 21 Oct 2026 07:27:00 GMT"), std::nullopt) << "it has passed";
  EXPECT_EQ(wait_ms("20"), 20000);
  for (const char* odd :
       {"", "-10", "inf", "nan", "soon", "Wed, 99 Oct", "Wed, 21 Oct 2026 07:28"}) {
    EXPECT_EQ(wait_ms(odd), std::nullopt) << odd;
  }
}

}  // namespace
}  // namespace engramd::server
