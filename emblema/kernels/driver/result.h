// What items leave behind: results of whole sequences go to the caller, partial ones are kept until
// all splits of a unit are there and then merged in the order of the splits.
//
// Partial sums are kept undivided, against their own `top`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "emblema/kernels/driver/call.h"

namespace emblema::driver {

// One query row's sums: out and sum are of e^(z - top). sum = 0: nothing was visible.
struct RowSums {
  const float* out = nullptr;  // [value_dim]
  float top = 0.0F;
  double sum = 0.0;
};

// Divides by the sum, applies the head's sink, writes out and lse.
void write_result(const Call& call, std::uint64_t result_row, const RowSums& sums);

// The partial results of one item: [rows][value_dim] sums, then tops, then sums of weights.
class Partial {
 public:
  static std::uint64_t bytes(std::uint64_t rows, std::uint32_t value_dim);

  Partial(std::byte* memory, std::uint64_t rows, std::uint32_t value_dim);

  float* out(std::uint64_t row) const { return out_ + row * value_dim_; }
  void set(std::uint64_t row, float top, double sum) const {
    tops_[row] = top;
    sums_[row] = sum;
  }
  RowSums row(std::uint64_t row) const { return {out(row), tops_[row], sums_[row]}; }

 private:
  std::uint32_t value_dim_;
  float* out_;
  float* tops_;
  double* sums_;
};

// Merges `parts` partial results of a unit, `stride` bytes apart, and writes them. The first one's
// memory is used up.
void merge_unit(const Call& call, const Unit& unit, std::byte* partials, std::uint64_t stride,
                std::uint32_t parts);

// Rows of out and lse that no sequence names become 0 and -infinity; so do those of a unit that
// sees nothing.
void clear_unnamed_rows(const Call& call);
void clear_unit(const Call& call, const Unit& unit);

}  // namespace emblema::driver
