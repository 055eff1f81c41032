#include "emblema/layer/gemm.h"

#include <algorithm>

#include <dnnl.h>

#include "emblema/contract/bytes.h"
#include "emblema/contract/check.h"

// Declared here and not by <omp.h>: the compiler's own OpenMP may be another one than oneDNN's, and
// it is oneDNN's that must be told.
extern "C" {
int omp_get_max_threads(void);
void omp_set_num_threads(int count);
}

namespace emblema {
namespace {

// Holds the OpenMP team of the calling thread at one; the setting is per thread
// (OpenMP 5.0, 2.5.1).
class TeamOfOne {
 public:
  TeamOfOne() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  TeamOfOne(const TeamOfOne&) = delete;
  TeamOfOne& operator=(const TeamOfOne&) = delete;
  ~TeamOfOne() { omp_set_num_threads(before_); }

 private:
  int before_;
};

dnnl_dim_t dim(std::uint64_t value) {
  return static_cast<dnnl_dim_t>(value);
}

void fill_zero(const Matrix& c) {
  for (std::uint64_t row = 0; row < c.rows; ++row)
    std::fill_n(c.data + row * c.stride, c.columns, 0.0F);
}

// Columns that one call of oneDNN computes. The cut depends on the shape alone, so that bits do not
// depend on the thread count; parts are even in number, so that two threads share them evenly.
std::uint64_t part_columns(std::uint64_t columns) {
  if (columns <= 128) return columns;
  const std::uint64_t parts = round_up(ceil_div(columns, 512), 2);
  return round_up(ceil_div(columns, parts), 16);
}

void run_part(const ConstMatrix& a, const ConstMatrix& b, char transpose_b, const Matrix& c,
              GemmSum sum) {
  const TeamOfOne team;
  const float beta = sum == GemmSum::kAdd ? 1.0F : 0.0F;
  const dnnl_status_t status =
      dnnl_sgemm('N', transpose_b, dim(c.rows), dim(c.columns), dim(a.columns), 1.0F, a.data,
                 dim(a.stride), b.data, dim(b.stride), beta, c.data, dim(c.stride));
  EMBLEMA_CHECK(status == dnnl_success, "oneDNN multiplied two matrices of checked shapes");
}

void run(const ConstMatrix& a, const ConstMatrix& b, char transpose_b, const Matrix& c, GemmSum sum,
         ThreadPool* threads) {
  const bool is_transposed = transpose_b == 'T';
  const std::uint64_t b_inner = is_transposed ? b.columns : b.rows;
  const std::uint64_t b_outer = is_transposed ? b.rows : b.columns;
  EMBLEMA_CHECK(a.rows == c.rows && b_outer == c.columns && a.columns == b_inner,
                "shapes of a matrix product fit");
  EMBLEMA_CHECK(a.stride >= a.columns && b.stride >= b.columns && c.stride >= c.columns,
                "the stride of a matrix covers its columns");
  if (c.rows == 0 || c.columns == 0) return;
  if (a.columns == 0) {
    if (sum == GemmSum::kReplace) fill_zero(c);
    return;
  }
  const std::uint64_t width = part_columns(c.columns);
  run_parts(threads, ceil_div(c.columns, width), [&](std::uint32_t, std::uint64_t part) {
    const std::uint64_t first = part * width;
    const std::uint64_t columns = std::min(width, c.columns - first);
    const ConstMatrix b_part =
        is_transposed ? ConstMatrix{b.data + first * b.stride, columns, b.columns, b.stride}
                      : ConstMatrix{b.data + first, b.rows, columns, b.stride};
    run_part(a, b_part, transpose_b, {c.data + first, c.rows, columns, c.stride}, sum);
  });
}

}  // namespace

void multiply(const ConstMatrix& a, const ConstMatrix& b, const Matrix& c, GemmSum sum,
              ThreadPool* threads) {
  run(a, b, 'N', c, sum, threads);
}

void multiply_by_transpose(const ConstMatrix& a, const ConstMatrix& b, const Matrix& c, GemmSum sum,
                           ThreadPool* threads) {
  run(a, b, 'T', c, sum, threads);
}

}  // namespace emblema
