// Byte counts, and the checked arithmetic that every size goes through.
//
// A byte count is a std::uint64_t named `..._bytes`. Products and sums of sizes use checked_mul and
// checked_add: an overflow is std::nullopt, never a wrap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "emblema/contract/result.h"

namespace emblema {

using ByteSpan = std::span<std::byte>;
using ConstByteSpan = std::span<const std::byte>;

inline constexpr std::uint64_t kKiB = std::uint64_t{1} << 10;
inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

namespace literals {
constexpr std::uint64_t operator""_KiB(unsigned long long count) {
  return count * kKiB;
}
constexpr std::uint64_t operator""_MiB(unsigned long long count) {
  return count * kMiB;
}
constexpr std::uint64_t operator""_GiB(unsigned long long count) {
  return count * kGiB;
}
}  // namespace literals

constexpr std::optional<std::uint64_t> checked_add(std::uint64_t a, std::uint64_t b) {
  if (a > UINT64_MAX - b) return std::nullopt;
  return a + b;
}

constexpr std::optional<std::uint64_t> checked_mul(std::uint64_t a, std::uint64_t b) {
  if (a != 0 && b > UINT64_MAX / a) return std::nullopt;
  return a * b;
}

// The same, as a Result whose message names what was being computed ("bytes of 64 sequences").
Result<std::uint64_t> add_bytes(std::uint64_t a, std::uint64_t b, std::string_view what);
Result<std::uint64_t> mul_bytes(std::uint64_t a, std::uint64_t b, std::string_view what);

constexpr std::uint64_t ceil_div(std::uint64_t value, std::uint64_t divisor) {
  return value / divisor + (value % divisor != 0 ? 1 : 0);
}

// REQUIRES: alignment > 0; the result fits 64 bits.
constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t alignment) {
  return ceil_div(value, alignment) * alignment;
}

// Reads "4096", "40GiB", "80GB", "1.5TiB" (binary units end in iB, decimal ones in B; case is
// ignored; a fraction must come out as whole bytes). Invalid otherwise.
Result<std::uint64_t> parse_bytes(std::string_view text);

// Reads a token count: "128k" is 131072, "1M" is 1048576, "128000" is 128000. Invalid otherwise.
Result<std::uint64_t> parse_tokens(std::string_view text);

// "9.617 GiB": four significant digits in the largest binary unit that keeps the number >= 1.
std::string format_bytes(std::uint64_t bytes);

// "70,272": digits in groups of three, for people.
std::string format_count(std::uint64_t count);

}  // namespace emblema
