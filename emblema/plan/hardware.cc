#include "emblema/plan/hardware.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include <fmt/format.h>

#include "emblema/contract/bytes.h"
#include "emblema/plan/printed_number.h"

namespace emblema {
namespace {

constexpr std::uint64_t kGiga = 1'000'000'000;
constexpr std::uint64_t kTera = 1'000 * kGiga;

// A fused multiply-add is two operations.
constexpr std::uint64_t matrix_flops(std::uint64_t cores, std::uint64_t fma_per_clock,
                                     std::uint64_t megahertz) {
  return cores * fma_per_clock * 2 * megahertz * 1'000'000;
}

// "nvidia-smi" and "rocm-smi": total memory as such reports print it in public logs and issues.
constexpr std::array kGpus = {
    Gpu{"a100", "NVIDIA A100 SXM 80 GB", "sm80", 81'920 * kMiB, 2'039 * kGiga, 312 * kTera,
        std::nullopt,
        "NVIDIA A100 data sheet (2,039 GB/s, 312 TFLOP/s dense); nvidia-smi 81,920 MiB "
        "(modal-client pull request 2797)"},
    Gpu{"a100-40gb", "NVIDIA A100 40 GB", "sm80", 40'960 * kMiB, 1'555 * kGiga, 312 * kTera,
        std::nullopt,
        "NVIDIA A100 data sheet (1,555 GB/s, 312 TFLOP/s dense); nvidia-smi 40,960 MiB "
        "(modal-client pull request 2797)"},
    Gpu{"b200", "NVIDIA B200 SXM 180 GB", "sm100", 183'359 * kMiB, 7'700 * kGiga, 2'250 * kTera,
        4'500 * kTera,
        "NVIDIA Blackwell data sheet, 2025-10 (7.7 TB/s; 4.5 and 9 PFLOP/s sparse, halved); "
        "nvidia-smi 183,359 MiB (TensorRT-LLM issue 10278)"},
    Gpu{"b300", "NVIDIA B300 SXM 288 GB", "sm103", 275'040 * kMiB, 7'750 * kGiga, 2'250 * kTera,
        4'500 * kTera,
        "NVIDIA aiconfigurator b300_sxm.yaml, 2026 (7.75 TB/s where the data sheet says 8; 2,250 "
        "and 4,500 TFLOP/s dense; 275,040 MiB)"},
    Gpu{"gb200", "NVIDIA GB200, one of two GPUs", "sm100", 189'471 * kMiB, 8 * kTera, 2'500 * kTera,
        5'000 * kTera,
        "NVIDIA GB200 NVL72 page (8 TB/s; 5 and 10 PFLOP/s sparse, halved); nvidia-smi 189,471 "
        "MiB in public logs"},
    Gpu{"gb300", "NVIDIA GB300, one of two GPUs", "sm103", 284'208 * kMiB, 8 * kTera, 2'500 * kTera,
        5'000 * kTera,
        "NVIDIA GB300 NVL72 page (8 TB/s; 5 and 10 PFLOP/s sparse, halved); nvidia-smi 284,208 "
        "MiB in public logs"},
    Gpu{"h100", "NVIDIA H100 SXM 80 GB", "sm90", 81'559 * kMiB, 3'350 * kGiga, 989'400 * kGiga,
        1'978'900 * kGiga,
        "NVIDIA H100 architecture white paper (989.4 and 1,978.9 TFLOP/s dense), data sheet (3.35 "
        "TB/s); nvidia-smi 81,559 MiB (modal-client pull request 2797)"},
    Gpu{"h100-nvl", "NVIDIA H100 NVL 94 GB", "sm90", 95'830 * kMiB, 3'900 * kGiga, 835 * kTera,
        1'670 * kTera,
        "NVIDIA H100 data sheet (3.9 TB/s; 1,671 and 3,341 TFLOP/s sparse, halved and rounded "
        "down); nvidia-smi 95,830 MiB in public logs"},
    Gpu{"h100-pcie", "NVIDIA H100 PCIe 80 GB", "sm90", 81'559 * kMiB, 2 * kTera, 756 * kTera,
        1'513 * kTera,
        "NVIDIA H100 PCIe product brief (2 TB/s), 756 and 1,513 TFLOP/s dense as torchtitan and "
        "ml-engineering have them; nvidia-smi 81,559 MiB in public logs"},
    Gpu{"h20", "NVIDIA H20 96 GB", "sm90", 97'871 * kMiB, 4 * kTera, 148 * kTera, 296 * kTera,
        "vendors' pages of the H20 (4.0 TB/s, 148 and 296 TFLOP/s dense); nvidia-smi 97,871 MiB "
        "in public logs"},
    Gpu{"h200", "NVIDIA H200 SXM 141 GB", "sm90", 143'771 * kMiB, 4'800 * kGiga, 989'400 * kGiga,
        1'978'900 * kGiga,
        "NVIDIA H200 page (4.8 TB/s; 1,979 and 3,958 TFLOP/s sparse: the H100's chip, whose dense "
        "figures these are); nvidia-smi 143,771 MiB in public logs"},
    Gpu{"h800", "NVIDIA H800 SXM 80 GB", "sm90", 81'559 * kMiB, 3'350 * kGiga, 989 * kTera,
        1'978 * kTera,
        "NVIDIA aiconfigurator h800_sxm.yaml, 2026: memory, bandwidth and FLOP/s of the H100 SXM"},
    Gpu{"l4", "NVIDIA L4 24 GB", "sm89", 23'034 * kMiB, 300 * kGiga, 121 * kTera, 242'500 * kGiga,
        "NVIDIA L4 data sheet (300 GB/s; 242 and 485 TFLOP/s sparse, halved); nvidia-smi 23,034 "
        "MiB (modal-client pull request 2797)"},
    Gpu{"l40s", "NVIDIA L40S 48 GB", "sm89", 46'068 * kMiB, 864 * kGiga, 362'050 * kGiga,
        733 * kTera,
        "NVIDIA L40S data sheet (864 GB/s; 362.05 and 733 TFLOP/s dense, which it prints beside "
        "the sparse ones); nvidia-smi 46,068 MiB (modal-client pull request 2797)"},
    Gpu{"mi300x", "AMD Instinct MI300X 192 GB", "gfx942", 206'141'652'992, 5'300 * kGiga,
        1'307'400 * kGiga, 2'614'900 * kGiga,
        "AMD MI300X data sheet (5.3 TB/s, 1,307.4 and 2,614.9 TFLOP/s without sparsity); rocm-smi "
        "206,141,652,992 bytes in public logs"},
    Gpu{"mi325x", "AMD Instinct MI325X 256 GB", "gfx942", 256 * kGiB, 6 * kTera, 1'307'400 * kGiga,
        2'614'900 * kGiga,
        "AMD MI325X page (6 TB/s, compute of the MI300X); ROCm GPU specifications (256 GiB)"},
    Gpu{"mi350x", "AMD Instinct MI350X 288 GB", "gfx950", 288 * kGiB, 8 * kTera,
        matrix_flops(1'024, 512, 2'200), matrix_flops(1'024, 1'024, 2'200),
        "AMD MI350X page (8 TB/s; 2.3 and 4.6 PFLOP/s dense: 1,024 matrix cores x 512 FMA at 2.2 "
        "GHz, and twice that in fp8); ROCm GPU specifications (288 GiB)"},
    Gpu{"mi355x", "AMD Instinct MI355X 288 GB", "gfx950", 288 * kGiB, 8 * kTera,
        matrix_flops(1'024, 512, 2'400), matrix_flops(1'024, 1'024, 2'400),
        "AMD MI355X page (8 TB/s; 2.5 and 5 PFLOP/s dense: 1,024 matrix cores x 512 FMA at 2.4 "
        "GHz, and twice that in fp8); ROCm GPU specifications (288 GiB)"},
};

// Lower case, without the characters in `skipped`.
std::string folded(std::string_view text, std::string_view skipped) {
  std::string kept;
  for (const char c : text) {
    if (skipped.find(c) != std::string_view::npos) continue;
    kept += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return kept;
}

std::string folded_name(std::string_view name) {
  return folded(name, " -_");
}

// Insertions, deletions and replacements.
std::size_t edit_count(std::string_view a, std::string_view b) {
  std::vector<std::size_t> edits(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) edits[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = edits[0];
    edits[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = edits[j];
      edits[j] = std::min({replaced, edits[j] + 1, edits[j - 1] + 1});
    }
  }
  return edits[b.size()];
}

std::string nearest_gpu(std::string_view wanted) {
  constexpr std::size_t kLongestName = 32;  // the work is the product of two lengths
  if (wanted.size() > kLongestName) return {};
  std::size_t fewest = wanted.size() / 2 + 1;
  std::string nearest;
  for (const Gpu& gpu : kGpus) {
    const std::size_t edits = edit_count(wanted, folded_name(gpu.name));
    if (edits >= fewest) continue;
    fewest = edits;
    nearest = gpu.name;
  }
  return nearest;
}

Status check_positive(std::string_view field, const std::optional<std::uint64_t>& figure) {
  if (!figure || *figure > 0) return {};
  return fail(ErrorCode::Invalid, fmt::format("{} is 0; allowed: at least 1", field));
}

std::uint64_t thousands_of(char prefix) {
  constexpr std::string_view kPrefixes = "kmgtp";
  const std::size_t place = kPrefixes.find(prefix);
  if (place == std::string_view::npos) return 0;
  std::uint64_t factor = 1'000;
  for (std::size_t i = 0; i < place; ++i) factor *= 1'000;
  return factor;
}

// The factor of what follows the digits ("tb/s", "tb", "t", ""); 0 where that is no unit.
std::uint64_t factor_of(std::string_view suffix, std::string_view unit) {
  for (const std::string_view form : {unit, unit.substr(0, unit.find('/'))}) {
    if (!suffix.ends_with(form)) continue;
    suffix.remove_suffix(form.size());
    break;
  }
  if (suffix.empty()) return 1;
  return suffix.size() == 1 ? thousands_of(suffix.front()) : 0;
}

}  // namespace

std::span<const Gpu> gpus() {
  return kGpus;
}

Result<Gpu> find_gpu(std::string_view name) {
  const std::string wanted = folded_name(name);
  std::string known;
  for (const Gpu& gpu : kGpus) {
    if (folded_name(gpu.name) == wanted) return gpu;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", gpu.name);
  }
  const std::string nearest = nearest_gpu(wanted);
  return fail(ErrorCode::Invalid,
              fmt::format("gpu is '{}'; allowed: {}{}", name, known,
                          nearest.empty() ? "" : "; the nearest is " + nearest));
}

Result<Hardware> resolve_hardware(const HardwareOptions& options) {
  if (const auto ok = check_positive("memory", options.memory_bytes); !ok) return propagate(ok);
  if (const auto ok = check_positive("bandwidth", options.bandwidth_bytes_per_second); !ok) {
    return propagate(ok);
  }
  if (const auto ok = check_positive("flops", options.flops); !ok) return propagate(ok);
  Hardware hardware;
  hardware.name = "custom";
  const bool has_figure =
      options.memory_bytes || options.bandwidth_bytes_per_second || options.flops;
  if (!options.gpu.empty()) {
    const auto gpu = find_gpu(options.gpu);
    if (!gpu) return propagate(gpu);
    hardware = {std::string(gpu->name),          std::string(gpu->arch), gpu->memory_bytes,
                gpu->bandwidth_bytes_per_second, gpu->bf16_flops,        gpu->fp8_flops,
                std::string(gpu->source)};
    if (has_figure) hardware.source += "; ";
  }
  if (has_figure) hardware.source += "figures given by the caller";
  if (options.memory_bytes) hardware.memory_bytes = options.memory_bytes;
  if (options.bandwidth_bytes_per_second) {
    hardware.bandwidth_bytes_per_second = options.bandwidth_bytes_per_second;
  }
  if (options.flops) {
    hardware.bf16_flops = options.flops;
    hardware.fp8_flops.reset();  // another chip's ratio of the two is not known
  }
  return hardware;
}

Result<std::uint64_t> parse_rate(std::string_view option, std::string_view text,
                                 std::string_view unit) {
  const std::size_t end = std::min(text.find_first_not_of("0123456789.,"), text.size());
  const auto refused = fail(
      ErrorCode::Invalid,
      fmt::format("{} is '{}'; allowed: a whole number at least 1 such as 3.35T or 3.35T{}, with "
                  "k, M, G, T or P for powers of 1000",
                  option, text, unit));
  const auto number = parse_printed(option, text.substr(0, end));
  if (!number) return refused;
  const std::uint64_t factor = factor_of(folded(text.substr(end), " "), folded(unit, ""));
  if (factor == 0) return refused;
  const auto rate = multiply(number->value, Rational(factor), option);
  if (!rate || !rate->is_whole() || rate->numerator() == 0) return refused;
  return rate->numerator();
}

}  // namespace emblema
