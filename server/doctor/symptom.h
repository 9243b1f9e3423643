// Symptom: error messages that users of such software meet, by the words they have in common, with
// what is usually behind them and the first thing to do. Pure.
#pragma once

#include <string>
#include <string_view>

namespace engramd::server {

struct Symptom {
  const char* name;     // "reading 'choices'"
  const char* meaning;  // what is usually behind it
  const char* remedy;
};

std::string text_of(const Symptom& symptom);  // two lines without an end

// Null: none of them. `text`: a message of a client, of a server, or of engramd itself.
const Symptom* recognise(std::string_view text);

}  // namespace engramd::server
