// Converted bytes are what the reference codec decodes and encodes, from every instruction set, for
// every stored byte there is.
#include "emblema/kernels/convert_rows.h"

#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/kernels/row_pages_testing.h"

namespace emblema {
namespace {

using testing::HasSubstr;
using testing_support::PagePlan;
using testing_support::row_shape;
using testing_support::RowPages;
using testing_support::Storage;

constexpr std::uint64_t kRows = 9;
constexpr Storage kPlainStorages[] = {testing_support::kFp32Rows, testing_support::kFp16Rows,
                                      testing_support::kBf16Rows, testing_support::kE4m3Rows};

void fill_with_any_bytes(RowPages& pages, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::byte& byte : pages.memory) byte = static_cast<std::byte>(random());
}

void fill_with_rows(RowPages& pages, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(pages.row_numbers());
  for (std::uint64_t row = 0; row < kRows; ++row) {
    for (float& number : numbers) number = normal(random);
    pages.encode(row, numbers);
  }
}

void expect_converted(const AttentionShape& shape, RowPages& source, const Storage& storage,
                      std::optional<ScaleRule> rule = {}) {
  const PagePlan plan{4, kRows, 3, 2};
  RowPages want(shape, storage, plan, rule);
  for (std::uint64_t row = 0; row < kRows; ++row) {
    std::vector<float> numbers = source.decode(row);
    for (float& number : numbers) {
      if (std::isnan(number)) number = std::bit_cast<float>(0x7fc00000);
    }
    want.encode(row, numbers);
  }
  for (const Isa isa : runnable_isas()) {
    RowPages got(shape, storage, plan, rule);
    const Status done =
        convert_rows(shape, source.source(kRows), got.target(), {.isa = isa, .scale_rule = rule});
    ASSERT_TRUE(done) << done.error().describe();
    ASSERT_EQ(got.memory, want.memory) << "to " << storage.name << " " << to_string(isa);
  }
}

TEST(ConvertRows, BetweenAllPlainStorages) {
  for (const AttentionShape& shape :
       {row_shape(RowKind::kLatent, 1, 69, 53), row_shape(RowKind::kGrouped, 31, 70, 37)}) {
    for (const Storage& from : kPlainStorages) {
      for (const Storage& to : kPlainStorages) {
        if (from.encoding == to.encoding) continue;
        RowPages source(shape, from, {16, kRows, 1, 3});
        fill_with_any_bytes(source, 1);
        expect_converted(shape, source, to);
        fill_with_rows(source, 2);
        expect_converted(shape, source, to);
      }
    }
  }
}

TEST(ConvertRows, EveryStoredSixteenBitNumber) {
  const AttentionShape shape = row_shape(RowKind::kGrouped, 8, 512, 512);
  for (const Storage& from : {testing_support::kFp16Rows, testing_support::kBf16Rows}) {
    RowPages source(shape, from, {16, kRows, 0, 0});
    for (std::uint32_t i = 0; i < source.memory.size(); ++i) {
      source.memory[i] = static_cast<std::byte>(i % 2 == 0 ? i / 512 : i / 2);
    }
    expect_converted(shape, source, testing_support::kFp32Rows);
    expect_converted(shape, source, testing_support::kE4m3Rows);
  }
}

TEST(ConvertRows, BetweenFixedFormatsAndPlainOnes) {
  const std::pair<AttentionShape, Storage> fixed[] = {
      {testing_support::kMlaShape, testing_support::kMlaRows},
      {testing_support::kV4Shape, testing_support::kV4Rows}};
  for (const auto& [shape, storage] : fixed) {
    for (const Storage& plain : kPlainStorages) {
      RowPages packed(shape, storage, {16, kRows, 1, 3});
      fill_with_any_bytes(packed, 1);
      expect_converted(shape, packed, plain);
      fill_with_rows(packed, 2);
      expect_converted(shape, packed, plain);
      RowPages source(shape, plain, {16, kRows, 1, 3});
      fill_with_any_bytes(source, 3);
      expect_converted(shape, source, storage);
      fill_with_rows(source, 4);
      expect_converted(shape, source, storage);
      expect_converted(shape, source, storage, kFlashMlaV4Scales);
    }
  }
}

TEST(ConvertRows, ANamedRuleWritesScalesAnew) {
  RowPages source(testing_support::kMlaShape, testing_support::kMlaRows, {16, kRows, 1, 3});
  fill_with_rows(source, 5);
  expect_converted(testing_support::kMlaShape, source, testing_support::kMlaRows,
                   kFlashMlaLatentScales);
}

TEST(ConvertRows, OtherTensorScalesWriteCodesAnew) {
  const AttentionShape shape = row_shape(RowKind::kGrouped, 2, 33, 20);
  Storage other = testing_support::kE4m3Rows;
  other.value_scale *= 3.0F;
  RowPages source(shape, testing_support::kE4m3Rows, {16, kRows, 1, 3});
  fill_with_any_bytes(source, 6);
  expect_converted(shape, source, other);
}

// Bytes of numbers as they are, whatever they mean; the gap and the byte beside V4's scales are 0.
TEST(ConvertRows, AlikeStoragesAreCopied) {
  const std::pair<AttentionShape, Storage> cases[] = {
      {row_shape(RowKind::kGrouped, 3, 21, 14), testing_support::kFp32Rows},
      {row_shape(RowKind::kGrouped, 3, 21, 14), testing_support::kFp16Rows},
      {row_shape(RowKind::kGrouped, 3, 21, 14), testing_support::kBf16Rows},
      {row_shape(RowKind::kGrouped, 3, 21, 14), testing_support::kE4m3Rows},
      {testing_support::kMlaShape, testing_support::kMlaRows},
      {testing_support::kV4Shape, testing_support::kV4Rows}};
  for (const auto& [shape, storage] : cases) {
    RowPages source(shape, storage, {16, kRows, 1, 3});
    fill_with_any_bytes(source, 7);
    RowPages got(shape, storage, {4, kRows, 3, 2});
    RowPages want(shape, storage, {4, kRows, 3, 2});
    ASSERT_TRUE(convert_rows(shape, source.source(kRows), got.target()));
    const std::vector<float> zeros(want.row_numbers());
    const std::uint64_t bytes = want.layout.row_bytes - 2;
    for (std::uint64_t row = 0; row < kRows; ++row) {
      want.encode(row, zeros);  // for the gap
      const std::uint64_t from = 1 + row;
      const std::uint64_t to = 3 + row;
      const std::byte* from_page =
          source.memory.data() + 1 + source.order[from / 16] * source.layout.block_bytes;
      std::byte* to_page = want.memory.data() + 1 + want.order[to / 4] * want.layout.block_bytes;
      std::copy_n(from_page + from % 16 * source.layout.row_bytes, bytes,
                  to_page + to % 4 * want.layout.row_bytes);
      if (storage.format != RowFormat::kDeepSeekV4) continue;
      std::copy_n(from_page + source.layout.scales_offset + from % 16 * 8, 7,
                  to_page + want.layout.scales_offset + to % 4 * 8);
    }
    EXPECT_EQ(got.memory, want.memory) << storage.name;
  }
}

TEST(ConvertRows, RefusesNamingTheSide) {
  const AttentionShape shape = row_shape(RowKind::kLatent, 1, 8, 6);
  RowPages source(shape, testing_support::kBf16Rows, {4, kRows, 0, 0});
  RowPages target(shape, testing_support::kFp16Rows, {4, kRows, 0, 0});
  const auto outcome = [&](const RowSource& from, const RowTarget& to) {
    const Status done = convert_rows(shape, from, to);
    return done ? std::string("accepted") : done.error().describe();
  };
  EXPECT_EQ(outcome(source.source(kRows), target.target()), "accepted");
  EXPECT_EQ(outcome({}, {}), "accepted") << "no rows, nowhere";
  EXPECT_THAT(outcome(source.source(99), target.target()),
              HasSubstr("Invalid: source: first_row + rows is 0 + 99"));
  RowTarget small = target.target();
  small.blocks = small.blocks.first(1);
  EXPECT_THAT(outcome(source.source(kRows), small),
              HasSubstr("Invalid: target: first_row + rows is 0 + 9"));
  RowSource unstated = source.source(kRows);
  unstated.layout.block_rows = 0;
  EXPECT_THAT(outcome(unstated, target.target()), HasSubstr("source: rows.block_rows is 0"));
}

}  // namespace
}  // namespace emblema
