#include "emblema/layer/seeded_values.h"

#include <cstddef>

namespace emblema {

void fill_uniform(std::span<float> out, std::uint64_t key, float half_width, float offset) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = half_width * uniform_value(key, i);
  if (offset == 0.0F) return;
  // A second pass, so that no compiler fuses product and sum into one rounding.
  for (float& value : out) value += offset;
}

}  // namespace emblema
