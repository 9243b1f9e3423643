// What OpenAI's chat completions and completions have in common: the options of an answer, parsed
// and checked. Also where their extension fields are read (top_k, min_p, repetition_penalty,
// engram, route). Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/options.h"
#include "engine/runtime/chat_backend.h"
#include "server/api/request_fields.h"

namespace engramd::server {

struct GenerationRequest {
  std::string model;  // as asked for; empty: whichever is open
  bool stream = false;
  bool include_usage = false;  // a last chunk with token counts
  int n_choices = 1;
  std::optional<ApiError> beyond_local;  // why the local engine cannot serve it
  // Everything but what is answered; each choice is a copy with a seed of its own.
  engine::ChatRequest chat;

  engine::ChatRequest choice(int index) const;
};

GenerationRequest read_generation(RequestFields& fields, const config::SamplingDefaults& defaults);

// A string, or an array of at most 16; empty ones never end anything and are left out.
std::vector<std::string> read_stop_texts(RequestFields& fields, const char* name);

// "auto", "local" or "remote", an extension of every API.
engine::Route read_route(RequestFields& fields);

// A different answer each time unless the client says otherwise, as the APIs promise.
std::uint64_t random_seed();

}  // namespace engramd::server
