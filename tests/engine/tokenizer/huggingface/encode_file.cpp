// The native side of compare.mjs: encodes every chunk of a file, writes the ids, prints the time.
//
//   tokenizer_encode_file TOKENIZER_JSON CHUNKS IDS
//
// CHUNKS holds records of an int32 length and as many bytes, IDS gets records of an int32 count and
// as many int32 ids, both in the machine's byte order. Times are processor time of encode() alone,
// the best of two passes, in one thread.
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "engine/tokenizer/tokenizer.h"

namespace {

using engramd::engine::TokenId;
using engramd::engine::Tokenizer;

std::string read_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::vector<std::string> read_chunks(const char* path) {
  const std::string records = read_file(path);
  std::vector<std::string> chunks;
  for (std::size_t position = 0; position + sizeof(std::int32_t) <= records.size();) {
    std::int32_t length = 0;
    std::memcpy(&length, records.data() + position, sizeof length);
    position += sizeof length;
    chunks.push_back(records.substr(position, static_cast<std::size_t>(length)));
    position += static_cast<std::size_t>(length);
  }
  return chunks;
}

template <class Encode>
double seconds_of(const std::vector<std::string>& chunks, Encode encode) {
  const std::clock_t start = std::clock();
  for (const std::string& chunk : chunks) encode(chunk);
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s TOKENIZER_JSON CHUNKS IDS\n", argv[0]);
    return 2;
  }
  const auto tokenizer = Tokenizer::from_file(argv[1]);
  if (!tokenizer) {
    std::fprintf(stderr, "%s\n", tokenizer.error().message.c_str());
    return 1;
  }
  const auto chunks = read_chunks(argv[2]);
  std::ofstream output(argv[3], std::ios::binary);
  for (const std::string& chunk : chunks) {
    const auto ids = tokenizer->encode(chunk);
    if (!ids) {
      std::fprintf(stderr, "%s\n", ids.error().message.c_str());
      return 1;
    }
    const auto count = static_cast<std::int32_t>(ids->size());
    output.write(reinterpret_cast<const char*>(&count), sizeof count);
    output.write(reinterpret_cast<const char*>(ids->data()),
                 static_cast<std::streamsize>(ids->size() * sizeof(TokenId)));
  }
  output.close();
  if (!output) {
    std::fprintf(stderr, "cannot write %s\n", argv[3]);
    return 1;
  }
  const double seconds = seconds_of(
      chunks, [&](const std::string& chunk) { return tokenizer->encode(chunk).has_value(); });
  const double seconds_with_offsets = seconds_of(chunks, [&](const std::string& chunk) {
    return tokenizer->encode_with_offsets(chunk).has_value();
  });
  std::printf("{\"seconds\": %.6f, \"seconds_with_offsets\": %.6f}\n", seconds,
              seconds_with_offsets);
  return 0;
}
