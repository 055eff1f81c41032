#include "emblema/os/cpu_features.h"

#include <cerrno>
#include <cstdint>
#include <cstring>

#include <fmt/format.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace emblema {
namespace {

#if defined(__x86_64__)

struct Registers {
  std::uint32_t eax = 0;
  std::uint32_t ebx = 0;
  std::uint32_t ecx = 0;
  std::uint32_t edx = 0;
};

// All zero where the processor has no such leaf.
Registers cpuid(std::uint32_t leaf, std::uint32_t subleaf) {
  Registers r;
  if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return {};
  return r;
}

bool has(std::uint32_t bits, unsigned bit) {
  return ((bits >> bit) & 1U) != 0;
}

// XCR0: the register state that the system saves. Written as bytes: the intrinsic would need this
// file to be compiled for a processor that has it.
std::uint64_t saved_state() {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  __asm__ volatile(".byte 0x0f, 0x01, 0xd0" : "=a"(low), "=d"(high) : "c"(0));
  return (std::uint64_t{high} << 32) | low;
}

CpuFeatures detect() {
  CpuFeatures found;
  const Registers one = cpuid(1, 0);
  if (!has(one.ecx, 27)) return found;  // no OSXSAVE: no wider registers than SSE's
  const std::uint64_t state = saved_state();
  const bool saves_avx = (state & 0x6U) == 0x6U;
  const bool saves_avx512 = saves_avx && (state & 0xe0U) == 0xe0U;
  const bool saves_tiles = (state & 0x60000U) == 0x60000U;
  const Registers seven = cpuid(7, 0);
  const Registers more = cpuid(7, 1);
  found.avx2 = saves_avx && has(seven.ebx, 5) && has(one.ecx, 12) && has(one.ecx, 29);
  found.avx512 = found.avx2 && saves_avx512 && has(seven.ebx, 16) && has(seven.ebx, 17) &&
                 has(seven.ebx, 30) && has(seven.ebx, 31);
  found.avx512_bf16 = found.avx512 && has(more.eax, 5);
  found.amx_bf16 = saves_tiles && has(seven.edx, 22) && has(seven.edx, 24);
  return found;
}

#else

CpuFeatures detect() {
  return {};
}

#endif

}  // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures kFound = detect();
  return kFound;
}

Status request_amx() {
#if defined(__x86_64__) && defined(__linux__)
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM, asm/prctl.h
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  if (syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0) return {};
  return fail(ErrorCode::Unsupported,
              fmt::format("amx: not permitted by the kernel: {}", std::strerror(errno)));
#else
  return fail(ErrorCode::Unsupported, "amx: only on x86-64 Linux");
#endif
}

}  // namespace emblema
