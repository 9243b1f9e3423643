// What stands on the wire decides the requests, not the pieces it arrives in; and whatever a
// stranger writes into the headers, only the token lets a request in.
//
// links: engramd_http_request
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "config/assert.h"
#include "server/transport/access.h"
#include "server/transport/request_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace engramd::server;
  using Step = RequestReader::Step;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  engramd::config::LimitOptions limits;
  limits.http_header_bytes_max = 512;
  limits.http_body_bytes_max = 256;
  const Access access{.tokens = {"a token that no header can hold\n"}};
  const auto read = [&](std::size_t piece_bytes) {
    std::string all;
    RequestReader reader(limits);
    for (std::size_t at = 0; at < bytes.size(); at += piece_bytes) {
      reader.push(bytes.substr(at, piece_bytes));
      for (Step step = reader.next(); step != Step::kNeedMore; step = reader.next()) {
        if (step == Step::kRefused) return all + std::to_string(reader.refusal().status);
        const HttpRequest& request = reader.head().request;
        if (step == Step::kHead) {
          ENGRAMD_ASSERT(request.path.starts_with('/'));
          ENGRAMD_ASSERT(refusal(access, request).has_value() || request.path != "/mcp");
          all += request.method + request.path + "?" + request.query;
        } else {
          all += reader.take_body();
        }
      }
    }
    return all;
  };
  const std::string requests = read(size + 1);
  ENGRAMD_ASSERT(read(1) == requests);
  ENGRAMD_ASSERT(read(7) == requests);
  return 0;
}
