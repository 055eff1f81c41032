// Matrix products in fp32 over row-major views, by oneDNN.
//
// A view owns nothing: `stride` is the distance between rows in floats, so that one head of
// [token][head][width] is a matrix too. Accumulation is fp32. The same shapes give the same bits,
// whatever the thread count; another number of rows may differ in the last ones.
//
// oneDNN runs on OpenMP, whose team is held at one for the calling thread while a product runs and
// put back afterwards. A pool's threads share the columns of the result. Any thread may call.
#pragma once

#include <cstdint>

#include "emblema/os/thread_pool.h"

namespace emblema {

struct ConstMatrix {
  const float* data = nullptr;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::uint64_t stride = 0;  // >= columns
};

struct Matrix {
  float* data = nullptr;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::uint64_t stride = 0;  // >= columns
};

enum class GemmSum {
  kReplace,  // c is overwritten; what it held is not read
  kAdd,      // the product is added to c
};

// c [m][n] = a [m][k] . b [k][n]
// REQUIRES: shapes that fit, strides >= columns, c apart from a and b.
void multiply(const ConstMatrix& a, const ConstMatrix& b, const Matrix& c,
              GemmSum sum = GemmSum::kReplace, ThreadPool* threads = nullptr);

// c [m][n] = a [m][k] . transpose of b [n][k]: a linear layer, whose weights are [out][in].
// REQUIRES: as multiply.
void multiply_by_transpose(const ConstMatrix& a, const ConstMatrix& b, const Matrix& c,
                           GemmSum sum = GemmSum::kReplace, ThreadPool* threads = nullptr);

}  // namespace emblema
