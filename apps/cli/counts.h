// Counts and sizes as people type them after an option, each error naming it, and as they read
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emblema/contract/rational.h"
#include "emblema/contract/result.h"
#include "emblema/kernels/isa.h"

namespace emblema {

struct CountLimits {
  std::uint64_t min = 1;
  std::uint64_t max = 0;
};

// "64". Invalid: "--layers is 0; allowed: 1 to 65536".
Result<std::uint64_t> parse_count(std::string_view option, std::string_view text,
                                  CountLimits limits);

// "128k", "128000", as parse_tokens.
Result<std::uint64_t> parse_token_count(std::string_view option, std::string_view text,
                                        CountLimits limits);

// "1,8k,128k": in the order given, each once.
Result<std::vector<std::uint64_t>> parse_token_list(std::string_view option, std::string_view text,
                                                    CountLimits limits);

// "40GiB", as parse_bytes.
Result<std::uint64_t> parse_size(std::string_view option, std::string_view text);

// "avx2", or "" for none. Invalid: another name, and one that this machine does not run, with the
// reason.
Result<std::optional<Isa>> parse_isa_option(std::string_view text);

// "70,272", "4,939.5"
std::string exact_in_words(const Rational& number);

// "128k" and "1M" where that is the whole number, else "1,000".
std::string tokens_in_words(std::uint64_t tokens);

}  // namespace emblema
