#include "emblema/kernels/driver/result.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "emblema/contract/bytes.h"

namespace emblema::driver {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();
constexpr std::uint64_t kAlignment = 64;

std::uint64_t out_bytes(std::uint64_t rows, std::uint32_t value_dim) {
  return round_up(rows * value_dim * sizeof(float), kAlignment);
}

void clear_rows(const Call& call, std::uint64_t first, std::uint64_t count) {
  const std::uint64_t width = call.attended.value_dim;
  std::fill_n(call.out + first * width, count * width, 0.0F);
  std::fill_n(call.lse + first, count, kNothing);
}

// e^(top - highest); 0 for a part that saw nothing.
double weight_of(const RowSums& sums, float highest) {
  if (sums.top == kNothing) return 0.0;
  return std::exp(static_cast<double>(sums.top) - static_cast<double>(highest));
}

// The merged sums of one row, in the first part's place.
RowSums merge_row(std::byte* partials, std::uint64_t stride, std::uint32_t parts, const Unit& unit,
                  std::uint32_t value_dim, std::uint64_t row) {
  float top = kNothing;
  for (std::uint32_t part = 0; part < parts; ++part) {
    const float one = Partial(partials + part * stride, unit.rows(), value_dim).row(row).top;
    if (one > top) top = one;
  }
  const Partial first(partials, unit.rows(), value_dim);
  float* out = first.out(row);
  double sum = 0.0;
  for (std::uint32_t part = 0; part < parts; ++part) {
    const RowSums more = Partial(partials + part * stride, unit.rows(), value_dim).row(row);
    const double weight = weight_of(more, top);
    const auto factor = static_cast<float>(weight);
    sum += more.sum * weight;
    if (part == 0) {
      for (std::uint32_t c = 0; c < value_dim; ++c) out[c] *= factor;
    } else if (more.top != kNothing) {
      for (std::uint32_t c = 0; c < value_dim; ++c) out[c] += more.out[c] * factor;
    }
  }
  return {out, top, sum};
}

}  // namespace

void write_result(const Call& call, std::uint64_t result_row, const RowSums& sums) {
  const std::uint32_t width = call.attended.value_dim;
  if (sums.sum == 0.0) return clear_rows(call, result_row, 1);
  const double lse = static_cast<double>(sums.top) + std::log(sums.sum);
  double share = 1.0 / sums.sum;
  if (!call.inputs.sinks.empty()) {
    const double sink = call.inputs.sinks[result_row % call.inputs.shape.query_heads];
    share /= 1.0 + std::exp(sink - lse);
  }
  const auto factor = static_cast<float>(share);
  float* out = call.out + result_row * width;
  for (std::uint32_t c = 0; c < width; ++c) out[c] = sums.out[c] * factor;
  call.lse[result_row] = static_cast<float>(lse);
}

std::uint64_t Partial::bytes(std::uint64_t rows, std::uint32_t value_dim) {
  return out_bytes(rows, value_dim) + round_up(rows * (sizeof(double) + sizeof(float)), kAlignment);
}

Partial::Partial(std::byte* memory, std::uint64_t rows, std::uint32_t value_dim)
    : value_dim_(value_dim),
      out_(reinterpret_cast<float*>(memory)),
      tops_(reinterpret_cast<float*>(memory + out_bytes(rows, value_dim) + rows * sizeof(double))),
      sums_(reinterpret_cast<double*>(memory + out_bytes(rows, value_dim))) {}

void merge_unit(const Call& call, const Unit& unit, std::byte* partials, std::uint64_t stride,
                std::uint32_t parts) {
  std::uint64_t row = 0;
  for (std::uint32_t head = 0; head < unit.kv_head_count; ++head) {
    for (std::uint64_t i = 0; i < unit.count; ++i, ++row) {
      write_result(call, call.result_row(*unit.sequence, unit.first_kv_head + head, unit.first + i),
                   merge_row(partials, stride, parts, unit, call.attended.value_dim, row));
    }
  }
}

void clear_unnamed_rows(const Call& call) {
  const std::uint64_t heads = call.inputs.shape.query_heads;
  std::uint64_t next = 0;
  for (const SequenceInputs& sequence : call.inputs.sequences) {
    clear_rows(call, next * heads, (sequence.first_query - next) * heads);
    next = sequence.first_query + sequence.queries;
  }
  clear_rows(call, next * heads, (call.inputs.tokens - next) * heads);
}

void clear_unit(const Call& call, const Unit& unit) {
  for (std::uint32_t head = 0; head < unit.kv_head_count; ++head) {
    for (std::uint64_t i = 0; i < unit.count; ++i) {
      clear_rows(call, call.result_row(*unit.sequence, unit.first_kv_head + head, unit.first + i),
                 1);
    }
  }
}

}  // namespace emblema::driver
