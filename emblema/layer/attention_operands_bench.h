// Stored rows and queries as operands of matrix products: what a user of oneDNN writes around them.
// Plain code of the baseline machine, four numbers at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "emblema/layout/attention_inputs.h"
#include "emblema/os/thread_pool.h"

namespace emblema::bench {

inline float* floats(std::byte* memory) {
  return reinterpret_cast<float*>(memory);
}
inline std::byte* bytes(float* numbers) {
  return reinterpret_cast<std::byte*>(numbers);
}

// row[i] *= factor
void scale_row(float* row, std::uint64_t count, float factor);

// from * factor, as fp32 or rounded to bf16.
void store_operands(std::span<const float> from, float factor, bool is_bf16, std::byte* to);

// Rows [first, first + count) of a span, one after the other, `width` numbers each.
struct GatheredRows {
  const PagedRows* rows = nullptr;  // bf16, or kFp8DsMla
  const Span* span = nullptr;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  std::uint64_t width = 0;
};
void gather_operands(const GatheredRows& from, bool is_bf16, ThreadPool* threads, std::byte* to);

}  // namespace emblema::bench
