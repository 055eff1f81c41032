// The tensors of a layer while they are being listed: the few ways in which one is added.
//
// A plain value; one thread at a time.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "emblema/contract/bytes.h"
#include "emblema/plan/weight_tensors.h"

namespace emblema {

class TensorList {
 public:
  // `ranks`: that share heads and columns; at least 1.
  explicit TensorList(std::uint32_t ranks) : ranks_(ranks) {}

  // The fullest rank's part of `count` heads or columns.
  std::uint64_t share(std::uint64_t count) const { return ceil_div(count, ranks_); }

  void add(const WeightTensor& tensor) { tensors_.push_back(tensor); }

  // A linear layer, and its bias where there is one.
  void linear(std::string_view part, std::string_view module, std::uint64_t rows,
              std::uint64_t columns, bool bias = false) {
    add({part, module, 1, rows, columns, true, 0});
    if (bias) vectors(part, module, 1, rows);
  }

  // One that is never quantised.
  void matrix(std::string_view part, std::string_view module, std::uint64_t rows,
              std::uint64_t columns, std::uint32_t bytes = 0) {
    add({part, module, 1, rows, columns, false, bytes});
  }

  void vectors(std::string_view part, std::string_view module, std::uint64_t copies,
               std::uint64_t width, std::uint32_t bytes = 0) {
    if (copies == 0 || width == 0) return;
    add({part, module, copies, 1, width, false, bytes});
  }

  const std::vector<WeightTensor>& tensors() const { return tensors_; }

 private:
  std::uint32_t ranks_;
  std::vector<WeightTensor> tensors_;
};

}  // namespace emblema
