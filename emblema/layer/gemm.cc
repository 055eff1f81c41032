#include "emblema/layer/gemm.h"

#include <algorithm>
#include <limits>

#include <dnnl.h>

#include "emblema/contract/check.h"

// Declared here and not by <omp.h>: the compiler's own OpenMP may be another one than oneDNN's, and
// it is oneDNN's that must be told.
extern "C" {
int omp_get_max_threads(void);
void omp_set_num_threads(int count);
}

namespace emblema {
namespace {

// Bounds the OpenMP team of the calling thread; the setting is per thread (OpenMP 5.0, 2.5.1).
class TeamSize {
 public:
  explicit TeamSize(std::uint32_t threads) : before_(omp_get_max_threads()) {
    omp_set_num_threads(static_cast<int>(threads));
  }
  TeamSize(const TeamSize&) = delete;
  TeamSize& operator=(const TeamSize&) = delete;
  ~TeamSize() { omp_set_num_threads(before_); }

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

void run(const ConstMatrix& a, const ConstMatrix& b, char transpose_b, const Matrix& c, GemmSum sum,
         std::uint32_t threads) {
  const std::uint64_t b_inner = transpose_b == 'T' ? b.columns : b.rows;
  const std::uint64_t b_outer = transpose_b == 'T' ? b.rows : b.columns;
  EMBLEMA_CHECK(a.rows == c.rows && b_outer == c.columns && a.columns == b_inner,
                "shapes of a matrix product fit");
  EMBLEMA_CHECK(a.stride >= a.columns && b.stride >= b.columns && c.stride >= c.columns,
                "the stride of a matrix covers its columns");
  EMBLEMA_CHECK(threads >= 1 && threads <= std::numeric_limits<int>::max(), "threads >= 1");
  if (c.rows == 0 || c.columns == 0) return;
  if (a.columns == 0) {
    if (sum == GemmSum::kReplace) fill_zero(c);
    return;
  }
  const TeamSize team(threads);
  const float beta = sum == GemmSum::kAdd ? 1.0F : 0.0F;
  const dnnl_status_t status =
      dnnl_sgemm('N', transpose_b, dim(c.rows), dim(c.columns), dim(a.columns), 1.0F, a.data,
                 dim(a.stride), b.data, dim(b.stride), beta, c.data, dim(c.stride));
  EMBLEMA_CHECK(status == dnnl_success, "oneDNN multiplied two matrices of checked shapes");
}

}  // namespace

void multiply(const ConstMatrix& a, const ConstMatrix& b, const Matrix& c, GemmSum sum,
              std::uint32_t threads) {
  run(a, b, 'N', c, sum, threads);
}

void multiply_by_transpose(const ConstMatrix& a, const ConstMatrix& b, const Matrix& c, GemmSum sum,
                           std::uint32_t threads) {
  run(a, b, 'T', c, sum, threads);
}

}  // namespace emblema
