// Faults that attention kernels have shipped with, each by what went wrong, in every instruction
// set.
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "emblema/kernels/attention.h"
#include "emblema/kernels/attention_truth_testing.h"

namespace emblema {
namespace {

using testing_support::AttentionCase;
using testing_support::computes_in_bf16;
using testing_support::grouped_shape;
using testing_support::latent_shape;
using testing_support::Storage;
using testing_support::store_number;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// One head of width 1, keys 0 (all logits equal), values 0, 1, 2, ...
AttentionCase counting_case(Isa isa, std::uint64_t rows, std::uint64_t window_tokens,
                            const Storage& storage) {
  AttentionShape shape = grouped_shape(1, 1, 1, 1);
  shape.window_tokens = window_tokens;
  AttentionCase call(shape, storage, rows, 1);
  call.options.isa = isa;
  call.inputs.rows.key_scale = call.inputs.rows.value_scale = 1.0F;
  for (std::uint64_t row = 0; row < rows; ++row) {
    call.store(0, row, 0, 0.0F);
    call.store(0, row, 1, static_cast<float>(row));
  }
  return call;
}

// Exactly `want`, or nearly where the instruction set rounds to bf16.
void expect_out(const AttentionCase& call, const std::vector<float>& want) {
  if (!computes_in_bf16(*call.options.isa, call.storage)) {
    EXPECT_EQ(call.out, want);
    return;
  }
  ASSERT_EQ(call.out.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(call.out[i], want[i], 4e-3 * std::abs(want[i])) << i;
  }
}

class DecodeCases : public ::testing::TestWithParam<Isa> {};

INSTANTIATE_TEST_SUITE_P(Every, DecodeCases, ::testing::ValuesIn(runnable_isas()),
                         [](const auto& isa) { return std::string(to_string(isa.param)); });

TEST_P(DecodeCases, AWindowOfFourAttendsFourKeysNotFive) {
  const std::vector<float> want = {0, 0.5F, 1, 1.5F, 2.5F, 3.5F};
  for (const Encoding encoding :
       {Encoding::kFp32, Encoding::kBf16, Encoding::kFp16, Encoding::kFp8E4m3}) {
    for (const std::uint64_t chunk : {6ULL, 1ULL, 2ULL, 3ULL}) {
      AttentionCase call = counting_case(GetParam(), 6, 4, encoding);
      const Span span = call.make_span({.rows = 6});
      for (std::uint64_t first = 0; first < 6; first += chunk) {
        // Each chunk sees only the rows written so far.
        Span written = span;
        written.rows = first + chunk;
        call.add_sequence({written}, chunk, static_cast<std::int64_t>(first));
      }
      ASSERT_TRUE(call.decode());
      SCOPED_TRACE(chunk);
      expect_out(call, want);
      const double keys[] = {1, 2, 3, 4, 4, 4};
      for (std::size_t i = 0; i < 6; ++i) {
        EXPECT_NEAR(call.lse[i], std::log(keys[i]), 1e-7) << "chunks of " << chunk;
      }
    }
  }
}

TEST_P(DecodeCases, AChunkOfFourBeginsAnewAtEveryMultiple) {
  const std::vector<float> want = {0, 0.5F, 1, 1.5F, 4, 4.5F};
  for (const std::uint64_t step : {6ULL, 1ULL, 2ULL, 5ULL}) {
    AttentionCase call = counting_case(GetParam(), 6, 0, Encoding::kFp32);
    call.inputs.shape.chunk_tokens = 4;
    const Span span = call.make_span({.rows = 6});
    for (std::uint64_t first = 0; first < 6; first += step) {
      Span written = span;
      written.rows = std::min<std::uint64_t>(6, first + step);
      call.add_sequence({written}, written.rows - first, static_cast<std::int64_t>(first));
    }
    ASSERT_TRUE(call.decode());
    SCOPED_TRACE(step);
    expect_out(call, want);
  }
}

// floor, not truncation: chunks are [-8, -5], [-4, -1], [0, 3].
TEST_P(DecodeCases, ChunksBeforePositionZeroEndAtZero) {
  AttentionCase call = counting_case(GetParam(), 6, 0, Encoding::kFp32);
  call.inputs.shape.chunk_tokens = 4;
  call.add_sequence({call.make_span({.rows = 6, .position = -5})}, 6, -5);
  ASSERT_TRUE(call.decode());
  expect_out(call, {0, 1, 1.5F, 2, 2.5F, 5});
  call.inputs.shape.chunk_tokens = std::numeric_limits<std::uint64_t>::max();
  ASSERT_TRUE(call.decode());
  expect_out(call, {0, 0.5F, 1, 1.5F, 2, 5});
}

TEST_P(DecodeCases, AWindowOfOneSeesOnlyItselfAndALongOneEverything) {
  const auto outputs = [](std::uint64_t window) {
    AttentionCase call = counting_case(GetParam(), 6, window, Encoding::kFp32);
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

TEST_P(DecodeCases, MoreQueriesThanKeysLeavesTheFirstEmptyNotNan) {
  for (const Encoding encoding : {Encoding::kFp32, Encoding::kBf16}) {
    AttentionCase call = counting_case(GetParam(), 2, 0, encoding);
    call.store(0, 0, 1, 4.0F);
    call.store(0, 1, 1, 8.0F);
    call.add_sequence({call.make_span({.rows = 2})}, 3, -1);  // bottom-right causal
    ASSERT_TRUE(call.decode());
    expect_out(call, {0, 4, 6});
    EXPECT_EQ(call.lse[0], -kInfinity);
    EXPECT_EQ(call.lse[1], 0.0F);
    EXPECT_NEAR(call.lse[2], std::log(2.0), 1e-7);
  }
}

TEST_P(DecodeCases, LogitsFarBelowAFiniteStandInForMinusInfinityStillCount) {
  for (const Encoding encoding : {Encoding::kFp32, Encoding::kBf16}) {
    for (const double scale : {-60000.0, -3e37}) {
      AttentionCase call = counting_case(GetParam(), 2, 0, encoding);
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

TEST_P(DecodeCases, AnEmptySequenceGivesZerosWithAndWithoutASink) {
  for (const float sink : {0.0F, kInfinity, -kInfinity}) {
    AttentionCase call = counting_case(GetParam(), 1, 0, Encoding::kFp32);
    call.sinks = {sink};
    call.inputs.sinks = call.sinks;
    call.add_sequence({}, 1, 0);
    ASSERT_TRUE(call.decode());
    EXPECT_EQ(call.out[0], 0.0F);
    EXPECT_EQ(call.lse[0], -kInfinity);
  }
}

TEST_P(DecodeCases, KeysAllInTheFutureOrBehindTheWindowGiveZeros) {
  AttentionCase call = counting_case(GetParam(), 4, 2, Encoding::kFp32);
  const Span span = call.make_span({.rows = 4, .position = 10});
  call.add_sequence({span}, 1, 9);
  call.add_sequence({span}, 1, 15);
  call.add_sequence({span}, 1, 14);  // sees position 13 alone
  ASSERT_TRUE(call.decode());
  EXPECT_EQ(call.out, (std::vector<float>{0, 0, 3}));
  EXPECT_EQ(call.lse, (std::vector<float>{-kInfinity, -kInfinity, 0}));
}

TEST_P(DecodeCases, TheSinkTakesItsShareOnceAndIsNotInTheLse) {
  AttentionCase call = counting_case(GetParam(), 2, 0, Encoding::kFp32);
  call.sinks = {static_cast<float>(std::log(2.0))};
  call.inputs.sinks = call.sinks;
  call.store(0, 0, 1, 3.0F);
  call.store(0, 1, 1, 5.0F);
  call.add_plain_sequence(2, 1);
  ASSERT_TRUE(call.decode());
  EXPECT_NEAR(call.out[0], 2.0, 1e-6);  // mean 4, and the sink weighs as much as both keys
  EXPECT_NEAR(call.lse[0], std::log(2.0), 1e-7);
}

struct StorageCase {
  Storage storage;
  AttentionShape shape;
};

std::vector<StorageCase> every_storage() {
  std::vector<StorageCase> cases = {{RowFormat::kFp8DsMla, latent_shape(20, 512, 64)},
                                    {RowFormat::kDeepSeekV4, latent_shape(20, 512, 0)}};
  for (const Encoding encoding :
       {Encoding::kFp32, Encoding::kBf16, Encoding::kFp16, Encoding::kFp8E4m3}) {
    cases.push_back({encoding, latent_shape(20, 24, 8)});
    cases.push_back({encoding, grouped_shape(8, 2, 8, 8)});
  }
  return cases;
}

constexpr int kPoisons = 4;

// NaN or infinity into a row: its codes, its scales, its last numbers.
void poison(AttentionCase& call, std::uint64_t block, std::uint64_t row, int how) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const float value = how < 2 ? kNan : (how == 2 ? kInfinity : -kInfinity);
  std::byte* bytes = call.row_at(block, row);
  switch (call.storage.format) {
    case RowFormat::kPlain:
      if (call.storage.encoding == Encoding::kFp8E4m3) {
        bytes[1] = std::byte{0x7F};
      } else {
        call.store(block, row, how == 0 ? 0 : 1, value);
      }
      return;
    case RowFormat::kFp8DsMla:
      if (how == 0) bytes[500] = std::byte{0xFF};
      if (how == 1) std::memcpy(bytes + 516, &value, 4);
      if (how >= 2) store_number(bytes + 654, Encoding::kBf16, value);
      return;
    case RowFormat::kDeepSeekV4:
      if (how == 0) bytes[447] = std::byte{0x7F};
      if (how == 1) call.scales_at(block, row)[6] = std::byte{0xFF};
      if (how >= 2) store_number(bytes + 574, Encoding::kBf16, value);
  }
}

AttentionCase three_sequences(Isa isa, const StorageCase& of) {
  AttentionCase call(of.shape, of.storage, 16, 12);
  call.options.isa = isa;
  for (int i = 0; i < 3; ++i) call.add_plain_sequence(21, 2);
  return call;
}

TEST_P(DecodeCases, NanAndInfinityStayInTheSequenceThatHoldsThem) {
  for (const StorageCase& of : every_storage()) {
    AttentionCase clean = three_sequences(GetParam(), of);
    ASSERT_TRUE(clean.decode());
    for (int how = 0; how < kPoisons; ++how) {
      AttentionCase call = three_sequences(GetParam(), of);
      poison(call, call.sequences[1].spans[0].blocks[0], 4, how);
      ASSERT_TRUE(call.decode());
      const std::size_t third = call.out.size() / 3;
      bool reached = false;
      for (std::size_t i = 0; i < call.out.size(); ++i) {
        if (i / third == 1) {
          reached |= !std::isfinite(call.out[i]);
        } else {
          ASSERT_EQ(call.out[i], clean.out[i])
              << of.storage.name() << " poison " << how << " " << i;
        }
      }
      EXPECT_TRUE(reached || how >= 2) << of.storage.name() << " poison " << how;
    }
  }
}

TEST_P(DecodeCases, NanInRowsThatAreMaskedOrNotYetWrittenIsNeverSeen) {
  for (StorageCase of : every_storage()) {
    of.shape.window_tokens = 3;
    AttentionCase call(of.shape, of.storage, 16, 1);
    call.options.isa = GetParam();
    call.add_plain_sequence(8, 2);  // positions 6 and 7 see rows 4 to 7
    ASSERT_TRUE(call.decode());
    const std::vector<float> clean = call.out;
    for (const std::uint64_t row : {0ULL, 1ULL, 2ULL, 3ULL, 8ULL, 15ULL}) {
      for (int how = 0; how < kPoisons; ++how) poison(call, 0, row, how);
    }
    ASSERT_TRUE(call.decode());
    EXPECT_EQ(call.out, clean) << of.storage.name();
    // Row 7 is ahead of the first query and in sight of the second, in one tile.
    poison(call, 0, 7, 0);
    ASSERT_TRUE(call.decode());
    const std::size_t half = clean.size() / 2;
    for (std::size_t i = 0; i < half; ++i) ASSERT_EQ(call.out[i], clean[i]) << of.storage.name();
    EXPECT_TRUE(std::isnan(call.out[half])) << of.storage.name();
  }
}

TEST_P(DecodeCases, AnInfiniteValueInSightIsInfiniteAndLeavesTheOtherChannels) {
  AttentionCase call = counting_case(GetParam(), 2, 0, Encoding::kBf16);
  call.store(0, 1, 1, kInfinity);
  call.add_plain_sequence(2, 2);
  ASSERT_TRUE(call.decode());
  EXPECT_EQ(call.out, (std::vector<float>{0, kInfinity}));
}

TEST_P(DecodeCases, BlocksBeyondFourGibibytesAreReadWhereTheyAre) {
  constexpr std::uint64_t kBlockBytes = std::uint64_t{1} << 20;
  constexpr std::uint64_t kRegionBytes = (std::uint64_t{4} << 30) + 4 * kBlockBytes;
  AttentionCase near(latent_shape(4, 24, 8), Encoding::kBf16, 16, 4);
  near.options.isa = GetParam();
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
