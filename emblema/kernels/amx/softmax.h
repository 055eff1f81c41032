// Softmax of 16 queries over scores [row][query], 32 rows at a time, as the products leave them:
// queries are the lanes.
//
// Weights are 2^(z log2(e) - origin). The origin is the first logits' maximum, and moves on only
// when a logit is kSlack above it, by a whole number: so what was weighed before is multiplied by a
// power of two, and nothing is rounded twice. Weights reach 2^kSlack at most: far from the end of
// bf16's exponents.
//
// Included inside a region of the instruction set (isa_region.h), after what it needs.
#pragma once

#include "emblema/kernels/amx/lanes.h"
#include "emblema/kernels/amx/packing.h"
#include "emblema/kernels/amx/rows.h"

namespace emblema::amx_kernels {

inline constexpr float kSlack = 20.0F;
inline constexpr float kLog2E = 1.44269504088896340736F;
inline constexpr float kLn2 = 0.69314718055994530942F;

// 2^x, within 2e-7 of itself; 1 at 0, 0 far below and at -infinity, NaN for NaN. (The vector
// kernels' rounds to nearest instead: there x is split by words that AVX2 has too.)
inline __m512 power_of_two(__m512 x) {
  const __m512 part = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  // 1 + part q(part), q of degree 4 with the least relative error on [0, 1]: 8.3e-8.
  __m512 power = _mm512_set1_ps(0x1.e974fap-10F);
  power = _mm512_fmadd_ps(power, part, _mm512_set1_ps(0x1.277856p-7F));
  power = _mm512_fmadd_ps(power, part, _mm512_set1_ps(0x1.c91ce6p-5F));
  power = _mm512_fmadd_ps(power, part, _mm512_set1_ps(0x1.ebdb56p-3F));
  power = _mm512_fmadd_ps(power, part, _mm512_set1_ps(0x1.62e4bap-1F));
  power = _mm512_fmadd_ps(power, part, _mm512_set1_ps(1.0F));
  return _mm512_scalef_ps(power, x);  // takes the whole part of x itself
}

// Scores -> logits in units of log2.
struct Logits {
  __m512 factor;
  __m512 cap;
  __m512 value_scale;
  bool is_capped;

  Logits(const WeighTask& task, const Rows& rows)
      : factor(_mm512_set1_ps(task.softcap > 0.0F ? task.scale / task.softcap * rows.key_scale
                                                  : task.scale * rows.key_scale * kLog2E)),
        cap(_mm512_set1_ps(task.softcap * kLog2E)),
        value_scale(_mm512_set1_ps(rows.value_scale)),
        is_capped(task.softcap > 0.0F) {}

  template <bool kCapped>
  __m512 of(__m512 score) const {
    const __m512 z = _mm512_mul_ps(score, factor);
    if constexpr (!kCapped) return z;
    return _mm512_mul_ps(vector_kernels::tanh_of<TileLanes>(z), cap);
  }
};

class QueryLanes {
 public:
  // Queries [first, first + 16) of the task.
  void begin(const WeighTask& task, std::uint32_t first);
  void begin_piece() {
    seen_ = nothing();
    piece_sum_ = _mm512_setzero_ps();
  }
  // Rows t and 16 + t of the piece, for t from `first_pair` on, four pairs.
  void weigh_pairs(const Logits& logits, const float* scores, std::uint32_t piece,
                   std::uint32_t first_pair) {
    if (logits.is_capped) return weigh_pairs_as<true>(logits, scores, piece, first_pair);
    weigh_pairs_as<false>(logits, scores, piece, first_pair);
  }
  void end_piece(const Logits& logits, const float* scores, std::uint32_t piece);
  void end(const WeighTask& task, std::uint32_t first) const;

  // Rows that one of the queries sees lie within.
  std::uint32_t lowest_row() const { return lowest_; }
  std::uint32_t highest_row() const { return highest_; }

