// Sequences of models with state outside blocks, whose every byte is a function of all tokens up to
// it: a reader can tell a wrong one whatever it came from. Part of no library.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "emblema/session/session_testing.h"

namespace emblema::session_testing {

// A full layer of K/V, a recurrent one, a full one: like the hybrids of Mamba and of gated delta
// nets. Blocks of 16; a state is 2 heads of 4 x 4 and 3 columns of a convolution.
inline ModelConfig recurrent_model() {
  ModelConfig model = grouped_model(3);
  model.name = "tiny-hybrid";
  LayerFacts& middle = model.layers[1];
  middle = {};
  middle.cache = LayerCache::kNone;
  middle.has_rope = false;
  middle.recurrent = {.mixer = RecurrentMixer::kMamba2,
                      .conv_channels = 8,
                      .conv_columns = 3,
                      .state_heads = 2,
                      .state_rows = 4,
                      .state_columns = 4};
  return model;
}

// DeepSeek-V4's kinds: two of window only, one CSA, one HCA. Blocks of 128.
inline ModelConfig compressed_model() {
  return samples::deepseek_v4("tiny-v4", 4, 2, 0);
}

// A recurrent layer beside one with a window of 20 and one that sees everything.
inline ModelConfig recurrent_window_model() {
  ModelConfig model = recurrent_model();
  samples::set_window(&model.layers[2], 20);
  return model;
}

// The same beside chunks of 24.
inline ModelConfig recurrent_chunk_model() {
  ModelConfig model = recurrent_model();
  model.layers[2].reach = LayerReach::kChunk;
  model.layers[2].window_tokens = 24;
  return model;
}

class Hybrid {
 public:
  Hybrid(const Engine& engine, Sequence sequence, std::uint64_t root,
         std::span<const TokenId> prompt)
      : engine_(&engine), sequence_(std::move(sequence)), words_{root} {
    append(prompt.first(sequence_.tokens()));
  }

  Sequence* operator->() { return &sequence_; }
  Sequence& operator*() { return sequence_; }
  const std::vector<TokenId>& ids() const { return ids_; }
  std::uint64_t tokens() const { return ids_.size(); }
  const std::vector<std::uint64_t>& words() const { return words_; }

  // As the engine was opened with.
  void set_drafts(std::uint64_t drafts_max) { drafts_max_ = drafts_max; }

  // Writes every stream's rows of these tokens from `first` on (default: behind what is committed).
  void write(std::span<const TokenId> ids, std::optional<std::uint64_t> at = std::nullopt) {
    const std::uint64_t first = at.value_or(sequence_.tokens());
    std::vector<std::uint64_t> words(words_.begin(),
                                     words_.begin() + static_cast<std::ptrdiff_t>(first + 1));
    for (const TokenId id : ids) words.push_back(after_token(words.back(), id));
    for (const LayerGeometry& layer : engine_->geometry().layers()) {
      for (const Stream& stream : layer.streams) {
        if (at && stream.placement == Placement::kPaged) continue;  // replay: there to be read
        write_stream(layer.index, stream, words, first);
      }
    }
  }

  Status commit(std::span<const TokenId> ids) {
    Status ok = sequence_.commit(ids);
    if (ok) append(ids);
    return ok;
  }

  // Reserve, write, commit.
  Status step(std::span<const TokenId> ids) {
    if (Status ok = sequence_.reserve(ids.size()); !ok) return ok;
    write(ids);
    return commit(ids);
  }

  // The rest of a prompt, in steps that end where the engine wants a snapshot.
  Status run(std::span<const TokenId> prompt, std::uint64_t step_tokens) {
    while (tokens() < prompt.size()) {
      std::uint64_t end = std::min<std::uint64_t>(prompt.size(), tokens() + step_tokens);
      end = std::min(end, sequence_.next_snapshot().value_or(end));
      if (Status ok = step(prompt.subspan(tokens(), end - tokens())); !ok) return ok;
    }
    return {};
  }

  // Runs again what the hit could not bring.
  Status replay(std::uint64_t step_tokens) {
    const TokenRange range = sequence_.replay();
    for (std::uint64_t at = range.first; at < range.first + range.count;) {
      const std::uint64_t n = std::min(step_tokens, range.first + range.count - at);
      const auto ids = std::span<const TokenId>(ids_).subspan(at, n);
      if (Status ok = sequence_.reserve(n); !ok) return ok;
      write(ids, at);
      if (Status ok = sequence_.commit(ids); !ok) return ok;
      at += n;
    }
    return sequence_.finish_replay();
  }

  Hybrid fork() {
    auto child = sequence_.fork();
    EXPECT_TRUE(child) << (child ? "" : child.error().message);
    return adopt(std::move(*child));
  }

  // A fork of this sequence that somebody made.
  Hybrid adopt(Sequence child) const {
    Hybrid forked(*engine_, std::move(child), words_, ids_);
    forked.drafts_max_ = drafts_max_;
    return forked;
  }

  Result<TokenRange> truncate(std::uint64_t n) {
    auto again = sequence_.truncate(n);
    if (again) {
      ids_.resize(sequence_.tokens());
      words_.resize(ids_.size() + 1);
    }
    return again;
  }

  // Reads every byte that the next token may read. "" or what is wrong.
  std::string first_wrong_byte() const {
    for (const LayerGeometry& layer : engine_->geometry().layers()) {
      for (const Stream& stream : layer.streams) {
        std::string wrong = wrong_in(layer.index, stream);
        if (!wrong.empty()) return wrong;
      }
    }
    return "";
  }

