#include "emblema/layer/gemm.h"

#include <filesystem>
#include <iterator>
#include <vector>

#include <gtest/gtest.h>

#include "emblema/layer/seeded_values.h"

namespace emblema {
namespace {

struct Stored {
  std::vector<float> values;
  ConstMatrix view;

  Stored(std::uint64_t rows, std::uint64_t columns, std::uint64_t stride, std::uint64_t key)
      : values(rows * stride) {
    fill_uniform(values, key, 1.0F);
    view = {values.data(), rows, columns, stride};
  }
};

double at(const ConstMatrix& matrix, std::uint64_t row, std::uint64_t column) {
  return matrix.data[row * matrix.stride + column];
}

// Every product against a sum in double, and everything outside the result left alone.
void check_product(std::uint64_t m, std::uint64_t n, std::uint64_t k, bool transpose, GemmSum sum,
                   ThreadPool* threads) {
  const Stored a(m, k, k + 3, 1);
  const Stored b = transpose ? Stored(n, k, k + 5, 2) : Stored(k, n, n + 5, 2);
  const std::uint64_t stride = n + 2;
  std::vector<float> c(m * stride, 0.5F);
  (transpose ? multiply_by_transpose : multiply)(a.view, b.view, {c.data(), m, n, stride}, sum,
                                                 threads);
  for (std::uint64_t i = 0; i < m; ++i) {
    for (std::uint64_t j = 0; j < n; ++j) {
      double expected = sum == GemmSum::kAdd ? 0.5 : 0.0;
      for (std::uint64_t l = 0; l < k; ++l) {
        expected += at(a.view, i, l) * (transpose ? at(b.view, j, l) : at(b.view, l, j));
      }
      // k products below 1, each rounded to within 2^-24 of sums below k.
      ASSERT_NEAR(c[i * stride + j], expected, 1e-6 * static_cast<double>(k + 1))
          << m << " x " << n << " x " << k << " at " << i << ", " << j;
    }
    ASSERT_EQ(c[i * stride + n], 0.5F) << "written past the columns";
    ASSERT_EQ(c[i * stride + n + 1], 0.5F);
  }
}

std::ptrdiff_t threads_of_this_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                       std::filesystem::directory_iterator());
}

const std::ptrdiff_t kThreadsAtStart = threads_of_this_process();

// The first of its binary that multiplies something large: a team once started stays.
TEST(Gemm, OneThreadAskedForStartsNone) {
  check_product(200, 300, 100, true, GemmSum::kReplace, nullptr);
  EXPECT_EQ(threads_of_this_process(), kThreadsAtStart);
}

TEST(Gemm, EqualsNaiveSumsAtRaggedSizes) {
  for (const std::uint64_t m : {1U, 2U, 7U, 33U}) {
    for (const std::uint64_t n : {1U, 3U, 16U, 65U}) {
      for (const std::uint64_t k : {1U, 5U, 64U, 129U}) {
        for (const bool transpose : {false, true}) {
          check_product(m, n, k, transpose, GemmSum::kReplace, nullptr);
          check_product(m, n, k, transpose, GemmSum::kAdd, nullptr);
        }
      }
    }
  }
}

TEST(Gemm, ManyThreadsShareTheColumns) {
  check_product(13, 1153, 30, true, GemmSum::kReplace, ThreadPool::open(2).value().get());
  check_product(13, 1153, 30, false, GemmSum::kAdd, ThreadPool::open(3).value().get());
}

TEST(Gemm, ThreadCountChangesNoBit) {
  const Stored a(70, 300, 300, 3);
  const Stored b(1153, 300, 300, 4);
  std::vector<float> one(70 * 1153);
  multiply_by_transpose(a.view, b.view, {one.data(), 70, 1153, 1153}, GemmSum::kReplace, nullptr);
  for (const std::uint32_t threads : {2U, 3U, 4U}) {
    std::vector<float> many(one.size());
    const auto pool = ThreadPool::open(threads).value();
    multiply_by_transpose(a.view, b.view, {many.data(), 70, 1153, 1153}, GemmSum::kReplace,
                          pool.get());
    EXPECT_EQ(many, one) << threads;
  }
}

TEST(Gemm, EmptyInnerDimensionIsASumOfNothing) {
  std::vector<float> c(6, 4.0F);
  multiply({nullptr, 2, 0, 0}, {nullptr, 0, 3, 3}, {c.data(), 2, 3, 3}, GemmSum::kAdd);
  EXPECT_EQ(c, std::vector<float>(6, 4.0F));
  multiply({nullptr, 2, 0, 0}, {nullptr, 0, 3, 3}, {c.data(), 2, 3, 3});
  EXPECT_EQ(c, std::vector<float>(6, 0.0F));
  multiply({nullptr, 0, 4, 4}, {c.data(), 4, 1, 1}, {nullptr, 0, 1, 1});
}

TEST(GemmDeathTest, ShapesThatDoNotFitAreAProgrammersError) {
  std::vector<float> memory(64);
  const ConstMatrix a{memory.data(), 2, 3, 3};
  const ConstMatrix b{memory.data(), 4, 2, 2};
  EXPECT_DEATH(multiply(a, b, {memory.data() + 32, 2, 2, 2}), "shapes of a matrix product fit");
  EXPECT_DEATH(multiply({memory.data(), 2, 3, 2}, {memory.data(), 3, 2, 2}, {nullptr, 2, 2, 2}),
               "stride");
}

}  // namespace
}  // namespace emblema
