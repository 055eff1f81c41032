// Exact fractions for sizes: bytes per token of a strided stream are 9/2, not 4 and not 4.5f.
//
// A Rational is a non-negative fraction in lowest terms with 64-bit parts. Arithmetic that does
// not fit 64 bits is an Invalid error that names what was being computed.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

#include "emblema/contract/result.h"

namespace emblema {

class Rational {
 public:
  constexpr Rational() = default;
  constexpr Rational(std::uint64_t whole) : numerator_(whole) {}  // NOLINT: a whole number is one

  // A size that went through floating point is no longer exact.
  template <std::floating_point T>
  Rational(T) = delete;  // NOLINT: deleted as an implicit conversion, too

  // REQUIRES: denominator > 0.
  static Rational of(std::uint64_t numerator, std::uint64_t denominator);

  constexpr std::uint64_t numerator() const { return numerator_; }
  constexpr std::uint64_t denominator() const { return denominator_; }
  constexpr bool is_whole() const { return denominator_ == 1; }
  constexpr std::uint64_t floor() const { return numerator_ / denominator_; }

  // For ratios shown to people; sizes never pass through it.
  constexpr double approximate() const {
    return static_cast<double>(numerator_) / static_cast<double>(denominator_);
  }

  // "70272", "4939.5": an exact decimal where the denominator divides a power of ten (2s and 5s),
  // else "1/3".
  std::string exact() const;

  friend constexpr bool operator==(const Rational&, const Rational&) = default;

 private:
  std::uint64_t numerator_ = 0;
  std::uint64_t denominator_ = 1;
};

Result<Rational> add(const Rational& a, const Rational& b, std::string_view what);
Result<Rational> multiply(const Rational& a, const Rational& b, std::string_view what);

// REQUIRES: b is not zero.
Result<Rational> divide(const Rational& a, const Rational& b, std::string_view what);

}  // namespace emblema
