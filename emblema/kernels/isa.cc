#include "emblema/kernels/isa.h"

#include <array>

#include <fmt/format.h>

#include "emblema/os/cpu_features.h"

namespace emblema {
namespace {

constexpr std::array kAll = {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAmx};

Status require(bool has, std::string_view name, std::string_view what) {
  if (has) return {};
  return fail(ErrorCode::Unsupported, fmt::format("{}: this processor has no {}", name, what));
}

Status check_amx() {
  const CpuFeatures& cpu = cpu_features();
  if (Status s = require(cpu.amx_bf16, "amx", "AMX (tiles and bf16 products)"); !s) return s;
  if (Status s = require(cpu.avx512 && cpu.avx512_bf16, "amx", "AVX-512 with BF16"); !s) return s;
  static const Status kGranted = request_amx();
  return kGranted;
}

}  // namespace

std::string_view to_string(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAmx:
      return "amx";
  }
  return "?";
}

Result<Isa> parse_isa(std::string_view text) {
  for (const Isa isa : kAll) {
    if (to_string(isa) == text) return isa;
  }
  return fail(ErrorCode::Invalid,
              fmt::format("isa is '{}'; allowed: scalar, avx2, avx512, amx", text));
}

Status check_isa(Isa isa) {
  const CpuFeatures& cpu = cpu_features();
  switch (isa) {
    case Isa::kScalar:
      return {};
    case Isa::kAvx2:
      return require(cpu.avx2, "avx2", "AVX2 with FMA and F16C");
    case Isa::kAvx512:
      return require(cpu.avx512, "avx512", "AVX-512 (F, BW, DQ, VL)");
    case Isa::kAmx:
      return check_amx();
  }
  return fail(ErrorCode::Invalid, fmt::format("isa is {}; allowed: 0 to 3", static_cast<int>(isa)));
}

Isa best_isa() {
  static const Isa kBest = runnable_isas().back();
  return kBest;
}

std::vector<Isa> runnable_isas() {
  std::vector<Isa> found;
  for (const Isa isa : kAll) {
    if (check_isa(isa)) found.push_back(isa);
  }
  return found;
}

std::vector<std::string> missing_isas() {
  std::vector<std::string> reasons;
  for (const Isa isa : kAll) {
    if (const Status s = check_isa(isa); !s) reasons.push_back(s.error().message);
  }
  return reasons;
}

}  // namespace emblema
