// Appended bytes are those of the reference codec, from every instruction set.
#include "emblema/kernels/append.h"

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/kernels/row_pages_testing.h"
#include "emblema/layout/rotation.h"

namespace emblema {
namespace {

using testing::HasSubstr;
using testing_support::PagePlan;
using testing_support::row_shape;
using testing_support::RowPages;
using testing_support::Storage;

constexpr Storage kPlainStorages[] = {testing_support::kFp32Rows, testing_support::kFp16Rows,
                                      testing_support::kBf16Rows, testing_support::kE4m3Rows};

std::vector<float> normal_numbers(std::uint64_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(count);
  for (float& number : numbers) number = normal(random);
  return numbers;
}

// Any bits at all: a third of them of ordinary size, the rest from subnormal to NaN.
std::vector<float> odd_numbers(std::uint64_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> numbers = normal_numbers(count, seed);
  for (float& number : numbers) {
    if (random() % 3 != 0) number = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
  }
  return numbers;
}

// One zero row, one of numbers that underflow, then others.
std::vector<float> small_numbers(std::uint64_t width, std::uint64_t rows) {
  std::vector<float> numbers = normal_numbers(width * rows, 5);
  for (std::uint64_t i = 0; i < width; ++i) numbers[i] = i % 2 == 0 ? 0.0F : -0.0F;
  for (std::uint64_t i = width; i < 2 * width; ++i) numbers[i] *= 0x1p-140F;
  for (std::uint64_t i = 2 * width; i < 3 * width; ++i) numbers[i] *= 0x1p120F;
  return numbers;
}

// The same rows by the kernel and by the codec: equal memory, untouched bytes included.
void expect_codec_bytes(const AttentionShape& shape, const Storage& storage, const PagePlan& plan,
                        const std::vector<float>& numbers, std::optional<ScaleRule> rule = {}) {
  RowPages want(shape, storage, plan, rule);
  const std::uint64_t width = want.row_numbers();
  for (std::uint64_t row = 0; row < numbers.size() / width; ++row) {
    want.encode(row, std::span(numbers).subspan(row * width, width));
  }
  for (const Isa isa : runnable_isas()) {
    RowPages got(shape, storage, plan, rule);
    AppendInputs inputs;
    inputs.shape = shape;
    inputs.numbers = numbers;
    const Status done = append_rows(inputs, got.target(), {.isa = isa, .scale_rule = rule});
    ASSERT_TRUE(done) << done.error().describe();
    ASSERT_EQ(got.memory, want.memory) << storage.name << " " << to_string(isa);
  }
}

TEST(AppendRows, PlainRowsOfEveryWidth) {
  for (const Storage& storage : kPlainStorages) {
    for (std::uint32_t width = 1; width <= 70; ++width) {
      const AttentionShape latent = row_shape(RowKind::kLatent, 1, width, (width + 1) / 2);
      expect_codec_bytes(latent, storage, {}, normal_numbers(width * 5, width));
      const AttentionShape grouped = row_shape(RowKind::kGrouped, 3, width, 71 - width);
      expect_codec_bytes(grouped, storage, {}, odd_numbers(71 * 3 * 5, width));
    }
  }
}

TEST(AppendRows, PagesOfEverySizeFromAnyRow) {
  const AttentionShape shape = row_shape(RowKind::kGrouped, 2, 17, 9);
  for (const Storage& storage : kPlainStorages) {
    for (const std::uint64_t block_rows : {1U, 3U, 16U, 64U}) {
      for (const std::uint64_t first_row : {0U, 1U, 65U}) {
        expect_codec_bytes(shape, storage, {block_rows, 40, first_row, first_row % 7},
                           normal_numbers(52 * 40, block_rows));
      }
    }
  }
}

TEST(AppendRows, RowsOf656Bytes) {
  for (const std::uint64_t block_rows : {1U, 3U, 16U, 64U}) {
    const PagePlan plan{block_rows, 7, 2, block_rows % 4};
    for (const std::optional<ScaleRule> rule :
         {std::optional<ScaleRule>(), std::optional(kFlashMlaLatentScales),
          std::optional(kFlashMlaV4Scales)}) {
      expect_codec_bytes(testing_support::kMlaShape, testing_support::kMlaRows, plan,
                         normal_numbers(576 * 7, block_rows), rule);
      expect_codec_bytes(testing_support::kMlaShape, testing_support::kMlaRows, plan,
                         small_numbers(576, 7), rule);
      expect_codec_bytes(testing_support::kMlaShape, testing_support::kMlaRows, plan,
                         odd_numbers(576 * 7, block_rows), rule);
    }
  }
}

TEST(AppendRows, RowsOfDeepSeekV4) {
  for (const std::uint64_t block_rows : {1U, 3U, 16U, 64U}) {
    const PagePlan plan{block_rows, 7, 2, block_rows % 4};
    for (const std::optional<ScaleRule> rule :
         {std::optional<ScaleRule>(), std::optional(kFlashMlaV4Scales),
          std::optional(kTensorRtV4Scales), std::optional(kVllmLatentScales)}) {
      expect_codec_bytes(testing_support::kV4Shape, testing_support::kV4Rows, plan,
                         normal_numbers(512 * 7, block_rows), rule);
      expect_codec_bytes(testing_support::kV4Shape, testing_support::kV4Rows, plan,
                         small_numbers(512, 7), rule);
      expect_codec_bytes(testing_support::kV4Shape, testing_support::kV4Rows, plan,
                         odd_numbers(512 * 7, block_rows), rule);
    }
  }
}

// One number that is not finite, in the first scale's block or the last: the rest stays.
TEST(AppendRows, ANanReachesItsOwnBlockOnly) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float odd : {std::nanf(""), -std::nanf("3"), infinity, -infinity}) {
    for (const std::size_t place : {0U, 127U, 447U, 500U}) {
      std::vector<float> numbers = normal_numbers(576, 9);
      numbers[place] = odd;
      expect_codec_bytes(testing_support::kMlaShape, testing_support::kMlaRows, {}, numbers);
      numbers.resize(512);
      expect_codec_bytes(testing_support::kV4Shape, testing_support::kV4Rows, {}, numbers);
    }
  }
}

