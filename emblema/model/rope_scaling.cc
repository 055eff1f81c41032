#include "emblema/model/rope_scaling.h"

#include <array>
#include <cmath>
#include <string>

#include <fmt/format.h>

#include "emblema/model/model_config.h"

namespace emblema {
namespace {

constexpr NumberRange kFactorRange = {1e-3, 1e9};
constexpr NumberRange kScaleRange = {0.0, 1e6};
constexpr NumberRange kBetaRange = {0.0, 1e6};

struct ScalingName {
  std::string_view name;
  RopeScaling scaling;
};

// "mrope" numbers the axes of an image; of text positions it is the plain rotation.
constexpr auto kNames = std::to_array<ScalingName>({{"", RopeScaling::kNone},
                                                    {"default", RopeScaling::kNone},
                                                    {"mrope", RopeScaling::kNone},
                                                    {"gptj", RopeScaling::kNone},
                                                    {"linear", RopeScaling::kLinear},
                                                    {"dynamic", RopeScaling::kDynamic},
                                                    {"yarn", RopeScaling::kYarn},
                                                    {"deepseek_yarn", RopeScaling::kYarn},
                                                    {"llama3", RopeScaling::kLlama3},
                                                    {"longrope", RopeScaling::kLongRope},
                                                    {"su", RopeScaling::kLongRope},
                                                    {"proportional", RopeScaling::kProportional}});

void need_factor(const ConfigFields& object, RopeFacts* rope) {
  const auto factor = object.number({"factor"}, kFactorRange);
  rope->factor = factor.value_or(1.0);
  if (!factor && !object.problems().failed()) {
    object.problems().invalid(fmt::format("{} is missing; allowed: a number from {} to {}",
                                          object.path_of("factor"), kFactorRange.min,
                                          kFactorRange.max));
  }
}

// The length that the model was trained at: in the object, around it, else the whole length.
void need_original_length(const ConfigFields& fields, const ConfigFields& object,
                          std::uint64_t max_positions, RopeFacts* rope) {
  constexpr std::string_view kKey = "original_max_position_embeddings";
  auto length = object.count({kKey}, {1, ConfigLimits::kTokensMax});
  if (!length) length = fields.count({kKey}, {1, ConfigLimits::kTokensMax});
  rope->original_max_positions = length.value_or(max_positions);
  if (rope->original_max_positions == 0 && !object.problems().failed()) {
    object.problems().invalid(fmt::format("{} is missing; allowed: 1 to {}", object.path_of(kKey),
                                          ConfigLimits::kTokensMax));
  }
}

void read_yarn(const ConfigFields& object, RopeFacts* rope) {
  rope->beta_fast = object.number({"beta_fast"}, kBetaRange).value_or(rope->beta_fast);
  rope->beta_slow = object.number({"beta_slow"}, kBetaRange).value_or(rope->beta_slow);
  rope->truncate = object.flag("truncate").value_or(true);
  rope->mscale = object.number({"mscale"}, kScaleRange);
  rope->mscale_all_dim = object.number({"mscale_all_dim"}, kScaleRange);
  if (object.has("llama_4_scaling_beta")) {
    object.problems().note(fmt::format(
        "{} scales queries by position; it does not change what is cached and is not read",
        object.path_of("llama_4_scaling_beta")));
  }
}

void read_llama3(const ConfigFields& object, RopeFacts* rope) {
  rope->low_freq_factor = object.number({"low_freq_factor"}, {1e-6, 1e6}).value_or(1.0);
  rope->high_freq_factor = object.number({"high_freq_factor"}, {1e-6, 1e6}).value_or(4.0);
  // Equal (Llama 4): a step at that wavelength instead of a smooth change.
  if (rope->high_freq_factor < rope->low_freq_factor && !object.problems().failed()) {
    object.problems().invalid(fmt::format("{} is {}; allowed: low_freq_factor ({}) or above",
                                          object.path_of("high_freq_factor"),
                                          rope->high_freq_factor, rope->low_freq_factor));
  }
}

// Phi-3.5-MoE gives the amplitude outright, one for each table.
void read_longrope_amplitude(const ConfigFields& object, RopeFacts* rope) {
  const auto short_scale = object.number({"short_mscale"}, kScaleRange);
  const auto long_scale = object.number({"long_mscale"}, kScaleRange);
  if (!short_scale && !long_scale) return;
  if (short_scale != long_scale) {
    object.problems().unsupported(
        fmt::format("{} and long_mscale differ; this release reads one "
                    "amplitude for both tables",
                    object.path_of("short_mscale")));
    return;
  }
  if (!rope->attention_factor) rope->attention_factor = short_scale;
}

void read_longrope(const ConfigFields& object, std::uint64_t max_positions, RopeFacts* rope) {
  const std::uint64_t pairs = rope->rotary_dim / 2;
  if (pairs > ConfigLimits::kRopePairsMax) {
    object.problems().invalid(fmt::format("{} for {} pairs of channels; allowed: 1 to {}",
                                          object.path_of("short_factor"), pairs,
                                          ConfigLimits::kRopePairsMax));
    return;
  }
  rope->short_factor = object.number_list("short_factor", {1e-6, 1e9}, pairs);
  rope->long_factor = object.number_list("long_factor", {1e-6, 1e9}, pairs);
  for (const std::string_view key : {"short_factor", "long_factor"}) {
    if (object.has(key) || object.problems().failed()) continue;
    object.problems().invalid(
        fmt::format("{} is missing; allowed: a list of {} numbers", object.path_of(key), pairs));
  }
  const auto factor = object.number({"factor"}, kFactorRange);
  if (factor) {
    rope->factor = *factor;
  } else if (max_positions > 0 && rope->original_max_positions > 0) {
    rope->factor =
        static_cast<double>(max_positions) / static_cast<double>(rope->original_max_positions);
  }
  read_longrope_amplitude(object, rope);
}

}  // namespace

void read_rope_scaling(const ConfigFields& fields, const ConfigFields& object,
                       std::uint64_t max_positions, RopeFacts* rope) {
  const std::string type = object.text({"rope_type", "type"});
  const ScalingName* known = nullptr;
  for (const ScalingName& entry : kNames) {
    if (entry.name == type) known = &entry;
  }
  if (known == nullptr) {
    object.problems().unsupported(fmt::format(
        "{} is \"{}\"; this release knows default, mrope, linear, dynamic, yarn, llama3, longrope, "
        "proportional",
        object.path_of("rope_type"), shortened(type)));
    return;
  }
  if (type.empty() && object.has("factor")) {
    object.problems().invalid(
        fmt::format("{} is missing, but a factor is given; allowed: linear, "
                    "dynamic, yarn, llama3, longrope or default",
                    object.path_of("rope_type")));
    return;
  }
  rope->scaling = known->scaling;
  if (rope->scaling == RopeScaling::kNone) return;
  if (rope->scaling == RopeScaling::kProportional) {
    rope->factor = object.number({"factor"}, kFactorRange).value_or(1.0);
    return;
  }
  rope->attention_factor = object.number({"attention_factor"}, kScaleRange);
  if (rope->scaling != RopeScaling::kLongRope) need_factor(object, rope);
  if (rope->scaling != RopeScaling::kLinear) {
    need_original_length(fields, object, max_positions, rope);
  }
  if (rope->scaling == RopeScaling::kYarn) read_yarn(object, rope);
  if (rope->scaling == RopeScaling::kLlama3) read_llama3(object, rope);
  if (rope->scaling == RopeScaling::kLongRope) read_longrope(object, max_positions, rope);
}

}  // namespace emblema
