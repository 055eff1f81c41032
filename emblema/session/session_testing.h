// What the tests of this room share: small models of one and two groups, and a sequence that knows
// what every byte of its rows must be.
//
// A row's bytes are a function of everything that decides a cache row: who asks (tenant, salt,
// adapter), the whole context up to and including the token, the position it was stored at, and the
// layer. Equal contexts give equal bytes, so sharing happens; any other row's bytes, whoever left
// them, are seen as wrong.
#pragma once

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "emblema/session/engine.h"
#include "test/model_samples.h"

namespace emblema::session_testing {

inline constexpr std::uint64_t kBlock = 16;  // tokens of a K/V block

// ---- models ------------------------------------------------------------------------------------

// Two layers that see everything: one growing group. A row is 32 bytes in bf16.
inline ModelConfig grouped_model(std::uint32_t layers = 2) {
  return samples::grouped("tiny-gqa", layers, 2, 1, 8);
}

// Gemma's pattern: window layers, then a full one: two groups.
inline ModelConfig two_group_model(std::uint32_t window_tokens = 20) {
  ModelConfig model = grouped_model(3);
  samples::set_window(&model.layers[0], window_tokens);
  samples::set_window(&model.layers[1], window_tokens);
  return model;
}

// One latent row for all heads: blocks of 64 tokens.
inline ModelConfig latent_model() {
  ModelConfig model = samples::latent("tiny-mla", 2, 2);
  model.kv_lora_rank = 16;
  model.qk_rope_head_dim = 8;
  for (LayerFacts& layer : model.layers) layer.rope.rotary_dim = 8;
  return model;
}

inline ModelGeometry geometry_of(const ModelConfig& model, KvDtype dtype = KvDtype::kBf16) {
  auto geometry = ModelGeometry::from(model, {.kv_dtype = dtype});
  EXPECT_TRUE(geometry) << (geometry ? "" : geometry.error().describe());
  return std::move(*geometry);
}

// Bytes of `blocks` blocks of every group.
inline std::uint64_t pool_bytes(const ModelGeometry& geometry, std::uint64_t blocks) {
  std::uint64_t sum = 0;
  const ModelLayout layout = ModelLayout::native(geometry).value();
  for (const BlockLayout& group : layout.groups) {
    sum += group.block_bytes * blocks;
  }
  return sum;
}

// Seeds of a random test: `runs` of them from `first` on, or the one of EMBLEMA_SEED. Each is
// printed before it is used, so that a run that ends in a failed check can be replayed too.
struct Seeds {
  Seeds(std::uint64_t first_seed, std::uint64_t wanted_runs)
      : first(first_seed), runs(wanted_runs) {
    const char* text = std::getenv("EMBLEMA_SEED");
    if (text == nullptr) return;
    std::from_chars(text, text + std::strlen(text), first);
    runs = 1;
  }
  std::uint64_t announced(std::uint64_t run) const {
    const std::uint64_t seed = first + run;
    std::printf("[   seed   ] EMBLEMA_SEED=%" PRIu64 "\n", seed);
    std::fflush(stdout);
    return seed;
  }

  std::uint64_t first;
  std::uint64_t runs;
};

// EMBLEMA_TEST_DIGEST_BITS cuts every digest, for runs of a whole suite under collisions.
inline unsigned digest_bits_under_test() {
  const char* text = std::getenv("EMBLEMA_TEST_DIGEST_BITS");
  unsigned bits = 256;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), bits);
  return bits;
}

// An engine of about `blocks` blocks per group.
inline Engine open_engine(const ModelConfig& model, std::uint64_t blocks,
                          EngineOptions options = {}, KvDtype dtype = KvDtype::kBf16) {
  const ModelGeometry geometry = geometry_of(model, dtype);
  options.pool_bytes = pool_bytes(geometry, blocks);
  if (options.digest_bits_for_test == 256) options.digest_bits_for_test = digest_bits_under_test();
  auto engine = Engine::open(geometry, options);
  EXPECT_TRUE(engine) << (engine ? "" : engine.error().describe());
  return std::move(*engine);
}

