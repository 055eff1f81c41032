// The tile kernels against the double-precision reference, end to end. Both sides read the same
// stored rows; queries are bf16 numbers already, so what is left is the rounding of probabilities
// (at most 2^-9 each, 1.7e-3 in norm where seen) and fp32 sums.
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "emblema/kernels/attention.h"
#include "emblema/kernels/attention_case_testing.h"
#include "emblema/kernels/block_primitives.h"
#include "emblema/kernels/reference/reference_attention.h"
#include "emblema/layout/fp8.h"

namespace emblema {
namespace {

using testing_support::AttentionCase;
using testing_support::grouped_shape;
using testing_support::latent_shape;
using testing_support::relative_difference;

constexpr double kOutBound = 4e-3;
constexpr double kLseBound = 2e-5;

constexpr AttentionOptions kByTiles{.isa = Isa::kAmx};

class AmxPrimitives : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const Status s = check_isa(Isa::kAmx); !s) GTEST_SKIP() << s.error().message;
  }
};

void round_queries(AttentionCase& call) {
  for (float& q : call.q) q = fp32_from_bf16(bf16_from_fp32(q));
}

void decode(AttentionCase& call) {
  const Status got = decode_attention(call.inputs, call.out, call.lse, kByTiles);
  ASSERT_TRUE(got) << got.error().describe();
}

// Absolute below 1, relative above.
double largest_difference(const std::vector<float>& a, const std::vector<double>& b) {
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<double>(a[i]);
    if (x == b[i] || (std::isnan(x) && std::isnan(b[i]))) continue;
    const double difference = std::abs(x - b[i]) / std::max(1.0, std::abs(b[i]));
    largest = std::isnan(difference) ? std::numeric_limits<double>::infinity()
                                     : std::max(largest, difference);
  }
  return largest;
}

// `want` holds the same numbers as `call`, stored so that the reference reads them.
void expect_numbers_of(AttentionCase& want, AttentionCase& call, const std::string& name) {
  std::vector<double> out(call.out.size());
  std::vector<double> lse(call.lse.size());
  ASSERT_TRUE(reference_attention(want.inputs, out, lse)) << name;
  decode(call);
  EXPECT_LE(relative_difference(call.out, out), kOutBound) << name;
  EXPECT_LE(largest_difference(call.lse, lse), kLseBound) << name;
}

void expect_reference(AttentionCase& call, const std::string& name) {
  round_queries(call);
  expect_numbers_of(call, call, name);
}

TEST_F(AmxPrimitives, LatentRowsForAnyNumberOfHeads) {
  for (const std::uint32_t heads : {1U, 5U, 16U, 17U, 33U, 128U}) {
    AttentionCase call(latent_shape(heads, 512, 64), Encoding::kBf16, 64, 3, heads);
    call.add_plain_sequence(70, 1);
    expect_reference(call, fmt::format("{} heads", heads));
  }
}

TEST_F(AmxPrimitives, EveryRaggedLengthAndPageSize) {
  for (const std::uint64_t page : {1ULL, 16ULL, 20ULL, 64ULL}) {
    for (std::uint64_t rows = 1; rows <= 70; ++rows) {
      AttentionCase call(latent_shape(5, 64, 32), Encoding::kBf16, page, 80 / page + 2, rows);
      call.add_plain_sequence(rows, 1);
      expect_reference(call, fmt::format("{} rows in pages of {}", rows, page));
    }
  }
}

TEST_F(AmxPrimitives, BlocksOfRowsEndAnywhere) {
  for (const std::uint64_t page : {16ULL, 20ULL, 64ULL}) {
    for (const std::uint64_t rows : {255ULL, 256ULL, 257ULL, 300ULL}) {
      for (const std::uint64_t first : {0ULL, 5ULL}) {
        AttentionCase call(latent_shape(17, 96, 32), Encoding::kBf16, page, 340 / page + 2, rows);
        call.add_sequence({call.make_span({.rows = rows, .first_row = first})}, 1,
                          static_cast<std::int64_t>(rows));
        expect_reference(call, fmt::format("{} rows from {} in pages of {}", rows, first, page));
      }
    }
  }
}

