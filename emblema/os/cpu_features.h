// Which instructions this processor has and the operating system lets us use. Looked up once; any
// thread may ask. On another architecture than x86-64 all are false.
#pragma once

#include "emblema/contract/result.h"

namespace emblema {

struct CpuFeatures {
  bool avx2 = false;         // with FMA and F16C
  bool avx512 = false;       // F, BW, DQ and VL: every AVX-512 server since Skylake
  bool avx512_bf16 = false;  // conversions to bf16
  bool amx_bf16 = false;     // tiles, and their bf16 products
};

// CPUID, and what XGETBV says the system saves and restores.
const CpuFeatures& cpu_features();

// Asks the kernel to save and restore tile registers for this process (Linux gives them only to who
// asks: arch_prctl(ARCH_REQ_XCOMP_PERM), once). Unsupported, with the kernel's reason.
[[nodiscard]] Status request_amx();

}  // namespace emblema
