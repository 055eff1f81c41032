// Arrays of numbers that callers hand in: numpy's, torch's on the CPU, or anything else that speaks
// DLPack or the buffer protocol. Never copied. Each error names the argument, what it is and what
// is allowed. GIL held throughout, and where an array dies.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nanobind/ndarray.h>

#include "python/src/core.h"

namespace emblema::python {

using AnyArray = nb::ndarray<nb::ro, nb::device::cpu>;
using WritableArray = nb::ndarray<nb::device::cpu>;

// -1 in a wanted shape: any length.
inline constexpr std::int64_t kAnyLength = -1;
using Shape = std::vector<std::int64_t>;

// "float32", "bfloat16", "int64" ...
std::string name_of(nb::dlpack::dtype type);
bool is_float(nb::dlpack::dtype type, std::uint8_t bits);  // IEEE: not bfloat16
bool is_bfloat16(nb::dlpack::dtype type);

// Whether the numbers lie one behind the other, the last dimension closest.
template <class Array>
bool in_order(const Array& array) {
  if (array.size() == 0) return true;
  std::int64_t stride = 1;
  for (std::size_t i = array.ndim(); i-- > 0;) {
    if (array.shape(i) != 1 && array.stride(i) != stride) return false;
    stride *= static_cast<std::int64_t>(array.shape(i));
  }
  return true;
}

// Any CPU array. InvalidError: it is none, or lies elsewhere.
AnyArray array_of(std::string_view field, nb::handle given);

// A float32 array in C order of this shape, kept alive as long as this is.
struct Floats {
  AnyArray array;
  std::span<const float> values;
  std::uint64_t length(std::size_t dimension) const { return array.shape(dimension); }
};
Floats floats_of(std::string_view field, nb::handle given, const Shape& wanted);

// The same to be written; `given` None: a new one, of the kind of `like` (torch or numpy).
struct Results {
  nb::object object;  // what the caller gets back
  WritableArray array;
  std::span<float> values;
};
Results results_of(std::string_view field, nb::handle given, nb::handle like, const Shape& wanted);

}  // namespace emblema::python
