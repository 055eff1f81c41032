#include "emblema/kernels/peak_bench.h"

#include <cmath>
#include <memory>
#include <random>

#include <fmt/format.h>

#include "emblema/layout/convert.h"

namespace emblema::bench {
namespace {

// What every sum ends at: the fixed point of x -> (x * first + add) * second + add.
double expected_sum(const FmaFactors& f) {
  const double product = static_cast<double>(f.first) * static_cast<double>(f.second);
  const double add =
      static_cast<double>(f.add) * static_cast<double>(f.second) + static_cast<double>(f.add);
  return add / (1 - product);
}

Status check_sums(const FmaFactors& factors, std::uint64_t steps, const FmaSums& sums) {
  constexpr double kStartMax = 24;  // how far from the fixed point a sum may begin, and a little
  const double expected = expected_sum(factors);
  const double product = static_cast<double>(factors.first) * static_cast<double>(factors.second);
  const double left =
      (kStartMax + std::abs(expected)) * std::pow(std::abs(product), static_cast<double>(steps));
  for (std::uint32_t i = 0; i < sums.count; ++i) {
    if (std::abs(static_cast<double>(sums.values[i]) - expected) > left + 1e-3) {
      return fail(ErrorCode::Corrupt,
                  fmt::format("the loop of multiply-adds gave {}, where {} is right",
                              static_cast<double>(sums.values[i]), expected));
    }
  }
  return {};
}

#if defined(__x86_64__)
void fill(TileOperands* operands) {
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  for (auto* matrix : {&operands->a, &operands->b}) {
    for (auto& step : *matrix) {
      for (auto& tile : step) {
        for (std::uint16_t& word : tile) word = bf16_from_fp32(normal(random));
      }
    }
  }
}

// Sum [row][column] of the tiles [i][j], and how large its parts are.
struct ExpectedProduct {
  double sum = 0;
  double size = 0;
};

ExpectedProduct expected_product(const TileOperands& operands, std::uint32_t index) {
  const std::uint32_t tile = index / 256;
  const std::uint32_t row = index / 16 % 16;
  const std::uint32_t column = index % 16;
  ExpectedProduct expected;
  for (std::uint32_t step = 0; step < TileOperands::kSteps; ++step) {
    for (std::uint32_t k = 0; k < 32; ++k) {
      const float a = fp32_from_bf16(operands.a[step][tile / 2][row * 32 + k]);
      const float b = fp32_from_bf16(operands.b[step][tile % 2][k / 2 * 32 + column * 2 + k % 2]);
      const double product = static_cast<double>(a) * static_cast<double>(b);
      expected.sum += product;
      expected.size += std::abs(product);
    }
  }
  return expected;
}

// Some of them, in every row and column: the check is inside of what is timed.
Status check_products(const TileOperands& operands, std::uint64_t passes, const float* sums) {
  for (std::uint32_t index = 0; index < 4 * 256; index += 17) {
    const ExpectedProduct one = expected_product(operands, index);
    const double count = static_cast<double>(passes);
    const double found = static_cast<double>(sums[index]);
    if (!(std::abs(found - count * one.sum) <= 1e-3 * count * one.size)) {
      return fail(ErrorCode::Corrupt, fmt::format("the loop of tile products gave {}, where {} is "
                                                  "right",
                                                  found, count * one.sum));
    }
  }
  return {};
}
#endif

}  // namespace

Result<double> run_fma_loop(Isa isa, std::uint64_t steps) {
  if (const Status can = check_isa(isa); !can) return propagate(can);
  const FmaFactors factors;
  FmaSums sums;
#if defined(__x86_64__)
  if (isa == Isa::kAvx2) {
    fma_loop_avx2(factors, steps, &sums);
  } else if (isa == Isa::kAvx512 || isa == Isa::kAmx) {
    fma_loop_avx512(factors, steps, &sums);
  } else {
    fma_loop_scalar(factors, steps, &sums);
  }
#else
  fma_loop_scalar(factors, steps, &sums);
#endif
  if (const Status right = check_sums(factors, steps, sums); !right) return propagate(right);
  return 4.0 * static_cast<double>(steps) * sums.count;
}

Result<double> run_tile_loop(std::uint64_t steps) {
  if (const Status can = check_isa(Isa::kAmx); !can) return propagate(can);
#if defined(__x86_64__)
  static const std::unique_ptr<const TileOperands> kOperands = [] {
    auto operands = std::make_unique<TileOperands>();
    fill(operands.get());
    return operands;
  }();
  const std::uint64_t passes = (steps + TileOperands::kSteps - 1) / TileOperands::kSteps;
  alignas(64) float sums[4 * 256];
  tile_loop_amx(*kOperands, passes, sums);
  if (Status right = check_products(*kOperands, passes, sums); !right) return propagate(right);
  constexpr double kFlopPerProduct = 2.0 * 16 * 16 * 32;
  return 4 * kFlopPerProduct * static_cast<double>(passes * TileOperands::kSteps);
#else
  static_cast<void>(steps);
  return fail(ErrorCode::Unsupported, "amx: another architecture");
#endif
}

}  // namespace emblema::bench
