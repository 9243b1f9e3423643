// ChatBackend: messages in, token stream out. The local engine and the server's Router implement
// it. Typed all the way: JSON belongs to mcp/ and the server's glue, and is text here where a
// remote's words are passed on. Threads: start() may be called from any thread; callbacks run on
// the backend's own thread, in order, on_done exactly once and last. Callers that live elsewhere
// post() back.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "config/result.h"
#include "engine/runtime/sampler.h"

namespace engramd::engine {

struct JsonGrammar;

struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

enum class Route { kAuto, kLocal, kRemote };

struct ChatRequest {
  std::string model;  // empty: whatever is configured
  Route route = Route::kAuto;
  std::vector<ChatMessage> messages;      // rendered with the model's chat template
  bool continue_last = false;             // the last message is the answer's beginning
  std::optional<std::string> completion;  // or: plain text to continue, no template
  std::vector<TokenId> prompt_tokens;     // or: these tokens, with nothing added
  SamplingOptions sampling;
  int max_tokens = 256;
  std::vector<std::string> stop;  // texts that end the answer; not part of it
  bool logprobs = false;          // tokens in the result, also without alternatives
  // What the answer has to be; end-of-sentence comes when it is complete. Null: anything.
  std::shared_ptr<const JsonGrammar> grammar;
  bool engram_enabled = true;
  // Of a request that came in OpenAI's words, or can be put into them: all of it as JSON, for a
  // remote, which understands more than the members above. Empty: it is made of them.
  std::string openai_request;
  std::string local_refusal;  // why the local engine cannot serve it ("tools: ..."); empty: it can
};

// N-gram look-ups of a span of tokens, per order (index 0 is order 2).
struct EngramCounts {
  struct PerOrder {
    std::int64_t lookups = 0;   // addressed rows, over token, layer and head
    std::int64_t bypassed = 0;  // of those, positions with too few predecessors
    std::int64_t occupied = 0;  // of the others, rows that some training N-gram reached
    std::int64_t owned = 0;     // of the others, rows whose owner tag is this N-gram's
  };
  std::vector<PerOrder> orders;
  // owned / (lookups - bypassed) over all orders; 0 when nothing was looked up.
  double hit_rate() const;
  void add(const EngramCounts& other);
};

enum class FinishReason { kStop, kLength, kCancelled, kToolCalls, kContentFilter };
const char* name_of(FinishReason reason);  // "stop", "length", "cancelled", "tool_calls" ...

// What a model asks its client to run; of remotes only.
struct ToolCall {
  std::string id, name;
  std::string arguments;  // JSON
};
struct ToolCallDelta {
  std::size_t index = 0;  // of the calls of this answer
  ToolCall piece;         // id and name in a call's first piece; arguments grow
};

struct ChatDelta {
  std::string text;  // whole UTF-8 characters; may be empty
  std::optional<SampledToken> token = {};
  // Of remotes only:
  std::string reasoning = {};  // thought, not said
  std::vector<ToolCallDelta> tool_calls = {};
};

enum class UsageSource { kMeasured, kReported, kEstimated };
const char* name_of(UsageSource source);  // "measured", "reported", "estimated"

struct ChatResult {
  std::string text;
  std::string reasoning;             // thought, not said; this and the next of remotes only
  std::vector<ToolCall> tool_calls;  // whole; arguments are valid JSON
  FinishReason finish_reason = FinishReason::kStop;
  std::string stop_matched;  // which stop text, empty for end-of-sentence
  UsageSource usage_source = UsageSource::kMeasured;
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
  double queue_ms = 0;        // waiting for the engine
  double first_token_ms = 0;  // from start() to the first token
  double total_ms = 0;
  double decode_tokens_per_s = 0;  // after the first token
  std::string served_by;           // "local" or "remote"
  std::string model;
  std::string fallback_reason;  // empty: no fallback
  int attempts = 1;
  std::vector<SampledToken> tokens;  // with logprobs when asked for
  EngramCounts engram_prompt, engram_generated;
};

struct ChatCallbacks {
  std::function<void(std::int64_t done, std::int64_t total)> on_prefill;  // prompt tokens; optional
  std::function<void(const ChatDelta&)> on_delta;                         // optional
  std::function<void(Result<ChatResult>)> on_done;                        // required
};

class ChatBackend {
 public:
  virtual ~ChatBackend() = default;
  virtual void start(ChatRequest request, ChatCallbacks callbacks, std::stop_token stop) = 0;
};

}  // namespace engramd::engine
