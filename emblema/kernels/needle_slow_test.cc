// One key among 131,072 that a query asks for, at several depths: found, and the error against
// double printed. Its logit is 0.7 times the square root of a key's width above the others', which
// are N(0, 0.7^2): it has more than nine tenths of the weight, and the rest comes from everywhere.
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "emblema/kernels/attention_truth_testing.h"

namespace emblema {
namespace {

using namespace testing_support;

constexpr std::uint64_t kRows = 131'072;
constexpr std::uint64_t kPieceRows = 8192;  // held as doubles at once
const std::vector<std::uint64_t> kDepths = {0, kRows / 4, kRows / 2, kRows * 3 / 4, kRows - 1};

class Needles {
 public:
  Needles(const AttentionShape& shape, const Storage& storage)
      : call(shape, storage, 64, kRows / 64, 7) {
    const Span span = call.make_span({.rows = kRows});
    call.add_sequence({span}, kDepths.size(), kRows - 1);
    std::mt19937_64 random(8);
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < kDepths.size(); ++i) {
      std::vector<float> key(shape.key_dim);
      for (std::uint32_t c = 0; c < shape.key_dim; ++c) {
        key[c] = normal(random);
        call.q[i * shape.key_dim + c] = 0.7F * key[c];
      }
      call.store_row(span.blocks[kDepths[i] / 64], kDepths[i] % 64, key);
    }
  }

  // Rows of one piece of the sequence, as the reference reads them.
  ReferenceRows piece(std::uint64_t first) const {
    Span span = call.sequences[0].spans[0];
    span.first_row = first;
    span.rows = kPieceRows;
    span.position = static_cast<std::int64_t>(first);
    SequenceInputs part = call.sequences[0];
    part.spans = {&span, 1};
    return reference_rows(call.inputs, part);
  }

  // One head: out and lse of query i over a piece join what is there.
  void add_to_truth(const ReferenceRows& rows, std::size_t i, Truth& truth) const {
    const AttentionShape& shape = call.inputs.shape;
    const float* from = call.q.data() + i * shape.key_dim;
    const std::vector<double> query(from, from + shape.key_dim);
    std::vector<double> more(shape.value_dim);
    std::vector<double> more_lse(1);
    reference_query(shape, rows, query, kRows + 9, more, more_lse);
    reference_merge(std::span(truth.out).subspan(i * shape.value_dim, shape.value_dim),
                    std::span(truth.lse).subspan(i, 1), more, more_lse);
  }

  AttentionCase call;
};

// The row whose value is nearest to what a query was given.
struct Nearest {
  std::uint64_t row = 0;
  double distance = std::numeric_limits<double>::infinity();

  void look_at(const ReferenceRows& rows, std::uint64_t first, const float* out,
               std::uint32_t width) {
    for (std::uint64_t j = 0; j < kPieceRows; ++j) {
      const double* value = rows.values.data() + j * width;
      double square = 0.0;
      for (std::uint32_t c = 0; c < width; ++c) square += (value[c] - out[c]) * (value[c] - out[c]);
      if (square < distance) distance = square, row = first + j;
    }
  }
};

double logit(const AttentionShape& shape, const ReferenceRows& rows, std::uint64_t row,
             const float* q) {
  double sum = 0.0;
  for (std::uint32_t c = 0; c < shape.key_dim; ++c)
    sum += rows.keys[row * shape.key_dim + c] * q[c];
  return sum * shape.scale;
}

void expect_found(const AttentionShape& shape, const Storage& storage) {
  Needles needles(shape, storage);
  AttentionCase& call = needles.call;
  ASSERT_TRUE(call.decode());  // by the best instruction set
  Truth truth{std::vector<double>(call.out.size()),
              std::vector<double>(call.lse.size(), -std::numeric_limits<double>::infinity())};
  std::vector<Nearest> nearest(kDepths.size());
  for (std::uint64_t first = 0; first < kRows; first += kPieceRows) {
    const ReferenceRows rows = needles.piece(first);
    for (std::size_t i = 0; i < kDepths.size(); ++i) {
      needles.add_to_truth(rows, i, truth);
      nearest[i].look_at(rows, first, call.out.data() + i * shape.value_dim, shape.value_dim);
      if (kDepths[i] < first || kDepths[i] >= first + kPieceRows) continue;
      const double z = logit(shape, rows, kDepths[i] - first, call.q.data() + i * shape.key_dim);
      const double weight = std::exp(z - double{call.lse[i]});
      std::printf("%s row %6lu: weight %.4f\n", storage.name().c_str(),
                  static_cast<unsigned long>(kDepths[i]), weight);
      EXPECT_GT(weight, 0.9) << kDepths[i];
    }
  }
  for (std::size_t i = 0; i < kDepths.size(); ++i) EXPECT_EQ(nearest[i].row, kDepths[i]);
  for (const Isa isa : runnable_isas()) {
    call.options.isa = isa;
    ASSERT_TRUE(call.decode());
    expect_near_truth(call, isa, truth, storage.name() + " needles");
    std::printf("%s by %s: error of out %.2e, of lse %.2e\n", storage.name().c_str(),
                std::string(to_string(isa)).c_str(), relative_difference(call.out, truth.out),
                lse_difference(call.lse, truth.lse));
  }
}

TEST(Needle, IsFoundInBf16Rows) {
  expect_found(latent_shape(1, 512, 64), Encoding::kBf16);
}

TEST(Needle, IsFoundInRowsOf656Bytes) {
  expect_found(latent_shape(1, 512, 64), RowFormat::kFp8DsMla);
}

TEST(Needle, IsFoundInRowsOf584Bytes) {
  expect_found(latent_shape(1, 512, 0), RowFormat::kDeepSeekV4);
}

}  // namespace
}  // namespace emblema
