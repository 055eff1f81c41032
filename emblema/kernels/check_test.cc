// Misuse, one field at a time: refused before any work, in one line that names field and value.
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/kernels/attention.h"
#include "emblema/kernels/attention_case_testing.h"

namespace emblema {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_support::AttentionCase;
using testing_support::grouped_shape;
using testing_support::latent_shape;
using testing_support::Storage;

constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();

// Two sequences, the second of two spans, which a test may spoil.
struct Call {
  Call(const AttentionShape& of, const Storage& storage) : attention(of, storage, 16, 12) {
    attention.add_plain_sequence(20, 2);
    spans = {attention.make_span({.rows = 16}), attention.make_span({.rows = 10, .position = 16})};
    attention.add_sequence(spans, 3, 23);
    attention.sequences[1].spans = spans;
  }

  AttentionCase attention;
  AttentionInputs& inputs = attention.inputs;
  AttentionShape& shape = attention.inputs.shape;
  PagedRows& rows = attention.inputs.rows;
  SequenceInputs& second() { return attention.sequences[1]; }
  std::vector<Span> spans;
};

std::string refused(const std::function<void(Call&)>& spoil,
                    const AttentionShape& shape = grouped_shape(4, 2, 8, 8),
                    const Storage& storage = Encoding::kBf16) {
  Call call(shape, storage);
  spoil(call);
  const std::vector<float> before = call.attention.out;
  const Status status = call.attention.decode();
  if (status) return "accepted";
  EXPECT_EQ(call.attention.out, before) << "nothing may be written by a refused call";
  std::vector<double> out(call.attention.out.size()), lse(call.attention.lse.size());
  const Status reference = reference_attention(call.inputs, out, lse);
  const bool by_isa = call.attention.options.isa.has_value();
  EXPECT_EQ(reference.has_value(), by_isa) << "the reference refuses what kernels refuse";
  EXPECT_THAT(status.error().message, Not(HasSubstr("\n")));
  return status.error().describe();
}

TEST(CheckAttention, AcceptsTheCallThatTheOthersSpoil) {
  EXPECT_EQ(refused([](Call&) {}), "accepted");
  EXPECT_EQ(refused([](Call&) {}, latent_shape(4, 8, 8)), "accepted");
}

TEST(CheckAttention, HeadCounts) {
  EXPECT_EQ(refused([](Call& c) { c.shape.query_heads = 0; }),
            "Invalid: query_heads is 0; allowed: 1 to 65536");
  EXPECT_THAT(refused([](Call& c) { c.shape.query_heads = 65537; }), HasSubstr("is 65537"));
  EXPECT_EQ(refused([](Call& c) { c.shape.kv_heads = 0; }),
            "Invalid: kv_heads is 0; allowed: 1 to 4");
  EXPECT_THAT(refused([](Call& c) { c.shape.kv_heads = 8; }), HasSubstr("kv_heads is 8"));
  EXPECT_EQ(refused([](Call& c) { c.shape.kv_heads = 3; }),
            "Invalid: kv_heads is 3; allowed: a divisor of query_heads (4)");
  EXPECT_EQ(refused([](Call& c) { c.shape.kind = RowKind::kLatent; }),
            "Invalid: kv_heads is 2; allowed: 1 with latent rows");
  EXPECT_THAT(refused([](Call& c) { c.shape.kind = static_cast<RowKind>(9); }),
              HasSubstr("kind is 9"));
}

TEST(CheckAttention, Widths) {
  EXPECT_THAT(refused([](Call& c) { c.shape.key_dim = 0; }), HasSubstr("key_dim is 0"));
  EXPECT_EQ(refused([](Call& c) { c.shape.key_dim = 1025; }),
            "Invalid: key_dim is 1025; allowed: 1 to 1024");
  EXPECT_THAT(refused([](Call& c) { c.shape.value_dim = 0; }), HasSubstr("value_dim is 0"));
  EXPECT_THAT(refused([](Call& c) { c.shape.value_dim = 1025; }), HasSubstr("value_dim is 1025"));
  EXPECT_EQ(refused([](Call& c) { c.shape.value_dim = 17; }, latent_shape(4, 8, 8)),
            "Invalid: value_dim is 17; allowed: 1 to 16");
}

TEST(CheckAttention, ScaleAndSoftcap) {
  EXPECT_THAT(refused([](Call& c) { c.shape.scale = NAN; }), HasSubstr("scale is nan"));
  EXPECT_THAT(refused([](Call& c) { c.shape.scale = INFINITY; }), HasSubstr("scale is inf"));
  EXPECT_THAT(refused([](Call& c) { c.shape.softcap = -1; }), HasSubstr("softcap is -1"));
  EXPECT_THAT(refused([](Call& c) { c.shape.softcap = NAN; }), HasSubstr("softcap is nan"));
}

// Logits are computed in fp32: 1e300 would be infinity there and 1e-60 no cap at all.
TEST(CheckAttention, ScaleAndSoftcapThatFp32DoesNotHold) {
  EXPECT_THAT(refused([](Call& c) { c.shape.scale = -1e300; }), HasSubstr("scale is -1e+300"));
  EXPECT_THAT(refused([](Call& c) { c.shape.softcap = 1e-60; }), HasSubstr("softcap is 1e-60"));
  EXPECT_THAT(refused([](Call& c) { c.shape.softcap = 1e39; }), HasSubstr("softcap is 1e+39"));
  EXPECT_THAT(refused([](Call& c) { c.shape.scale = 1e30, c.shape.softcap = 1e-30; }),
              HasSubstr("softcap is 1e-30; allowed: 0 or from"));
  EXPECT_EQ(refused([](Call& c) { c.shape.scale = 3e38, c.shape.softcap = 1.0; }), "accepted");
}

TEST(CheckAttention, RotaryPartAndRelocation) {
  RopeFacts facts;
  facts.rotary_dim = 8;
  const RopeTable fixed = RopeTable::from(facts, 0).value();
  facts.scaling = RopeScaling::kDynamic;
  const RopeTable dynamic = RopeTable::from(facts, 0).value();
  facts.scaling = RopeScaling::kLongRope;
  facts.original_max_positions = 64;
  facts.short_factor = facts.long_factor = {1, 1, 1, 1};
  const RopeTable two_tables = RopeTable::from(facts, 128).value();
  EXPECT_EQ(refused([&](Call& c) { c.shape.rope = &fixed, c.shape.rotary_offset = 1; }),
            "Invalid: rotary_offset + rotary_dim is 9; allowed: at most key_dim (8)");
  EXPECT_THAT(refused([&](Call& c) { c.shape.rope = &fixed, c.shape.rotary_offset = ~0U; }),
              HasSubstr("is 4294967303"));
  const auto relocate = [](const RopeTable* rope) {
    return refused([&](Call& c) {
      c.shape.rope = rope;
      c.spans[1].position = 0;
      c.spans[1].delta = 16;
    });
  };
  EXPECT_EQ(relocate(&fixed), "accepted");
  const RopeTable none;
  EXPECT_EQ(relocate(&none), "accepted");
  EXPECT_THAT(relocate(nullptr),
              AllOf(HasSubstr("Unsupported"), HasSubstr("sequence 1 span 1 delta is 16")));
  for (const RopeTable* rope : {&dynamic, &two_tables}) {
    EXPECT_THAT(relocate(rope), AllOf(HasSubstr("Unsupported"), HasSubstr("delta is 16")));
  }
}

TEST(CheckAttention, RowMemory) {
  EXPECT_THAT(refused([](Call& c) { c.rows.encoding = Encoding::kInt8; }),
              HasSubstr("rows.encoding is 7; allowed: fp32 (1), fp16 (2), bf16 (3), fp8_e4m3 (4)"));
  EXPECT_EQ(refused([](Call& c) { c.rows.row_bytes = 63; }),
            "Invalid: rows.row_bytes is 63; allowed: at least 64, 32 elements of 2 bytes");
  EXPECT_THAT(refused([](Call& c) { c.rows.block_rows = 0; }), HasSubstr("block_rows is 0"));
  EXPECT_THAT(refused([](Call& c) { c.rows.block_bytes = 16 * c.rows.row_bytes - 1; }),
              HasSubstr("rows.block_bytes is 1119"));
  EXPECT_THAT(refused([](Call& c) { c.rows.block_rows = kHuge; }), HasSubstr("block_bytes is"));
  EXPECT_THAT(refused([](Call& c) { c.rows.base = nullptr; }), HasSubstr("rows.base is null"));
  EXPECT_THAT(refused([](Call& c) { c.rows.block_bytes = kHuge / 2; }),
              HasSubstr("indexes whose offset (x 9223372036854775807 bytes) is below 2^63"));
}

TEST(CheckAttention, SpansInTheirBlocks) {
  EXPECT_EQ(refused([](Call& c) { c.spans[1].first_row = 7; }),
            "Invalid: sequence 1 span 1 first_row + rows is 7 + 10; allowed: at most 16, 1 blocks "
            "of 16 rows");
  EXPECT_THAT(refused([](Call& c) { c.spans[1].rows = 17; }), HasSubstr("is 0 + 17"));
  EXPECT_THAT(refused([](Call& c) { c.spans[1].first_row = kHuge; }),
              HasSubstr("first_row + rows"));
  EXPECT_THAT(refused([](Call& c) { c.spans[1].blocks = {}; }), HasSubstr("blocks is null"));
  EXPECT_THAT(refused([](Call& c) { c.spans[1].blocks = c.spans[1].blocks.first(0); }),
              HasSubstr("at most 0, 0 blocks of 16 rows"));
}

TEST(CheckAttention, BlocksBehindTheEndOfTheRegion) {
  // Shuffled indexes: span 1 of sequence 1 has one block of the region's 12.
  std::uint32_t index = 12;
  const auto point_at = [&index](Call& c) { c.spans[1].blocks = {&index, 1}; };
  EXPECT_EQ(
      refused(point_at),
      "Invalid: sequence 1 span 1 blocks is 12; allowed: indexes below rows.block_count (12)");
  index = 0xFFFFFFFF;
  EXPECT_THAT(refused(point_at), HasSubstr("blocks is 4294967295"));
  index = 11;
  EXPECT_EQ(refused(point_at), "accepted");
  EXPECT_EQ(refused([](Call& c) { c.rows.block_count = 0; }), "accepted") << "0: not stated";
  EXPECT_THAT(refused([](Call& c) { c.rows.block_count = 1; }),
              AllOf(HasSubstr("sequence 0 span 0 blocks is"), HasSubstr("block_count (1)")));
}

TEST(CheckAttention, ASpanWithoutRowsMayHoldAnything) {
  EXPECT_EQ(refused([](Call& c) {
              constexpr std::int64_t kLast = std::numeric_limits<std::int64_t>::max();
              c.spans.push_back({{}, kHuge, 0, kLast, kLast});
              c.second().spans = c.spans;
            }),
            "accepted");
}

TEST(CheckAttention, SpansInOrder) {
  EXPECT_EQ(refused([](Call& c) { c.spans[1].position = 15; }),
            "Invalid: sequence 1 span 1 position + delta is 15; allowed: at least 16, where the "
            "spans before it end");
  EXPECT_THAT(refused([](Call& c) { std::swap(c.spans[0], c.spans[1]); }),
              HasSubstr("position + delta is 0; allowed: at least 26"));
  EXPECT_EQ(refused([](Call& c) { c.spans[1].position = 20; }), "accepted");  // a gap is legal
}

TEST(CheckAttention, PositionsThatADoubleCannotCount) {
  constexpr std::int64_t kMost = AttentionLimits::kPositionMax;
  constexpr std::int64_t kLast = std::numeric_limits<std::int64_t>::max();
  EXPECT_THAT(refused([](Call& c) { c.spans[1].position = kLast; }),
              HasSubstr("span 1 position is"));
  EXPECT_THAT(refused([](Call& c) { c.spans[1].delta = -kLast - 1; }),
              HasSubstr("span 1 delta is"));
  EXPECT_THAT(refused([](Call& c) { c.spans[1].position = c.spans[1].delta = kMost; }),
              HasSubstr("position + delta is 18014398509481984"));
  EXPECT_THAT(refused([](Call& c) { c.spans[1].position = kMost - 9; }),
              HasSubstr("rows is 10; allowed: at most 9"));
  EXPECT_THAT(refused([](Call& c) { c.second().query_position = kLast; }),
              HasSubstr("sequence 1 query_position is 9223372036854775807"));
  EXPECT_THAT(refused([](Call& c) { c.second().query_position = kMost - 2; }),
              HasSubstr("sequence 1 queries is 3; allowed: at most 2"));
}

TEST(CheckAttention, QueriesOfSequences) {
  EXPECT_EQ(refused([](Call& c) { c.second().queries = 4; }),
            "Invalid: sequence 1 first_query + queries is 2 + 4; allowed: at most tokens (5)");
  EXPECT_THAT(refused([](Call& c) { c.second().queries = kHuge; }),
              HasSubstr("first_query + queries"));
  EXPECT_EQ(refused([](Call& c) { c.second().first_query = 1; }),
            "Invalid: sequence 1 first_query is 1; allowed: at least 2, where the sequences before "
            "it end");
}

TEST(CheckAttention, SizesOfResultsAndSinks) {
  EXPECT_EQ(refused([](Call& c) { c.attention.out.pop_back(); }),
            "Invalid: size of out is 159; allowed: tokens x query_heads x value_dim (5 x 32)");
  EXPECT_EQ(refused([](Call& c) { c.attention.lse.push_back(0); }),
            "Invalid: size of lse is 21; allowed: tokens x query_heads (5 x 4)");
  EXPECT_THAT(refused([](Call& c) { c.inputs.tokens = kHuge; }), HasSubstr("size of out"));
  EXPECT_THAT(refused([](Call& c) { c.inputs.q = nullptr; }), HasSubstr("q is null"));
  EXPECT_EQ(refused([](Call& c) {
              c.attention.sinks = {1, 2, 3};
              c.inputs.sinks = c.attention.sinks;
            }),
            "Invalid: size of sinks is 3; allowed: 0 or query_heads (4)");
}

TEST(CheckAttention, WidthsOfFormatsOfOneShape) {
  const Storage mla = RowFormat::kFp8DsMla;
  EXPECT_EQ(refused([](Call&) {}, latent_shape(4, 512, 64), mla), "accepted");
  EXPECT_EQ(refused([](Call& c) { c.shape.value_dim = 576; }, latent_shape(4, 512, 64), mla),
            "Invalid: rows.format is fp8_ds_mla (1); allowed: with latent rows of key_dim 576 and "
            "value_dim 512 only");
  EXPECT_THAT(refused([](Call& c) { c.shape.key_dim = 512; }, latent_shape(4, 512, 64), mla),
              HasSubstr("rows.format is fp8_ds_mla (1)"));
  EXPECT_THAT(
      refused([](Call& c) { c.shape.kind = RowKind::kGrouped; }, latent_shape(4, 512, 64), mla),
      HasSubstr("rows.format is fp8_ds_mla (1)"));
  EXPECT_EQ(refused([](Call& c) { c.rows.row_bytes = 655; }, latent_shape(4, 512, 64), mla),
            "Invalid: rows.row_bytes is 655; allowed: at least 656 in fp8_ds_mla (1)");
  EXPECT_EQ(
      refused([](Call& c) { c.rows.encoding = Encoding::kInt8; }, latent_shape(4, 512, 64), mla),
      "accepted")
      << "the encoding is of plain rows";
  const Storage v4 = RowFormat::kDeepSeekV4;
  EXPECT_EQ(refused([](Call&) {}, latent_shape(4, 512, 0), v4), "accepted");
  EXPECT_EQ(refused([](Call& c) { c.shape.value_dim = 448; }, latent_shape(4, 512, 0), v4),
            "Invalid: rows.format is deepseek_v4 (2); allowed: with latent rows of key_dim 512 and "
            "value_dim 512 only");
  EXPECT_EQ(refused([](Call& c) { c.rows.row_bytes = 575; }, latent_shape(4, 512, 0), v4),
            "Invalid: rows.row_bytes is 575; allowed: at least 576 in deepseek_v4 (2)");
  EXPECT_EQ(refused([](Call& c) { c.rows.format = static_cast<RowFormat>(3); }),
            "Invalid: rows.format is 3; allowed: plain (0), fp8_ds_mla (1), deepseek_v4 (2)");
}

TEST(CheckAttention, ScalesBehindTheRowsAndWithinTheBlock) {
  const auto spoil = [](const std::function<void(PagedRows&)>& change) {
    return refused([&](Call& c) { change(c.rows); }, latent_shape(4, 512, 0),
                   RowFormat::kDeepSeekV4);
  };
  EXPECT_EQ(spoil([](PagedRows& r) { r.scales_offset = 16 * r.row_bytes; }), "accepted");
  EXPECT_EQ(spoil([](PagedRows& r) { r.scales_offset = r.block_bytes - 16 * 8; }), "accepted");
  EXPECT_EQ(spoil([](PagedRows& r) { r.row_bytes = 576, r.scales_offset = 9215; }),
            "Invalid: rows.scales_offset is 9215; allowed: behind the rows (9216 bytes), 8 bytes a "
            "row within block_bytes (9398)");
  EXPECT_THAT(spoil([](PagedRows& r) { r.scales_offset = r.block_bytes - 16 * 8 + 1; }),
              HasSubstr("rows.scales_offset is 9271"));
  EXPECT_THAT(spoil([](PagedRows& r) { r.scales_offset = kHuge; }),
              HasSubstr("rows.scales_offset is 18446744073709551615"));
}

TEST(CheckAttention, ScalesOfEightBitRows) {
  for (const float scale : {0.0F, -1.0F, INFINITY, NAN}) {
    const std::string value = fmt::format("{}", scale);
    EXPECT_EQ(refused([&](Call& c) { c.rows.key_scale = scale; }, grouped_shape(4, 2, 8, 8),
                      Encoding::kFp8E4m3),
              "Invalid: rows.key_scale is " + value + "; allowed: a finite number above 0");
    EXPECT_EQ(refused([&](Call& c) { c.rows.value_scale = scale; }, grouped_shape(4, 2, 8, 8),
                      Encoding::kFp8E4m3),
              "Invalid: rows.value_scale is " + value + "; allowed: a finite number above 0");
  }
}

TEST(CheckAttention, ARelocatedRowWhoseValueIsRotated) {
  RopeFacts facts;
  facts.rotary_dim = 8;
  const RopeTable rope = RopeTable::from(facts, 0).value();
  const auto relocate = [](Call& c) {
    c.spans[1].position = 0;
    c.spans[1].delta = 16;
  };
  EXPECT_EQ(refused(
                [&](Call& c) {
                  relocate(c);
                  c.shape.rope = &rope;
                  c.shape.rotary_offset = 7;
                },
                latent_shape(4, 8, 8)),
            "Unsupported: sequence 1 span 1 delta is 16, but the rows' values carry the rotation "
            "(rotary_offset 7 is below value_dim 8): they cannot be read at another position");
  EXPECT_THAT(refused(
                  [&](Call& c) {
                    relocate(c);
                    c.shape.rope = &rope;
                    c.shape.rotary_offset = 504;
                  },
                  latent_shape(4, 512, 0), RowFormat::kDeepSeekV4),
              AllOf(HasSubstr("Unsupported"), HasSubstr("rotary_offset 504 is below value_dim")));
}

TEST(CheckAttention, AnInstructionSetThatThisMachineLacksIsNamed) {
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAmx}) {
    const Status runs = check_isa(isa);
    const std::string answer = refused([&](Call& c) { c.attention.options.isa = isa; });
    EXPECT_EQ(answer == "accepted", runs.has_value());
    if (runs) continue;
    EXPECT_EQ(answer, runs.error().describe());
    EXPECT_THAT(answer, HasSubstr(fmt::format("Unsupported: {}: ", to_string(isa))));
  }
  EXPECT_THAT(refused([](Call& c) { c.attention.options.isa = static_cast<Isa>(9); }),
              HasSubstr("isa is 9"));
}

