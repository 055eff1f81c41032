// Tensors of attention as torch hands them over: [sequences][heads][tokens][width] of numbers of 16
// or 32 bits, any strides but the last, which is 1. Nothing here owns memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "emblema/geometry/encoding.h"
#include "python/src/arrays.h"

namespace emblema::python {

struct HeadTensor {
  std::byte* data = nullptr;
  Encoding encoding = Encoding::kFp32;  // kFp32, kFp16 or kBf16
  std::uint64_t sequences = 0;
  std::uint64_t heads = 0;
  std::uint64_t tokens = 0;
  std::uint64_t width = 0;
  std::int64_t sequence_stride = 0;  // in elements
  std::int64_t head_stride = 0;
  std::int64_t token_stride = 0;

  // `width` numbers of one head of one token, as floats; and back, rounded to nearest even.
  void load(std::uint64_t sequence, std::uint64_t head, std::uint64_t token, float* out) const;
  void store(std::uint64_t sequence, std::uint64_t head, std::uint64_t token,
             const float* numbers) const;

 private:
  std::byte* at(std::uint64_t sequence, std::uint64_t head, std::uint64_t token) const;
};

// Invalid, naming `field`: another number of dimensions, another type of number, a last dimension
// whose numbers are not neighbours.
Result<HeadTensor> head_tensor(std::string_view field, const WritableArray& array);

}  // namespace emblema::python