inline std::vector<TokenId> tokens_from(TokenId first, std::size_t count) {
  std::vector<TokenId> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

inline std::vector<TokenId> joined(std::vector<TokenId> a, const std::vector<TokenId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// ---- what the bytes of a row must be -----------------------------------------------------------

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9e3779b97f4a7c15ULL + b + 0x632be59bd9b4e019ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

inline std::uint64_t text_word(std::string_view text) {
  std::uint64_t word = text.size();
  for (const char c : text) word = mix(word, static_cast<unsigned char>(c));
  return word;
}

inline std::uint64_t identity_word(const StartRequest& request) {
  std::uint64_t word = mix(text_word(request.tenant), text_word(request.salt));
  for (const std::uint8_t byte : request.adapter.bytes) word = mix(word, byte);
  return word;
}

// The context behind one more token, and behind an attached segment.
inline std::uint64_t after_token(std::uint64_t context, TokenId token) {
  return mix(mix(context, 1), token);
}
inline std::uint64_t after_segment(std::uint64_t context, std::uint64_t segment, std::uint64_t at) {
  return mix(mix(mix(context, 2), segment), at);
}

struct RowTruth {
  std::uint64_t context = 0;  // behind this token
  std::uint64_t stored = 0;   // position that it was stored at
};

// A row's first 8 bytes, which tell whose it is.
inline std::uint64_t row_word(const RowTruth& truth, std::uint32_t layer) {
  return mix(mix(truth.context, truth.stored), layer);
}

inline void expected_row(const RowTruth& truth, std::uint32_t layer, ByteSpan row) {
  std::uint64_t word = row_word(truth, layer);
  for (std::size_t at = 0; at < row.size(); at += sizeof(word)) {
    std::memcpy(row.data() + at, &word, std::min(sizeof(word), row.size() - at));
    word = mix(word, at);
  }
}

// A span encoded alone from position 0.
inline std::vector<RowTruth> truth_of(std::uint64_t context, std::span<const TokenId> tokens,
                                      std::uint64_t first_position = 0) {
  std::vector<RowTruth> truth;
  truth.reserve(tokens.size());
  for (const TokenId token : tokens) {
    context = after_token(context, token);
    truth.push_back({context, first_position + truth.size()});
  }
  return truth;
}

// Writes these rows behind what is committed, in all layers. `noise` goes into each row's last
// byte, which no comparison looks at: two chunkings of one prompt that differ in their last bits.
inline void write_rows(const Engine& engine, Sequence& sequence, std::span<const RowTruth> truth,
                       std::uint8_t noise = 0) {
  for (const LayerGeometry& layer : engine.geometry().layers()) {
    for (const Stream& stream : layer.streams) {
      const auto view = sequence.rows(layer.index, stream.role, sequence.tokens(), truth.size());
      ASSERT_TRUE(view) << view.error().message;
      std::size_t next = 0;
      for (std::uint64_t c = 0; c < view->size(); ++c) {
        const RowChunk chunk = (*view)[c];
        for (std::uint64_t r = 0; r < chunk.rows; ++r, ++next) {
          const ByteSpan row(chunk.data + r * chunk.row_bytes, chunk.row_bytes);
          expected_row(truth[next], layer.index, row);
          row.back() = static_cast<std::byte>(noise);
        }
      }
      ASSERT_EQ(next, truth.size());
    }
  }
}

// ---- sequences that know their bytes -----------------------------------------------------------

class Tracked {
 public:
  // A sequence started with this request: what was hit must hold what was stored.
  Tracked(const Engine& engine, Sequence sequence, std::uint64_t context,
          std::span<const TokenId> prompt)
      : engine_(&engine), sequence_(std::move(sequence)), context_(context), contexts_{context} {
    append(prompt.first(sequence_.tokens()));
  }

  Sequence& operator*() { return sequence_; }
  Sequence* operator->() { return &sequence_; }
  const Sequence& sequence() const { return sequence_; }
  std::uint64_t context() const { return context_; }
  const std::vector<RowTruth>& rows() const { return rows_; }

  // Writes rows of these tokens behind what is committed.
  void write(std::span<const TokenId> ids, std::uint8_t noise = 0) {
    written_ = truth_of(context_, ids, sequence_.tokens());
    write_rows(*engine_, sequence_, written_, noise);
  }

  Status commit(std::span<const TokenId> ids) {
    Status ok = sequence_.commit(ids);
    if (ok) append(ids);
    return ok;
  }

  // Reserve, write, commit.
  Status extend(std::span<const TokenId> ids, std::uint8_t noise = 0) {
    if (Status ok = sequence_.reserve(ids.size()); !ok) return ok;
    write(ids, noise);
    return commit(ids);
  }

  void cancel() {
    sequence_.cancel();
    written_.clear();
  }

  Tracked fork() {
    auto child = sequence_.fork();
    EXPECT_TRUE(child) << (child ? "" : child.error().message);
    return {*engine_, std::move(*child), contexts_, rows_};
  }

  Result<TokenRange> truncate(std::uint64_t n) {
    auto again = sequence_.truncate(n);
    if (!again) return again;
    rows_.resize(sequence_.tokens());
    contexts_.resize(rows_.size() + 1);
    context_ = contexts_.back();
    written_.clear();
    return again;
  }

  // `segment_context`: what the segment's bytes were encoded behind (its identity).
  Result<std::uint64_t> attach(const Segment& segment, std::uint64_t segment_context,
                               std::span<const TokenId> following = {}) {
    const std::uint64_t at = sequence_.tokens();
    auto hit = sequence_.attach(segment, following);
    if (!hit) return hit;
    const std::vector<RowTruth> truth = truth_of(segment_context, segment.content().tokens);
    context_ = after_segment(context_, truth.back().context, at);
    rows_.insert(rows_.end(), truth.begin(), truth.end());
    contexts_.resize(rows_.size() + 1, context_);
    append(following.first(*hit));
    return hit;
  }

  // Reads every byte that attention can see, through spans, and compares. "" or what is wrong.
  std::string first_wrong_byte() const;
  // The first 8 bytes of the row that first_wrong_byte() last found wrong.
  std::uint64_t wrong_word() const { return wrong_word_; }

 private:
  Tracked(const Engine& engine, Sequence sequence, const std::vector<std::uint64_t>& contexts,
          const std::vector<RowTruth>& rows)
      : engine_(&engine),
        sequence_(std::move(sequence)),
        context_(contexts.back()),
        contexts_(contexts),
        rows_(rows) {}

  void append(std::span<const TokenId> ids) {
    for (const TokenId id : ids) {
      context_ = after_token(context_, id);
      rows_.push_back({context_, rows_.size()});
      contexts_.push_back(context_);
    }
    written_.clear();
  }
  const RowTruth* truth_at(std::uint64_t position) const {
    if (position < rows_.size()) return &rows_[position];
    const std::uint64_t behind = position - rows_.size();
    return behind < written_.size() ? &written_[behind] : nullptr;
  }
  std::string wrong_in_layer(const LayerGeometry& layer) const;

  const Engine* engine_;
  Sequence sequence_;
  std::uint64_t context_;                // behind the last committed token
  std::vector<std::uint64_t> contexts_;  // [i] behind i tokens; inside a segment, behind it
  std::vector<RowTruth> rows_;           // of every committed token, attached segments included
  std::vector<RowTruth> written_;        // reserved, written and not committed
  mutable std::uint64_t wrong_word_ = 0;
};

inline std::string Tracked::wrong_in_layer(const LayerGeometry& layer) const {
  const std::uint64_t committed = sequence_.tokens();
  const std::uint64_t end = committed + sequence_.reserved_tokens();
  const auto inputs = sequence_.inputs(layer.index, nullptr, committed, 0);
  if (!inputs) return inputs.error().message;
  const PagedRows& paged = inputs->rows;
  const StreamRole role = layer.streams.front().role;
  const std::uint64_t window = layer.window_tokens;
  const std::uint64_t visible = window > 0 && committed + 1 > window ? committed + 1 - window : 0;
  const std::string where = "layer " + std::to_string(layer.index) + " position ";
  std::vector<std::byte> expected(paged.row_bytes);
  std::optional<std::uint64_t> next;
  for (const Span& span : inputs->sequences[0].spans) {
    const auto first = static_cast<std::uint64_t>(span.position + span.delta);
    if (next ? first != *next : first > visible) return where + std::to_string(first) + ": a hole";
    for (std::uint64_t r = 0; r < span.rows; ++r) {
      const std::uint64_t row = span.first_row + r;
      const std::byte* bytes = paged.base +
                               span.blocks[row / paged.block_rows] * paged.block_bytes +
                               row % paged.block_rows * paged.row_bytes;
      const RowTruth* truth = truth_at(first + r);
      if (truth == nullptr) continue;  // reserved, not written
      const auto stored = static_cast<std::uint64_t>(span.position) + r;
      if (stored != truth->stored) return where + std::to_string(first + r) + ": stored elsewhere";
      expected_row(*truth, layer.index, expected);
      if (std::memcmp(bytes, expected.data(), expected.size() - 1) != 0) {
        std::memcpy(&wrong_word_, bytes, sizeof(wrong_word_));
        return where + std::to_string(first + r) + ": not the bytes that were stored";
      }
      if (first + r < committed &&
          sequence_.row_bytes(layer.index, role, first + r).data() != bytes) {
        return where + std::to_string(first + r) + ": row_bytes() reads elsewhere than spans()";
      }
    }
    next = first + span.rows;
  }
  const std::uint64_t reached = next.value_or(visible);
  return reached == end ? "" : where + std::to_string(reached) + ": the spans end too early";
}

inline std::string Tracked::first_wrong_byte() const {
  for (const LayerGeometry& layer : engine_->geometry().layers()) {
    std::string wrong = wrong_in_layer(layer);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

inline Tracked start(Engine& engine, const StartRequest& request) {
  auto sequence = engine.start(request);
  EXPECT_TRUE(sequence) << (sequence ? "" : sequence.error().message);
  return {engine, std::move(*sequence), identity_word(request), request.tokens};
}

// Runs the whole prompt and lets go of it.
inline void store(Engine& engine, const StartRequest& request) {
  Tracked sequence = start(engine, request);
  const Status ok = sequence.extend(request.tokens.subspan(sequence->tokens()));
  EXPECT_TRUE(ok) << (ok ? "" : ok.error().message);
}

inline std::uint64_t hit(Engine& engine, const StartRequest& request) {
  return start(engine, request)->hit_tokens();
}

// The segment of this request: found, or encoded now.
inline Segment segment_of(Engine& engine, const StartRequest& request) {
  auto lookup = engine.segment(request);
  EXPECT_TRUE(lookup) << (lookup ? "" : lookup.error().message);
  if (lookup->found) return std::move(*lookup->found);
  Sequence& sequence = lookup->builder->sequence();
  const std::uint64_t done = sequence.tokens();
  const std::vector<RowTruth> truth = truth_of(identity_word(request), request.tokens);
  const std::uint64_t count = truth.size() - done;
  EXPECT_TRUE(sequence.reserve(count));
  write_rows(engine, sequence, std::span(truth).subspan(done));
  EXPECT_TRUE(sequence.commit(request.tokens.subspan(done)));
  auto sealed = lookup->builder->seal();
  EXPECT_TRUE(sealed) << (sealed ? "" : sealed.error().message);
  return std::move(*sealed);
}

#define EXPECT_RIGHT_BYTES(tracked) EXPECT_EQ((tracked).first_wrong_byte(), "")

// ---- counts ------------------------------------------------------------------------------------

inline std::vector<BlockCounts> counts_of(const Engine& engine) {
  std::vector<BlockCounts> counts;
  for (std::uint32_t g = 0; g < engine.layout().groups.size(); ++g) {
    counts.push_back(engine.counts(g));
  }
  return counts;
}

inline std::string in_words(const BlockCounts& c) {
  return "free " + std::to_string(c.free) + " open " + std::to_string(c.open) + " referenced " +
         std::to_string(c.referenced) + " idle " + std::to_string(c.idle) + " holds " +
         std::to_string(c.holds) + " entries " + std::to_string(c.entries);
}

inline std::string in_words(const std::vector<BlockCounts>& counts) {
  std::string words;
  for (const BlockCounts& one : counts) words += "[" + in_words(one) + "] ";
  return words;
}

// Collisions seen by all engines of this process: a suite under cut digests must have met some.
inline std::uint64_t& collisions_seen() {
  static std::uint64_t seen = 0;
  return seen;
}

inline void expect_sound(const Engine& engine) {
  const Status ok = engine.check_invariants();
  EXPECT_TRUE(ok) << (ok ? "" : ok.error().message);
  const BlockStats stats = engine.stats().blocks;
  collisions_seen() += stats.content_collisions + stats.key_collisions;
}

// Nobody holds anything: every block comes back, and no entry stays behind.
inline void expect_all_given_back(Engine& engine) {
  engine.evict_idle();
  for (const BlockCounts& counts : counts_of(engine)) {
    EXPECT_EQ(counts.free, counts.capacity) << in_words(counts);
    EXPECT_EQ(counts.holds, 0u);
    EXPECT_EQ(counts.entries, 0u);
  }
  expect_sound(engine);
}

}  // namespace emblema::session_testing
