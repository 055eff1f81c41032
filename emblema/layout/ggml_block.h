// The block formats q8_0 and q4_0 of ggml (llama.cpp): 32 numbers behind one fp16 scale d.
//
//   q8_0  34 bytes   d, then 32 int8 codes; number = d x code
//   q4_0  18 bytes   d, then 16 bytes: byte j holds numbers j (low nibble) and j + 16 (high);
//                    number = d x (code - 8), code 0 to 15
//
// Writers choose d = amax / 127 (q8_0) and d = -1/8 of the number of largest magnitude (q4_0), in
// fp32; codes come from the fp32 d, before it is rounded to fp16. A block with a NaN or an infinity
// gets the scale NaN; above |number| = 127 x 65504 (8 x 65504 for q4_0) d is infinite, as in ggml.
//
// Scale and codes are handed over apart: a layout may store them side by side (ggml's own blocks)
// or in two runs. Nothing here allocates; any thread may call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace emblema {

inline constexpr std::size_t kGgmlBlockNumbers = 32;
using GgmlNumbers = std::span<const float, kGgmlBlockNumbers>;
using GgmlNumbersOut = std::span<float, kGgmlBlockNumbers>;

// Write 32 codes (q8_0) or 16 bytes (q4_0); return the bits of d.
std::uint16_t encode_q8_0(GgmlNumbers numbers, std::byte* codes);
std::uint16_t encode_q4_0(GgmlNumbers numbers, std::byte* codes);

void decode_q8_0(std::uint16_t scale, const std::byte* codes, GgmlNumbersOut numbers);
void decode_q4_0(std::uint16_t scale, const std::byte* codes, GgmlNumbersOut numbers);

}  // namespace emblema
