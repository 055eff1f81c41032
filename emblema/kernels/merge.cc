#include <cmath>
#include <limits>

#include "emblema/contract/check.h"
#include "emblema/kernels/attention.h"

namespace emblema {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

}  // namespace

void merge_attention(std::span<float> out, std::span<float> lse, std::span<const float> more_out,
                     std::span<const float> more_lse) {
  EMBLEMA_CHECK(lse.size() == more_lse.size(), "as many rows on both sides");
  EMBLEMA_CHECK(out.size() == more_out.size(), "rows of the same width on both sides");
  if (lse.empty()) return;
  EMBLEMA_CHECK(out.size() % lse.size() == 0, "out holds lse.size() rows");
  const std::size_t width = out.size() / lse.size();
  for (std::size_t row = 0; row < lse.size(); ++row) {
    float* mine = out.data() + row * width;
    const float* other = more_out.data() + row * width;
    if (more_lse[row] == kNothing) {
      if (lse[row] != kNothing) continue;
      for (std::size_t c = 0; c < width; ++c) mine[c] = 0.0F;
      continue;
    }
    if (lse[row] == kNothing) {
      for (std::size_t c = 0; c < width; ++c) mine[c] = other[c];
      lse[row] = more_lse[row];
      continue;
    }
    const double a = lse[row];
    const double b = more_lse[row];
    const double top = a > b ? a : b;
    const double sum = std::exp(a - top) + std::exp(b - top);
    const double keep = std::exp(a - top) / sum;
    const double take = std::exp(b - top) / sum;
    for (std::size_t c = 0; c < width; ++c) {
      mine[c] = static_cast<float>(keep * mine[c] + take * other[c]);
    }
    lse[row] = static_cast<float>(top + std::log(sum));
  }
}

void finish_attention(std::span<float> out, std::span<const float> lse,
                      std::span<const float> sinks) {
  if (sinks.empty() || lse.empty()) return;
  EMBLEMA_CHECK(lse.size() % sinks.size() == 0, "lse holds whole tokens of sinks.size() heads");
  EMBLEMA_CHECK(out.size() % lse.size() == 0, "out holds lse.size() rows");
  const std::size_t width = out.size() / lse.size();
  for (std::size_t row = 0; row < lse.size(); ++row) {
    if (lse[row] == kNothing) continue;  // out is 0; -inf - -inf has no value
    const double sink = sinks[row % sinks.size()];
    const auto share = static_cast<float>(1.0 / (1.0 + std::exp(sink - lse[row])));
    for (std::size_t c = 0; c < width; ++c) out[row * width + c] *= share;
  }
}

}  // namespace emblema
