// `emblema bench hash`: what sealing and sharing a block costs, against hashing and comparing it.
//
// Pairs of blocks with equal bytes, more of them than caches hold. Measured in the same rounds over
// the same blocks: reading memory (the machine's limit), hashing, comparing, and publish() of a
// block whose equal is there, which hashes it once and compares it once. Were there nothing else to
// do, that would run at 1 / (1/h + 1/m) bytes per second, h and m being the rates of hashing and
// comparing.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/figure.h"
#include "bench/machine.h"
#include "bench/rounds.h"
#include "emblema/contract/result.h"

namespace emblema::bench {

struct HashBenchOptions {
  std::uint64_t pairs = 16;  // of blocks of kHashBenchBlockBytes
  std::uint32_t rounds = 5;
  Progress progress;
};

// A block of DeepSeek-V3: 61 layers of 64 latents of 576 numbers in bf16.
inline constexpr std::uint64_t kHashBenchBlockBytes = std::uint64_t{61} * 64 * 576 * 2;
inline constexpr std::uint64_t kHashBenchPairsMax = 4096;

// "hash", "compare", "seal and share", in bytes of one block per second; one thread. Sets what was
// measured of the machine. Io: the memory was refused.
Result<std::vector<Figure>> bench_hash(const HashBenchOptions& options, Machine* machine);

}  // namespace emblema::bench
