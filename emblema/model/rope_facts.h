// What a config.json says of rotary position embeddings, in one spelling.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace emblema {

enum class RopeScaling {
  kNone,          // plain frequencies base^(-2i/d)
  kLinear,        // positions divided by `factor`
  kDynamic,       // NTK: the base grows with the sequence; frequencies are not fixed
  kYarn,          // by parts: beta_fast, beta_slow (arXiv 2309.00071)
  kLlama3,        // by wavelength: low_freq_factor, high_freq_factor
  kLongRope,      // per-frequency factors, one table below and one above the original length
  kProportional,  // base^(-2i/d) over the whole head, but only the first partial_rotary_factor of
                  // the pairs turn (Gemma-4); rotary_dim is the head, positions divide by `factor`
};

struct RopeFacts {
  double theta = 10000.0;
  double partial_rotary_factor = 1.0;  // share of the head that rotates
  std::uint32_t rotary_dim = 0;        // even; width that rotates (of the head or of k_rope)
  bool interleaved = false;            // pairs (2i, 2i+1); else halves (i, i + d/2)

  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;
  std::uint64_t original_max_positions = 0;
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  bool truncate = true;  // YaRN: round the correction range outwards (gpt-oss does not)
  std::optional<double> mscale;
  std::optional<double> mscale_all_dim;
  std::optional<double> attention_factor;  // given outright, wins over mscale
  double low_freq_factor = 1.0;            // Llama 3
  double high_freq_factor = 4.0;
  std::vector<double> short_factor;  // LongRope, rotary_dim / 2 each
  std::vector<double> long_factor;
  bool unit_amplitude = false;  // cos and sin stay at 1 whatever mscale says (DeepSeek-V4)
};

}  // namespace emblema
