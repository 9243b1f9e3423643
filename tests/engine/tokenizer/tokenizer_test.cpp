// Properties that no golden shows: merging against a plain oracle, long pieces, threads, offsets.
#include "engine/tokenizer/tokenizer.h"

#include <chrono>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "engine/tokenizer/bpe.h"
#include "engine/tokenizer/normalizer.h"
#include "engine/tokenizer/stream_decoder.h"
#include "engine/tokenizer/tokenizer_json.h"
#include "tests/engine/tokenizer/fixtures.h"

namespace engramd::engine {
namespace {

Tokenizer load(const std::string& name) {
  return std::move(Tokenizer::from_json(*testing::tokenizer_json(name)).value());
}

// Byte-pair encoding by its definition, quadratic.
std::vector<TokenId> merge_plainly(std::vector<TokenId> symbols, const std::vector<Merge>& merges) {
  for (;;) {
    std::size_t best_rank = merges.size();
    std::size_t best = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      for (std::size_t rank = 0; rank < best_rank; ++rank) {
        if (merges[rank].left == symbols[i] && merges[rank].right == symbols[i + 1]) {
          best_rank = rank;
          best = i;
        }
      }
    }
    if (best_rank == merges.size()) return symbols;
    symbols[best] = merges[best_rank].result;
    symbols.erase(symbols.begin() + static_cast<long>(best) + 1);
  }
}

TEST(BpeTest, MergesLikeTheDefinitionForShortAndLongPieces) {
  std::mt19937 random(7);  // fixed seed
  for (int round = 0; round < 50; ++round) {
    // Tokens 0..2 are "a", "b", "c"; each merge joins two earlier tokens, "d" has no token.
    std::array<TokenId, 256> byte_ids;
    byte_ids.fill(-1);
    for (int i = 0; i < 3; ++i) byte_ids[static_cast<std::size_t>('a' + i)] = i;
    std::vector<Merge> merges;
    for (TokenId id = 3; id < 40; ++id) {
      const auto any = [&] { return static_cast<TokenId>(random() % static_cast<unsigned>(id)); };
      const Merge merge{any(), any(), id};
      const bool known = std::any_of(merges.begin(), merges.end(), [&](const Merge& m) {
        return m.left == merge.left && m.right == merge.right;
      });
      if (!known) merges.push_back(merge);
    }
    const Bpe bpe(byte_ids, merges);
    for (const std::size_t length : {0, 1, 2, 3, 10, 47, 48, 49, 60, 200}) {
      std::string piece;
      std::vector<TokenId> symbols;
      for (std::size_t i = 0; i < length; ++i) {
        piece.push_back("abcd"[random() % 4]);
        if (piece.back() != 'd') symbols.push_back(piece.back() - 'a');
      }
      std::vector<TokenId> ids;
      bpe.encode(piece, ids);
      EXPECT_EQ(ids, merge_plainly(symbols, merges)) << piece;
    }
  }
}

TEST(TokenizerTest, MillionCharacterPiecesAreNotQuadratic) {
  for (const char* name : {"bundled", "qwen3"}) {
    const Tokenizer tokenizer = load(name);
    for (const std::string unit : {"a", " ", "中", "\u0301", "ab", "."}) {
      std::string text;
      while (text.size() < 1'000'000) text += unit;
      const auto start = std::chrono::steady_clock::now();
      const auto ids = tokenizer.encode(text);
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      ASSERT_TRUE(ids) << name << " '" << unit << "': " << ids.error().message;
      EXPECT_LT(seconds.count(), 30) << name << " '" << unit << "'";  // quadratic: hours
      EXPECT_EQ(*tokenizer.decode(*ids), text);
    }
  }
}

TEST(TokenizerTest, ThreadsShareOneTokenizer) {
  const Tokenizer tokenizer = load("qwen3");
  const auto strings = testing::hard_strings();
  std::vector<std::vector<TokenId>> expected;
  for (const std::string& text : strings) expected.push_back(*tokenizer.encode(text));
  std::vector<std::thread> threads;
  std::vector<int> n_wrong(4);
  for (int& wrong : n_wrong) {
    threads.emplace_back([&] {
      for (std::size_t i = 0; i < strings.size(); ++i) {
        if (*tokenizer.encode(strings[i]) != expected[i]) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(n_wrong, std::vector<int>(4));
}

TEST(TokenizerTest, OffsetsTileTextThatIsNotNormalized) {
  const Tokenizer tokenizer = load("deepseek_v3");
  for (const std::string& text : testing::hard_strings()) {
    const auto encoding = tokenizer.encode_with_offsets(text);
    ASSERT_TRUE(encoding);
    EXPECT_EQ(encoding->ids, *tokenizer.encode(text));
    std::int64_t end = 0;
    for (const TokenOffset& offset : encoding->offsets) {
      EXPECT_LE(offset.begin, end);  // tokens of one character share it
      EXPECT_GE(offset.end, end);
      end = offset.end;
    }
    EXPECT_EQ(end, static_cast<std::int64_t>(text.size()));
  }
}

TEST(TokenizerTest, StreamSkipsSpecialTokensAndIgnoresUnknownIds) {
  const Tokenizer tokenizer = load("bundled");
  StreamDecoder decoder(tokenizer, true);
  const auto ids = tokenizer.encode("<｜User｜>hi");
  std::string text;
  for (const TokenId id : *ids) text += decoder.push(id);
  text += decoder.push(-1) + decoder.push(1'000'000);
  EXPECT_EQ(text + decoder.flush(), "hi");
}

TEST(TokenizerTest, BrokenAddedTokensAreTextInEveryTokenizer) {
  const std::string mark = "\uFDD0";
  for (const std::string& name : testing::kTokenizerNames) {
    const auto json = testing::tokenizer_json(name);
    if (!json) continue;  // llama3_1, where it is not installed
    const TokenizerSpec spec = parse_tokenizer_json(*json).value();
    const Tokenizer tokenizer = load(name);
    std::string text = "x";
    for (const AddedToken& token : spec.added_tokens) text += token.content;
    std::string rest = tokenizer.break_added_tokens(text, mark);
    std::vector<TokenId> ids;
    for (std::size_t end = 0; end != std::string::npos; rest.erase(0, end + mark.size())) {
      end = rest.find(mark);
      const auto piece = tokenizer.encode(rest.substr(0, end));
      ids.insert(ids.end(), piece->begin(), piece->end());
      if (end == std::string::npos) break;
    }
    EXPECT_EQ(tokenizer.decode(ids).value(), text) << name;
    for (const AddedToken& token : spec.added_tokens) {
      EXPECT_EQ(std::count(ids.begin(), ids.end(), token.id), 0) << name << ' ' << token.content;
    }
    EXPECT_EQ(tokenizer.break_added_tokens("a <b> 中 \xFF", mark), "a <b> 中 \xFF");
  }
}

TEST(NormalizerTest, ComposesAndOrders) {
  const NfcNormalizer nfc;
  const std::pair<const char*, const char*> cases[] = {
      {"e\u0301", "\u00E9"},
      {"q\u0307\u0323", "q\u0323\u0307"},  // sorted by combining class
      {"\u1100\u1161\u11A8", "\uAC01"},    // Hangul
      {"\u0958", "\u0915\u093C"},          // excluded from composition
      {"\u212B", "\u00C5"},                // singleton
      {"a\u0315\u0300\u05AE\u0300b", "\u00E0\u05AE\u0300\u0315b"},
      {"a\u0315\u0898", "a\u0315\u0898"},  // a mark of Unicode 14, which the library leaves
      {"\U00011935\U00011930", "\U00011935\U00011930"}};  // a composition of Unicode 13, likewise
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(nfc.normalize(text), expected);
  }
  EXPECT_TRUE(nfc.is_normalized("plain, \u00E9, 中, 🙂"));
  EXPECT_FALSE(nfc.is_normalized("e\u0301"));
}

TEST(NormalizerTest, KeepsTheOriginOfEachByte) {
  std::vector<Span> origins;
  EXPECT_EQ(NfcNormalizer().normalize("ae\u0301x", &origins), "a\u00E9x");
  EXPECT_EQ(origins, (std::vector<Span>{{0, 1}, {1, 2}, {1, 2}, {4, 5}}));
}

}  // namespace
}  // namespace engramd::engine
