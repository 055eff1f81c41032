// The primitives of append and convert over a vector vocabulary L (scalar/lanes.h says what its
// words mean): one body for scalar, avx2 and avx512.
//
// Included inside a region of the instruction set (isa_region.h), after what it needs. All is
// inside templates of L, so that no two files share a function.
#pragma once

#include "emblema/kernels/vector/rows.h"

namespace emblema::vector_kernels {

// How one encoding is written: a whole vector, or one number.
template <class L>
struct Bf16Codes {
  static constexpr std::size_t kBytes = 2;
  static void vector(std::byte* to, typename L::Vector v) { L::store_bf16(to, v); }
  static void one(std::byte* to, float number) {
    const std::uint16_t code = bf16_from_fp32(number);
    std::memcpy(to, &code, sizeof code);
  }
};

template <class L>
struct Fp16Codes {
  static constexpr std::size_t kBytes = 2;
  static void vector(std::byte* to, typename L::Vector v) { L::store_fp16(to, v); }
  static void one(std::byte* to, float number) {
    const std::uint16_t code = fp16_from_fp32(number);
    std::memcpy(to, &code, sizeof code);
  }
};

template <class L, class Codes>
inline void encode_numbers(const float* from, std::uint32_t count, std::byte* to) {
  std::uint32_t c = 0;
  for (; c + L::kLanes <= count; c += L::kLanes) {
    Codes::vector(to + c * Codes::kBytes, L::load(from + c));
  }
  for (; c < count; ++c) Codes::one(to + c * Codes::kBytes, from[c]);
}

template <class L>
inline void encode_e4m3(const float* from, std::uint32_t count, float scale, std::byte* to) {
  const auto divisor = L::set1(scale);
  std::uint32_t c = 0;
  for (; c + L::kLanes <= count; c += L::kLanes) {
    L::store_e4m3(to + c, L::div(L::load(from + c), divisor));
  }
  for (; c < count; ++c) to[c] = std::byte{e4m3_from_fp32_saturating(from[c] / scale)};
}

template <class L>
struct RowBody {
  using Vector = typename L::Vector;

  static void encode(const float* from, std::uint32_t count, Encoding encoding, float scale,
                     std::byte* to) {
    switch (encoding) {
      case Encoding::kBf16:
        return encode_numbers<L, Bf16Codes<L>>(from, count, to);
      case Encoding::kFp16:
        return encode_numbers<L, Fp16Codes<L>>(from, count, to);
      case Encoding::kFp8E4m3:
        return encode_e4m3<L>(from, count, scale, to);
      default:
        std::memcpy(to, from, std::size_t{count} * sizeof(float));
    }
  }

  static void decode(const std::byte* from, std::uint32_t count, Encoding encoding, float scale,
                     float* to) {
    load_plain<L>(from, encoding, count, scale, to);
  }

  // What is not below infinity, NaN included, counts as infinity.
  static Vector bounded_magnitude(Vector v) {
    const Vector magnitude = L::abs(v);
    const Vector infinity = L::set1(__builtin_inff());
    return L::select_less(magnitude, infinity, magnitude, infinity);
  }

  static float largest(const float* from, std::uint32_t count) {
    Vector top = L::set1(0.0F);
    std::uint32_t c = 0;
    for (; c + L::kLanes <= count; c += L::kLanes) {
      top = L::max(bounded_magnitude(L::load(from + c)), top);
    }
    float rest[L::kLanes] = {};
    for (std::uint32_t lane = 0; c < count; ++c, ++lane) rest[lane] = from[c];
    float tops[L::kLanes];
    L::store(tops, L::max(bounded_magnitude(L::load(rest)), top));
    float found = 0.0F;
    for (const float candidate : tops) found = candidate > found ? candidate : found;
    return found;
  }

  // Every number is below 1 or above 0; NaN is neither.
  static Vector settled(Vector v) {
    const Vector nan = L::set1(__builtin_nanf(""));
    return L::select_less(v, L::set1(1.0F), v, L::select_less(L::set1(0.0F), v, v, nan));
  }

  static void settle_nans(float* numbers, std::uint32_t count) {
    std::uint32_t c = 0;
    for (; c + L::kLanes <= count; c += L::kLanes) {
      L::store(numbers + c, settled(L::load(numbers + c)));
    }
    for (; c < count; ++c) {
      if (numbers[c] != numbers[c]) numbers[c] = __builtin_nanf("");
    }
  }

  // Up to a vector of channels, `step` apart; lanes past `count` are 0.
  static Vector gathered(const float* from, std::uint32_t count, std::uint32_t step) {
    if (step == 1 && count == L::kLanes) return L::load(from);
    float lanes[L::kLanes] = {};
    for (std::uint32_t i = 0; i < count; ++i, from += step) lanes[i] = *from;
    return L::load(lanes);
  }

  static void scatter(Vector v, float* to, std::uint32_t count, std::uint32_t step) {
    if (step == 1 && count == L::kLanes) return L::store(to, v);
    float lanes[L::kLanes];
    L::store(lanes, v);
    for (std::uint32_t i = 0; i < count; ++i, to += step) *to = lanes[i];
  }

  static void turn(const PairTurn& turn, float* channels) {
    const std::uint32_t step = turn.interleaved ? 2 : 1;
    const std::uint32_t apart = turn.interleaved ? 1 : turn.pairs;
    for (std::uint32_t first = 0; first < turn.pairs; first += L::kLanes) {
      const std::uint32_t left = turn.pairs - first;
      const std::uint32_t count = left < L::kLanes ? left : L::kLanes;
      float* pair = channels + std::size_t{first} * step;
      const Vector x = gathered(pair, count, step);
      const Vector y = gathered(pair + apart, count, step);
      const Vector cosine = gathered(turn.cosines + first, count, 1);
      const Vector sine = gathered(turn.sines + first, count, 1);
      scatter(settled(L::sub(product(x, cosine), product(y, sine))), pair, count, step);
      scatter(settled(L::add(product(x, sine), product(y, cosine))), pair + apart, count, step);
    }
  }

  static Vector product(Vector a, Vector b) { return L::apart(L::mul(a, b)); }

  static constexpr RowPrimitives table(Isa isa) {
    return {isa, encode, decode, largest, turn, settle_nans};
  }
};

}  // namespace emblema::vector_kernels
