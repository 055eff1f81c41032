#include "emblema/geometry/rope.h"

#include <cmath>

namespace emblema {

double yarn_mscale(double factor, double scale) {
  if (factor <= 1.0) return 1.0;
  return 0.1 * scale * std::log(factor) + 1.0;
}

namespace {

// transformers' modeling_rope_utils (_compute_longrope_parameters): where the config names both
// lengths, their ratio is the factor.
double longrope_amplitude(const RopeFacts& rope, std::uint64_t max_positions) {
  double factor = rope.factor;
  double original = static_cast<double>(max_positions);
  if (rope.original_max_positions > 0) {
    original = static_cast<double>(rope.original_max_positions);
    if (max_positions > 0) factor = static_cast<double>(max_positions) / original;
  }
  if (factor <= 1.0 || original <= 1.0) return 1.0;
  return std::sqrt(1.0 + std::log(factor) / std::log(original));
}

}  // namespace

double rope_amplitude(const RopeFacts& rope, std::uint64_t max_positions) {
  if (rope.unit_amplitude) return 1.0;
  if (rope.scaling == RopeScaling::kLongRope) {
    return rope.attention_factor ? *rope.attention_factor : longrope_amplitude(rope, max_positions);
  }
  if (rope.scaling != RopeScaling::kYarn) return 1.0;
  if (rope.attention_factor) return *rope.attention_factor;
  return yarn_mscale(rope.factor, rope.mscale.value_or(1.0)) /
         yarn_mscale(rope.factor, rope.mscale_all_dim.value_or(0.0));
}

double softmax_scale(std::uint32_t qk_dim, const RopeFacts& rope, bool mscale_in_scale) {
  const double plain = 1.0 / std::sqrt(static_cast<double>(qk_dim));
  if (!mscale_in_scale || rope.scaling != RopeScaling::kYarn) return plain;
  const double mscale = yarn_mscale(rope.factor, rope.mscale_all_dim.value_or(0.0));
  return plain * mscale * mscale;
}

}  // namespace emblema
