#include "emblema/plan/printed_number.h"

#include <cctype>

#include <fmt/format.h>

#include "emblema/contract/check.h"

namespace emblema {
namespace {

using Wide = unsigned __int128;  // products of two 64-bit parts

constexpr std::uint32_t kDigitsMax = 18;
constexpr std::uint32_t kPlacesMax = 9;

bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

std::uint64_t power_of_ten(std::uint32_t exponent) {
  std::uint64_t power = 1;
  for (std::uint32_t i = 0; i < exponent; ++i) power *= 10;
  return power;
}

// What one character means for the number read so far; false where it has no place there.
struct DigitReader {
  std::uint64_t digits = 0;
  std::uint32_t count = 0;
  std::uint32_t places = 0;
  bool behind_point = false;
  bool after_digit = false;

  bool take(char c) {
    if (is_digit(c)) {
      if (++count > kDigitsMax) return false;
      digits = digits * 10 + static_cast<std::uint64_t>(c - '0');
      places += behind_point ? 1 : 0;
      after_digit = true;
      return true;
    }
    if (!after_digit || behind_point || (c != '.' && c != ',')) return false;
    behind_point = c == '.';
    after_digit = false;
    return true;
  }
};

}  // namespace

Result<PrintedNumber> parse_printed(std::string_view what, std::string_view text) {
  DigitReader reader;
  bool reads = true;
  for (const char c : text) reads = reads && reader.take(c);
  if (!reads || !reader.after_digit) {
    return fail(ErrorCode::Invalid,
                fmt::format("{} is '{}'; allowed: a decimal such as 3.35 of at most {} digits",
                            what, text, kDigitsMax));
  }
  return PrintedNumber{Rational::of(reader.digits, power_of_ten(reader.places)), reader.places};
}

bool at_most(const Rational& a, const Rational& b) {
  return Wide{a.numerator()} * b.denominator() <= Wide{b.numerator()} * a.denominator();
}

bool is_rounding_of(const PrintedNumber& printed, const Rational& exact) {
  // Between (2n - 1) / 2s and (2n + 1) / 2s, with n the digits printed and s the power of ten.
  const std::uint64_t scale = power_of_ten(printed.places);
  const std::uint64_t digits = printed.value.numerator() * (scale / printed.value.denominator());
  const Wide twice = Wide{exact.numerator()} * 2 * scale;
  const Wide low = digits == 0 ? 0 : Wide{exact.denominator()} * (2 * digits - 1);
  const Wide high = Wide{exact.denominator()} * (2 * digits + 1);
  return low <= twice && twice <= high;
}

std::string rounded_text(const Rational& number, std::uint32_t places) {
  EMBLEMA_CHECK(places <= kPlacesMax, "few enough places for 128 bits");
  const std::uint64_t scale = power_of_ten(places);
  const Wide twice = Wide{number.numerator()} * 2 * scale + number.denominator();
  const Wide digits = twice / (Wide{number.denominator()} * 2);
  const auto whole = static_cast<std::uint64_t>(digits / scale);
  if (places == 0) return fmt::format("{}", whole);
  return fmt::format("{}.{:0{}}", whole, static_cast<std::uint64_t>(digits % scale), places);
}

}  // namespace emblema
