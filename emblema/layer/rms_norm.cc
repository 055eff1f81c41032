#include "emblema/layer/rms_norm.h"

#include <algorithm>
#include <cmath>

#include "emblema/contract/check.h"

namespace emblema {

void rms_norm_rows(float* data, std::uint64_t rows, std::uint64_t width, std::uint64_t stride,
                   std::span<const float> gain, double eps) {
  EMBLEMA_CHECK(width >= 1 && stride >= width, "a row of an RMSNorm has a width within its stride");
  EMBLEMA_CHECK(gain.empty() || gain.size() == width, "an RMSNorm has one gain per element");
  for (std::uint64_t row = 0; row < rows; ++row) {
    float* x = data + row * stride;
    double squares = 0;
    for (std::uint64_t i = 0; i < width; ++i) {
      squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    }
    const double factor = 1.0 / std::sqrt(squares / static_cast<double>(width) + eps);
    const auto scale = static_cast<float>(factor);
    for (std::uint64_t i = 0; i < width; ++i) x[i] *= scale;
    for (std::uint64_t i = 0; i < gain.size(); ++i) x[i] *= gain[i];
  }
}

void rms_norm(std::span<const float> in, std::uint64_t width, std::span<const float> gain,
              double eps, std::span<float> out) {
  EMBLEMA_CHECK(width >= 1 && in.size() == out.size() && in.size() % width == 0,
                "an RMSNorm reads and writes the same whole rows");
  if (in.data() != out.data()) std::copy(in.begin(), in.end(), out.begin());
  rms_norm_rows(out.data(), in.size() / width, width, width, gain, eps);
}

}  // namespace emblema