 private:
  Hybrid(const Engine& engine, Sequence sequence, std::vector<std::uint64_t> words,
         std::vector<TokenId> ids)
      : engine_(&engine),
        sequence_(std::move(sequence)),
        words_(std::move(words)),
        ids_(std::move(ids)) {}

  void append(std::span<const TokenId> ids) {
    for (const TokenId id : ids) {
      words_.push_back(after_token(words_.back(), id));
      ids_.push_back(id);
    }
  }

  static void expected(std::uint64_t word, std::uint32_t layer, StreamRole role, ByteSpan row) {
    expected_row({mix(word, static_cast<std::uint64_t>(role)), 0}, layer, row);
  }

  // Rows of tokens first ... end, words[i] being the context behind i tokens.
  void write_stream(std::uint32_t layer, const Stream& stream,
                    const std::vector<std::uint64_t>& words, std::uint64_t first) {
    const std::uint64_t end = words.size() - 1;
    std::uint64_t from = first;
    const std::uint64_t drafts = drafts_max_;
    if (stream.role == StreamRole::kState) from = last(from, end, drafts + 1);
    if (stream.role == StreamRole::kCompressor) {
      from = last(from, end, stream.retention_tokens + drafts);
    }
    const auto view = sequence_.rows(layer, stream.role, from, end - from);
    ASSERT_TRUE(view) << view.error().message;
    std::uint64_t rows = 0;
    for (std::uint64_t c = 0; c < view->size(); ++c) {
      const RowChunk chunk = (*view)[c];
      for (std::uint64_t r = 0; r < chunk.rows; ++r, ++rows) {
        const std::uint64_t closes = chunk.first_token + (r + 1) * stream.stride_tokens;
        ASSERT_LE(closes, end);
        expected(words[closes], layer, stream.role,
                 {chunk.data + r * chunk.row_bytes, chunk.row_bytes});
      }
    }
    ASSERT_EQ(rows, end / stream.stride_tokens - from / stream.stride_tokens);
  }

  static std::uint64_t last(std::uint64_t from, std::uint64_t end, std::uint64_t rows) {
    return std::max(from, end - std::min(end, rows));
  }

  // First position whose row the next token reads.
  std::uint64_t needed_from(const Stream& stream) const {
    const std::uint64_t end = tokens();
    switch (stream.retention) {
      case Retention::kWindow:
        return last(0, end, stream.retention_tokens - 1);
      case Retention::kFixed:
        return last(0, end, stream.role == StreamRole::kState ? 1 : stream.retention_tokens);
      case Retention::kChunk:
        return end / stream.retention_tokens * stream.retention_tokens;
      default:
        return 0;
    }
  }

  std::string wrong_in(std::uint32_t layer, const Stream& stream) const {
    const std::uint64_t stride = stream.stride_tokens;
    for (std::uint64_t at = 0; at + stride <= tokens(); at += stride) {
      const ConstByteSpan row = sequence_.row_bytes(layer, stream.role, at);
      const std::string where = std::string(to_string(stream.role)) + " of layer " +
                                std::to_string(layer) + " at " + std::to_string(at) + " of " +
                                std::to_string(tokens());
      if (row.empty()) {
        if (at >= needed_from(stream)) return where + ": missing";
        continue;
      }
      std::vector<std::byte> want(row.size());
      expected(words_[at + stride], layer, stream.role, want);
      if (!std::ranges::equal(row, want)) return where + ": not the bytes that were stored";
    }
    return "";
  }

  const Engine* engine_;
  Sequence sequence_;
  std::vector<std::uint64_t> words_;  // [i] behind i tokens
  std::vector<TokenId> ids_;
  std::uint64_t drafts_max_ = 0;
};

inline Hybrid start_hybrid(Engine& engine, const StartRequest& request) {
  auto sequence = engine.start(request);
  EXPECT_TRUE(sequence) << (sequence ? "" : sequence.error().message);
  return {engine, std::move(*sequence), identity_word(request), request.tokens};
}

// Room for `sequences` of `tokens` tokens and `snapshots` snapshots.
inline Engine open_hybrid(const ModelConfig& model, std::uint64_t sequences, std::uint64_t tokens,
                          std::uint64_t snapshots, EngineOptions options = {}) {
  const ModelGeometry geometry = geometry_of(model);
  const ModelLayout layout = ModelLayout::native(geometry).value();
  const ArenaLayout arena = layout.arena.with_drafts(options.draft_tokens_max).value();
  if (options.step_tokens == 2048) options.step_tokens = 64;
  options.max_sequences = sequences;
  options.sequence_tokens = tokens;
  const bool keeps = layout.snapshot && options.snapshots != SnapshotPolicy::kZero;
  options.snapshot_bytes = keeps ? snapshots * layout.snapshot->block_bytes : 0;
  options.pool_bytes = *options.snapshot_bytes + sequences * arena.slot_bytes +
                       options.steps_max * arena.step_bytes(options.step_tokens);
  for (const BlockLayout& group : layout.groups) {
    options.pool_bytes +=
        group.block_bytes * sequences * (ceil_div(tokens, group.block_tokens) + 3);
  }
  if (options.digest_bits_for_test == 256) options.digest_bits_for_test = digest_bits_under_test();
  auto engine = Engine::open(geometry, options);
  EXPECT_TRUE(engine) << (engine ? "" : engine.error().describe());
  return std::move(*engine);
}

}  // namespace emblema::session_testing