TEST_F(AmxPrimitives, GroupedRowsOfEveryWidth) {
  for (const std::uint32_t width : {1U, 20U, 64U, 96U, 128U, 256U}) {
    for (const std::uint32_t value : {width, width + 12}) {
      AttentionCase call(grouped_shape(12, 2, width, value), Encoding::kBf16, 16, 22, width);
      call.add_plain_sequence(270, 3);
      expect_reference(call, fmt::format("keys of {}, values of {}", width, value));
    }
  }
  AttentionCase widest(grouped_shape(2, 1, 1024, 1024), Encoding::kBf16, 16, 4);
  widest.add_plain_sequence(37, 2);
  expect_reference(widest, "the widest allowed");
}

TEST_F(AmxPrimitives, CausalWindowsChunksSoftcapAndSinks) {
  for (const std::uint64_t window : {0ULL, 1ULL, 15ULL, 33ULL, 260ULL}) {
    for (const bool is_latent : {true, false}) {
      AttentionShape shape = is_latent ? latent_shape(5, 64, 32) : grouped_shape(6, 2, 32, 24);
      shape.window_tokens = window;
      shape.softcap = window % 2 == 0 ? 1.5 : 0.0;
      shape.chunk_tokens = window == 15 ? 40 : 0;
      AttentionCase call(shape, Encoding::kBf16, 16, 24, window);
      call.add_sinks();
      call.add_plain_sequence(300, 37);
      call.add_plain_sequence(16, 16);
      expect_reference(call, fmt::format("window {}", window));
    }
  }
}

// Logits that rise along the rows move the origin again and again, by large steps.
TEST_F(AmxPrimitives, LogitsThatRiseWithoutEnd) {
  AttentionCase call(grouped_shape(20, 1, 32, 40), Encoding::kBf16, 16, 40);
  call.add_plain_sequence(600, 1);
  call.inputs.shape.scale = 1.0;
  for (float& q : call.q) q = 0.25F;
  for (std::uint64_t row = 0; row < 600; ++row) {
    const std::uint64_t block = call.inputs.sequences[0].spans[0].blocks[row / 16];
    for (std::uint64_t i = 0; i < 32; ++i) {
      const float rising = -60.0F + 0.25F * static_cast<float>(row);
      call.store(block, row % 16, i, i == 3 ? rising : 0.0F);
    }
  }
  expect_reference(call, "rising logits");
  for (float& q : call.q) q = -16.0F;
  expect_numbers_of(call, call, "falling logits");
}

TEST_F(AmxPrimitives, AnAbyssBetweenRows) {
  AttentionCase call(latent_shape(3, 32, 32), Encoding::kBf16, 64, 8);
  call.add_plain_sequence(400, 1);
  call.inputs.shape.scale = 30.0;
  expect_reference(call, "logits of several hundreds");
}

// The same seed draws the same numbers: one call's rows in fp32, rounded; the other's as stored.
constexpr std::uint64_t kSeed = 77;

float draw_e4m3(std::mt19937_64& random, std::byte* code) {
  std::normal_distribution<float> normal;
  for (;;) {
    const auto bits = static_cast<std::uint8_t>(random());
    const float value = fp32_from_e4m3(bits);
    if (!std::isfinite(value) || std::abs(value) > 4.0F) continue;
    *code = static_cast<std::byte>(bits);
    return value;
  }
}

float draw_bf16(std::mt19937_64& random, std::byte* to) {
  std::normal_distribution<float> normal;
  const std::uint16_t bits = bf16_from_fp32(normal(random));
  std::memcpy(to, &bits, sizeof bits);
  return fp32_from_bf16(bits);
}

// Writes one row of a format; `numbers` becomes what it says.
using RowWriter = void (*)(const PagedRows& rows, std::mt19937_64& random, std::byte* row,
                           std::byte* scales, std::vector<float>& numbers);

