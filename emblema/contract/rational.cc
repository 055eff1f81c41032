#include "emblema/contract/rational.h"

#include <numeric>

#include <fmt/format.h>

#include "emblema/contract/bytes.h"
#include "emblema/contract/check.h"

namespace emblema {
namespace {

using Wide = unsigned __int128;  // products of two 64-bit parts are reduced before they must fit

Wide greatest_common_divisor(Wide a, Wide b) {
  while (b != 0) {
    const Wide rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

Result<Rational> reduced(Wide numerator, Wide denominator, std::string_view what) {
  const Wide divisor = greatest_common_divisor(numerator, denominator);
  numerator /= divisor;
  denominator /= divisor;
  if (numerator > UINT64_MAX || denominator > UINT64_MAX) {
    return fail(ErrorCode::Invalid, fmt::format("{} does not fit 64 bits", what));
  }
  return Rational::of(static_cast<std::uint64_t>(numerator),
                      static_cast<std::uint64_t>(denominator));
}

}  // namespace

Rational Rational::of(std::uint64_t numerator, std::uint64_t denominator) {
  EMBLEMA_CHECK(denominator > 0, "a fraction needs a denominator");
  const std::uint64_t divisor = std::gcd(numerator, denominator);
  Rational result;
  result.numerator_ = numerator / divisor;
  result.denominator_ = denominator / divisor;
  return result;
}

std::string Rational::exact() const {
  if (denominator_ == 1) return fmt::format("{}", numerator_);
  std::uint64_t rest = denominator_;
  int twos = 0;
  int fives = 0;
  while (rest % 2 == 0) rest /= 2, ++twos;
  while (rest % 5 == 0) rest /= 5, ++fives;
  const int places = twos > fives ? twos : fives;
  if (rest != 1 || places > 19) return fmt::format("{}/{}", numerator_, denominator_);
  std::string text = fmt::format("{}.", numerator_ / denominator_);
  Wide remainder = numerator_ % denominator_;
  for (int place = 0; place < places; ++place) {
    remainder *= 10;
    text += static_cast<char>('0' + static_cast<int>(remainder / denominator_));
    remainder %= denominator_;
  }
  return text;
}

Result<Rational> add(const Rational& a, const Rational& b, std::string_view what) {
  const Wide left = Wide{a.numerator()} * b.denominator();
  const Wide right = Wide{b.numerator()} * a.denominator();
  if (left > ~right) return fail(ErrorCode::Invalid, fmt::format("{} does not fit 64 bits", what));
  return reduced(left + right, Wide{a.denominator()} * b.denominator(), what);
}

Result<Rational> multiply(const Rational& a, const Rational& b, std::string_view what) {
  return reduced(Wide{a.numerator()} * b.numerator(), Wide{a.denominator()} * b.denominator(),
                 what);
}

Result<Rational> divide(const Rational& a, const Rational& b, std::string_view what) {
  EMBLEMA_CHECK(b.numerator() > 0, "division by zero");
  return reduced(Wide{a.numerator()} * b.denominator(), Wide{a.denominator()} * b.numerator(),
                 what);
}

}  // namespace emblema
