#include "apps/cli/hardware_arguments.h"

#include <string_view>

#include <fmt/format.h>

#include "apps/cli/counts.h"
#include "emblema/contract/bytes.h"
#include "emblema/plan/hardware.h"
#include "emblema/plan/printed_number.h"

namespace emblema {
namespace {

Status read_size(std::string_view option, const std::string& text,
                 std::optional<std::uint64_t>* value) {
  if (text.empty()) return {};
  const auto bytes = parse_size(option, text);
  if (!bytes) return propagate(bytes);
  *value = *bytes;
  return {};
}

Status read_memory(const std::string& text, std::optional<std::uint64_t>* value) {
  if (const auto ok = read_size("--hbm", text, value); !ok) return ok;
  if (!*value || **value > 0) return {};
  return fail(ErrorCode::Invalid, "--hbm is 0; allowed: at least 1 byte");
}

Status read_rate(std::string_view option, const std::string& text, std::string_view unit,
                 std::optional<std::uint64_t>* value) {
  if (text.empty()) return {};
  const auto rate = parse_rate(option, text, unit);
  if (!rate) return propagate(rate);
  *value = *rate;
  return {};
}

// "0.92" and "1" as exact fractions.
Result<Rational> parse_share(std::string_view option, std::string_view text) {
  const auto share = parse_printed(option, text);
  if (share && share->value.numerator() > 0 && at_most(share->value, Rational(1))) {
    return share->value;
  }
  return fail(ErrorCode::Invalid,
              fmt::format("{} is '{}'; allowed: above 0 and at most 1, as 0.92", option, text));
}

Status read_memory_use(const PlanArguments& arguments, Deployment* deployment) {
  if (!arguments.utilisation.empty()) {
    const auto share = parse_share("--utilisation", arguments.utilisation);
    if (!share) return propagate(share);
    deployment->memory_share = *share;
  }
  std::optional<std::uint64_t> reserve;
  if (const auto ok = read_size("--reserve", arguments.reserve, &reserve); !ok) return ok;
  deployment->reserve_bytes = reserve.value_or(0);
  if (arguments.weights.empty() || arguments.weights == "auto") return {};
  const auto weights = parse_bytes(arguments.weights);
  if (!weights || *weights == 0) {
    return fail(ErrorCode::Invalid, fmt::format("--weights is '{}'; allowed: auto, or a size of at "
                                                "least 1 byte, as 140GB",
                                                arguments.weights));
  }
  deployment->weight_bytes = *weights;
  deployment->weights_source = "--weights";
  return {};
}

}  // namespace

std::string gpu_names() {
  std::string names;
  for (const Gpu& gpu : gpus()) names += (names.empty() ? "" : "|") + std::string(gpu.name);
  return names;
}

Status read_hardware(const PlanArguments& arguments, Deployment* deployment) {
  HardwareOptions options;
  options.gpu = arguments.gpu;
  if (const auto ok = read_memory(arguments.hbm, &options.memory_bytes); !ok) return ok;
  if (const auto ok =
          read_rate("--bandwidth", arguments.bandwidth, "B/s", &options.bandwidth_bytes_per_second);
      !ok) {
    return ok;
  }
  if (const auto ok = read_rate("--flops", arguments.flops, "FLOP/s", &options.flops); !ok) {
    return ok;
  }
  const bool is_asked = !options.gpu.empty() || options.memory_bytes ||
                        options.bandwidth_bytes_per_second || options.flops;
  if (is_asked) {
    auto hardware = resolve_hardware(options);
    if (!hardware) return propagate(hardware);
    deployment->hardware = std::move(*hardware);
  }
  return read_memory_use(arguments, deployment);
}

}  // namespace emblema
