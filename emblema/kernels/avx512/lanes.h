// Sixteen fp32 lanes; the words are those of scalar/lanes.h. Included inside an AVX-512 region.
#pragma once

namespace emblema {

struct Avx512Lanes {
  using Vector = __m512;
  static constexpr std::uint32_t kLanes = 16;
  static constexpr std::uint32_t kTileRows = 12;  // 24 accumulators of 32 registers

  static Vector set1(float value) { return _mm512_set1_ps(value); }
  static Vector load(const float* from) { return _mm512_loadu_ps(from); }
  static void store(float* to, Vector v) { _mm512_storeu_ps(to, v); }

  static Vector add(Vector a, Vector b) { return _mm512_add_ps(a, b); }
  static Vector sub(Vector a, Vector b) { return _mm512_sub_ps(a, b); }
  static Vector mul(Vector a, Vector b) { return _mm512_mul_ps(a, b); }
  static Vector div(Vector a, Vector b) { return _mm512_div_ps(a, b); }
  static Vector fma(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }

  static Vector select_less(Vector a, Vector b, Vector x, Vector y) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
  }
  static Vector max(Vector a, Vector b) { return _mm512_max_ps(a, b); }
  static Vector abs(Vector a) { return _mm512_abs_ps(a); }
  static Vector round(Vector a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static Vector times_power_of_two(Vector a, Vector n) { return _mm512_scalef_ps(a, n); }

  static Vector load_bf16(const std::byte* from) {
    const __m512i wide = _mm512_cvtepu16_epi32(load_256(from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
  }
  static Vector load_fp16(const std::byte* from) { return _mm512_cvtph_ps(load_256(from)); }
  static Vector load_e4m3(const std::byte* from) {  // as in avx2/lanes.h
    const __m256i codes =
        _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
    const __m256i magnitude = _mm256_and_si256(codes, _mm256_set1_epi16(0x7f));
    const __m256i sign = _mm256_slli_epi16(_mm256_xor_si256(codes, magnitude), 8);
    const __m256i is_nan = _mm256_cmpeq_epi16(magnitude, _mm256_set1_epi16(0x7f));
    const __m256i half = _mm256_or_si256(_mm256_or_si256(_mm256_slli_epi16(magnitude, 7), sign),
                                         _mm256_and_si256(is_nan, _mm256_set1_epi16(0x7e00)));
    return _mm512_mul_ps(_mm512_cvtph_ps(half), _mm512_set1_ps(256.0F));
  }

 private:
  static __m256i load_256(const std::byte* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
};

}  // namespace emblema
