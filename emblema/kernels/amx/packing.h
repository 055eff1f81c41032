// Plain numbers -> tile operands.
//
// Included inside a region of the instruction set (isa_region.h), after what it needs.
#pragma once

#include "emblema/kernels/amx/tiles.h"

namespace emblema::amx_kernels {

// [sixteen low][sixteen high] as bf16 -> sixteen dwords, each a pair (low, high).
inline __m512i pairs_from_halves(__m512i halves) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24,
                                         8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(order, halves);
}

// Rounded to bf16, to nearest even; subnormal numbers become 0.
inline __m512i bf16_halves(__m512 low, __m512 high) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}

// Four columns of dwords -> 16 rows, 64 bytes apart, of four dwords each.
inline void store_columns(const __m512i (&columns)[4], std::byte* to) {
  const __m512i low01 = _mm512_unpacklo_epi32(columns[0], columns[1]);
  const __m512i high01 = _mm512_unpackhi_epi32(columns[0], columns[1]);
  const __m512i low23 = _mm512_unpacklo_epi32(columns[2], columns[3]);
  const __m512i high23 = _mm512_unpackhi_epi32(columns[2], columns[3]);
  const __m512i rows[4] = {_mm512_unpacklo_epi64(low01, low23), _mm512_unpackhi_epi64(low01, low23),
                           _mm512_unpacklo_epi64(high01, high23),
                           _mm512_unpackhi_epi64(high01, high23)};
#pragma GCC unroll 4
  for (std::uint32_t i = 0; i < 4; ++i) {  // rows i, 4 + i, 8 + i, 12 + i
    auto* at = reinterpret_cast<__m128i*>(to + i * kTileStride);
    constexpr std::size_t kApart = 4 * kTileStride / sizeof(__m128i);
    _mm_store_si128(at, _mm512_castsi512_si128(rows[i]));
    _mm_store_si128(at + kApart, _mm512_extracti32x4_epi32(rows[i], 1));
    _mm_store_si128(at + 2 * kApart, _mm512_extracti32x4_epi32(rows[i], 2));
    _mm_store_si128(at + 3 * kApart, _mm512_extracti32x4_epi32(rows[i], 3));
  }
}

// The mask of the first `count` lanes of sixteen.
inline __mmask16 first_lanes(std::uint32_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xffffU : (1U << count) - 1U);
}

// Numbers [at, at + 32) of a vector of `width`, those past its end 0, as 16 pairs.
inline __m512i load_pairs(const float* from, std::uint32_t at, std::uint32_t width) {
  const std::uint32_t left = width - at;
  const __m512 low = _mm512_maskz_loadu_ps(first_lanes(left), from + at);
  const __m512 high = left <= 16 ? _mm512_setzero_ps()
                                 : _mm512_maskz_loadu_ps(first_lanes(left - 16), from + at + 16);
  return bf16_halves(low, high);
}

// Vectors as columns of B tiles, 16 at a time: [step][16 pairs of numbers][16 vectors].
inline void pack_columns(const float* const* vectors, std::uint32_t count, std::uint32_t width,
                         std::byte* to) {
  for (std::uint32_t at = 0; at < width; at += kStep, to += kTileBytes) {
    for (std::uint32_t v = 0; v < kTileRows; v += 4) {
      __m512i columns[4];
      for (std::uint32_t i = 0; i < 4; ++i) {
        columns[i] = v + i < count ? load_pairs(vectors[v + i], at, width) : _mm512_setzero_si512();
      }
      store_columns(columns, to + v * sizeof(std::uint32_t));
    }
  }
}

// fp32 -> bf16, `count` numbers, then zeros up to `padded`, a multiple of 16.
inline void store_bf16(const float* from, std::uint32_t count, std::uint32_t padded,
                       std::byte* to) {
  for (std::uint32_t at = 0; at < padded; at += 16) {
    const std::uint32_t left = at < count ? count - at : 0;
    const __m512 numbers = _mm512_maskz_loadu_ps(first_lanes(left), from + at);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + at * sizeof(std::uint16_t)),
                        reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(numbers)));
  }
}

}  // namespace emblema::amx_kernels
