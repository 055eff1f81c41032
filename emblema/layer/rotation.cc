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
  const std::size_t step = interleaved_ ? 2 : 1;       // from a pair's first channel to the next's
  const std::size_t apart = interleaved_ ? 1 : pairs;  // from its first channel to its second
  for (std::size_t i = 0; i < pairs; ++i) {
    const std::size_t first = i * step;
    const float x = row[first];
    const float y = row[first + apart];
    row[first] = x * cosines_[i] - y * sines_[i];
    row[first + apart] = x * sines_[i] + y * cosines_[i];
  }
}

}  // namespace emblema
