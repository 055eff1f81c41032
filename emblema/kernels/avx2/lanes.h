// Eight fp32 lanes; the words are those of scalar/lanes.h. Included inside an AVX2 region.
#pragma once

namespace emblema {

struct Avx2Lanes {
  using Vector = __m256;
  static constexpr std::uint32_t kLanes = 8;
  static constexpr std::uint32_t kTileRows = 6;  // 12 accumulators of 16 registers

  static Vector set1(float value) { return _mm256_set1_ps(value); }
  static Vector load(const float* from) { return _mm256_loadu_ps(from); }
  static void store(float* to, Vector v) { _mm256_storeu_ps(to, v); }

  static Vector add(Vector a, Vector b) { return _mm256_add_ps(a, b); }
  static Vector sub(Vector a, Vector b) { return _mm256_sub_ps(a, b); }
  static Vector mul(Vector a, Vector b) { return _mm256_mul_ps(a, b); }
  static Vector div(Vector a, Vector b) { return _mm256_div_ps(a, b); }
  static Vector fma(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }

  static Vector select_less(Vector a, Vector b, Vector x, Vector y) {
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
  }
  static Vector max(Vector a, Vector b) { return _mm256_max_ps(a, b); }
  static Vector abs(Vector a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0F), a); }
  static Vector round(Vector a) {
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static Vector times_power_of_two(Vector a, Vector n) {
    const __m256i power = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_mul_ps(a, _mm256_castsi256_ps(_mm256_slli_epi32(power, 23)));
  }

  static Vector load_bf16(const std::byte* from) {
    const __m256i wide = _mm256_cvtepu16_epi32(load_128(from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
  }
  static Vector load_fp16(const std::byte* from) { return _mm256_cvtph_ps(load_128(from)); }
  // An e4m3 number has the bits of an fp16 number 2^8 times smaller, save NaN.
  static Vector load_e4m3(const std::byte* from) {
    std::int64_t stored;
    std::memcpy(&stored, from, sizeof stored);
    const __m128i codes = _mm_cvtepu8_epi16(_mm_cvtsi64_si128(stored));
    const __m128i magnitude = _mm_and_si128(codes, _mm_set1_epi16(0x7f));
    const __m128i sign = _mm_slli_epi16(_mm_xor_si128(codes, magnitude), 8);
    const __m128i is_nan = _mm_cmpeq_epi16(magnitude, _mm_set1_epi16(0x7f));
    const __m128i half = _mm_or_si128(_mm_or_si128(_mm_slli_epi16(magnitude, 7), sign),
                                      _mm_and_si128(is_nan, _mm_set1_epi16(0x7e00)));
    return _mm256_mul_ps(_mm256_cvtph_ps(half), _mm256_set1_ps(256.0F));
  }

  static Vector apart(Vector a) {
    asm("" : "+x"(a));
    return a;
  }

  static void store_bf16(std::byte* to, Vector v) {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i upper = _mm256_srli_epi32(bits, 16);
    const __m256i odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
    const __m256i half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, half), 16);
    const __m256i quiet = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    store_128(to, narrowed(_mm256_blendv_epi8(rounded, quiet, is_nan)));
  }
  static void store_fp16(std::byte* to, Vector v) {
    store_128(to, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
  // layout/fp8.h, its steps on lanes; what is larger than 448 is cut to it first.
  static void store_e4m3(std::byte* to, Vector v) {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
    const __m256i cut = _mm256_min_epi32(magnitude, _mm256_set1_epi32(0x43e00000));
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(cut, 20), _mm256_set1_epi32(1));
    const __m256i rebiased = _mm256_sub_epi32(cut, _mm256_set1_epi32((120 << 23) - 0x7ffff));
    const __m256i normal = _mm256_srli_epi32(_mm256_add_epi32(rebiased, odd), 20);
    const __m256 step = _mm256_set1_ps(0x1p14F);
    const __m256i subnormal =
        _mm256_sub_epi32(_mm256_castps_si256(_mm256_add_ps(_mm256_castsi256_ps(cut), step)),
                         _mm256_castps_si256(step));
    const __m256i is_normal = _mm256_cmpgt_epi32(cut, _mm256_set1_epi32((121 << 23) - 1));
    const __m256i is_nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7f800000));
    const __m256i finite = _mm256_blendv_epi8(subnormal, normal, is_normal);
    const __m256i sign = _mm256_and_si256(_mm256_srli_epi32(bits, 24), _mm256_set1_epi32(0x80));
    const __m256i marked =
        _mm256_or_si256(finite, _mm256_and_si256(is_nan, _mm256_set1_epi32(0x7f)));
    const __m128i codes = narrowed(_mm256_or_si256(marked, sign));
    const std::int64_t stored = _mm_cvtsi128_si64(_mm_packus_epi16(codes, codes));
    std::memcpy(to, &stored, sizeof stored);
  }

 private:
  static void store_128(std::byte* to, __m128i v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), v);
  }
  // Lanes below 2^16.
  static __m128i narrowed(__m256i v) {
    return _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  }
  static __m128i load_128(const std::byte* from) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  }
};

}  // namespace emblema
