// One rotary turn, computed once and applied to many heads: the angles of a position are the same
// for all of them. Reused from position to position; one thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "emblema/layout/rope_table.h"

namespace emblema {

class Rotation {
 public:
  // R(by) of the table's pairs, cosines and sines times `amplitude`. Angles are taken in double.
  void set(const RopeTable& table, std::int64_t by, double amplitude);

  // Turns the first rotary channels of `row`; the rest is left alone.
  void apply(float* row) const;

 private:
  std::vector<float> cosines_;
  std::vector<float> sines_;
  bool interleaved_ = false;
};

}  // namespace emblema