TEST(CheckAttention, NothingToDoIsFine) {
  AttentionInputs inputs;
  inputs.shape = grouped_shape(1, 1, 4, 4);
  inputs.rows = {nullptr, 64, 64, 1, Encoding::kFp32};
  EXPECT_TRUE(decode_attention(inputs, {}, {}));
}

// Only a null q, rows.base and blocks were refused; these were read.
TEST(CheckAttention, NullMemoryOfEveryKind) {
  const float* const nowhere = nullptr;
  EXPECT_THAT(refused([&](Call& c) { c.inputs.sinks = {nowhere, 4}; }), HasSubstr("sinks is null"));
  EXPECT_THAT(refused([](Call& c) {
                c.inputs.sequences = {static_cast<const SequenceInputs*>(nullptr), 2};
              }),
              HasSubstr("sequences is null"));
  EXPECT_THAT(refused([](Call& c) {
                c.second().spans = {static_cast<const Span*>(nullptr), 2};
              }),
              HasSubstr("sequence 1 spans is null"));
  Call call(grouped_shape(4, 2, 8, 8), Encoding::kBf16);
  std::vector<float>& out = call.attention.out;
  std::vector<float>& lse = call.attention.lse;
  float* const none = nullptr;
  EXPECT_THAT(decode_attention(call.inputs, {none, out.size()}, lse).error().message,
              HasSubstr("out is null"));
  EXPECT_THAT(decode_attention(call.inputs, out, {none, lse.size()}).error().message,
              HasSubstr("lse is null"));
  EXPECT_THAT(decode_attention(call.inputs, out, std::span(out).subspan(out.size() - lse.size()))
                  .error()
                  .message,
              HasSubstr("lse lies in the memory of out"));
}

