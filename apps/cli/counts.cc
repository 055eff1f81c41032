#include "apps/cli/counts.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "emblema/contract/bytes.h"

namespace emblema {
namespace {

Result<std::uint64_t> within(std::string_view option, std::uint64_t value, CountLimits limits) {
  if (value >= limits.min && value <= limits.max) return value;
  return fail(ErrorCode::Invalid,
              fmt::format("{} is {}; allowed: {} to {}", option, value, limits.min, limits.max));
}

}  // namespace

Result<std::uint64_t> parse_count(std::string_view option, std::string_view text,
                                  CountLimits limits) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) {
    return fail(ErrorCode::Invalid, fmt::format("{} is '{}'; allowed: a whole number, {} to {}",
                                                option, text, limits.min, limits.max));
  }
  return within(option, value, limits);
}

Result<std::uint64_t> parse_token_count(std::string_view option, std::string_view text,
                                        CountLimits limits) {
  const auto tokens = parse_tokens(text);
  if (!tokens) {
    return fail(ErrorCode::Invalid, fmt::format("{}: {}", option, tokens.error().message));
  }
  return within(option, *tokens, limits);
}

Result<std::vector<std::uint64_t>> parse_token_list(std::string_view option, std::string_view text,
                                                    CountLimits limits) {
  std::vector<std::uint64_t> list;
  while (true) {
    const std::size_t comma = text.find(',');
    const auto tokens = parse_token_count(option, text.substr(0, comma), limits);
    if (!tokens) return propagate(tokens);
    if (std::find(list.begin(), list.end(), *tokens) == list.end()) list.push_back(*tokens);
    if (comma == std::string_view::npos) return list;
    text.remove_prefix(comma + 1);
  }
}

Result<std::uint64_t> parse_size(std::string_view option, std::string_view text) {
  auto bytes = parse_bytes(text);
  if (!bytes) {
    return fail(ErrorCode::Invalid, fmt::format("{}: {}", option, bytes.error().message));
  }
  return bytes;
}

Result<std::optional<Isa>> parse_isa_option(std::string_view text) {
  if (text.empty()) return std::optional<Isa>{};
  const Result<Isa> isa = parse_isa(text);
  if (!isa) {
    return fail(ErrorCode::Invalid,
                fmt::format("--isa is '{}'; allowed: scalar, avx2, avx512, amx", text));
  }
  if (const Status runs = check_isa(*isa); !runs) {
    return fail(ErrorCode::Invalid,
                fmt::format("--isa is not for this machine: {}", runs.error().message));
  }
  return std::optional<Isa>(*isa);
}

std::string exact_in_words(const Rational& number) {
  std::string exact = number.exact();
  if (exact.find('/') != std::string::npos) return exact;
  const std::size_t point = exact.find('.');
  return format_count(number.floor()) + (point == std::string::npos ? "" : exact.substr(point));
}

std::string tokens_in_words(std::uint64_t tokens) {
  if (tokens >= kMiB && tokens % kMiB == 0) return format_count(tokens / kMiB) + "M";
  if (tokens >= kKiB && tokens % kKiB == 0) return format_count(tokens / kKiB) + "k";
  return format_count(tokens);
}

}  // namespace emblema
