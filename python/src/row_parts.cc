#include "python/src/row_parts.h"

#include <fmt/format.h>

#include "emblema/layout/convert.h"

namespace emblema::python {
namespace {

std::uint64_t numbers_a_row(const AnyArray& part) {
  std::uint64_t numbers = 1;
  for (std::size_t i = 1; i < part.ndim(); ++i) numbers *= part.shape(i);
  return numbers;
}

float number_at(const AnyArray& part, std::int64_t at) {
  if (part.dtype().bits == 32) return static_cast<const float*>(part.data())[at];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(part.data())[at];
  return is_bfloat16(part.dtype()) ? fp32_from_bf16(bits) : fp32_from_fp16(bits);
}

// Writes the numbers of dimensions `dimension` and up, which begin at `at`, and returns where the
// next ones go.
float* gather(const AnyArray& part, std::size_t dimension, std::int64_t at, float* out) {
  if (dimension == part.ndim()) {
    *out = number_at(part, at);
    return out + 1;
  }
  const auto length = static_cast<std::int64_t>(part.shape(dimension));
  for (std::int64_t i = 0; i < length; ++i) {
    out = gather(part, dimension + 1, at + i * part.stride(dimension), out);
  }
  return out;
}

}  // namespace

RowParts::RowParts(const nb::args& parts, std::uint64_t rows, std::uint64_t numbers)
    : rows_(rows), numbers_(numbers) {
  std::uint64_t given = 0;
  for (const nb::handle part : parts) {
    const std::string field = fmt::format("parts[{}]", parts_.size());
    AnyArray array = array_of(field, part);
    const nb::dlpack::dtype type = array.dtype();
    if (!is_float(type, 32) && !is_float(type, 16) && !is_bfloat16(type)) {
      raise_invalid(fmt::format("{} is an array of {}; allowed: float32, float16, bfloat16", field,
                                name_of(type)));
    }
    if (array.ndim() == 0 || array.shape(0) != rows) {
      raise_invalid(fmt::format("{} has {} rows; allowed: the {} of these rows", field,
                                array.ndim() == 0 ? 0 : array.shape(0), rows));
    }
    given += numbers_a_row(array);
    parts_.push_back(std::move(array));
  }
  if (given != numbers) {
    raise_invalid(
        fmt::format("parts have {} numbers a row; allowed: the {} of these rows", given, numbers));
  }
}

std::span<const float> RowParts::numbers(std::vector<float>* joined) const {
  const AnyArray& front = parts_.front();
  if (parts_.size() == 1 && is_float(front.dtype(), 32) && in_order(front)) {
    return {static_cast<const float*>(front.data()), rows_ * numbers_};
  }
  joined->resize(rows_ * numbers_);
  std::uint64_t offset = 0;
  for (const AnyArray& part : parts_) {
    for (std::uint64_t row = 0; row < rows_; ++row) {
      gather(part, 1, static_cast<std::int64_t>(row) * part.stride(0),
             joined->data() + row * numbers_ + offset);
    }
    offset += numbers_a_row(part);
  }
  return *joined;
}

}  // namespace emblema::python
