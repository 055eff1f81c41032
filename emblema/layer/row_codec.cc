#include "emblema/layer/row_codec.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "emblema/contract/check.h"
#include "emblema/layout/convert.h"

namespace emblema {
namespace {

static_assert(std::endian::native == std::endian::little, "rows are little-endian");

template <class Convert>
void encode_16(std::span<const float> row, std::byte* to, Convert convert) {
  for (const float value : row) {
    const std::uint16_t bits = convert(value);
    std::memcpy(to, &bits, sizeof(bits));
    to += sizeof(bits);
  }
}

template <class Convert>
void decode_16(const std::byte* from, std::span<float> out, Convert convert) {
  for (float& value : out) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, from, sizeof(bits));
    value = convert(bits);
    from += sizeof(bits);
  }
}

void encode_row(std::span<const float> row, std::byte* to, Encoding encoding) {
  if (encoding == Encoding::kFp32) {
    std::memcpy(to, row.data(), row.size_bytes());
  } else if (encoding == Encoding::kBf16) {
    encode_16(row, to, bf16_from_fp32);
  } else {
    encode_16(row, to, fp16_from_fp32);
  }
}

}  // namespace

Result<std::uint64_t> row_element_bytes(Encoding encoding) {
  if (encoding == Encoding::kFp32) return 4;
  if (encoding == Encoding::kFp16 || encoding == Encoding::kBf16) return 2;
  return fail(ErrorCode::Unsupported,
              fmt::format("row encoding number {} cannot be written from fp32 here; allowed: fp32 "
                          "(1), fp16 (2), bf16 (3)",
                          static_cast<int>(encoding)));
}

Status encode_row_values(std::span<const float> rows, std::uint64_t row_elements,
                         ByteSpan destination, std::uint64_t row_bytes, Encoding encoding) {
  const Result<std::uint64_t> element_bytes = row_element_bytes(encoding);
  if (!element_bytes) return propagate(element_bytes);
  const std::uint64_t packed_bytes = row_elements * *element_bytes;
  if (row_elements == 0 || rows.size() % row_elements != 0) {
    return fail(ErrorCode::Invalid, fmt::format("{} numbers are no whole rows of {} elements",
                                                rows.size(), row_elements));
  }
  if (row_bytes < packed_bytes) {
    return fail(ErrorCode::Invalid, fmt::format("row_bytes is {}; {} elements need at least {}",
                                                row_bytes, row_elements, packed_bytes));
  }
  const std::uint64_t count = rows.size() / row_elements;
  if (destination.size() / row_bytes < count) {
    return fail(ErrorCode::Invalid, fmt::format("destination is {} bytes; {} rows of {} bytes do "
                                                "not fit",
                                                destination.size(), count, row_bytes));
  }
  for (std::uint64_t row = 0; row < count; ++row) {
    std::byte* to = destination.data() + row * row_bytes;
    encode_row(rows.subspan(row * row_elements, row_elements), to, encoding);
    std::fill(to + packed_bytes, to + row_bytes, std::byte{0});
  }
  return {};
}

void decode_row_values(const std::byte* row, Encoding encoding, std::span<float> out) {
  switch (encoding) {
    case Encoding::kFp32:
      std::memcpy(out.data(), row, out.size_bytes());
      return;
    case Encoding::kBf16:
      decode_16(row, out, fp32_from_bf16);
      return;
    case Encoding::kFp16:
      decode_16(row, out, fp32_from_fp16);
      return;
    default:
      EMBLEMA_CHECK(false, "rows are stored as fp32, fp16 or bf16");
  }
}

}  // namespace emblema
