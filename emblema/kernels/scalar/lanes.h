// The vector vocabulary in plain C++: four fp32 lanes, which every compiler keeps in one register
// of the baseline machine. What each word means is said here once, for all instruction sets.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "emblema/layout/convert.h"
#include "emblema/layout/fp8.h"

namespace emblema {

struct ScalarLanes {
  using Vector = float __attribute__((vector_size(16)));
  using Bits = std::int32_t __attribute__((vector_size(16)));
  static constexpr std::uint32_t kLanes = 4;
  // Accumulators of one micro-tile: so many rows (or queries) by two vectors.
  static constexpr std::uint32_t kTileRows = 6;

  static Vector set1(float value) { return Vector{value, value, value, value}; }
  static Vector load(const float* from) {  // no alignment needed
    Vector v;
    std::memcpy(&v, from, sizeof v);
    return v;
  }
  static void store(float* to, Vector v) { std::memcpy(to, &v, sizeof v); }

  static Vector add(Vector a, Vector b) { return a + b; }
  static Vector sub(Vector a, Vector b) { return a - b; }
  static Vector mul(Vector a, Vector b) { return a * b; }
  static Vector div(Vector a, Vector b) { return a / b; }
  static Vector fma(Vector a, Vector b, Vector c) { return a * b + c; }  // rounded twice here

  // a < b ? x : y, lane by lane; a comparison with NaN is false.
  static Vector select_less(Vector a, Vector b, Vector x, Vector y) { return choose(a < b, x, y); }
  // The larger; b where either is NaN.
  static Vector max(Vector a, Vector b) { return choose(a > b, a, b); }
  static Vector abs(Vector a) {
    return reinterpret_cast<Vector>(reinterpret_cast<Bits>(a) & 0x7fffffff);
  }
  // To the nearest whole number, |a| < 2^22; NaN stays NaN.
  static Vector round(Vector a) {
    const Vector magic = set1(0x1.8p23F);
    return (a + magic) - magic;
  }
  // a * 2^n for whole n in [-126, 127], the product a normal number.
  static Vector times_power_of_two(Vector a, Vector n) {
    // The sum's low bits are n: no conversion, which NaN would make undefined.
    const Vector shifted = n + set1(0x1.8p23F);
    return a * reinterpret_cast<Vector>((reinterpret_cast<Bits>(shifted) + 127) << 23);
  }

  // kLanes stored numbers at any address.
  static Vector load_bf16(const std::byte* from) { return load_16<fp32_from_bf16>(from); }
  static Vector load_fp16(const std::byte* from) { return load_16<fp32_from_fp16>(from); }
  static Vector load_e4m3(const std::byte* from) {
    Vector v{};
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      v[lane] = fp32_from_e4m3(static_cast<std::uint8_t>(from[lane]));
    }
    return v;
  }

  // A product that stays rounded: no compiler may fuse it with the sum that follows.
  static Vector apart(Vector a) {
#if defined(__aarch64__)
    asm("" : "+w"(a));
#elif defined(__x86_64__)
    asm("" : "+x"(a));
#endif
    return a;
  }

  // kLanes numbers to any address, as layout/convert.h and layout/fp8.h (saturating) narrow them.
  static void store_bf16(std::byte* to, Vector v) {
    store_16<bf16_from_fp32>(to, v);
  }
  static void store_fp16(std::byte* to, Vector v) {
    store_16<fp16_from_fp32>(to, v);
  }
  static void store_e4m3(std::byte* to, Vector v) {
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      to[lane] = std::byte{e4m3_from_fp32_saturating(v[lane])};
    }
  }

 private:
  static Vector choose(Bits mask, Vector x, Vector y) {
    return reinterpret_cast<Vector>((mask & reinterpret_cast<Bits>(x)) |
                                    (~mask & reinterpret_cast<Bits>(y)));
  }
  template <float (*kDecode)(std::uint16_t)>
  static Vector load_16(const std::byte* from) {
    Vector v{};
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      std::uint16_t stored;
      std::memcpy(&stored, from + std::size_t{lane} * 2, 2);
      v[lane] = kDecode(stored);
    }
    return v;
  }
  template <std::uint16_t (*kEncode)(float)>
  static void store_16(std::byte* to, Vector v) {
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      const std::uint16_t stored = kEncode(v[lane]);
      std::memcpy(to + std::size_t{lane} * 2, &stored, 2);
    }
  }
};

}  // namespace emblema