// A call over rows of a format, and the same numbers in fp32.
void expect_format(AttentionShape shape, PagedRows rows, RowWriter write, const std::string& name) {
  AttentionCase want(shape, Encoding::kFp32, rows.block_rows, 8, kSeed);
  want.add_plain_sequence(100, 3);
  round_queries(want);
  AttentionCase call(shape, Encoding::kFp32, rows.block_rows, 8, kSeed);
  call.add_plain_sequence(100, 3);
  call.q = want.q;
  call.inputs.q = call.q.data();
  rows.scales_offset = rows.row_bytes * rows.block_rows;
  rows.block_bytes = rows.scales_offset + 8 * rows.block_rows;
  rows.block_count = 8;
  call.memory.assign(rows.block_bytes * rows.block_count, std::byte{0xff});
  rows.base = call.memory.data();
  call.inputs.rows = rows;
  std::mt19937_64 random(kSeed);
  std::vector<float> numbers(want.row_elements());
  for (std::uint64_t block = 0; block < 8; ++block) {
    std::byte* page = call.memory.data() + block * rows.block_bytes;
    for (std::uint64_t r = 0; r < rows.block_rows; ++r) {
      write(rows, random, page + r * rows.row_bytes, page + rows.scales_offset + r * 8, numbers);
      for (std::uint64_t i = 0; i < numbers.size(); ++i) want.store(block, r, i, numbers[i]);
    }
  }
  expect_numbers_of(want, call, name);
}

void write_plain_e4m3(const PagedRows& rows, std::mt19937_64& random, std::byte* row, std::byte*,
                      std::vector<float>& numbers) {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = draw_e4m3(random, row + i) * (i < 64 ? rows.key_scale : rows.value_scale);
  }
}

TEST_F(AmxPrimitives, EightBitRowsKeepTheirScaleExactly) {
  PagedRows rows;
  rows.encoding = Encoding::kFp8E4m3;
  rows.block_rows = 16;
  rows.key_scale = 0.3F;
  rows.value_scale = 1.7F;
  rows.row_bytes = 64 + 2 * 44;
  expect_format(grouped_shape(12, 2, 32, 44), rows, write_plain_e4m3, "grouped e4m3");
  rows.value_scale = rows.key_scale;
  rows.row_bytes = 96;
  expect_format(latent_shape(5, 64, 32), rows, write_plain_e4m3, "latent e4m3");
}

void write_fp8_ds_mla(const PagedRows&, std::mt19937_64& random, std::byte* row, std::byte*,
                      std::vector<float>& numbers) {
  for (std::size_t i = 0; i < 512; ++i) {
    const std::size_t part = i / 128;
    const float scale = 0.25F * static_cast<float>(1 + part);
    std::memcpy(row + 512 + part * 4, &scale, sizeof scale);
    numbers[i] = draw_e4m3(random, row + i) * scale;
  }
  for (std::size_t i = 0; i < 64; ++i) numbers[512 + i] = draw_bf16(random, row + 528 + 2 * i);
}

void write_v4(const PagedRows&, std::mt19937_64& random, std::byte* row, std::byte* scales,
              std::vector<float>& numbers) {
  for (std::size_t i = 0; i < 448; ++i) {
    const auto exponent = static_cast<int>(i / 64) - 3;
    scales[i / 64] = static_cast<std::byte>(127 + exponent);
    numbers[i] = std::ldexp(draw_e4m3(random, row + i), exponent);
  }
  for (std::size_t i = 0; i < 64; ++i) numbers[448 + i] = draw_bf16(random, row + 448 + 2 * i);
}

TEST_F(AmxPrimitives, RowsWithScalesOfTheirOwn) {
  PagedRows rows;
  rows.block_rows = 64;
  rows.format = RowFormat::kFp8DsMla;
  rows.row_bytes = 656;
  expect_format(latent_shape(17, 512, 64), rows, write_fp8_ds_mla, "fp8_ds_mla");
  rows.format = RowFormat::kDeepSeekV4;
  rows.row_bytes = 576;
  AttentionShape shape = latent_shape(8, 512, 0);
  shape.rotary_offset = 448;
  shape.scale = 0.01;  // numbers reach 8 x 4
  expect_format(shape, rows, write_v4, "DeepSeek-V4");
}

// NaN and infinity reach only queries that see their row, in either half of it.
TEST_F(AmxPrimitives, NotANumberReachesOnlyThoseWhoSeeIt) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const bool is_latent : {true, false}) {
    for (const std::uint64_t bad : {0ULL, 13ULL, 31ULL, 47ULL, 69ULL}) {
      AttentionShape shape = is_latent ? latent_shape(3, 64, 32) : grouped_shape(6, 2, 32, 40);
      shape.window_tokens = 20;
      AttentionCase call(shape, Encoding::kBf16, 16, 12, bad);
      call.add_plain_sequence(70, 60);
      const std::uint64_t block = call.inputs.sequences[0].spans[0].blocks[bad / 16];
      for (std::uint64_t i = 0; i < call.row_elements(); ++i) {
        call.store(block, bad % 16, i, i % 3 == 0 ? kNan : kInfinity);
      }
      decode(call);
      const std::size_t width = call.out.size() / 60;
      for (std::uint64_t q = 0; q < 60; ++q) {
        const bool sees = q + 10 >= bad && q + 10 < bad + 20;
        for (std::size_t i = 0; i < width; ++i) {
          ASSERT_EQ(std::isnan(call.out[q * width + i]), sees) << bad << " " << q << " " << i;
        }
      }
    }
  }
}

