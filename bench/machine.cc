#include "bench/machine.h"

#include <array>
#include <cstring>

namespace emblema::bench {

std::string_view widest_isa() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") != 0) return "avx512";
  if (__builtin_cpu_supports("avx2") != 0) return "avx2";
  return "sse2";
#else
  return "portable";
#endif
}

std::uint64_t read_all(ConstByteSpan bytes) {
  constexpr std::size_t kLineBytes = 64;
  constexpr std::size_t kAheadBytes = 1024;  // further than the processor looks by itself
  // Two places at once: one alone does not keep the memory busy.
  const std::size_t half = bytes.size() / 2 / kLineBytes * kLineBytes;
  std::array<std::uint64_t, kLineBytes / sizeof(std::uint64_t)> sums{};
  for (std::size_t at = 0; at < half; at += kLineBytes) {
    for (const std::byte* line : {bytes.data() + at, bytes.data() + half + at}) {
      __builtin_prefetch(line + kAheadBytes);
      for (std::size_t i = 0; i < sums.size(); ++i) {
        std::uint64_t word = 0;
        std::memcpy(&word, line + i * sizeof(word), sizeof(word));
        sums[i] += word;
      }
    }
  }
  std::uint64_t sum = 0;
  for (const std::byte one : bytes.subspan(2 * half)) sum += static_cast<std::uint64_t>(one);
  for (const std::uint64_t part : sums) sum += part;
  return sum;
}

}  // namespace emblema::bench
