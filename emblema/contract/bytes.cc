#include "emblema/contract/bytes.h"

#include <array>
#include <cctype>
#include <string>

#include <fmt/format.h>

namespace emblema {
namespace {

struct Unit {
  std::string_view suffix;  // lower case
  std::uint64_t bytes;
};

constexpr std::array<Unit, 10> kByteUnits = {{{"", 1},
                                              {"b", 1},
                                              {"kib", kKiB},
                                              {"mib", kMiB},
                                              {"gib", kGiB},
                                              {"tib", kGiB << 10},
                                              {"kb", 1'000},
                                              {"mb", 1'000'000},
                                              {"gb", 1'000'000'000},
                                              {"tb", 1'000'000'000'000}}};
constexpr std::array<Unit, 4> kTokenUnits = {{{"", 1}, {"k", kKiB}, {"m", kMiB}, {"g", kGiB}}};

// A decimal number times a unit, exactly, or nullopt.
template <std::size_t kCount>
std::optional<std::uint64_t> parse_scaled(std::string_view text,
                                          const std::array<Unit, kCount>& units) {
  std::size_t at = 0;
  std::uint64_t digits = 0;
  std::uint64_t divisor = 1;
  bool any_digit = false;
  bool in_fraction = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '.' && !in_fraction) {
      in_fraction = true;
      continue;
    }
    if (c < '0' || c > '9') break;
    any_digit = true;
    const auto shifted = checked_mul(digits, 10);
    const auto next =
        shifted ? checked_add(*shifted, static_cast<std::uint64_t>(c - '0')) : std::nullopt;
    if (!next) return std::nullopt;
    digits = *next;
    if (in_fraction) divisor *= 10;
    if (divisor > 1'000'000'000'000) return std::nullopt;
  }
  if (!any_digit) return std::nullopt;
  while (at < text.size() && text[at] == ' ') ++at;
  std::string suffix;
  for (; at < text.size(); ++at) {
    suffix += static_cast<char>(std::tolower(static_cast<unsigned char>(text[at])));
  }
  for (const Unit& unit : units) {
    if (unit.suffix != suffix) continue;
    const auto scaled = checked_mul(digits, unit.bytes);
    if (!scaled || *scaled % divisor != 0) return std::nullopt;
    return *scaled / divisor;
  }
  return std::nullopt;
}

}  // namespace

Result<std::uint64_t> add_bytes(std::uint64_t a, std::uint64_t b, std::string_view what) {
  if (const auto sum = checked_add(a, b)) return *sum;
  return fail(ErrorCode::Invalid, fmt::format("{}: {} + {} does not fit 64 bits", what, a, b));
}

Result<std::uint64_t> mul_bytes(std::uint64_t a, std::uint64_t b, std::string_view what) {
  if (const auto product = checked_mul(a, b)) return *product;
  return fail(ErrorCode::Invalid, fmt::format("{}: {} x {} does not fit 64 bits", what, a, b));
}

Result<std::uint64_t> parse_bytes(std::string_view text) {
  if (const auto bytes = parse_scaled(text, kByteUnits)) return *bytes;
  return fail(ErrorCode::Invalid,
              fmt::format("size '{}' is not a number of bytes; allowed: 4096, 40GiB, 80GB, 1.5TiB "
                          "(below 16 EiB)",
                          text));
}

Result<std::uint64_t> parse_tokens(std::string_view text) {
  if (const auto tokens = parse_scaled(text, kTokenUnits)) return *tokens;
  return fail(ErrorCode::Invalid,
              fmt::format("'{}' is not a number of tokens; allowed: 128000, 128k (= 131072), 1M "
                          "(= 1048576)",
                          text));
}

std::string format_bytes(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 7> kNames = {"B",   "KiB", "MiB", "GiB",
                                                      "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  double value = static_cast<double>(bytes);
  while (value >= 1024.0 && unit + 1 < kNames.size()) {
    value /= 1024.0;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes);
  const int decimals = value >= 1000.0 ? 0 : value >= 100.0 ? 1 : value >= 10.0 ? 2 : 3;
  return fmt::format("{:.{}f} {}", value, decimals, kNames[unit]);
}

std::string format_count(std::uint64_t count) {
  std::string digits = fmt::format("{}", count);
  for (std::size_t from_end = 3; from_end < digits.size(); from_end += 4) {
    digits.insert(digits.size() - from_end, ",");
  }
  return digits;
}

}  // namespace emblema
