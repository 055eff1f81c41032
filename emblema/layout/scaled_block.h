// Blocks of numbers that share one scale: decoded number = code x scale.
//
// Writers differ in how they choose the scale, so the choice is data: a ScaleRule. Readers do not
// care: they multiply by whatever positive scale is stored. With `largest` the largest number that
// a code can hold (448 for e4m3, 6 for e2m1, 127 for int8):
//
//   amax  = the largest |number| of the block, raised to `amax_floor`
//   scale = amax / largest, raised to `scale_floor`, then up to a power of two where asked; in fp32
//   code  = number / scale, rounded to nearest (ties to even), saturating
//
// A block with a NaN or an infinity gets the scale NaN, so that it decodes to NaN as a whole and
// not to numbers that nobody wrote.
//
// Nothing here allocates; any thread may call.
#pragma once

#include <cfloat>
#include <cstddef>
#include <span>

#include "emblema/geometry/encoding.h"

namespace emblema {

struct ScaleRule {
  float amax_floor = 0.0F;
  float scale_floor = 0.0F;
  bool power_of_two = false;
  bool through_bf16 = false;   // numbers are rounded to bf16 first
  bool by_reciprocal = false;  // code = number x (1 / scale): another last bit, sometimes
};

// 656-byte latents. vLLM (concat_and_cache_ds_mla, 073c510c) and FlashMLA's test quantiser
// (tests/quant.py, 9241ae3e), whose scale of an empty block is 2^-13.
inline constexpr ScaleRule kVllmLatentScales{.scale_floor = FLT_MIN};
inline constexpr ScaleRule kFlashMlaLatentScales{.scale_floor = 1e-4F, .power_of_two = true};

// 584-byte DeepSeek-V4 entries. An empty block gets byte 105 from DeepSeek's reference code and
// vLLM, 114 from FlashMLA's test quantiser, 92 from TensorRT-LLM; all decode to zero.
inline constexpr ScaleRule kDeepSeekV4Scales{
    .amax_floor = 1e-4F, .power_of_two = true, .through_bf16 = true};
inline constexpr ScaleRule kFlashMlaV4Scales{
    .scale_floor = 1e-4F, .power_of_two = true, .through_bf16 = true};
inline constexpr ScaleRule kTensorRtV4Scales{
    .amax_floor = 1e-8F, .power_of_two = true, .through_bf16 = true};

// Index keys in e4m3: vLLM's indexer_k_quant_and_cache with scale format ue8m0 (DeepSeek's
// models), and without.
inline constexpr ScaleRule kIndexerScales{.amax_floor = 1e-4F, .power_of_two = true};
inline constexpr ScaleRule kIndexerPlainScales{.amax_floor = 1e-4F};

// Index keys in MXFP4: DeepSeek-V4's reference code.
inline constexpr ScaleRule kMxfp4Scales{.amax_floor = 6 * 0x1p-126F, .power_of_two = true};

// int8 and e4m3 with a scale per token and head: vLLM's Triton backend. It cuts int8 codes off
// towards zero; ours are rounded, which halves the error and reads the same.
inline constexpr ScaleRule kTokenHeadScales{.scale_floor = 1e-6F, .by_reciprocal = true};

// The largest number of a code. REQUIRES: encoding is kFp8E4m3, kE2m1 or kInt8 (also below).
float largest_code(Encoding encoding);

float block_scale(std::span<const float> numbers, Encoding encoding, const ScaleRule& rule);

// The same where the largest |number| is known already, `amax_floor` left aside; infinite or NaN:
// a block with such a number.
float scale_for(float amax, Encoding encoding, const ScaleRule& rule);

// Codes, packed; e2m1 two to a byte, the even index in the low nibble. REQUIRES: with kE2m1 an even
// count; `codes` has room.
void encode_scaled(std::span<const float> numbers, Encoding encoding, float scale,
                   const ScaleRule& rule, std::byte* codes);
void decode_scaled(const std::byte* codes, Encoding encoding, float scale,
                   std::span<float> numbers);

// The largest |decoded - value|, `scale` being the stored one and saturation left aside (no rule
// above saturates). Relative to the value while codes are normal numbers, to the scale below:
//
//   fp32 0 · bf16 2^-8 |value| · fp16 2^-11 |value|, at least 2^-25
//   e4m3 2^-4 |value|, at least 2^-10 scale · e2m1 1/4 |value|, at least 1/4 scale
//   int8 9/16 scale: 1/2, and 1/16 for q8_0, whose stored scale is itself rounded to fp16
//   int4 65/64 scale: q4_0 has no code for the number opposite its largest
//
// On N(0, 1) the root mean square of the error, relative to that of the numbers, is about 0.0017
// (bf16), 0.026 (e4m3), 0.11 (MXFP4), 0.006 (q8_0), 0.08 (q4_0).
double error_bound(Encoding encoding, double value, double scale);

}  // namespace emblema
