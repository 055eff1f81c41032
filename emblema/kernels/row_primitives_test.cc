// Every class of fp32 bit patterns is narrowed by every instruction set as layout/convert.h and
// layout/fp8.h narrow it (exact, held against IEEE 754 by their own tests); rotation against
// products and sums that are rounded one by one.
#include "emblema/kernels/row_primitives.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "emblema/layout/convert.h"
#include "emblema/layout/fp8.h"

namespace emblema {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::uint32_t kQuietNan = 0x7fc00000;

// All sign, exponent and upper fraction bits, the lower ones about every tie of the three formats.
std::vector<float> every_class_of_numbers() {
  std::vector<float> numbers;
  for (std::uint32_t upper = 0; upper < 65536; ++upper) {
    for (const std::uint32_t lower :
         {0U, 1U, 0x0fffU, 0x1000U, 0x1001U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      numbers.push_back(std::bit_cast<float>(upper << 16 | lower));
    }
  }
  return numbers;
}

std::uint32_t narrowed(float number, Encoding encoding, float scale) {
  if (encoding == Encoding::kBf16) return bf16_from_fp32(number);
  if (encoding == Encoding::kFp16) return fp16_from_fp32(number);
  return e4m3_from_fp32_saturating(number / scale);
}

std::uint32_t stored_at(const std::byte* from, std::size_t bytes) {
  std::uint32_t stored = 0;
  std::memcpy(&stored, from, bytes);
  return stored;
}

void expect_narrowed(const RowPrimitives& primitives, const std::vector<float>& numbers,
                     Encoding encoding, float scale) {
  constexpr std::uint32_t kRun = 1021;  // ends within a vector
  const std::size_t bytes = bits_per_element(encoding) / 8;
  std::vector<std::byte> codes(kRun * bytes + 1);
  for (std::size_t first = 0; first < numbers.size(); first += kRun) {
    const auto count =
        static_cast<std::uint32_t>(std::min<std::size_t>(kRun, numbers.size() - first));
    primitives.encode(numbers.data() + first, count, encoding, scale, codes.data() + 1);
    for (std::uint32_t i = 0; i < count; ++i) {
      ASSERT_EQ(stored_at(codes.data() + 1 + i * bytes, bytes),
                narrowed(numbers[first + i], encoding, scale))
          << to_string(primitives.isa) << " " << to_string(encoding) << " "
          << std::bit_cast<std::uint32_t>(numbers[first + i]);
    }
  }
}

TEST(RowPrimitives, EveryClassOfNumbersIsNarrowedExactly) {
  const std::vector<float> numbers = every_class_of_numbers();
  for (const Isa isa : runnable_isas()) {
    const RowPrimitives& primitives = row_primitives_of(isa);
    expect_narrowed(primitives, numbers, Encoding::kBf16, 1.0F);
    expect_narrowed(primitives, numbers, Encoding::kFp16, 1.0F);
    for (const float scale : {1.0F, 0.3F, 0x1p-127F, std::nanf("")}) {
      expect_narrowed(primitives, numbers, Encoding::kFp8E4m3, scale);
    }
  }
}

TEST(RowPrimitives, NothingBehindTheLastNumberIsWritten) {
  const std::vector<float> numbers(80, 1.0F);
  for (const Isa isa : runnable_isas()) {
    for (const Encoding encoding :
         {Encoding::kFp32, Encoding::kFp16, Encoding::kBf16, Encoding::kFp8E4m3}) {
      const std::size_t bytes = bits_per_element(encoding) / 8;
      for (std::uint32_t count = 0; count <= 70; ++count) {
        std::vector<std::byte> codes(80 * 4, std::byte{0xee});
        row_primitives_of(isa).encode(numbers.data(), count, encoding, 1.0F, codes.data());
        for (std::size_t i = 0; i < codes.size(); ++i) {
          if (i >= count * bytes) {
            ASSERT_EQ(codes[i], std::byte{0xee});
          }
        }
        if (count > 0) {
          ASSERT_NE(codes[count * bytes - 1], std::byte{0xee});
        }
      }
    }
  }
}

TEST(RowPrimitives, TheLargestMagnitudeIsFoundWhereverItIs) {
  for (const Isa isa : runnable_isas()) {
    const RowPrimitives& primitives = row_primitives_of(isa);
    for (std::uint32_t count = 1; count <= 70; ++count) {
      for (std::uint32_t place = 0; place < count; ++place) {
        std::vector<float> numbers(count, 0.5F);
        numbers[place] = -2.0F;
        ASSERT_EQ(primitives.largest(numbers.data(), count), 2.0F);
        numbers[place] = -kInfinity;
        ASSERT_EQ(primitives.largest(numbers.data(), count), kInfinity);
        numbers[place] = -std::nanf("");
        ASSERT_EQ(primitives.largest(numbers.data(), count), kInfinity);
      }
    }
    const std::vector<float> small(33, -0x1p-149F);
    EXPECT_EQ(primitives.largest(small.data(), 33), 0x1p-149F);
    EXPECT_EQ(primitives.largest(small.data(), 0), 0.0F);
  }
}

TEST(RowPrimitives, OneNanStandsForAll) {
  const std::vector<float> numbers = every_class_of_numbers();
  for (const Isa isa : runnable_isas()) {
    std::vector<float> settled = numbers;
    row_primitives_of(isa).settle_nans(settled.data(), static_cast<std::uint32_t>(settled.size()));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(numbers[i]);
      ASSERT_EQ(std::bit_cast<std::uint32_t>(settled[i]),
                std::isnan(numbers[i]) ? kQuietNan : bits);
    }
  }
}

// What a compiler cannot fuse.
float product(float a, float b) {
  const volatile float rounded = a * b;
  return rounded;
}

std::uint32_t settled_bits(float number) {
  return std::isnan(number) ? kQuietNan : std::bit_cast<std::uint32_t>(number);
}

void expect_turned(const RowPrimitives& primitives, const PairTurn& turn,
                   const std::vector<float>& channels) {
  std::vector<float> turned = channels;
  primitives.turn(turn, turned.data());
  for (std::uint32_t i = 0; i < turn.pairs; ++i) {
    const std::size_t first = turn.interleaved ? 2 * i : i;
    const std::size_t second = turn.interleaved ? 2 * i + 1 : i + turn.pairs;
    const float x = channels[first];
    const float y = channels[second];
    const float turned_x = product(x, turn.cosines[i]) - product(y, turn.sines[i]);
    const float turned_y = product(x, turn.sines[i]) + product(y, turn.cosines[i]);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(turned[first]), settled_bits(turned_x));
    ASSERT_EQ(std::bit_cast<std::uint32_t>(turned[second]), settled_bits(turned_y));
  }
  for (std::size_t i = 2 * turn.pairs; i < channels.size(); ++i) {
    ASSERT_EQ(turned[i], channels[i]);
  }
}

TEST(RowPrimitives, PairsTurnWithEachOperationRounded) {
  std::mt19937_64 random(3);
  std::normal_distribution<float> normal;
  for (const Isa isa : runnable_isas()) {
    for (std::uint32_t pairs = 1; pairs <= 37; ++pairs) {
      std::vector<float> cosines(pairs);
      std::vector<float> sines(pairs);
      std::vector<float> channels(2 * pairs + 3);
      for (float& cosine : cosines) cosine = normal(random);
      for (float& sine : sines) sine = normal(random);
      for (float& channel : channels) channel = normal(random);
      for (const bool interleaved : {false, true}) {
        const PairTurn turn{cosines.data(), sines.data(), pairs, interleaved};
        expect_turned(row_primitives_of(isa), turn, channels);
        std::vector<float> odd = channels;
        odd[0] = kInfinity;
        odd[2 * pairs - 1] = -std::nanf("7");
        expect_turned(row_primitives_of(isa), turn, odd);
      }
    }
  }
}

}  // namespace
}  // namespace emblema
