// Cache rows between fp32 and the bytes that a cache stores: fp32, fp16 (IEEE 754 binary16) or
// bf16, little-endian, packed. Rounding is to nearest, ties to even; too large becomes infinity;
// NaN stays NaN. Decoding is exact. Any thread may call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "emblema/contract/bytes.h"
#include "emblema/contract/result.h"
#include "emblema/geometry/encoding.h"

namespace emblema {

// Bytes of one number. Unsupported: an encoding that is none of fp32, fp16 and bf16.
Result<std::uint64_t> row_element_bytes(Encoding encoding);

// Writes `count` rows of `row_elements` numbers, `row_bytes` apart; bytes between two rows are
// written 0, so that equal rows are equal bytes.
//   rows [count][row_elements]   destination [count][row_bytes]
// Invalid: sizes that do not fit, naming them. Unsupported: the encoding.
[[nodiscard]] Status encode_row_values(std::span<const float> rows, std::uint64_t row_elements,
                                       ByteSpan destination, std::uint64_t row_bytes,
                                       Encoding encoding);

// Reads out.size() numbers. REQUIRES: one of the three encodings, `row` holds them.
void decode_row_values(const std::byte* row, Encoding encoding, std::span<float> out);

}  // namespace emblema
