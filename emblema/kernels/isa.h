// Which instructions the kernels use. Chosen once at run time from what the processor has, or named
// by the caller; nothing else in the library is compiled for more than the baseline machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "emblema/contract/result.h"

namespace emblema {

enum class Isa : std::uint8_t {
  kScalar,  // plain C++: four fp32 lanes of the baseline machine (SSE2, NEON)
  kAvx2,    // with FMA and F16C
  kAvx512,  // F, BW, DQ, VL
  kAmx,     // bf16 tiles over rows in bf16 and e4m3; other rows by AVX-512
};

std::string_view to_string(Isa isa);  // "scalar", "avx2", "avx512", "amx"

// Invalid: lists the names. What the machine has plays no part.
Result<Isa> parse_isa(std::string_view text);

// Whether this machine runs it. Unsupported, in words: "amx: this processor has no AMX",
// "amx: not permitted by the kernel: ...". The first call that names amx asks the kernel for it.
[[nodiscard]] Status check_isa(Isa isa);

// The widest that check_isa allows. Looked up once.
Isa best_isa();

// All that this machine runs, narrowest first; never empty.
std::vector<Isa> runnable_isas();

// One line for each name that this machine does not run: its reason.
std::vector<std::string> missing_isas();

}  // namespace emblema
