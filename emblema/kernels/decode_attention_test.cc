// The kernels against the double-precision reference over the very same stored rows: families,
// storages, ragged sizes, masks, spans.
//
// Bounds (attention_truth_testing.h) hold whatever the storage: both sides read the same stored
// numbers, and inputs and logits are N(0, 1).
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "emblema/kernels/attention.h"
#include "emblema/kernels/attention_truth_testing.h"

namespace emblema {
namespace {

using testing_support::AttentionCase;
using testing_support::bound_of;
using testing_support::expect_reference;
using testing_support::grouped_shape;
using testing_support::latent_shape;
using testing_support::relative_difference;
using testing_support::Storage;

const Storage kStorages[] = {Encoding::kBf16, Encoding::kFp16, Encoding::kFp32, Encoding::kFp8E4m3};

TEST(DecodeAttention, EveryRaggedLengthOfLatentRows) {
  for (std::uint64_t rows = 1; rows <= 65; ++rows) {
    AttentionCase call(latent_shape(3, 32, 8), Encoding::kBf16, rows % 2 == 0 ? 16 : 64, 6, rows);
    call.add_plain_sequence(rows, 1);
    expect_reference(call, fmt::format("{} rows", rows));
  }
}

TEST(DecodeAttention, EveryRaggedLengthOfGroupedRows) {
  for (std::uint64_t rows = 1; rows <= 65; ++rows) {
    AttentionCase call(grouped_shape(6, 2, 20, 12), Encoding::kFp16, rows % 2 == 0 ? 16 : 64, 6,
                       rows);
    call.add_plain_sequence(rows, std::min<std::uint64_t>(rows, 3));
    expect_reference(call, fmt::format("{} rows", rows));
  }
}

TEST(DecodeAttention, EveryStorageOfTrueModelShapes) {
  const AttentionShape shapes[] = {
      latent_shape(16, 512, 64),        // DeepSeek-V2-Lite
      latent_shape(40, 256, 32),        // MiniCPM3
      grouped_shape(8, 2, 128, 128),    // Llama
      grouped_shape(4, 2, 64, 64),      // gpt-oss
      grouped_shape(4, 4, 256, 256),    // Gemma
      grouped_shape(4, 1, 96, 96),      // one KV head
      grouped_shape(4, 4, 192, 128),    // expanded MLA: keys wider than values
      grouped_shape(2, 2, 576, 512),    //
      grouped_shape(2, 1, 1024, 1024),  // the widest allowed
      grouped_shape(2, 2, 1, 1),       grouped_shape(6, 3, 7, 13),
  };
  for (const Storage& storage : kStorages) {
    for (const AttentionShape& shape : shapes) {
      AttentionCase call(shape, storage, 16, 8);
      call.add_plain_sequence(37, 2);
      expect_reference(call, fmt::format("{} heads {} key {} value {}", storage.name(),
                                         shape.query_heads, shape.key_dim, shape.value_dim));
    }
  }
}

TEST(DecodeAttention, FormatsWithTheirScalesInTheRowAndBesideThePage) {
  for (const std::uint64_t block_rows : {1ULL, 20ULL, 64ULL}) {
    AttentionCase mla(latent_shape(16, 512, 64), RowFormat::kFp8DsMla, block_rows, 80);
    mla.add_plain_sequence(37, 2);
    expect_reference(mla, fmt::format("656 B, {} rows a block", block_rows));
    AttentionCase v4(latent_shape(16, 512, 0), RowFormat::kDeepSeekV4, block_rows, 80);
    v4.add_sinks();
    v4.add_plain_sequence(37, 2);
    expect_reference(v4, fmt::format("584 B, {} rows a block", block_rows));
  }
}

TEST(DecodeAttention, FromOneToManyHeads) {
  for (const std::uint32_t heads : {1U, 2U, 3U, 5U, 15U, 16U, 17U, 31U, 33U, 64U, 128U}) {
    AttentionCase latent(latent_shape(heads, 64, 16), Encoding::kBf16, 64, 2, heads);
    latent.add_plain_sequence(33, 1);
    expect_reference(latent, fmt::format("{} latent heads", heads));
    AttentionCase single(grouped_shape(heads, heads, 16, 16), Encoding::kBf16, 16, 3, heads);
    single.add_plain_sequence(33, 1);
    expect_reference(single, fmt::format("{} heads of their own", heads));
  }
}

TEST(DecodeAttention, ChunksBeginAnewAlsoWithinAStepAndBesideAWindow) {
  for (const std::uint64_t chunk : {1ULL, 5ULL, 16ULL, 33ULL, 1000ULL}) {
    for (const std::uint64_t window : {0ULL, 7ULL}) {
      AttentionShape shape = grouped_shape(6, 2, 16, 24);
      shape.chunk_tokens = chunk;
      shape.window_tokens = window;
      AttentionCase call(shape, Encoding::kBf16, 16, 20, chunk);
      call.add_plain_sequence(50, 7);
      call.add_plain_sequence(16, 16);
      call.add_plain_sequence(33, 1);
      expect_reference(call, fmt::format("chunk {} window {}", chunk, window));
    }
  }
}

TEST(DecodeAttention, WindowsSoftcapAndSinksTogether) {
  for (const std::uint64_t window : {0ULL, 1ULL, 2ULL, 15ULL, 16ULL, 17ULL, 63ULL, 1000ULL}) {
    for (const bool is_latent : {true, false}) {
      AttentionShape shape = is_latent ? latent_shape(5, 24, 8) : grouped_shape(6, 2, 16, 24);
      shape.window_tokens = window;
      shape.softcap = window % 2 == 0 ? 1.5 : 0.0;
      AttentionCase call(shape, Encoding::kBf16, 16, 20, window);
      call.add_sinks();
      call.add_plain_sequence(50, 7);
      call.add_plain_sequence(16, 16);
      expect_reference(call, fmt::format("window {}", window));
    }
  }
}

RopeTable some_rope(std::uint32_t rotary_dim, bool interleaved) {
  RopeFacts facts;
  facts.rotary_dim = rotary_dim;
  facts.interleaved = interleaved;
  facts.scaling = RopeScaling::kYarn;
  facts.factor = 32;
  facts.original_max_positions = 4096;
  return RopeTable::from(facts, 131072).value();
}

TEST(DecodeAttention, RelocatedSpansOfManySequencesOverSharedBlocks) {
  const RopeTable rope = some_rope(8, true);
  AttentionShape shape = latent_shape(6, 24, 8);
  shape.rope = &rope;
  AttentionCase call(shape, Encoding::kBf16, 16, 24);
  const std::vector<std::uint32_t> document = call.take_blocks(3);
  for (const std::int64_t preamble : {0, 1, 13, 16, 40}) {
    std::vector<Span> spans;
    if (preamble > 0) spans.push_back(call.make_span({.rows = std::uint64_t(preamble)}));
    spans.push_back(call.make_span({.rows = 41, .delta = preamble}, document));
    spans.push_back(call.make_span({.rows = 9, .position = preamble + 41, .first_row = 5}));
    call.add_sequence(std::move(spans), 3, preamble + 41 + 6);
  }
  expect_reference(call, "five preambles before one document");
}

TEST(DecodeAttention, RelocatedGroupedSpansWithPartialRotaryAndAWindow) {
  const RopeTable rope = some_rope(12, false);
  AttentionShape shape = grouped_shape(4, 2, 20, 8);
  shape.rope = &rope;
  shape.window_tokens = 11;
  AttentionCase call(shape, Encoding::kFp32, 16, 16);
  std::vector<Span> spans = {call.make_span({.rows = 10, .position = 5, .delta = -5}),
                             call.make_span({.rows = 20, .position = 0, .delta = 10}),
                             call.make_span({.rows = 0, .position = 7, .delta = 99}),
                             call.make_span({.rows = 4, .position = 30})};
  call.add_sequence(std::move(spans), 20, 14);
  expect_reference(call, "negative and positive deltas, a gap-free window over three spans");
}

TEST(DecodeAttention, ARaggedBatchWithEmptySequencesAndRowsOfNobody) {
  AttentionCase call(grouped_shape(4, 2, 16, 16), Encoding::kBf16, 16, 20);
  call.add_plain_sequence(33, 1);
  call.add_sequence({}, 2, 5);                             // nothing cached
  call.add_sequence({call.make_span({.rows = 3})}, 0, 0);  // nobody asks
  call.add_plain_sequence(1, 1);
  call.add_plain_sequence(64, 17);
  // The last sequence keeps only its first five queries: twelve rows of q are nobody's.
  call.sequences.back().queries = 5;
  expect_reference(call, "ragged batch");
  const std::size_t width = 4 * 16;
  for (std::size_t i = 1 * width; i < 3 * width; ++i) EXPECT_EQ(call.out[i], 0.0F);
  for (std::size_t i = call.out.size() - 12 * width; i < call.out.size(); ++i) {
    EXPECT_EQ(call.out[i], 0.0F);
  }
  EXPECT_EQ(call.lse.back(), -std::numeric_limits<float>::infinity());
}

TEST(DecodeAttention, LongSequencesKeepTheBound) {
  AttentionCase call(grouped_shape(2, 1, 16, 16), Encoding::kBf16, 64, 257);
  call.add_plain_sequence(16'400, 1);
  expect_reference(call, "16,400 rows");
}

// Large logits: e^z leaves fp32 without a running maximum.
TEST(DecodeAttention, LogitsFarFromZero) {
  AttentionShape shape = grouped_shape(2, 1, 8, 8);
  shape.scale = 40.0;
  AttentionCase call(shape, Encoding::kFp32, 16, 8);
  call.add_plain_sequence(70, 4);
  // |z| reaches 500: its fp32 rounding, 500 x 2^-24, is a relative error of 3e-5 in e^z.
  expect_reference(call, "logits to 500", 15.0);
}

// Bits depend on a query and what it sees, never on who else is in the call.
void expect_same_bits_in_chunks(Isa isa, const Storage& storage) {
  AttentionShape shape = grouped_shape(6, 2, 36, 20);
  shape.window_tokens = 23;
  AttentionCase call(shape, storage, 16, 20);
  call.options.isa = isa;
  call.add_plain_sequence(3, 1);
  call.add_plain_sequence(60, 29);
  ASSERT_TRUE(call.decode());
  const std::vector<float> together = call.out;
  ASSERT_TRUE(call.decode());
  EXPECT_EQ(call.out, together);
  SequenceInputs alone = call.sequences[1];
  call.inputs.sequences = {&alone, 1};
  const std::size_t width = 6 * 20;
  for (const std::uint64_t chunk : {1ULL, 2ULL, 3ULL, 7ULL}) {
    for (std::uint64_t first = 0; first < 29; first += chunk) {
      alone = call.sequences[1];
      alone.first_query += first;
      alone.query_position += static_cast<std::int64_t>(first);
      alone.queries = std::min<std::uint64_t>(chunk, 29 - first);
      ASSERT_TRUE(call.decode());
      for (std::size_t i = 0; i < alone.queries * width; ++i) {
        const std::size_t at = alone.first_query * width + i;
        ASSERT_EQ(call.out[at], together[at]) << "chunk " << chunk << " from " << first;
      }
    }
  }
}

TEST(DecodeAttention, TheSameBitsAloneInABatchAndInChunks) {
  for (const Isa isa : runnable_isas()) {
    SCOPED_TRACE(to_string(isa));
    for (const Storage& storage : kStorages) expect_same_bits_in_chunks(isa, storage);
  }
}

void expect_parts_are_the_whole(Isa isa) {
  AttentionCase call(latent_shape(4, 24, 8), Encoding::kBf16, 16, 8);
  call.options.isa = isa;
  call.add_plain_sequence(50, 2);
  ASSERT_TRUE(call.decode());
  const std::vector<float> whole = call.out;
  const std::vector<float> whole_lse = call.lse;
  const Span span = call.sequences[0].spans[0];
  const double bound = 2 * bound_of(isa, call.storage);  // both sides have their error
  for (const std::uint64_t cut : {0ULL, 1ULL, 16ULL, 31ULL, 49ULL, 50ULL}) {
    Span parts[2] = {span, span};
    parts[0].rows = cut;
    parts[1].first_row = cut;
    parts[1].rows = 50 - cut;
    parts[1].position = static_cast<std::int64_t>(cut);
    call.sequences[0].spans = {parts, 1};
    ASSERT_TRUE(call.decode());
    std::vector<float> out = call.out;
    std::vector<float> lse = call.lse;
    call.sequences[0].spans = {parts + 1, 1};
    ASSERT_TRUE(call.decode());
    merge_attention(out, lse, call.out, call.lse);
    EXPECT_LE(relative_difference(out, whole), bound) << cut;
    EXPECT_LE(relative_difference(lse, whole_lse), bound) << cut;
    call.sequences[0].spans = parts;
    ASSERT_TRUE(call.decode());
    EXPECT_LE(relative_difference(call.out, whole), bound) << cut;
  }
}

TEST(DecodeAttention, SpansPartedAnywhereAndMergedAreTheWhole) {
  for (const Isa isa : runnable_isas()) {
    SCOPED_TRACE(to_string(isa));
    expect_parts_are_the_whole(isa);
  }
}

}  // namespace
}  // namespace emblema
