// Numbers of a cache row as fp32: stored as fp32, fp16 (IEEE 754 binary16) or bf16, little-endian,
// packed. Decoding is exact. (Rows are written by kernels/append.h.) Any thread may call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "emblema/contract/result.h"
#include "emblema/geometry/encoding.h"

namespace emblema {

// Bytes of one number. Unsupported: an encoding that is none of fp32, fp16 and bf16.
Result<std::uint64_t> row_element_bytes(Encoding encoding);

// Reads out.size() numbers. REQUIRES: one of the three encodings, `row` holds them.
void decode_row_values(const std::byte* row, Encoding encoding, std::span<float> out);

}  // namespace emblema
