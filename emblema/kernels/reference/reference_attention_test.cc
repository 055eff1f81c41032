// Identities of attention, in double, to 1e-12: what every kernel may rely on.
#include "emblema/kernels/reference/reference_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "emblema/kernels/attention_case_testing.h"

namespace emblema {
namespace {

using testing_support::grouped_shape;
using testing_support::relative_difference;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Answer {
  std::vector<double> out;
  std::vector<double> lse;
};

Answer ask(const AttentionShape& shape, const ReferenceRows& rows, const std::vector<double>& q,
           std::int64_t position) {
  Answer answer{std::vector<double>(std::size_t{shape.query_heads} * shape.value_dim),
                std::vector<double>(shape.query_heads)};
  reference_query(shape, rows, q, position, answer.out, answer.lse);
  return answer;
}

std::vector<double> numbers(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> values(count);
  for (double& value : values) value = normal(random);
  return values;
}

ReferenceRows random_rows(const AttentionShape& shape, std::size_t rows) {
  ReferenceRows result;
  for (std::size_t j = 0; j < rows; ++j) result.places.push_back({std::int64_t(j), 0});
  result.keys = numbers(rows * shape.kv_heads * shape.key_dim, 1);
  result.values = numbers(rows * shape.kv_heads * shape.value_dim, 2);
  return result;
}

ReferenceRows part_of(const AttentionShape& shape, const ReferenceRows& rows, std::size_t first,
                      std::size_t end) {
  const auto cut = [&](const std::vector<double>& from, std::size_t width) {
    return std::vector<double>(from.begin() + std::ptrdiff_t(first * width),
                               from.begin() + std::ptrdiff_t(end * width));
  };
  ReferenceRows part;
  part.places.assign(rows.places.begin() + std::ptrdiff_t(first),
                     rows.places.begin() + std::ptrdiff_t(end));
  part.keys = cut(rows.keys, std::size_t{shape.kv_heads} * shape.key_dim);
  part.values = cut(rows.values, std::size_t{shape.kv_heads} * shape.value_dim);
  return part;
}

TEST(ReferenceAttention, SplitAndMergedIsTheWhole) {
  const AttentionShape shape = grouped_shape(6, 2, 24, 16);
  const ReferenceRows rows = random_rows(shape, 37);
  const std::vector<double> q = numbers(6 * 24, 3);
  const Answer whole = ask(shape, rows, q, 36);
  for (const std::size_t cut : {0U, 1U, 16U, 36U, 37U}) {
    Answer merged = ask(shape, part_of(shape, rows, 0, cut), q, 36);
    const Answer more = ask(shape, part_of(shape, rows, cut, 37), q, 36);
    reference_merge(merged.out, merged.lse, more.out, more.lse);
    EXPECT_LE(relative_difference(merged.out, whole.out), 1e-12) << cut;
    EXPECT_LE(relative_difference(merged.lse, whole.lse), 1e-12) << cut;
  }
}

TEST(ReferenceAttention, TheSinkIsOneMoreKeyWithoutAValueHoweverKeysAreSplit) {
  const AttentionShape shape = grouped_shape(3, 1, 8, 8);
  const ReferenceRows rows = random_rows(shape, 21);
  const std::vector<double> q = numbers(3 * 8, 4);
  const std::vector<float> sinks = {0.5F, -3.0F, 9.0F};
  Answer whole = ask(shape, rows, q, 20);
  std::vector<double> by_definition = whole.out;
  for (std::size_t head = 0; head < 3; ++head) {
    const double sum = std::exp(whole.lse[head]);
    const double share = sum / (sum + std::exp(double{sinks[head]}));
    for (std::size_t c = 0; c < 8; ++c) by_definition[head * 8 + c] *= share;
  }
  for (const std::size_t cut : {5U, 20U}) {
    Answer merged = ask(shape, part_of(shape, rows, 0, cut), q, 20);
    const Answer more = ask(shape, part_of(shape, rows, cut, 21), q, 20);
    reference_merge(merged.out, merged.lse, more.out, more.lse);
    reference_finish(merged.out, merged.lse, sinks);
    EXPECT_LE(relative_difference(merged.out, by_definition), 1e-12) << cut;
  }
}

// Keys rotated at p, read as if at p + delta, against keys rotated at p + delta.
void expect_relocation_is_exact(const RopeFacts& facts, std::uint64_t max_positions) {
  const Result<RopeTable> table = RopeTable::from(facts, max_positions);
  ASSERT_TRUE(table) << table.error().describe();
  ASSERT_TRUE(table->fixed_frequencies());
  AttentionShape shape = grouped_shape(4, 2, 40, 12);
  shape.rope = &*table;
  shape.rotary_offset = 40 - facts.rotary_dim;
  ReferenceRows plain = random_rows(shape, 9);
  ReferenceRows fresh = plain;
  ReferenceRows relocated = plain;
  constexpr std::int64_t kDelta = 1000;
  for (std::size_t j = 0; j < 9; ++j) {
    const auto position = static_cast<std::int64_t>(j);
    fresh.places[j] = {position + kDelta, 0};
    relocated.places[j] = {position + kDelta, kDelta};
    for (std::size_t head = 0; head < 2; ++head) {
      const std::size_t at = (j * 2 + head) * 40 + shape.rotary_offset;
      table->rotate(std::span(fresh.keys).subspan(at), position + kDelta);
      table->rotate(std::span(relocated.keys).subspan(at), position);
    }
  }
  std::vector<double> q = numbers(4 * 40, 5);
  for (std::size_t head = 0; head < 4; ++head) {
    table->rotate(std::span(q).subspan(head * 40 + shape.rotary_offset), 1020);
  }
  const Answer want = ask(shape, fresh, q, 1020);
  const Answer got = ask(shape, relocated, q, 1020);
  EXPECT_LE(relative_difference(got.out, want.out), 1e-12);
  EXPECT_LE(relative_difference(got.lse, want.lse), 1e-12);
}

TEST(ReferenceAttention, ARelocatedSpanIsFreshlyRotatedKeysInEveryFixedRope) {
  RopeFacts facts;
  facts.rotary_dim = 40;
  facts.factor = 8;
  facts.original_max_positions = 256;
  for (const RopeScaling scaling :
       {RopeScaling::kNone, RopeScaling::kLinear, RopeScaling::kYarn, RopeScaling::kLlama3}) {
    for (const bool interleaved : {true, false}) {
      facts.scaling = scaling;
      facts.interleaved = interleaved;
      SCOPED_TRACE(static_cast<int>(scaling));
      expect_relocation_is_exact(facts, 4096);
    }
  }
}

TEST(ReferenceAttention, ARelocatedSpanWithPartialRotary) {
  RopeFacts facts;
  facts.rotary_dim = 16;
  expect_relocation_is_exact(facts, 4096);
}

TEST(ReferenceAttention, TheWindowSeesExactlyItsOwnLength) {
  AttentionShape shape = grouped_shape(1, 1, 4, 1);
  shape.window_tokens = 5;
  ReferenceRows rows = random_rows(shape, 12);
  const std::vector<double> q = numbers(4, 6);
  const Answer windowed = ask(shape, rows, q, 9);
  shape.window_tokens = 0;
  const Answer last_five = ask(shape, part_of(shape, rows, 5, 10), q, 9);
  EXPECT_LE(relative_difference(windowed.out, last_five.out), 1e-15);
  EXPECT_LE(relative_difference(windowed.lse, last_five.lse), 1e-15);
}

TEST(ReferenceAttention, SoftcapBoundsTheLogits) {
  AttentionShape shape = grouped_shape(1, 1, 1, 1);
  shape.scale = 1.0;
  shape.softcap = 2.0;
  ReferenceRows rows;
  rows.places = {{0, 0}, {1, 0}};
  rows.keys = {1.0, -3.0};
  rows.values = {1.0, 0.0};
  const Answer answer = ask(shape, rows, {4.0}, 1);
  const double a = 2.0 * std::tanh(2.0), b = 2.0 * std::tanh(-6.0);
  EXPECT_NEAR(answer.lse[0], std::log(std::exp(a) + std::exp(b)), 1e-14);
  EXPECT_NEAR(answer.out[0], std::exp(a) / (std::exp(a) + std::exp(b)), 1e-14);
}

TEST(ReferenceAttention, AQueryThatSeesNothingGivesZeroAndMinusInfinity) {
  const AttentionShape shape = grouped_shape(2, 1, 4, 3);
  const std::vector<double> q = numbers(8, 7);
  for (const std::size_t rows : {0U, 3U}) {
    const Answer answer = ask(shape, random_rows(shape, rows), q, -1);
    EXPECT_EQ(answer.out, std::vector<double>(6, 0.0));
    EXPECT_EQ(answer.lse, std::vector<double>(2, -kInfinity));
  }
}

TEST(ReferenceAttention, ReadsElementsByTheirDefinition) {
  const auto read = [](std::uint32_t bits, Encoding encoding) {
    std::byte bytes[4];
    std::memcpy(bytes, &bits, 4);
    return reference_element(bytes, encoding);
  };
  EXPECT_EQ(read(0x3F80, Encoding::kBf16), 1.0);
  EXPECT_EQ(read(0xC049, Encoding::kBf16), -3.140625);
  EXPECT_EQ(read(0x0001, Encoding::kBf16), std::ldexp(1.0, -133));
  EXPECT_EQ(read(0x3C00, Encoding::kFp16), 1.0);
  EXPECT_EQ(read(0x7BFF, Encoding::kFp16), 65504.0);
  EXPECT_EQ(read(0x0001, Encoding::kFp16), std::ldexp(1.0, -24));
  EXPECT_EQ(read(0xFC00, Encoding::kFp16), -kInfinity);
  EXPECT_TRUE(std::isnan(read(0x7E00, Encoding::kFp16)));
  EXPECT_EQ(read(0x40490FDB, Encoding::kFp32), 13176795.0 / 4194304.0);
  EXPECT_EQ(read(0x00000001, Encoding::kFp32), std::ldexp(1.0, -149));
}

TEST(ReferenceAttention, EightBitNumbersHaveNoInfinityAndTwoCodesThatAreNoNumber) {
  const auto read = [](std::uint8_t bits) {
    const auto stored = static_cast<std::byte>(bits);
    return reference_element(&stored, Encoding::kFp8E4m3);
  };
  EXPECT_EQ(read(0x38), 1.0);
  EXPECT_EQ(read(0xB8), -1.0);
  EXPECT_EQ(read(0x01), std::ldexp(1.0, -9));
  EXPECT_EQ(read(0x08), std::ldexp(1.0, -6));
  EXPECT_EQ(read(0x78), 256.0);
  EXPECT_EQ(read(0x7E), 448.0);
  EXPECT_EQ(read(0xFE), -448.0);
  EXPECT_TRUE(std::isnan(read(0x7F)));
  EXPECT_TRUE(std::isnan(read(0xFF)));
  EXPECT_TRUE(std::signbit(read(0x80)));
}

// One token whose row is given byte by byte.
ReferenceRows one_row(const AttentionShape& shape, const PagedRows& layout) {
  const std::uint32_t block = 0;
  Span span;
  span.blocks = {&block, 1};
  span.rows = 1;
  SequenceInputs sequence;
  sequence.spans = {&span, 1};
  AttentionInputs inputs;
  inputs.shape = shape;
  inputs.rows = layout;
  return reference_rows(inputs, sequence);
}

TEST(ReferenceAttention, TheRowOf656BytesScalesEveryTileOf128) {
  std::vector<std::byte> row(656, std::byte{0x38});  // all codes 1
  const float scales[] = {0.5F, 3.0F, 0.0078125F, 1e-20F};
  std::memcpy(row.data() + 512, scales, 16);
  for (std::size_t i = 0; i < 64; ++i)
    row[528 + 2 * i] = std::byte{0}, row[529 + 2 * i] = std::byte{0xC0};
  PagedRows layout;
  layout.base = row.data();
  layout.row_bytes = layout.block_bytes = 656;
  layout.block_rows = 1;
  layout.format = RowFormat::kFp8DsMla;
  layout.key_scale = 7.0F;  // of plain rows only
  const ReferenceRows rows = one_row(testing_support::latent_shape(1, 512, 64), layout);
  ASSERT_EQ(rows.keys.size(), 576U);
  ASSERT_EQ(rows.values.size(), 512U);
  for (std::size_t i = 0; i < 512; ++i) {
    EXPECT_EQ(rows.keys[i], double{scales[i / 128]}) << i;
    EXPECT_EQ(rows.values[i], rows.keys[i]) << i;
  }
  for (std::size_t i = 512; i < 576; ++i) EXPECT_EQ(rows.keys[i], -2.0) << i;
}

TEST(ReferenceAttention, TheRowOf584BytesHasItsScalesBehindThePage) {
  std::vector<std::byte> page(576 + 8, std::byte{0x40});  // all codes 2
  const int exponents[] = {0, 1, -1, 30, -127, 127, -60};
  for (std::size_t i = 0; i < 7; ++i) page[576 + i] = static_cast<std::byte>(exponents[i] + 127);
  page[583] = std::byte{0xFF};
  for (std::size_t i = 0; i < 64; ++i)
    page[448 + 2 * i] = std::byte{0x80}, page[449 + 2 * i] = std::byte{0x3F};
  PagedRows layout;
  layout.base = page.data();
  layout.row_bytes = 576;
  layout.block_bytes = 584;
  layout.block_rows = 1;
  layout.format = RowFormat::kDeepSeekV4;
  layout.scales_offset = 576;
  const ReferenceRows rows = one_row(testing_support::latent_shape(1, 512, 0), layout);
  ASSERT_EQ(rows.keys.size(), 512U);
  for (std::size_t i = 0; i < 448; ++i) {
    EXPECT_EQ(rows.keys[i], std::ldexp(2.0, exponents[i / 64])) << i;
  }
  for (std::size_t i = 448; i < 512; ++i) EXPECT_EQ(rows.keys[i], 1.0) << i;
  EXPECT_EQ(rows.values, rows.keys);
  page[578] = std::byte{0xFF};
  EXPECT_TRUE(std::isnan(one_row(testing_support::latent_shape(1, 512, 0), layout).keys[2 * 64]));
}

}  // namespace
}  // namespace emblema