struct Turned {
  AttentionShape shape;
  RopeFacts facts;
  Storage storage;
};

RopeFacts facts_of(std::uint32_t rotary_dim, bool interleaved) {
  RopeFacts facts;
  facts.rotary_dim = rotary_dim;
  facts.interleaved = interleaved;
  facts.scaling = RopeScaling::kYarn;
  facts.factor = 40;
  facts.original_max_positions = 4096;  // an amplitude of 1.37
  return facts;
}

AttentionShape with_rotary_offset(AttentionShape shape, std::uint32_t offset) {
  shape.rotary_offset = offset;
  return shape;
}

std::vector<Turned> turned_cases() {
  using testing_support::kMlaShape;
  using testing_support::kV4Shape;
  std::vector<Turned> cases = {
      {with_rotary_offset(kMlaShape, 512), facts_of(64, true), testing_support::kMlaRows},
      {with_rotary_offset(kMlaShape, 100), facts_of(64, true), testing_support::kMlaRows},
      {with_rotary_offset(kV4Shape, 448), facts_of(64, true), testing_support::kV4Rows},
  };
  for (const Storage& storage : kPlainStorages) {
    for (const bool interleaved : {false, true}) {
      cases.push_back({with_rotary_offset(kMlaShape, 512), facts_of(64, interleaved), storage});
      cases.push_back(
          {row_shape(RowKind::kGrouped, 3, 40, 24), facts_of(40, interleaved), storage});
      cases.push_back({with_rotary_offset(row_shape(RowKind::kGrouped, 2, 35, 20), 3),
                       facts_of(22, interleaved), storage});
    }
  }
  return cases;
}

// Turned by the formula: angles in double, then products and sums in fp32, rounded one by one.
std::vector<float> turned_numbers(const Turned& c, const RopeTable& table,
                                  std::vector<float> numbers,
                                  std::span<const std::int64_t> positions) {
  const std::uint64_t width = numbers.size() / positions.size();
  const std::size_t pairs = table.frequencies().size();
  for (std::size_t row = 0; row < positions.size(); ++row) {
    for (std::uint32_t head = 0; head < c.shape.kv_heads; ++head) {
      float* key = numbers.data() + row * width + head * c.shape.key_dim + c.shape.rotary_offset;
      for (std::size_t i = 0; i < pairs; ++i) {
        const double angle = static_cast<double>(positions[row]) * table.frequencies()[i];
        const auto cosine = static_cast<float>(table.amplitude() * std::cos(angle));
        const auto sine = static_cast<float>(table.amplitude() * std::sin(angle));
        float& x = key[table.interleaved() ? 2 * i : i];
        float& y = key[table.interleaved() ? 2 * i + 1 : i + pairs];
        const volatile float x_cosine = x * cosine;
        const volatile float y_sine = y * sine;
        const volatile float x_sine = x * sine;
        const volatile float y_cosine = y * cosine;
        x = x_cosine - y_sine;
        y = x_sine + y_cosine;
      }
    }
  }
  return numbers;
}

