// `emblema bench attention`: the kernels against what the machine can do, and against oneDNN.
//
// Measured in the same rounds: each case (attention_case_bench.h) by our kernel, by matrix products
// (attention_gemm_bench.h), and a plain loop that only reads the same pages; reading memory in one
// sweep; and the loops that only compute (kernels/peak_bench.h). A rate is stated as a fraction of
//   min(peak, FLOP / bytes x reading the same pages)
// and the bound is named by the smaller of the two: "fma", "amx" or "read".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/figure.h"
#include "bench/machine.h"
#include "bench/rounds.h"
#include "emblema/contract/bytes.h"
#include "emblema/contract/result.h"
#include "emblema/kernels/isa.h"

namespace emblema::bench {

struct AttentionBenchOptions {
  Isa isa = Isa::kScalar;  // of our kernel; oneDNN takes what it finds
  std::uint32_t threads = 1;
  std::uint32_t rounds = 7;
  // Of the cases with 128 heads; four times as many with fewer.
  std::uint64_t context = 16'384;
  // New tokens, over nothing and over four times as many. None: 2,048, or half of that, and so on,
  // until a round takes seconds.
  std::optional<std::uint64_t> prefill;
  // Rows that cold cases rotate over, for each of the three ways of storing them.
  std::uint64_t cache_bytes = 1'280 * kMiB;
  std::vector<std::string> cases;  // keys; none: all
  Progress progress;
};

struct AttentionBenchLimits {
  static constexpr std::uint64_t kContextMin = 64;
  static constexpr std::uint64_t kContextMax = 1 << 20;
  static constexpr std::uint64_t kPrefillMax = 16'384;
};

// What `cases` may name, in their order.
std::vector<std::string_view> attention_bench_cases();

// Memory that it would write.
std::uint64_t attention_bench_bytes(const AttentionBenchOptions& options);

// A figure for each case. Sets what was measured of the machine; adds notes. Corrupt: a result of
// ours and the matrix products' differ by more than 1e-2, so that one of them measured nothing.
// Io: the memory was refused. Unsupported: the isa, or oneDNN.
Result<std::vector<Figure>> bench_attention(const AttentionBenchOptions& options, Machine* machine,
                                            std::vector<std::string>* notes);

}  // namespace emblema::bench