// What lies around the rows belongs to nobody: past the last row, and before the first.
TEST_F(AmxPrimitives, RowsOfNobodyMayHoldAnything) {
  AttentionCase call(latent_shape(5, 64, 32), Encoding::kBf16, 64, 4);
  call.add_sequence({call.make_span({.rows = 37, .first_row = 11})}, 1, 100);
  const std::uint64_t block = call.inputs.sequences[0].spans[0].blocks[0];
  for (std::uint64_t row = 0; row < 64; ++row) {
    if (row >= 11 && row < 48) continue;
    for (std::uint64_t i = 0; i < 96; ++i) {
      call.store(block, row, i, std::numeric_limits<float>::quiet_NaN());
    }
  }
  expect_reference(call, "37 rows among others");
}

// Bits depend on a query and what it sees, never on who else is in the call.
TEST_F(AmxPrimitives, TheSameBitsAloneAndTogether) {
  for (const std::uint64_t window : {0ULL, 23ULL, 290ULL}) {
    for (const bool is_latent : {true, false}) {
      AttentionShape shape = is_latent ? latent_shape(7, 64, 32) : grouped_shape(6, 2, 36, 20);
      shape.window_tokens = window;
      AttentionCase call(shape, Encoding::kBf16, 16, 24, window + 1);
      call.add_sequence({call.make_span({.rows = 330, .first_row = 5})}, 29, 330 - 29);
      call.inputs.shape.scale *= 4.0;  // so that origins move
      decode(call);
      const std::vector<float> together = call.out;
      SequenceInputs alone = call.sequences[0];
      call.inputs.sequences = {&alone, 1};
      const std::size_t width = together.size() / 29;
      for (const std::uint64_t chunk : {1ULL, 5ULL}) {
        for (std::uint64_t first = 0; first < 29; first += chunk) {
          alone = call.sequences[0];
          alone.first_query += first;
          alone.query_position += static_cast<std::int64_t>(first);
          alone.queries = std::min<std::uint64_t>(chunk, 29 - first);
          decode(call);
          for (std::size_t i = 0; i < alone.queries * width; ++i) {
            const std::size_t at = first * width + i;
            ASSERT_EQ(call.out[at], together[at]) << window << " " << chunk << " from " << first;
          }
        }
      }
    }
  }
}

// Keys and values of all heads, expanded in double precision.
ReferenceRows expand(const ReferenceRows& latents, const LatentExpansion& weights,
                     const AttentionShape& stored) {
  const std::size_t rank = stored.value_dim;
  const std::size_t width = stored.key_dim;
  ReferenceRows rows;
  rows.places = latents.places;
  for (std::size_t row = 0; row < latents.places.size(); ++row) {
    const double* from = &latents.keys[row * width];
    for (std::size_t head = 0; head < stored.query_heads; ++head) {
      const auto product = [&](std::span<const float> matrix, std::size_t i) {
        double sum = 0.0;
        for (std::size_t c = 0; c < rank; ++c) {
          sum += from[c] * static_cast<double>(matrix[i * rank + c]);
        }
        return sum;
      };
      for (std::size_t i = 0; i < weights.content_dim; ++i) {
        rows.keys.push_back(product(weights.key_up, head * weights.content_dim + i));
      }
      rows.keys.insert(rows.keys.end(), from + rank, from + width);
      for (std::size_t i = 0; i < weights.value_dim; ++i) {
        rows.values.push_back(product(weights.value_up, head * weights.value_dim + i));
      }
    }
  }
  return rows;
}

