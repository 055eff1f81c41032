// What this machine can do at most, as far as a benchmark compares itself with it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "emblema/contract/bytes.h"

namespace emblema::bench {

struct Machine {
  std::string_view isa;                         // the widest vectors of its processor
  std::uint32_t threads = 1;                    // that the figures were measured with
  std::optional<double> read_bytes_per_second;  // of memory, by all threads together
  std::optional<double> fma_flop_per_second;    // fp32, of all threads together
  std::optional<double> amx_flop_per_second;    // products of bf16 tiles, likewise
};

// "avx512", "avx2", "sse2", or "portable" on a processor of another kind.
std::string_view widest_isa();

// Reads every byte once, as plain code reads memory, and gives back something that depends on each.
std::uint64_t read_all(ConstByteSpan bytes);

}  // namespace emblema::bench
