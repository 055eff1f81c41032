// Every bit pattern of every storage is read as the number it is, by every instruction set.
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "emblema/kernels/block_primitives.h"
#include "emblema/kernels/reference/reference_attention.h"
#include "emblema/layout/fp8.h"

namespace emblema {
namespace {

// A row of `width` numbers, loaded by the vector kernels: [row][key stride] in fp32.
std::vector<float> loaded(Isa isa, const PagedRows& layout, const std::byte* row,
                          const std::byte* scales, std::uint32_t width) {
  const BlockPrimitives& primitives = primitives_of(isa, layout);
  const TileWidths widths{width, width, true};
  std::vector<std::byte> memory(primitives.row_bytes(widths) + 64);
  std::byte* to = memory.data();
  to += (64 - reinterpret_cast<std::uintptr_t>(to) % 64) % 64;
  StoredRows rows;
  rows.layout = &layout;
  rows.rows = &row;
  rows.scales = &scales;
  rows.count = 1;
  primitives.load_rows(widths, rows, to);
  std::vector<float> numbers(width);
  std::memcpy(numbers.data(), to, width * sizeof(float));
  return numbers;
}

// Those whose loaded rows are fp32.
std::vector<Isa> vector_isas() {
  std::vector<Isa> isas = runnable_isas();
  std::erase(isas, Isa::kAmx);
  return isas;
}

void expect_same_number(float got, double want, std::uint32_t bits) {
  if (std::isnan(want)) {
    ASSERT_TRUE(std::isnan(got)) << bits;
    return;
  }
  ASSERT_EQ(got, want) << bits;
  ASSERT_EQ(std::signbit(got), std::signbit(want)) << bits;
}

TEST(StoredNumbers, EverySixteenBitNumberIsReadExactly) {
  constexpr std::uint32_t kWidth = 1021;  // ends within a vector
  std::vector<std::uint16_t> stored((1 << 16) + kWidth);
  std::iota(stored.begin(), stored.end(), std::uint16_t{0});
  const auto bytes = std::as_bytes(std::span(stored));
  for (const Isa isa : vector_isas()) {
    for (const Encoding encoding : {Encoding::kBf16, Encoding::kFp16}) {
      PagedRows layout;
      layout.encoding = encoding;
      for (std::uint32_t first = 0; first < (1 << 16); first += kWidth) {
        const std::byte* row = bytes.data() + std::size_t{first} * 2;
        const std::vector<float> got = loaded(isa, layout, row, row, kWidth);
        for (std::uint32_t i = 0; i < kWidth; ++i) {
          expect_same_number(got[i], reference_element(row + std::size_t{i} * 2, encoding),
                             first + i);
        }
      }
    }
  }
}

TEST(StoredNumbers, EveryEightBitNumberIsReadExactlyAndScaled) {
  std::vector<std::byte> stored(256);
  for (std::uint32_t code = 0; code < 256; ++code) stored[code] = static_cast<std::byte>(code);
  for (const Isa isa : vector_isas()) {
    for (const std::uint32_t width : {256U, 255U, 129U}) {
      PagedRows layout;
      layout.encoding = Encoding::kFp8E4m3;
      layout.key_scale = 0.3F;
      const std::vector<float> got = loaded(isa, layout, stored.data(), stored.data(), width);
      for (std::uint32_t code = 0; code < width; ++code) {
        expect_same_number(
            got[code], fp32_from_e4m3(static_cast<std::uint8_t>(code)) * layout.key_scale, code);
      }
    }
  }
}

}  // namespace
}  // namespace emblema
