// Absorption on the output side: W_O,i W_UV,i multiplied beforehand for every head i, so that a
// latent layer's absorbed result goes to the hidden state in one product (DeepSeek-V2, 2.1.2).
//
// It is exact algebra and seldom worth it. Per token, in multiplications:
//   in one step    d r H
//   in two steps   d d_v H + d_v r H
// DeepSeek-V3 (d 7168, H 128, r 512, d_v 128): 470 million against 126 million, and 1.75 GiB of
// fp32 against 0.47: two steps win by 3.7. One step costs less only where r is below d_v or
// d is small: r (d - d_v) < d d_v.
//
// Owned by the caller; immutable; any thread may call.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "emblema/contract/result.h"
#include "emblema/layer/attention_layer.h"

namespace emblema {

struct OutputCost {
  double one_step = 0;  // in double: they steer a choice
  double two_steps = 0;

  bool absorbing_costs_more() const { return one_step > two_steps; }
};

// REQUIRES: a latent layer's widths.
OutputCost output_cost(const LayerDims& dims);

class AbsorbedWeights {
 public:
  // Invalid: a grouped layer, which has nothing to absorb. Io: no memory, naming the bytes.
  static Result<AbsorbedWeights> from(const AttentionLayer& layer);

  // result [count][query_heads][latent_dim] -> out [count][d], overwritten.
  // Invalid: sizes that do not fit.
  [[nodiscard]] Status output(std::span<const float> result, std::span<float> out) const;

  std::uint64_t size_bytes() const { return product_.size() * sizeof(float); }

 private:
  AbsorbedWeights() = default;
  std::uint64_t hidden_ = 0;
  std::uint64_t width_ = 0;  // query_heads * latent_dim
  ThreadPool* threads_ = nullptr;
  std::vector<float> product_;  // [d][query_heads * latent_dim]
};

}  // namespace emblema
