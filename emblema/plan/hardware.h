// What one accelerator offers: memory, memory bandwidth, and matrix FLOP per second.
//
// FLOP/s are dense ones. Data sheets of NVIDIA's Hopper and Blackwell print the figure for 2:4
// structured sparsity, which attention never has: half of it is meant here, and `source` says so.
// bandwidth and FLOP/s are decimal (TB/s = 10^12 B/s) and theoretical: no kernel reaches them.
//
// `memory_bytes` is what the driver reports of an idle card (nvidia-smi's memory.total, rocm-smi's
// VRAM total), because that is what an engine divides. It is not the number on the box: an "80 GB"
// H100 reports 81,559 MiB = 85.5 GB, a "180 GB" B200 183,359 MiB = 192.3 GB, since those GB are
// GiB less what ECC and firmware keep. Rows whose driver report was not found take the vendor's
// GiB. What a process can allocate is less again (its context, the libraries).
//
// Plain values; any thread may read. Two GPUs of a superchip (GB200) are two GPUs here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "emblema/contract/result.h"

namespace emblema {

struct Gpu {
  std::string_view name;   // "h100"
  std::string_view title;  // "NVIDIA H100 SXM 80 GB"
  std::string_view arch;   // "sm90", "gfx942"
  std::uint64_t memory_bytes = 0;
  std::uint64_t bandwidth_bytes_per_second = 0;
  std::uint64_t bf16_flops = 0;            // per second, dense
  std::optional<std::uint64_t> fp8_flops;  // none: the chip has no fp8 matrix unit
  std::string_view source;                 // of every figure of the row
};

// Sorted by name.
std::span<const Gpu> gpus();

// Upper case, spaces, '-' and '_' do not matter: "MI300X", "H100 PCIe". Invalid: an unknown name;
// lists the known ones and the nearest.
Result<Gpu> find_gpu(std::string_view name);

// What is asked: a GPU by name, single figures, or both; a figure given replaces the GPU's.
struct HardwareOptions {
  std::string gpu{};  // "": none
  std::optional<std::uint64_t> memory_bytes{};
  std::optional<std::uint64_t> bandwidth_bytes_per_second{};
  std::optional<std::uint64_t> flops{};  // dense bf16, per second
};

struct Hardware {
  std::string name{};  // "h100", "custom"
  std::string arch{};  // "": not known
  std::optional<std::uint64_t> memory_bytes{};
  std::optional<std::uint64_t> bandwidth_bytes_per_second{};
  std::optional<std::uint64_t> bf16_flops{};
  std::optional<std::uint64_t> fp8_flops{};
  std::string source{};
};

// Invalid: an unknown GPU, or a figure of 0. Without a GPU, figures not given stay absent.
Result<Hardware> resolve_hardware(const HardwareOptions& options);

// Reads a rate: "3.35TB/s", "989.4T", "864 GB/s", "3350000000000". Prefixes k M G T P are powers of
// 1000; `unit` ("B/s", "FLOP/s") and the spaces may be left out, case is ignored. Invalid: anything
// else, no whole number, 0. `option` names it: "--bandwidth is 3.35X; allowed: ...".
Result<std::uint64_t> parse_rate(std::string_view option, std::string_view text,
                                 std::string_view unit);

}  // namespace emblema
