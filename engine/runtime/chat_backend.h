// ChatBackend: messages in, token stream out. LocalChat (the engine) implements it now;
// UpstreamChat and Router will. Typed all the way: JSON belongs to mcp/ and the server's glue.
// Threads: start() may be called from any thread; callbacks run on the backend's own thread, in
// order, on_done exactly once and last. Callers that live elsewhere post() back.
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

enum class FinishReason { kStop, kLength, kCancelled };
const char* name_of(FinishReason reason);  // "stop", "length", "cancelled"

struct ChatDelta {
  std::string text;  // whole UTF-8 characters; may be empty
  std::optional<SampledToken> token;
};

struct ChatResult {
  std::string text;
  FinishReason finish_reason = FinishReason::kStop;
  std::string stop_matched;  // which stop text, empty for end-of-sentence
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