TEST(CheckAttention, NullWeightsOfAnExpansion) {
  Call call(latent_shape(2, 8, 4), Encoding::kBf16);
  const std::vector<float> weights(2 * 8 * 3);
  LatentExpansion expansion{weights, weights, 3, 3};
  const std::uint64_t tokens = call.inputs.tokens;
  expansion.key_up = {static_cast<const float*>(nullptr), weights.size()};
  EXPECT_THAT(check_prefill_inputs(call.inputs, expansion, tokens * 6, tokens * 2).error().message,
              HasSubstr("expansion.key_up is null"));
  expansion = {weights, {static_cast<const float*>(nullptr), weights.size()}, 3, 3};
  EXPECT_THAT(check_prefill_inputs(call.inputs, expansion, tokens * 6, tokens * 2).error().message,
              HasSubstr("expansion.value_up is null"));
}

// Entries behind the span were checked too, once for every span that shares a table: quadratic.
TEST(CheckAttention, OnlyBlocksThatASpanReadsAreLookedAt) {
  Call call(grouped_shape(4, 2, 8, 8), Encoding::kBf16);
  std::vector<std::uint32_t> table(call.spans[0].blocks.begin(), call.spans[0].blocks.end());
  table.insert(table.begin(), ~0U);
  table.push_back(~0U);
  call.spans[0].blocks = table;
  call.spans[0].first_row = 16;
  EXPECT_TRUE(call.attention.decode());
  call.spans[0].first_row = 15;
  EXPECT_THAT(call.attention.decode().error().message, HasSubstr("blocks is 4294967295"));
}

}  // namespace
}  // namespace emblema