 private:
  static __m512 nothing() { return _mm512_set1_ps(-__builtin_inff()); }
  void set_top(__m512 top);
  // Not inlined: one copy stays in the instruction cache, whichever products it is woven into.
  template <bool kCapped>
  __attribute__((noinline)) void weigh_pairs_as(const Logits& logits, const float* scores,
                                                std::uint32_t piece, std::uint32_t first_pair);
  __m512 masked_logit(__m512 logit, std::uint32_t row) const;
  void move_origin(std::uint32_t piece);

  __m512 top_;     // as the driver keeps it: natural logarithms
  __m512 origin_;  // what is subtracted: top in units of log2, or 0 before the first row
  __m512 limit_;
  __m512 seen_;  // the largest logit of the piece
  __m512 piece_sum_;
  __m512 sum_;  // of the pieces before
  __m512 correction_;
  __m512i first_rows_;
  __m512i end_rows_;
  std::byte* weights_;  // [piece][16 queries][16 pairs of rows], bf16
  std::uint32_t lowest_;
  std::uint32_t highest_;
  std::uint32_t whole_begin_;  // rows that all of the queries see
  std::uint32_t whole_end_;
};

inline void QueryLanes::set_top(__m512 top) {
  top_ = top;
  const __m512 log2_top = _mm512_mul_ps(top, _mm512_set1_ps(kLog2E));
  const __mmask16 is_empty = _mm512_cmp_ps_mask(top, nothing(), _CMP_EQ_OQ);
  origin_ = _mm512_mask_blend_ps(is_empty, log2_top, _mm512_setzero_ps());
  limit_ = _mm512_add_ps(log2_top, _mm512_set1_ps(kSlack));
}

inline void QueryLanes::begin(const WeighTask& task, std::uint32_t first) {
  set_top(_mm512_loadu_ps(task.top + first));
  sum_ = _mm512_setzero_ps();
  correction_ = _mm512_set1_ps(1.0F);
  weights_ = task.weights + first / kTileRows * (kPieces * kTileBytes);
  alignas(64) std::uint32_t firsts[kTileRows] = {};
  alignas(64) std::uint32_t ends[kTileRows] = {};
  lowest_ = kBlockRows;
  highest_ = whole_begin_ = 0;
  whole_end_ = kBlockRows;
  for (std::uint32_t q = 0; q < kTileRows && first + q < task.query_count; ++q) {
    const bool all = task.first_row == nullptr;
    firsts[q] = all ? 0 : task.first_row[first + q];
    ends[q] = all ? task.row_count : task.end_row[first + q];
    whole_begin_ = std::max(whole_begin_, firsts[q]);
    whole_end_ = std::min(whole_end_, ends[q]);
    if (firsts[q] == ends[q]) continue;
    lowest_ = std::min(lowest_, firsts[q]);
    highest_ = std::max(highest_, ends[q]);
  }
  first_rows_ = _mm512_load_si512(firsts);
  end_rows_ = _mm512_load_si512(ends);
}

// Rows that a query does not see give -infinity, whatever they held.
inline __m512 QueryLanes::masked_logit(__m512 logit, std::uint32_t row) const {
  const __m512i rows = _mm512_set1_epi32(static_cast<int>(row));
  const __mmask16 sees =
      _mm512_mask_cmplt_epi32_mask(_mm512_cmple_epi32_mask(first_rows_, rows), rows, end_rows_);
  return _mm512_mask_blend_ps(sees, nothing(), logit);
}

template <bool kCapped>
void QueryLanes::weigh_pairs_as(const Logits& logits, const float* scores, std::uint32_t piece,
                                std::uint32_t first_pair) {
  const bool is_masked = piece * kStep < whole_begin_ || (piece + 1) * kStep > whole_end_;
  __m512 seen = seen_;
  __m512 sum = piece_sum_;
  __m512i pairs[4];
#pragma GCC unroll 4
  for (std::uint32_t i = 0; i < 4; ++i) {
    __m512 weights[2];
#pragma GCC unroll 2
    for (std::uint32_t half = 0; half < 2; ++half) {
      const std::uint32_t row = half * kTileRows + first_pair + i;
      __m512 z = logits.of<kCapped>(_mm512_load_ps(scores + std::size_t{row} * kTileRows));
      if (is_masked) z = masked_logit(z, piece * kStep + row);
      seen = _mm512_max_ps(z, seen);  // in this order a NaN is passed over
      weights[half] = power_of_two(_mm512_sub_ps(z, origin_));
      sum = _mm512_add_ps(sum, weights[half]);
      weights[half] = _mm512_mul_ps(weights[half], logits.value_scale);
    }
    pairs[i] = pairs_from_halves(bf16_halves(weights[0], weights[1]));
  }
  seen_ = seen;
  piece_sum_ = sum;
  store_columns(pairs, weights_ + piece * kTileBytes + first_pair * sizeof(std::uint32_t));
}

// The sum is that of the weights in fp32, before they are rounded to bf16: lse is exact to fp32,
// and the rounding, being to nearest, leaves out without a bias.
inline void QueryLanes::end_piece(const Logits& logits, const float* scores, std::uint32_t piece) {
  if (_mm512_cmp_ps_mask(seen_, limit_, _CMP_GT_OQ) != 0) {
    move_origin(piece);
    piece_sum_ = _mm512_setzero_ps();
    for (std::uint32_t pair = 0; pair < kTileRows; pair += 4) {
      weigh_pairs(logits, scores, piece, pair);
    }
  }
  sum_ = _mm512_add_ps(sum_, piece_sum_);
}

// Of the queries that went beyond their limit; the others' numbers are multiplied by 1.
inline void QueryLanes::move_origin(std::uint32_t piece) {
  const __mmask16 moves = _mm512_cmp_ps_mask(seen_, limit_, _CMP_GT_OQ);
  const __mmask16 is_empty = _mm512_cmp_ps_mask(top_, nothing(), _CMP_EQ_OQ);
  const __m512 distance = _mm512_roundscale_ps(_mm512_sub_ps(seen_, origin_),
                                               _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
  const __m512 moved = _mm512_mask_blend_ps(is_empty, _mm512_add_ps(origin_, distance), seen_);
  set_top(_mm512_mask_mul_ps(top_, moves, moved, _mm512_set1_ps(kLn2)));
  const __m512 one = _mm512_set1_ps(1.0F);
  __m512 factor =
      _mm512_mask_scalef_ps(one, moves, one, _mm512_sub_ps(_mm512_setzero_ps(), distance));
  factor = _mm512_mask_blend_ps(moves & is_empty, factor, _mm512_setzero_ps());
  correction_ = _mm512_mul_ps(correction_, factor);
  sum_ = _mm512_mul_ps(sum_, factor);
  alignas(64) float factors[kTileRows];
  _mm512_store_ps(factors, factor);
  const __m512i high_half = _mm512_set1_epi32(static_cast<int>(0xffff0000U));
  for (std::uint32_t p = 0; p < piece; ++p) {
    for (std::uint32_t q = 0; q < kTileRows; ++q) {
      if (factors[q] == 1.0F) continue;
      std::byte* at = weights_ + p * kTileBytes + q * kTileStride;
      const __m512i pairs = _mm512_load_si512(at);
      const __m512 by = _mm512_set1_ps(factors[q]);
      const __m512 low = _mm512_mul_ps(_mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16)), by);
      const __m512 high =
          _mm512_mul_ps(_mm512_castsi512_ps(_mm512_and_si512(pairs, high_half)), by);
      _mm512_store_si512(at, pairs_from_halves(bf16_halves(low, high)));
    }
  }
}

inline void QueryLanes::end(const WeighTask& task, std::uint32_t first) const {
  alignas(64) float sums[kTileRows];
  alignas(64) float corrections[kTileRows];
  _mm512_storeu_ps(task.top + first, top_);
  _mm512_store_ps(corrections, correction_);
  _mm512_storeu_ps(task.corrections + first, correction_);
  _mm512_store_ps(sums, sum_);
  for (std::uint32_t q = 0; q < kTileRows; ++q) {
    double& sum = task.sum[first + q];
    sum = sum * static_cast<double>(corrections[q]) + static_cast<double>(sums[q]);
  }
}

}  // namespace emblema::amx_kernels
