// The few numbers that fix a rotary embedding once a layer is known.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "emblema/model/rope_facts.h"

namespace emblema {

// YaRN's m(factor, s) = 0.1 s ln(factor) + 1, and 1 for factor <= 1 (arXiv 2309.00071 section 3.4).
double yarn_mscale(double factor, double scale);

// What cos and sin are multiplied by. YaRN: attention_factor if given, else m(mscale) /
// m(mscale_all_dim), where a missing mscale counts as 1 and a missing mscale_all_dim as 0, so that
// without the keys it is m(1) (DeepSeek-V2/V3's modeling code; transformers agrees wherever both
// keys or neither are given). LongRope: attention_factor, else sqrt(1 + ln(max / original) /
// ln(original)) above the original length. 1 for the rest, and with unit_amplitude.
double rope_amplitude(const RopeFacts& rope, std::uint64_t max_positions);

// Softmax scale of a head of width `qk_dim`: qk_dim^-1/2, times m(factor, mscale_all_dim)^2 where
// YaRN says so (DeepSeek-V2/V3 only: the two corrections are different things).
double softmax_scale(std::uint32_t qk_dim, const RopeFacts& rope, bool mscale_in_scale);

}  // namespace emblema
