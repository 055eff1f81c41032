// Online softmax over scores [row][query]: queries are the lanes, so nothing is shuffled.
//
// Included inside a region of the instruction set (isa_region.h), after what it needs.
#pragma once

namespace emblema::vector_kernels {

// 2^x for x <= 0: within 1 unit in the last place; 0 below 2^-126, NaN for NaN.
template <class L>
inline typename L::Vector exp2_of(typename L::Vector x) {
  using Vector = typename L::Vector;
  const Vector lowest = L::set1(-126.0F);
  const Vector clamped = L::max(lowest, x);  // in this order a NaN stays
  const Vector whole = L::round(clamped);
  const Vector part = L::sub(clamped, whole);
  // The polynomial of degree 6 with the least relative error on [-1/2, 1/2]: 1.9e-9.
  Vector power = L::set1(0x1.41d332p-13F);
  power = L::fma(power, part, L::set1(0x1.5f456ap-10F));
  power = L::fma(power, part, L::set1(0x1.3b2dbcp-7F));
  power = L::fma(power, part, L::set1(0x1.c6aed4p-5F));
  power = L::fma(power, part, L::set1(0x1.ebfbdap-3F));
  power = L::fma(power, part, L::set1(0x1.62e430p-1F));
  power = L::fma(power, part, L::set1(1.0F));
  return L::select_less(x, lowest, L::set1(0.0F), L::times_power_of_two(power, whole));
}

// tanh, as in Cephes' tanhf (S. L. Moshier): a polynomial near 0, where 1 - 2 / (e^2x + 1) would
// cancel.
template <class L>
inline typename L::Vector tanh_of(typename L::Vector x) {
  using Vector = typename L::Vector;
  const Vector size = L::abs(x);
  const Vector square = L::mul(x, x);
  Vector near = L::set1(-5.70498872745E-3F);
  near = L::fma(near, square, L::set1(2.06390887954E-2F));
  near = L::fma(near, square, L::set1(-5.37397155531E-2F));
  near = L::fma(near, square, L::set1(1.33314422036E-1F));
  near = L::fma(near, square, L::set1(-3.33332819422E-1F));
  near = L::fma(L::mul(near, square), x, x);
  // 1 - 2 e^-2|x| / (1 + e^-2|x|): the exponent is never positive.
  const Vector tail = exp2_of<L>(L::mul(size, L::set1(-2.885390081777927F)));
  const Vector far = L::sub(L::set1(1.0F), L::div(L::add(tail, tail), L::add(L::set1(1.0F), tail)));
  const Vector zero = L::set1(0.0F);
  const Vector signed_far = L::select_less(x, zero, L::sub(zero, far), far);
  return L::select_less(size, L::set1(0.625F), near, signed_far);
}

// e^x for x <= 0, likewise.
template <class L>
inline typename L::Vector exp_of(typename L::Vector x) {
  return exp2_of<L>(L::mul(x, L::set1(1.44269504088896340736F)));
}

// Raw scores -> logits, in place; returns their maximum.
template <class L>
inline typename L::Vector scale_scores(float* scores, std::size_t stride, std::uint32_t row_count,
                                       float scale, float softcap) {
  using Vector = typename L::Vector;
  const bool is_capped = softcap > 0.0F;
  const Vector factor = L::set1(is_capped ? scale / softcap : scale);
  const Vector cap = L::set1(softcap);
  Vector top = L::set1(-__builtin_inff());
  for (std::uint32_t r = 0; r < row_count; ++r) {
    Vector z = L::mul(L::load(scores + r * stride), factor);
    if (is_capped) z = L::mul(tanh_of<L>(z), cap);
    L::store(scores + r * stride, z);
    top = L::max(z, top);  // a NaN leaves it
  }
  return top;
}

// One vector of queries: scores become probabilities e^(z - top), in place; tops, sums and
// corrections move on. `top_seen` is the maximum of the logits.
template <class L>
inline void weigh_logits(float* scores, std::size_t stride, std::uint32_t row_count,
                         typename L::Vector top_seen, float* top, double* sum, float* corrections) {
  using Vector = typename L::Vector;
  const Vector nothing = L::set1(-__builtin_inff());
  const Vector zero = L::set1(0.0F);
  const Vector before = L::load(top);
  const Vector now = L::max(top_seen, before);
  // Nothing but -infinity so far: e^(z - 0) is 0, where z - now would be NaN.
  const Vector origin = L::select_less(nothing, now, now, zero);
  Vector total = zero;
  for (std::uint32_t r = 0; r < row_count; ++r) {
    const Vector weight = exp_of<L>(L::sub(L::load(scores + r * stride), origin));
    L::store(scores + r * stride, weight);
    total = L::add(total, weight);
  }
  const Vector correction = exp_of<L>(L::sub(before, origin));
  L::store(top, now);
  L::store(corrections, correction);
  float totals[L::kLanes];
  L::store(totals, total);
  for (std::uint32_t lane = 0; lane < L::kLanes; ++lane) {
    sum[lane] =
        sum[lane] * static_cast<double>(corrections[lane]) + static_cast<double>(totals[lane]);
  }
}

}  // namespace emblema::vector_kernels
