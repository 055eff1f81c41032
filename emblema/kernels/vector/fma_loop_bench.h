// The body of the FMA loops over a vector vocabulary (scalar/lanes.h). Included inside a region of
// the instruction set (isa_region.h), after what it needs.
#pragma once

namespace emblema::vector_kernels {

template <class L>
struct FmaLoop {
  // As many sums as a kernel's micro-tile: enough to hide the latency, and they stay in registers.
  static constexpr std::uint32_t kSums = 2 * L::kTileRows;

  static void run(const bench::FmaFactors& factors, std::uint64_t steps, bench::FmaSums* sums) {
    using Vector = typename L::Vector;
    const Vector first = L::set1(factors.first);
    const Vector second = L::set1(factors.second);
    const Vector add = L::set1(factors.add);
    Vector x[kSums];
#pragma GCC unroll 24
    for (std::uint32_t i = 0; i < kSums; ++i) x[i] = L::set1(static_cast<float>(i));
    for (std::uint64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 24
      for (std::uint32_t i = 0; i < kSums; ++i) x[i] = L::fma(x[i], first, add);
#pragma GCC unroll 24
      for (std::uint32_t i = 0; i < kSums; ++i) x[i] = L::fma(x[i], second, add);
    }
    sums->count = kSums * L::kLanes;
#pragma GCC unroll 24
    for (std::uint32_t i = 0; i < kSums; ++i) L::store(sums->values + i * L::kLanes, x[i]);
  }
};

}  // namespace emblema::vector_kernels
