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

  static Vector apart(Vector a) {
    asm("" : "+v"(a));
    return a;
  }

  // Not by AVX512-BF16, which takes subnormal numbers for 0.
  static void store_bf16(std::byte* to, Vector v) {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i upper = _mm512_srli_epi32(bits, 16);
    const __m512i odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
    const __m512i half = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
    const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, half), 16);
    const __m512i quiet = _mm512_or_si512(upper, _mm512_set1_epi32(0x40));
    const __mmask16 is_nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    store_256(to, _mm512_cvtepi32_epi16(_mm512_mask_blend_epi32(is_nan, rounded, quiet)));
  }
  static void store_fp16(std::byte* to, Vector v) {
    store_256(to, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
  static void store_e4m3(std::byte* to, Vector v) {  // as in avx2/lanes.h
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i magnitude = _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff));
    const __m512i cut = _mm512_min_epi32(magnitude, _mm512_set1_epi32(0x43e00000));
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(cut, 20), _mm512_set1_epi32(1));
    const __m512i rebiased = _mm512_sub_epi32(cut, _mm512_set1_epi32((120 << 23) - 0x7ffff));
    const __m512i normal = _mm512_srli_epi32(_mm512_add_epi32(rebiased, odd), 20);
    const __m512 step = _mm512_set1_ps(0x1p14F);
    const __m512i subnormal =
        _mm512_sub_epi32(_mm512_castps_si512(_mm512_add_ps(_mm512_castsi512_ps(cut), step)),
                         _mm512_castps_si512(step));
    const __mmask16 is_small = _mm512_cmplt_epi32_mask(cut, _mm512_set1_epi32(121 << 23));
    const __mmask16 is_nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    const __m512i finite = _mm512_mask_blend_epi32(is_small, normal, subnormal);
    const __m512i marked = _mm512_mask_blend_epi32(is_nan, finite, _mm512_set1_epi32(0x7f));
    const __m512i sign = _mm512_and_si512(_mm512_srli_epi32(bits, 24), _mm512_set1_epi32(0x80));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                     _mm512_cvtepi32_epi8(_mm512_or_si512(marked, sign)));
  }

 private:
  static void store_256(std::byte* to, __m256i v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), v);
  }
  static __m256i load_256(const std::byte* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
};

}  // namespace emblema