TEST_F(AmxPrimitives, PrefillInTheExpandedForm) {
  constexpr std::uint32_t kHeads = 3;
  for (const std::uint32_t rank : {64U, 40U}) {
    for (const std::uint64_t count : {40ULL, 270ULL}) {
      AttentionCase call(latent_shape(kHeads, rank, 32), Encoding::kBf16, 16, 20, count);
      LatentExpansion weights;
      weights.content_dim = 20;
      weights.value_dim = 24;
      const std::uint32_t key_dim = weights.content_dim + 32;
      std::mt19937_64 random(count);
      std::normal_distribution<float> normal(0.0F, 1.0F / std::sqrt(static_cast<float>(rank)));
      std::vector<float> key_up(std::size_t{kHeads} * weights.content_dim * rank);
      std::vector<float> value_up(std::size_t{kHeads} * weights.value_dim * rank);
      for (float& w : key_up) w = normal(random);
      for (float& w : value_up) w = normal(random);
      weights.key_up = key_up;
      weights.value_up = value_up;
      call.add_plain_sequence(count, 7);
      call.inputs.shape.scale = 1.0 / std::sqrt(static_cast<double>(key_dim));
      call.q.resize(std::size_t{7} * kHeads * key_dim);
      call.inputs.q = call.q.data();
      round_queries(call);
      call.out.resize(std::size_t{7} * kHeads * weights.value_dim);
      const Status got = prefill_attention(call.inputs, call.out, call.lse, &weights, kByTiles);
      ASSERT_TRUE(got) << got.error().describe();

      const AttentionShape& stored = call.inputs.shape;
      const ReferenceRows rows =
          expand(reference_rows(call.inputs, call.sequences[0]), weights, stored);
      AttentionShape expanded = grouped_shape(kHeads, kHeads, key_dim, weights.value_dim);
      expanded.scale = stored.scale;
      std::vector<double> out(call.out.size());
      std::vector<double> lse(call.lse.size());
      for (std::size_t q = 0; q < 7; ++q) {
        const std::size_t width = std::size_t{kHeads} * key_dim;
        const std::vector<double> query(
            call.q.begin() + static_cast<std::ptrdiff_t>(q * width),
            call.q.begin() + static_cast<std::ptrdiff_t>((q + 1) * width));
        reference_query(expanded, rows, query, call.sequences[0].query_position + std::int64_t(q),
                        std::span(out).subspan(q * out.size() / 7, out.size() / 7),
                        std::span(lse).subspan(q * kHeads, kHeads));
      }
      // Matrices, keys and values are rounded to bf16 as well: five roundings of 2^-9 at most.
      EXPECT_LE(relative_difference(call.out, out), kOutBound) << rank << " " << count;
      EXPECT_LE(largest_difference(call.lse, lse), 4e-3) << rank << " " << count;
    }
  }
}

// A scale of all latents goes through the expansion; held against the vector kernels.
TEST_F(AmxPrimitives, PrefillInTheExpandedFormOverScaledRows) {
  AttentionShape shape = latent_shape(2, 64, 32);
  shape.scale = 0.1;
  AttentionCase call(shape, Encoding::kBf16, 16, 6);
  LatentExpansion weights;
  weights.content_dim = 32;
  weights.value_dim = 48;
  std::mt19937_64 random(kSeed);
  std::normal_distribution<float> normal(0.0F, 0.1F);
  std::vector<float> key_up(std::size_t{2} * 32 * 64);
  std::vector<float> value_up(std::size_t{2} * 48 * 64);
  for (float& w : key_up) w = normal(random);
  for (float& w : value_up) w = normal(random);
  weights.key_up = key_up;
  weights.value_up = value_up;
  call.add_plain_sequence(70, 9);
  call.q.resize(std::size_t{9} * 2 * 64);
  call.out.resize(std::size_t{9} * 2 * 48);
  call.inputs.q = call.q.data();
  call.inputs.rows.encoding = Encoding::kFp8E4m3;
  call.inputs.rows.key_scale = 0.3F;
  for (std::byte& code : call.memory) draw_e4m3(random, &code);
  ASSERT_TRUE(prefill_attention(call.inputs, call.out, call.lse, &weights, kByTiles));
  std::vector<float> out(call.out.size());
  std::vector<float> lse(call.lse.size());
  ASSERT_TRUE(prefill_attention(call.inputs, out, lse, &weights, {.isa = Isa::kAvx512}));
  EXPECT_LE(relative_difference(call.out, out), kOutBound);
  EXPECT_LE(relative_difference(call.lse, lse), kOutBound);
}

}  // namespace
}  // namespace emblema
