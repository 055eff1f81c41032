// The arrays that Rows.write() is given, joined to whole rows of fp32 numbers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "python/src/arrays.h"

namespace emblema::python {

class RowParts {
 public:
  // InvalidError: a part that is no array of `rows` rows of float32, float16 or bfloat16, or parts
  // that have not `numbers` numbers a row together. GIL held, here and at the end of its life.
  RowParts(const nb::args& parts, std::uint64_t rows, std::uint64_t numbers);

  // [rows][numbers]: the caller's own memory where it is one part in fp32 and in order, else
  // converted into *joined. Needs no GIL.
  std::span<const float> numbers(std::vector<float>* joined) const;

 private:
  std::vector<AnyArray> parts_;
  std::uint64_t rows_;
  std::uint64_t numbers_;
};

}  // namespace emblema::python
