// Root-mean-square normalisation (Zhang and Sennrich 2019, equation 4): y = x / rms(x) * gain with
// rms(x) = sqrt(mean(x^2) + eps). The mean is taken in double. Any thread may call.
#pragma once

#include <cstdint>
#include <span>

namespace emblema {

// Rows of `width` numbers, `stride` floats apart, in place. `gain` [width]; empty means ones.
// REQUIRES: width >= 1, stride >= width, data covers the rows.
void rms_norm_rows(float* data, std::uint64_t rows, std::uint64_t width, std::uint64_t stride,
                   std::span<const float> gain, double eps);

// The same from `in` into `out`, both [rows][width], packed; they may be the same memory.
// REQUIRES: in and out of equal size, a multiple of width.
void rms_norm(std::span<const float> in, std::uint64_t width, std::span<const float> gain,
              double eps, std::span<float> out);

}  // namespace emblema
