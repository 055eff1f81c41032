#include "emblema/kernels/block_primitives.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "emblema/layout/convert.h"

namespace emblema {
namespace {

template <float (*kDecode)(std::uint16_t)>
void convert_16_bit(const std::byte* from, std::uint32_t width, float* to) {
  for (std::uint32_t c = 0; c < width; ++c) {
    std::uint16_t stored;
    std::memcpy(&stored, from + std::size_t{c} * 2, 2);  // rows need no alignment
    to[c] = kDecode(stored);
  }
}

void convert_row(const std::byte* from, Encoding encoding, std::uint32_t width,
                 std::uint32_t stride, float* to) {
  if (encoding == Encoding::kBf16) {
    convert_16_bit<fp32_from_bf16>(from, width, to);
  } else if (encoding == Encoding::kFp16) {
    convert_16_bit<fp32_from_fp16>(from, width, to);
  } else {
    std::memcpy(to, from, std::size_t{width} * sizeof(float));
  }
  std::fill(to + width, to + stride, 0.0F);
}

// Four sums per (query, row): a loop-carried vector each, which needs no reordering of additions to
// become SIMD.
constexpr std::uint32_t kLanes = 4;

template <std::uint32_t kQueries, std::uint32_t kRows>
void score_block(const float* __restrict queries, const float* __restrict rows,
                 std::uint32_t stride, float* __restrict scores) {
  float sums[kQueries][kRows][kLanes] = {};
  for (std::uint32_t c = 0; c < stride; c += kLanes) {
    for (std::uint32_t q = 0; q < kQueries; ++q) {
      for (std::uint32_t r = 0; r < kRows; ++r) {
        for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
          sums[q][r][lane] += queries[std::size_t{q} * stride + c + lane] *
                              rows[std::size_t{r} * stride + c + lane];
        }
      }
    }
  }
  for (std::uint32_t q = 0; q < kQueries; ++q) {
    for (std::uint32_t r = 0; r < kRows; ++r) {
      const float* sum = sums[q][r];
      scores[q * kTileRows + r] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    }
  }
}

template <std::uint32_t kQueries>
void score_queries(const float* queries, const float* rows, std::uint32_t row_count,
                   std::uint32_t stride, float* scores) {
  std::uint32_t r = 0;
  for (; r + 2 <= row_count; r += 2) {
    score_block<kQueries, 2>(queries, rows + std::size_t{r} * stride, stride, scores + r);
  }
  if (r < row_count) {
    score_block<kQueries, 1>(queries, rows + std::size_t{r} * stride, stride, scores + r);
  }
}

void score_rows(const float* queries, std::uint32_t query_count, const float* rows,
                std::uint32_t row_count, std::uint32_t stride, float* scores) {
  std::size_t q = 0;
  for (; q + 4 <= query_count; q += 4) {
    score_queries<4>(queries + q * stride, rows, row_count, stride, scores + q * kTileRows);
  }
  for (; q < query_count; ++q) {
    score_queries<1>(queries + q * stride, rows, row_count, stride, scores + q * kTileRows);
  }
}

float softmax_rows(float* scores, std::uint32_t count, float scale, float softcap,
                   RunningSoftmax& state) {
  constexpr float kNothing = -std::numeric_limits<float>::infinity();
  float top = state.top;
  for (std::uint32_t r = 0; r < count; ++r) {
    float z = scores[r] * scale;
    if (softcap > 0.0F) z = softcap * std::tanh(z / softcap);
    scores[r] = z;
    top = std::max(top, z);
  }
  // All logits -infinity (or NaN): exp(z - 0) is 0 (or NaN), where z - top would always be NaN.
  const float origin = top == kNothing ? 0.0F : top;
  float sum = 0.0F;
  for (std::uint32_t r = 0; r < count; ++r) {
    scores[r] = std::exp(scores[r] - origin);
    sum += scores[r];
  }
  const float correction = state.top == kNothing ? 0.0F : std::exp(state.top - origin);
  state.top = top;
  state.sum = state.sum * correction + sum;
  return correction;
}

template <std::uint32_t kQueries>
void accumulate_queries(const float* __restrict probabilities, const float* __restrict rows,
                        std::uint32_t row_count, std::uint32_t stride, std::uint32_t width,
                        const float* corrections, float* const* out) {
  for (std::uint32_t c = 0; c < width; c += kLaneFloats) {
    float sums[kQueries][kLaneFloats] = {};
    for (std::uint32_t r = 0; r < row_count; ++r) {
      const float* row = rows + std::size_t{r} * stride + c;
      for (std::uint32_t q = 0; q < kQueries; ++q) {
        const float probability = probabilities[q * kTileRows + r];
        for (std::uint32_t lane = 0; lane < kLaneFloats; ++lane) {
          sums[q][lane] += probability * row[lane];
        }
      }
    }
    const std::uint32_t lanes = std::min(kLaneFloats, width - c);
    for (std::uint32_t q = 0; q < kQueries; ++q) {
      float* to = out[q] + c;
      for (std::uint32_t lane = 0; lane < lanes; ++lane) {
        to[lane] = to[lane] * corrections[q] + sums[q][lane];
      }
    }
  }
}

void accumulate_rows(const float* probabilities, std::uint32_t query_count, const float* rows,
                     std::uint32_t row_count, std::uint32_t stride, std::uint32_t width,
                     const float* corrections, float* const* out) {
  std::size_t q = 0;
  for (; q + 4 <= query_count; q += 4) {
    accumulate_queries<4>(probabilities + q * kTileRows, rows, row_count, stride, width,
                          corrections + q, out + q);
  }
  for (; q < query_count; ++q) {
    accumulate_queries<1>(probabilities + q * kTileRows, rows, row_count, stride, width,
                          corrections + q, out + q);
  }
}

constexpr BlockPrimitives kScalar{"scalar", convert_row, score_rows, softmax_rows, accumulate_rows};

}  // namespace

const BlockPrimitives& scalar_primitives() {
  return kScalar;
}

}  // namespace emblema
