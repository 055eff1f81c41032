// Faults that attention kernels have shipped with, each by what went wrong.
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "emblema/kernels/attention.h"
#include "emblema/kernels/attention_case_testing.h"

namespace emblema {
namespace {

using testing_support::AttentionCase;
using testing_support::grouped_shape;
using testing_support::latent_shape;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// One head of width 1, keys 0 (all logits equal), values 0, 1, 2, ...
AttentionCase counting_case(std::uint64_t rows, std::uint64_t window_tokens, Encoding encoding) {
  AttentionShape shape = grouped_shape(1, 1, 1, 1);
  shape.window_tokens = window_tokens;
  AttentionCase call(shape, encoding, rows, 1);
  for (std::uint64_t row = 0; row < rows; ++row) {
    call.store(0, row, 0, 0.0F);
    call.store(0, row, 1, static_cast<float>(row));
  }
  return call;
}

TEST(DecodeCases, AWindowOfFourAttendsFourKeysNotFive) {
  const std::vector<float> want = {0, 0.5F, 1, 1.5F, 2.5F, 3.5F};
  for (const Encoding encoding : {Encoding::kFp32, Encoding::kBf16, Encoding::kFp16}) {
    for (const std::uint64_t chunk : {6ULL, 1ULL, 2ULL, 3ULL}) {
      AttentionCase call = counting_case(6, 4, encoding);
      const Span span = call.make_span({.rows = 6});
      for (std::uint64_t first = 0; first < 6; first += chunk) {
        // Each chunk sees only the rows written so far.
        Span written = span;
        written.rows = first + chunk;
        call.add_sequence({written}, chunk, static_cast<std::int64_t>(first));
      }
      ASSERT_TRUE(call.decode());
      EXPECT_EQ(call.out, want) << "chunks of " << chunk;
      const double keys[] = {1, 2, 3, 4, 4, 4};
      for (std::size_t i = 0; i < 6; ++i) {
        EXPECT_NEAR(call.lse[i], std::log(keys[i]), 1e-7) << "chunks of " << chunk;
      }
    }
  }
}

TEST(DecodeCases, AChunkOfFourBeginsAnewAtEveryMultiple) {
  const std::vector<float> want = {0, 0.5F, 1, 1.5F, 4, 4.5F};
  for (const std::uint64_t step : {6ULL, 1ULL, 2ULL, 5ULL}) {
    AttentionCase call = counting_case(6, 0, Encoding::kFp32);
    call.inputs.shape.chunk_tokens = 4;
    const Span span = call.make_span({.rows = 6});
    for (std::uint64_t first = 0; first < 6; first += step) {
      Span written = span;
      written.rows = std::min<std::uint64_t>(6, first + step);
      call.add_sequence({written}, written.rows - first, static_cast<std::int64_t>(first));
    }
    ASSERT_TRUE(call.decode());
    EXPECT_EQ(call.out, want) << "steps of " << step;
  }
}

TEST(DecodeCases, AWindowOfOneSeesOnlyItselfAndALongOneEverything) {
  const auto outputs = [](std::uint64_t window) {
    AttentionCase call = counting_case(6, window, Encoding::kFp32);
    call.add_plain_sequence(6, 6);
    EXPECT_TRUE(call.decode());
    return call.out;
  };
  EXPECT_EQ(outputs(1), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  const std::vector<float> full = outputs(0);
  EXPECT_EQ(full, (std::vector<float>{0, 0.5F, 1, 1.5F, 2, 2.5F}));
  EXPECT_EQ(outputs(6), full);
  EXPECT_EQ(outputs(7), full);
  EXPECT_EQ(outputs(std::numeric_limits<std::uint64_t>::max()), full);
}

TEST(DecodeCases, MoreQueriesThanKeysLeavesTheFirstEmptyNotNan) {
  for (const Encoding encoding : {Encoding::kFp32, Encoding::kBf16}) {
    AttentionCase call = counting_case(2, 0, encoding);
    call.store(0, 0, 1, 4.0F);
    call.store(0, 1, 1, 8.0F);
    call.add_sequence({call.make_span({.rows = 2})}, 3, -1);  // bottom-right causal
    ASSERT_TRUE(call.decode());
    EXPECT_EQ(call.out, (std::vector<float>{0, 4, 6}));
    EXPECT_EQ(call.lse[0], -kInfinity);
    EXPECT_EQ(call.lse[1], 0.0F);
    EXPECT_NEAR(call.lse[2], std::log(2.0), 1e-7);
  }
}

TEST(DecodeCases, LogitsFarBelowAFiniteStandInForMinusInfinityStillCount) {
  for (const Encoding encoding : {Encoding::kFp32, Encoding::kBf16}) {
    for (const double scale : {-60000.0, -3e37}) {
      AttentionCase call = counting_case(2, 0, encoding);
      call.inputs.shape.scale = scale;
      for (const std::uint64_t row : {0ULL, 1ULL}) {
        call.store(0, row, 0, 1.0F);
        call.store(0, row, 1, row == 0 ? 2.0F : 4.0F);
      }
      call.add_plain_sequence(2, 1);
      call.q[0] = 1.0F;
      ASSERT_TRUE(call.decode());
      EXPECT_EQ(call.out[0], 3.0F);
      EXPECT_EQ(call.lse[0], static_cast<float>(scale + std::log(2.0)));
    }
  }
}

TEST(DecodeCases, AnEmptySequenceGivesZerosWithAndWithoutASink) {
  for (const float sink : {0.0F, kInfinity, -kInfinity}) {
    AttentionCase call = counting_case(1, 0, Encoding::kFp32);
    call.sinks = {sink};
    call.inputs.sinks = call.sinks;
    call.add_sequence({}, 1, 0);
    ASSERT_TRUE(call.decode());
    EXPECT_EQ(call.out[0], 0.0F);
    EXPECT_EQ(call.lse[0], -kInfinity);
  }
}

TEST(DecodeCases, KeysAllInTheFutureOrBehindTheWindowGiveZeros) {
  AttentionCase call = counting_case(4, 2, Encoding::kFp32);
  const Span span = call.make_span({.rows = 4, .position = 10});
  call.add_sequence({span}, 1, 9);
  call.add_sequence({span}, 1, 15);
  call.add_sequence({span}, 1, 14);  // sees position 13 alone
  ASSERT_TRUE(call.decode());
  EXPECT_EQ(call.out, (std::vector<float>{0, 0, 3}));
  EXPECT_EQ(call.lse, (std::vector<float>{-kInfinity, -kInfinity, 0}));
}

TEST(DecodeCases, TheSinkTakesItsShareOnceAndIsNotInTheLse) {
  AttentionCase call = counting_case(2, 0, Encoding::kFp32);
  call.sinks = {static_cast<float>(std::log(2.0))};
  call.inputs.sinks = call.sinks;
  call.store(0, 0, 1, 3.0F);
  call.store(0, 1, 1, 5.0F);
  call.add_plain_sequence(2, 1);
  ASSERT_TRUE(call.decode());
  EXPECT_NEAR(call.out[0], 2.0, 1e-6);  // mean 4, and the sink weighs as much as both keys
  EXPECT_NEAR(call.lse[0], std::log(2.0), 1e-7);
}

TEST(DecodeCases, NanAndInfinityStayInTheSequenceThatHoldsThem) {
  for (const float poison : {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity}) {
    for (const bool is_latent : {true, false}) {
      const AttentionShape shape = is_latent ? latent_shape(20, 24, 8) : grouped_shape(8, 2, 8, 8);
      AttentionCase clean(shape, Encoding::kFp32, 16, 12);
      for (int i = 0; i < 3; ++i) clean.add_plain_sequence(21, 2);
      ASSERT_TRUE(clean.decode());
      AttentionCase call(shape, Encoding::kFp32, 16, 12);
      for (int i = 0; i < 3; ++i) call.add_plain_sequence(21, 2);
      call.store(call.sequences[1].spans[0].blocks[0], 4, 1, poison);
      ASSERT_TRUE(call.decode());
      const std::size_t third = call.out.size() / 3;
      for (std::size_t i = 0; i < call.out.size(); ++i) {
        if (i / third == 1) continue;
        ASSERT_EQ(call.out[i], clean.out[i]) << i;
      }
    }
  }
}

TEST(DecodeCases, NanInRowsThatAreMaskedOrNotYetWrittenIsNeverSeen) {
  AttentionShape shape = grouped_shape(4, 1, 8, 8);
  shape.window_tokens = 3;
  AttentionCase call(shape, Encoding::kBf16, 16, 1);
  call.add_plain_sequence(8, 2);  // positions 6 and 7 see rows 4 to 7
  ASSERT_TRUE(call.decode());
  const std::vector<float> clean = call.out;
  for (const std::uint64_t row : {0ULL, 1ULL, 2ULL, 3ULL, 8ULL, 15ULL}) {
    for (std::uint64_t i = 0; i < 16; ++i) {
      const std::uint16_t nan = 0x7FC0;
      std::memcpy(call.element(0, row, i), &nan, 2);
    }
  }
  ASSERT_TRUE(call.decode());
  EXPECT_EQ(call.out, clean);
  // Row 7 is ahead of the first query and in sight of the second, in one tile.
  call.store(0, 7, 8, kInfinity);
  ASSERT_TRUE(call.decode());
  for (std::size_t i = 0; i < clean.size() / 2; ++i) EXPECT_EQ(call.out[i], clean[i]);
  EXPECT_EQ(call.out[clean.size() / 2], kInfinity);
}

TEST(DecodeCases, BlocksBeyondFourGibibytesAreReadWhereTheyAre) {
  constexpr std::uint64_t kBlockBytes = std::uint64_t{1} << 20;
  constexpr std::uint64_t kRegionBytes = (std::uint64_t{4} << 30) + 4 * kBlockBytes;
  AttentionCase near(latent_shape(4, 24, 8), Encoding::kBf16, 16, 4);
  near.add_plain_sequence(60, 1);
  ASSERT_TRUE(near.decode());
  const std::vector<float> want = near.out;
  // Left as the system gives it: only the pages that are written take memory.
  const std::unique_ptr<std::byte[]> region(new std::byte[kRegionBytes]);
  std::vector<std::uint32_t> blocks;
  const PagedRows rows = near.inputs.rows;
  for (std::uint32_t i = 0; i < 4; ++i) {
    // Offsets 2 GiB - 1 MiB, 2 GiB, 4 GiB - 1 MiB and the last block.
    constexpr std::uint32_t kPlaces[] = {2047, 2048, 4095, 4099};
    blocks.push_back(kPlaces[i]);
    std::memcpy(region.get() + kPlaces[i] * kBlockBytes,
                rows.base + near.sequences[0].spans[0].blocks[i] * rows.block_bytes,
                16 * rows.row_bytes);
  }
  near.inputs.rows.base = region.get();
  near.inputs.rows.block_bytes = kBlockBytes;
  near.inputs.rows.block_count = kRegionBytes / kBlockBytes;
  Span span = near.sequences[0].spans[0];
  span.blocks = blocks;
  near.sequences[0].spans = {&span, 1};
  ASSERT_TRUE(near.decode());
  EXPECT_EQ(near.out, want);
}

}  // namespace
}  // namespace emblema
