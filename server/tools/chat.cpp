#include "server/tools/chat.h"

#include <cmath>
#include <cstdio>
#include <utility>

#include "server/tools/chat_run.h"
#include "server/tools/engram_counts.h"
#include "server/tools/field.h"

namespace engramd::server {
namespace {

using mcp::json;

constexpr char kChatDescription[] =
    "Chat with the local Engram + Mixture-of-Experts language model: answer a prompt or continue a "
    "conversation. Returns the text, why it ended, token counts, timing, who served it, and the "
    "Engram hit rate (the share of looked-up N-gram rows that the table owns). Set engram to "
    "\"off\" to see the answer without conditional memory. Greedy unless temperature is set. A "
    "configured remote answers when the local model cannot, or when route or model asks for it.";
constexpr double kTokensMax = 1048576;
constexpr double kTopPMin = 1e-6;              // the engine refuses 0; as sampling.top_p has it
constexpr double kSeedMax = 9007199254740991;  // 2^53 - 1: the largest that JavaScript keeps exact

std::vector<mcp::Field> sampling_fields(const config::SamplingDefaults& defaults) {
  using namespace field;
  return {
      with_default(integer("max_tokens", "Most tokens to generate.", {1, kTokensMax}),
                   defaults.max_tokens),
      with_default(number("temperature", "Randomness; 0 is greedy and repeatable.", {0, 2}),
                   defaults.temperature),
      with_default(number("top_p", "Nucleus: keep the likeliest tokens of this total probability.",
                          {kTopPMin, 1}),
                   defaults.top_p),
      with_default(integer("top_k", "Keep this many likeliest tokens; 0 keeps all.", {0, 1e6}),
                   defaults.top_k),
      with_default(number("min_p", "Drop tokens below this share of the likeliest.", {0, 1}),
                   defaults.min_p),
      with_default(number("repetition_penalty",
                          "Above 1 discourages tokens already in prompt or "
                          "answer.",
                          {0.1, 10}),
                   1.0),
      with_default(
          number("presence_penalty", "Subtracted once from tokens already in the answer.", {-2, 2}),
          0.0),
      with_default(number("frequency_penalty", "Subtracted per occurrence in the answer.", {-2, 2}),
                   0.0),
      with_default(integer("seed", "Equal seeds give equal answers.", {0, kSeedMax}), 0),
      at_most(list_of("stop", "Texts that end the answer; not part of it.",
                      not_empty(text("", "One such text."))),
              16),
      at_most(objects("logit_bias", "Added to the logits of single tokens.",
                      all_required({integer("token", "Token id.", {0, kTokensMax * 1024}),
                                    number("bias", "Added to its logit.", {-100, 100})})),
              1024),
      with_default(integer("top_logprobs",
                           "Alternatives reported with each token; 0 leaves "
                           "log-probabilities out.",
                           {0, 20}),
                   0),
  };
}

std::string rounded(const char* format, double value) {
  char text[48];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

engine::EngramCounts all_counts(const engine::ChatResult& result) {
  engine::EngramCounts counts = result.engram_prompt;
  counts.add(result.engram_generated);
  return counts;
}

json logprobs_json(const std::vector<engine::SampledToken>& tokens,
                   const std::function<std::string(engine::TokenId)>& token_text) {
  const auto one = [&](const engine::TokenLogprob& token) -> json {
    return {{"token", token.token}, {"text", token_text(token.token)}, {"logprob", token.logprob}};
  };
  json all = json::array();
  for (const engine::SampledToken& token : tokens) {
    json entry = one(token.chosen);
    entry["top"] = json::array();
    for (const engine::TokenLogprob& alternative : token.top) {
      if (std::isfinite(alternative.logprob)) entry["top"].push_back(one(alternative));
    }
    all.push_back(std::move(entry));
  }
  return all;
}

engine::SamplingOptions to_sampling(const json& arguments) {
  engine::SamplingOptions sampling;
  sampling.temperature = arguments.at("temperature");
  sampling.top_p = arguments.at("top_p");
  sampling.top_k = arguments.at("top_k");
  sampling.min_p = arguments.at("min_p");
  sampling.repetition_penalty = arguments.at("repetition_penalty");
  sampling.presence_penalty = arguments.at("presence_penalty");
  sampling.frequency_penalty = arguments.at("frequency_penalty");
  sampling.seed = arguments.at("seed");
  sampling.top_logprobs = arguments.at("top_logprobs");
  for (const json& bias : arguments.value("logit_bias", json::array())) {
    sampling.logit_bias.emplace_back(bias.at("token").get<engine::TokenId>(),
                                     bias.at("bias").get<float>());
  }
  return sampling;
}

void start_chat(engine::ChatBackend& backend, engine::ChatRequest request, const Services& services,
                const std::shared_ptr<mcp::ToolCall>& call) {
  const bool engram_enabled = request.engram_enabled && services.options.engram.enable;
  const int max_tokens = request.max_tokens;
  auto n_prompt = std::make_shared<std::int64_t>(0);
  ChatEvents events;
  if (call->wants_progress()) {
    events.on_prefill = [call, n_prompt, max_tokens](std::int64_t done, std::int64_t total) {
      *n_prompt = total;
      call->progress(
          static_cast<double>(done), static_cast<double>(total + max_tokens),
          "read " + std::to_string(done) + " of " + std::to_string(total) + " prompt tokens");
    };
    events.on_text = [call, n_prompt, max_tokens](const std::string&, std::int64_t n_generated) {
      call->progress(static_cast<double>(*n_prompt + n_generated),
                     static_cast<double>(*n_prompt + max_tokens),
                     "generated " + std::to_string(n_generated) + " tokens");
    };
  }
  events.on_done = [call, engram_enabled, services](Result<engine::ChatResult> result) {
    if (result.has_error()) {
      call->finish(mcp::ToolResult::error(result.error().message));
      return;
    }
    const auto token_text = [&services](engine::TokenId id) -> std::string {
      const auto engine = services.loader.current();
      return engine.has_value() ? std::string(engine.value()->tokenizer().token_bytes(id)) : "";
    };
    call->finish(to_tool_result(result.value(), engram_enabled, token_text));
  };
  run_chat(backend, std::move(request), std::move(events), call->stop_token(), services);
}

}  // namespace

std::vector<mcp::Field> chat_input_fields(const config::Options& options) {
  using namespace field;
  std::vector<mcp::Field> fields = {
      text("prompt",
           "Question or instruction: one user message. Give this, messages or "
           "completion."),
      not_empty(at_most(
          objects("messages", "Conversation so far, oldest first; the last one is answered.",
                  all_required({choice("role", "Who speaks.", {"system", "user", "assistant"}),
                                text("content", "What was said.")})),
          4096)),
      text("completion", "Plain text to continue, without the chat format."),
      with_default(
          choice("engram", "Engram conditional memory on or off for this answer.", {"on", "off"}),
          options.engram.enable ? "on" : "off"),
      with_default(choice("route", "Where to answer: local never leaves this machine.",
                          {"auto", "local", "remote"}),
                   "auto"),
      text("model", "Model name; leave out for the configured one."),
  };
  for (mcp::Field& field : sampling_fields(options.sampling)) fields.push_back(std::move(field));
  return fields;
}

std::vector<mcp::Field> chat_output_fields() {
  using namespace field;
  const std::vector<mcp::Field> token = all_required({
      integer("token", "Token id."),
      text("text", "What the token reads as."),
      number("logprob", "Natural logarithm of its probability."),
  });
  std::vector<mcp::Field> token_with_top = token;
  token_with_top.push_back(required(objects("top", "Likeliest alternatives, descending.", token)));

  std::vector<mcp::Field> engram = engram_counts_fields();
  engram.push_back(required(boolean("enabled", "Whether Engram was on.")));
  engram.push_back(required(number("hit_rate_prompt", "Hit rate over the prompt's tokens.")));
  engram.push_back(required(number("hit_rate_generated", "Hit rate over the generated tokens.")));

  std::vector<mcp::Field> fields = all_required({
      text("text", "The answer."),
      choice("finish_reason",
             "stop: the model or a stop text ended it; length: max_tokens reached.",
             {"stop", "length", "cancelled", "tool_calls", "content_filter"}),
      text("model", "Model that answered."),
      choice("served_by", "Where the answer was made.", {"local", "remote"}),
      integer("attempts", "Backends tried."),
      object("usage", "Token counts.",
             all_required({integer("prompt_tokens", "Tokens read."),
                           integer("cached_prompt_tokens", "Of those, reused from the cache."),
                           integer("completion_tokens", "Tokens generated."),
                           integer("total_tokens", "Prompt and completion."),
                           choice("source",
                                  "measured here, reported by the remote, or estimated from "
                                  "lengths where it reports nothing.",
                                  {"measured", "reported", "estimated"})})),
      object("timing", "Where the time went.",
             all_required({number("queue_ms", "Waiting for the engine."),
                           number("first_token_ms", "From the start to the first token."),
                           number("total_ms", "From the start to the end."),
                           number("tokens_per_s", "Generation speed after the first token.")})),
      object("engram", "What conditional memory found.", std::move(engram)),
  });
  fields.push_back(text("stop_matched", "The stop text that ended the answer."));
  fields.push_back(text("reasoning", "What a remote says that its model thought."));
  fields.push_back(text("fallback_reason", "Why another backend than the first one answered."));
  fields.push_back(objects("logprobs", "Each generated token, when top_logprobs was set.",
                           std::move(token_with_top)));
  return fields;
}

Result<engine::ChatRequest> to_chat_request(const json& arguments) {
  const int given = static_cast<int>(arguments.contains("prompt")) +
                    static_cast<int>(arguments.contains("messages")) +
                    static_cast<int>(arguments.contains("completion"));
  if (given != 1) {
    return invalid_argument("chat needs exactly one of prompt, messages and completion, got " +
                            std::to_string(given) + "; give prompt for a single question");
  }
  engine::ChatRequest request;
  if (arguments.contains("prompt")) {
    request.messages.push_back({"user", arguments.at("prompt")});
  } else if (arguments.contains("messages")) {
    for (const json& message : arguments.at("messages")) {
      request.messages.push_back({message.at("role"), message.at("content")});
    }
    if (request.messages.empty() || request.messages.back().role != "user") {
      return invalid_argument(
          "messages: expected the last one to be the user's, which is answered");
    }
  } else {
    request.completion = arguments.at("completion").get<std::string>();
  }
  if (request.completion ? request.completion->empty() : request.messages.back().content.empty()) {
    return invalid_argument("the text to answer is empty; expected at least one character");
  }
  const std::string route = arguments.at("route");
  request.route = route == "local"    ? engine::Route::kLocal
                  : route == "remote" ? engine::Route::kRemote
                                      : engine::Route::kAuto;
  request.model = arguments.value("model", std::string());
  request.engram_enabled = arguments.at("engram") == "on";
  request.max_tokens = arguments.at("max_tokens");
  request.stop = arguments.value("stop", std::vector<std::string>());
  request.sampling = to_sampling(arguments);
  return request;
}

std::string served_line(const engine::ChatResult& result, bool engram_enabled) {
  std::string line = result.served_by + " " + result.model + ", " +
                     std::to_string(result.completion_tokens) + " tokens";
  if (result.decode_tokens_per_s > 0) {
    line += rounded(", %.0f tokens/s", result.decode_tokens_per_s);
  }
  line += rounded(", first token %.1f ms", result.first_token_ms);
  if (result.served_by == "local") {
    line += engram_enabled ? rounded(", Engram hit rate %.2f", all_counts(result).hit_rate())
                           : std::string(", Engram off");
  }
  if (result.finish_reason != engine::FinishReason::kStop) {
    line += std::string(", ended by ") + name_of(result.finish_reason);
  }
  if (!result.fallback_reason.empty()) line += ", fallback: " + result.fallback_reason;
  return line;
}

mcp::ToolResult to_tool_result(const engine::ChatResult& result, bool engram_enabled,
                               const std::function<std::string(engine::TokenId)>& token_text) {
  json engram = to_json(all_counts(result));
  engram["enabled"] = engram_enabled && result.served_by == "local";
  engram["hit_rate_prompt"] = result.engram_prompt.hit_rate();
  engram["hit_rate_generated"] = result.engram_generated.hit_rate();
  json structured = {
      {"text", result.text},
      {"finish_reason", name_of(result.finish_reason)},
      {"model", result.model},
      {"served_by", result.served_by},
      {"attempts", result.attempts},
      {"usage",
       {{"prompt_tokens", result.prompt_tokens},
        {"cached_prompt_tokens", result.cached_prompt_tokens},
        {"completion_tokens", result.completion_tokens},
        {"total_tokens", result.prompt_tokens + result.completion_tokens},
        {"source", name_of(result.usage_source)}}},
      {"timing",
       {{"queue_ms", result.queue_ms},
        {"first_token_ms", result.first_token_ms},
        {"total_ms", result.total_ms},
        {"tokens_per_s", result.decode_tokens_per_s}}},
      {"engram", std::move(engram)},
  };
  if (!result.stop_matched.empty()) structured["stop_matched"] = result.stop_matched;
  if (!result.reasoning.empty()) structured["reasoning"] = result.reasoning;
  if (!result.fallback_reason.empty()) structured["fallback_reason"] = result.fallback_reason;
  if (!result.tokens.empty()) structured["logprobs"] = logprobs_json(result.tokens, token_text);
  return {result.text + "\n\n[" + served_line(result, engram_enabled) + "]", std::move(structured),
          false};
}

mcp::Tool make_chat_tool(const Services& services) {
  mcp::Tool tool;
  tool.name = "chat";
  tool.description = kChatDescription;
  tool.annotations.title = "Chat with the Engram model";
  tool.annotations.idempotent = false;
  tool.input = chat_input_fields(services.options);
  tool.output = chat_output_fields();
  tool.handler = [services](const std::shared_ptr<mcp::ToolCall>& call) {
    auto request = to_chat_request(call->arguments());
    if (request.has_error()) {
      call->finish(mcp::ToolResult::error(request.error().message));
      return;
    }
    services.when_chat_ready([services, call, request = std::move(request).value()](
                                 Result<engine::ChatBackend*> backend) {
      if (backend.has_error()) {
        call->finish(mcp::ToolResult::error(backend.error().message));
      } else {
        start_chat(*backend.value(), request, services, call);
      }
    });
  };
  return tool;
}

}  // namespace engramd::server
