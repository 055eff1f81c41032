#include "python/src/head_tensor.h"

#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "emblema/layout/convert.h"

namespace emblema::python {
namespace {

std::optional<Encoding> encoding_of(nb::dlpack::dtype type) {
  if (is_float(type, 32)) return Encoding::kFp32;
  if (is_float(type, 16)) return Encoding::kFp16;
  if (is_bfloat16(type)) return Encoding::kBf16;
  return std::nullopt;
}

template <auto kWiden>
void widen(const std::byte* from, std::uint64_t count, float* out) {
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, from + i * sizeof bits, sizeof bits);
    out[i] = kWiden(bits);
  }
}

template <auto kNarrow>
void narrow(const float* numbers, std::uint64_t count, std::byte* to) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint16_t bits = kNarrow(numbers[i]);
    std::memcpy(to + i * sizeof bits, &bits, sizeof bits);
  }
}

}  // namespace

std::byte* HeadTensor::at(std::uint64_t sequence, std::uint64_t head, std::uint64_t token) const {
  const std::int64_t element = static_cast<std::int64_t>(sequence) * sequence_stride +
                               static_cast<std::int64_t>(head) * head_stride +
                               static_cast<std::int64_t>(token) * token_stride;
  return data + element * (bits_per_element(encoding) / 8);
}

void HeadTensor::load(std::uint64_t sequence, std::uint64_t head, std::uint64_t token,
                      float* out) const {
  const std::byte* from = at(sequence, head, token);
  switch (encoding) {
    case Encoding::kBf16:
      return widen<fp32_from_bf16>(from, width, out);
    case Encoding::kFp16:
      return widen<fp32_from_fp16>(from, width, out);
    default:
      std::memcpy(out, from, width * sizeof(float));
  }
}

void HeadTensor::store(std::uint64_t sequence, std::uint64_t head, std::uint64_t token,
                       const float* numbers) const {
  std::byte* to = at(sequence, head, token);
  switch (encoding) {
    case Encoding::kBf16:
      return narrow<bf16_from_fp32>(numbers, width, to);
    case Encoding::kFp16:
      return narrow<fp16_from_fp32>(numbers, width, to);
    default:
      std::memcpy(to, numbers, width * sizeof(float));
  }
}

Result<HeadTensor> head_tensor(std::string_view field, const WritableArray& array) {
  if (array.ndim() != 4) {
    return fail(ErrorCode::Invalid,
                fmt::format("{} has {} dimensions; allowed: 4, [sequences][heads][tokens][width]",
                            field, array.ndim()));
  }
  const auto encoding = encoding_of(array.dtype());
  if (!encoding) {
    return fail(ErrorCode::Invalid,
                fmt::format("{} is an array of {}; allowed: float32, float16, bfloat16", field,
                            name_of(array.dtype())));
  }
  if (array.stride(3) != 1 && array.shape(3) > 1) {
    return fail(ErrorCode::Invalid, fmt::format("{} has stride {} in its last dimension; allowed: "
                                                "1",
                                                field, array.stride(3)));
  }
  HeadTensor tensor;
  tensor.data = static_cast<std::byte*>(array.data());
  tensor.encoding = *encoding;
  tensor.sequences = array.shape(0);
  tensor.heads = array.shape(1);
  tensor.tokens = array.shape(2);
  tensor.width = array.shape(3);
  tensor.sequence_stride = array.stride(0);
  tensor.head_stride = array.stride(1);
  tensor.token_stride = array.stride(2);
  return tensor;
}

}  // namespace emblema::python
