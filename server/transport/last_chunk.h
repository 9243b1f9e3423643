// starts_last_chunk(): the guard of whoever feeds Beast's HTTP parser piece by piece. Beast, asked
// again, asserts that the last chunk of a body has grown to its full length (basic_parser.ipp,
// "n >= 5"), so a mere start of it has to wait. Pure.
#pragma once

#include <string_view>

namespace engramd::server {

// `input`: what stands at the next byte of a chunked body.
inline bool starts_last_chunk(std::string_view input) {
  constexpr std::string_view kShortest = "0\r\n\r\n";
  return input.size() < kShortest.size() && input.starts_with(kShortest[0]);
}

}  // namespace engramd::server
