// One rotary turn, computed once and applied to many heads: the angles of a position are the same
// for all of them. Reused from position to position; one thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "emblema/layout/rope_table.h"

namespace emblema {

// R(by) of the table's pairs, cosines and sines times `amplitude`, into memory of the caller's.
// Angles are taken in double. REQUIRES: room for rotary_dim() / 2 numbers each.
void fill_rotation(const RopeTable& table, std::int64_t by, double amplitude,
                   std::span<float> cosines, std::span<float> sines);

// Turns the first rotary channels of `row` by what fill_rotation gave for the same table.
void apply_rotation(const RopeTable& table, std::span<const float> cosines,
                    std::span<const float> sines, float* row);

// The same, with memory of its own.
class Rotation {
 public:
  // Keeps the table, which must outlive the use.
  void set(const RopeTable& table, std::int64_t by, double amplitude);

  // The rest of `row` is left alone. REQUIRES: set() was called.
  void apply(float* row) const;

 private:
  std::vector<float> cosines_;
  std::vector<float> sines_;
  const RopeTable* table_ = nullptr;
};

}  // namespace emblema
