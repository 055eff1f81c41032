#include "emblema/layer/rotation.h"

#include <cmath>
#include <cstddef>

namespace emblema {

void Rotation::set(const RopeTable& table, std::int64_t by, double amplitude) {
  const std::span<const double> frequencies = table.frequencies();
  cosines_.resize(frequencies.size());
  sines_.resize(frequencies.size());
  interleaved_ = table.interleaved();
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double angle = static_cast<double>(by) * frequencies[i];
    cosines_[i] = static_cast<float>(amplitude * std::cos(angle));
    sines_[i] = static_cast<float>(amplitude * std::sin(angle));
  }
}

void Rotation::apply(float* row) const {
  const std::size_t pairs = cosines_.size();
  for (std::size_t i = 0; i < pairs; ++i) {
    float& x = interleaved_ ? row[2 * i] : row[i];
    float& y = interleaved_ ? row[2 * i + 1] : row[i + pairs];
    const float turned = x * cosines_[i] - y * sines_[i];
    y = x * sines_[i] + y * cosines_[i];
    x = turned;
  }
}

}  // namespace emblema
