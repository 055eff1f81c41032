#include "emblema/layout/rotation.h"

#include <cmath>
#include <cstddef>

namespace emblema {

void fill_rotation(const RopeTable& table, std::int64_t by, double amplitude,
                   std::span<float> cosines, std::span<float> sines) {
  const std::span<const double> frequencies = table.frequencies();
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double angle = static_cast<double>(by) * frequencies[i];
    cosines[i] = static_cast<float>(amplitude * std::cos(angle));
    sines[i] = static_cast<float>(amplitude * std::sin(angle));
  }
}

void apply_rotation(const RopeTable& table, std::span<const float> cosines,
                    std::span<const float> sines, float* row) {
  const std::size_t pairs = table.rotary_dim() / 2;
  const std::size_t step =
      table.interleaved() ? 2 : 1;  // from a pair's first channel to the next's
  const std::size_t apart = table.interleaved() ? 1 : pairs;  // from its first to its second
  for (std::size_t i = 0; i < pairs; ++i) {
    const std::size_t first = i * step;
    const float x = row[first];
    const float y = row[first + apart];
    row[first] = x * cosines[i] - y * sines[i];
    row[first + apart] = x * sines[i] + y * cosines[i];
  }
}

void Rotation::set(const RopeTable& table, std::int64_t by, double amplitude) {
  table_ = &table;
  cosines_.resize(table.rotary_dim() / 2);
  sines_.resize(table.rotary_dim() / 2);
  fill_rotation(table, by, amplitude, cosines_, sines_);
}

void Rotation::apply(float* row) const {
  apply_rotation(*table_, cosines_, sines_, row);
}

}  // namespace emblema