TEST(AppendRows, KeysTurnAtTheirPositionsAndNothingElseDoes) {
  const std::vector<std::int64_t> positions = {0, 1, -7, 123'456, std::int64_t{1} << 53, 131'071};
  for (const Turned& c : turned_cases()) {
    const RopeTable table = RopeTable::from(c.facts, 0).value();
    ASSERT_GT(table.amplitude(), 1.3);
    const PagePlan plan{3, 6, 1, 0};
    RowPages want(c.shape, c.storage, plan);
    const std::vector<float> numbers = normal_numbers(want.row_numbers() * 6, 4);
    const std::vector<float> turned = turned_numbers(c, table, numbers, positions);
    std::vector<float> cosines(6 * table.rotary_dim() / 2);
    std::vector<float> sines(cosines.size());
    for (std::size_t row = 0; row < 6; ++row) {
      const std::size_t pairs = table.rotary_dim() / 2;
      fill_rotation(table, positions[row], table.amplitude(),
                    std::span(cosines).subspan(row * pairs, pairs),
                    std::span(sines).subspan(row * pairs, pairs));
      want.encode(row, std::span(turned).subspan(row * want.row_numbers(), want.row_numbers()));
    }
    for (const Isa isa : runnable_isas()) {
      AppendInputs inputs{c.shape, numbers, &table, positions, {}, {}};
      RowPages by_position(c.shape, c.storage, plan);
      ASSERT_TRUE(append_rows(inputs, by_position.target(), {.isa = isa}));
      EXPECT_EQ(by_position.memory, want.memory) << c.storage.name << " " << to_string(isa);
      inputs.positions = {};
      inputs.cosines = cosines;
      inputs.sines = sines;
      RowPages by_angles(c.shape, c.storage, plan);
      ASSERT_TRUE(append_rows(inputs, by_angles.target(), {.isa = isa}));
      EXPECT_EQ(by_angles.memory, want.memory) << c.storage.name << " " << to_string(isa);
    }
  }
}

TEST(AppendRows, WhatTurningMakesNanOfIsOneNan) {
  const RopeTable table = RopeTable::from(facts_of(2, false), 0).value();
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> numbers = {infinity, infinity, -std::nanf("5"), -std::nanf("9")};
  const std::vector<std::int64_t> positions = {1, 1};
  for (const Isa isa : runnable_isas()) {
    std::vector<std::byte> bytes(8);
    const RowTarget target = contiguous_rows(bytes.data(), 2, {.row_bytes = 4});
    const AppendInputs inputs{
        row_shape(RowKind::kLatent, 1, 2, 1), numbers, &table, positions, {}, {}};
    ASSERT_TRUE(append_rows(inputs, target, {.isa = isa}));
    const std::vector<int> golden = {0xc0, 0x7f, 0x80, 0x7f, 0xc0, 0x7f, 0xc0, 0x7f};
    for (std::size_t i = 0; i < golden.size(); ++i) {
      EXPECT_EQ(std::to_integer<int>(bytes[i]), golden[i]) << i;
    }
  }
}

TEST(AppendRows, OneRunOfMemoryIsLittleEndianAndGapsAreZero) {
  const std::vector<float> numbers = {1.0F, -2.5F, 0.5F, 3.0F};
  std::vector<std::byte> bytes(14, std::byte{0xee});
  AppendInputs inputs;
  inputs.shape = row_shape(RowKind::kLatent, 1, 2, 1);
  inputs.numbers = numbers;
  ASSERT_TRUE(append_rows(inputs, contiguous_rows(bytes.data(), 2, {.row_bytes = 6})));
  const std::vector<int> golden = {0x80, 0x3f, 0x20, 0xc0, 0, 0,    0x00,
                                   0x3f, 0x40, 0x40, 0,    0, 0xee, 0xee};
  for (std::size_t i = 0; i < golden.size(); ++i) {
    EXPECT_EQ(std::to_integer<int>(bytes[i]), golden[i]) << i;
  }
}

// A call that is right, to be spoilt in one place.
struct Call {
  Call() = default;
  Call(const Call&) = delete;  // views into itself
  Call& operator=(const Call&) = delete;

  RopeTable table = RopeTable::from(facts_of(4, false), 0).value();
  std::vector<float> numbers = std::vector<float>(8 * 3);
  std::vector<std::int64_t> positions = {0, 1, 2};
  AttentionShape shape = row_shape(RowKind::kGrouped, 1, 6, 2);
  RowPages pages{shape, testing_support::kBf16Rows, {2, 3, 1, 0}};
  AppendInputs inputs{shape, numbers, &table, positions, {}, {}};
  RowTarget target = pages.target();
  RowOptions options;
};

std::string outcome(const std::function<void(Call&)>& spoil) {
  Call call;
  spoil(call);
  const std::vector<std::byte> before = call.pages.memory;
  const Status done = append_rows(call.inputs, call.target, call.options);
  if (done) return "accepted";
  EXPECT_EQ(call.pages.memory, before) << "refused before any byte is written";
  return done.error().describe();
}

