#include "emblema/layer/attention_operands_bench.h"

#include <algorithm>
#include <cstring>

#include "emblema/layout/convert.h"

namespace emblema::bench {
namespace {

using Floats = float __attribute__((vector_size(16)));
using Words = std::uint32_t __attribute__((vector_size(16)));
using Halves = std::uint16_t __attribute__((vector_size(8)));
using Codes = std::uint8_t __attribute__((vector_size(4)));
constexpr std::uint64_t kAtOnce = 4;

template <class Vector>
Vector load(const void* from) {
  Vector v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

// To nearest, ties to even; no NaN comes here.
Halves rounded(Floats values) {
  const auto bits = reinterpret_cast<Words>(values);
  return __builtin_convertvector((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16, Halves);
}

void store(Floats values, bool is_bf16, std::byte* to, std::uint64_t number) {
  if (is_bf16) {
    const Halves halves = rounded(values);
    std::memcpy(to + number * 2, &halves, sizeof halves);
  } else {
    std::memcpy(to + number * 4, &values, sizeof values);
  }
}

void copy_bf16(const std::byte* from, std::uint64_t count, bool is_bf16, std::byte* to) {
  if (is_bf16) {
    std::memcpy(to, from, count * 2);
    return;
  }
  for (std::uint64_t i = 0; i < count; i += kAtOnce) {
    const Words wide = __builtin_convertvector(load<Halves>(from + i * 2), Words) << 16;
    store(reinterpret_cast<Floats>(wide), false, to, i);
  }
}

// e4m3: the bits of an fp32 number 2^120 times smaller. Subnormal codes as in convert.h: 2^-6 and
// the code's bits, minus 2^-6.
void copy_e4m3(const std::byte* from, std::uint64_t count, float scale, bool is_bf16,
               std::byte* to) {
  constexpr std::uint32_t kRebias = 120U << 23;
  constexpr std::uint32_t kSmallest = 121U << 23;  // 2^-6, the smallest normal number
  for (std::uint64_t i = 0; i < count; i += kAtOnce) {
    const Words codes = __builtin_convertvector(load<Codes>(from + i), Words);
    const Words magnitude = (codes & 0x7fU) << 20;
    const Words least = Words{} + kSmallest;
    const Floats small =
        reinterpret_cast<Floats>(magnitude + least) - reinterpret_cast<Floats>(least);
    const Words is_small = reinterpret_cast<Words>(magnitude < (1U << 23));
    const Words chosen =
        (is_small & reinterpret_cast<Words>(small)) | (~is_small & (magnitude + kRebias));
    const Floats value = reinterpret_cast<Floats>(chosen | ((codes & 0x80U) << 24));
    store(value * scale, is_bf16, to, i);
  }
}

// 512 + 64 numbers (layout/attention_inputs.h).
void copy_fp8_ds_mla(const std::byte* from, bool is_bf16, std::byte* to) {
  constexpr std::uint64_t kCodes = 512;
  constexpr std::uint64_t kPerScale = 128;
  const std::uint64_t bytes_each = is_bf16 ? 2 : 4;
  for (std::uint64_t c = 0; c < kCodes; c += kPerScale) {
    const auto scale = load<float>(from + kCodes + c / kPerScale * sizeof(float));
    copy_e4m3(from + c, kPerScale, scale, is_bf16, to + c * bytes_each);
  }
  copy_bf16(from + kCodes + 4 * sizeof(float), 64, is_bf16, to + kCodes * bytes_each);
}

}  // namespace

void scale_row(float* row, std::uint64_t count, float factor) {
  std::uint64_t i = 0;
  for (; i + kAtOnce <= count; i += kAtOnce) {
    store(load<Floats>(row + i) * factor, false, bytes(row), i);
  }
  for (; i < count; ++i) row[i] *= factor;
}

void store_operands(std::span<const float> from, float factor, bool is_bf16, std::byte* to) {
  std::uint64_t i = 0;
  for (; i + kAtOnce <= from.size(); i += kAtOnce) {
    store(load<Floats>(from.data() + i) * factor, is_bf16, to, i);
  }
  for (; i < from.size(); ++i) {
    const float value = from[i] * factor;
    const std::uint16_t half = bf16_from_fp32(value);
    std::memcpy(to + i * (is_bf16 ? 2 : 4), is_bf16 ? static_cast<const void*>(&half) : &value,
                is_bf16 ? 2 : 4);
  }
}

void gather_operands(const GatheredRows& from, bool is_bf16, ThreadPool* threads, std::byte* to) {
  constexpr std::uint64_t kRowsPerPart = 64;
  const PagedRows& rows = *from.rows;
  const std::uint64_t parts = (from.count + kRowsPerPart - 1) / kRowsPerPart;
  run_parts(threads, parts, [&](std::uint32_t, std::uint64_t part) {
    const std::uint64_t end = std::min(from.count, (part + 1) * kRowsPerPart);
    for (std::uint64_t r = part * kRowsPerPart; r < end; ++r) {
      const std::uint64_t row = from.span->first_row + from.first + r;
      const std::byte* stored = rows.base +
                                from.span->blocks[row / rows.block_rows] * rows.block_bytes +
                                row % rows.block_rows * rows.row_bytes;
      std::byte* number = to + r * from.width * (is_bf16 ? 2 : 4);
      if (rows.format == RowFormat::kFp8DsMla) {
        copy_fp8_ds_mla(stored, is_bf16, number);
      } else {
        copy_bf16(stored, from.width, is_bf16, number);
      }
    }
  });
}

}  // namespace emblema::bench