TEST(AppendRows, RefusesSizesByName) {
  EXPECT_EQ(outcome([](Call&) {}), "accepted");
  EXPECT_THAT(outcome([](Call& c) { c.inputs.numbers = c.inputs.numbers.first(23); }),
              HasSubstr("Invalid: size of numbers is 23; allowed: whole rows of 8"));
  EXPECT_THAT(outcome([](Call& c) { c.inputs.positions = c.inputs.positions.first(2); }),
              HasSubstr("size of positions is 2; allowed: 3 rows x 1"));
  EXPECT_THAT(outcome([](Call& c) { c.inputs.cosines = c.inputs.numbers.first(6); }),
              HasSubstr("size of sines is 0; allowed: 3 rows x 2"));
  EXPECT_THAT(outcome([](Call& c) { c.positions[1] = (std::int64_t{1} << 53) + 1; }),
              HasSubstr("positions[1] is 9007199254740993"));
  EXPECT_THAT(outcome([](Call& c) { c.inputs.shape.rotary_offset = 3; }),
              HasSubstr("rotary_offset + rotary_dim is 7; allowed: at most key_dim (6)"));
  EXPECT_THAT(outcome([](Call& c) { c.inputs.shape.kv_heads = 0; }), HasSubstr("kv_heads is 0"));
  EXPECT_THAT(outcome([](Call& c) { c.inputs.shape.key_dim = 1025; }),
              HasSubstr("key_dim is 1025; allowed: 1 to 1024"));
}

// Angles without their table wrote keys that were not turned; null memory was read.
TEST(AppendRows, RefusesAnglesWithoutATableAndNullMemory) {
  EXPECT_THAT(outcome([](Call& c) {
                c.inputs.rotate = nullptr;
                c.inputs.cosines = c.inputs.sines = c.inputs.numbers.first(6);
              }),
              HasSubstr("rotate is null with 6 cosines and 6 sines"));
  const float* const nowhere = nullptr;
  EXPECT_THAT(outcome([&](Call& c) {
                c.inputs.numbers = {nowhere, 24};
              }),
              HasSubstr("numbers is null with 24 numbers"));
  EXPECT_THAT(outcome([&](Call& c) {
                c.inputs.cosines = {nowhere, 6};
              }),
              HasSubstr("cosines is null"));
  EXPECT_THAT(outcome([](Call& c) {
                c.inputs.positions = {static_cast<const std::int64_t*>(nullptr), 3};
              }),
              HasSubstr("positions is null"));
}

TEST(AppendRows, RefusesPlacesByName) {
  EXPECT_THAT(outcome([](Call& c) { c.target.first_row = UINT64_MAX; }),
              HasSubstr("first_row + rows is 18446744073709551615 + 3"));
  EXPECT_THAT(outcome([](Call& c) { c.target.blocks = c.target.blocks.first(1); }),
              HasSubstr("first_row + rows is 1 + 3; allowed: at most 2, 1 blocks of 2 rows"));
  EXPECT_THAT(outcome([](Call& c) { c.pages.order[0] = 9; }),
              HasSubstr("blocks is 9; allowed: indexes below rows.block_count"));
  EXPECT_THAT(outcome([](Call& c) { c.target.base = nullptr; }), HasSubstr("rows.base is null"));
  EXPECT_THAT(outcome([](Call& c) { c.target.layout.row_bytes = 15; }),
              HasSubstr("rows.row_bytes is 15; allowed: at least 16"));
  EXPECT_THAT(outcome([](Call& c) { c.target.layout.encoding = Encoding::kInt8; }),
              HasSubstr("rows.encoding is 7"));
  EXPECT_THAT(outcome([](Call& c) { c.target.layout.format = RowFormat::kFp8DsMla; }),
              HasSubstr("rows.format is fp8_ds_mla"));
  const auto no_rows = [](Call& c) {
    c.inputs.numbers = {};
    c.inputs.positions = {};
    c.target = {};
  };
  EXPECT_EQ(outcome(no_rows), "accepted") << "nothing to write, nowhere";
}

TEST(AppendRows, RefusesRulesThatCouldDivideByZero) {
  const auto with_rule = [](const ScaleRule& rule) {
    return outcome([rule](Call& c) { c.options.scale_rule = rule; });
  };
  EXPECT_THAT(with_rule({}), HasSubstr("scale_rule has amax_floor 0 and scale_floor 0"));
  EXPECT_THAT(with_rule({.scale_floor = std::nanf("")}), HasSubstr("scale_floor nan"));
  EXPECT_THAT(with_rule({.amax_floor = -1, .scale_floor = 1}), HasSubstr("amax_floor -1"));
  EXPECT_THAT(with_rule(kTokenHeadScales), HasSubstr("scale_rule.by_reciprocal is true"));
  EXPECT_EQ(with_rule({.power_of_two = true}), "accepted");
}

}  // namespace
}  // namespace emblema
