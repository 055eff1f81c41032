// For tests: a prefill call in the expanded form, and the same one with its queries absorbed.
//
// Weights are drawn N(0, 1) / sqrt(inputs), so that expanded keys, values and logits are N(0, 1).
#pragma once

#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "emblema/kernels/attention_truth_testing.h"
#include "emblema/kernels/reference/reference_mla.h"

namespace emblema::testing_support {

// What AttentionCase draws for a latent layer, asked with expanded queries.
class PrefillCase {
 public:
  PrefillCase(AttentionCase rows, std::uint32_t content_dim, std::uint32_t value_dim,
              std::uint64_t seed = 1)
      : call(std::move(rows)), random_(seed) {
    const AttentionShape& shape = call.inputs.shape;
    const std::size_t outputs = std::size_t{shape.query_heads} * shape.value_dim;
    const float scale = 1.0F / std::sqrt(static_cast<float>(shape.value_dim));
    expansion.content_dim = content_dim;
    expansion.value_dim = value_dim;
    key_up = drawn(outputs * content_dim, scale);
    value_up = drawn(outputs * value_dim, scale);
    expansion.key_up = key_up;
    expansion.value_up = value_up;
    const std::size_t rows_of_q = call.inputs.tokens * shape.query_heads;
    q = drawn(rows_of_q * query_width(), 1.0F);
    out.assign(rows_of_q * value_dim, -7.0F);
    lse.assign(rows_of_q, -7.0F);
    call.inputs.shape.scale = 1.0 / std::sqrt(static_cast<double>(query_width()));
    call.inputs.q = q.data();
  }

  std::uint32_t rope_dim() const { return call.inputs.shape.key_dim - call.inputs.shape.value_dim; }
  std::uint32_t query_width() const { return expansion.content_dim + rope_dim(); }

  [[nodiscard]] Status prefill() {
    return prefill_attention(call.inputs, out, lse, &expansion, call.options);
  }

  Truth truth() const {
    Truth want{std::vector<double>(out.size()), std::vector<double>(lse.size())};
    const Status got = reference_prefill(call.inputs, expansion, want.out, want.lse);
    EXPECT_TRUE(got) << got.error().describe();
    return want;
  }

  // The same question in the absorbed form: q~ = [W_UK^T q_n ; q_r], and W_UV applied to the
  // answer. Rounds to fp32 where a caller would.
  std::vector<double> absorbed_out() {
    const AttentionShape& shape = call.inputs.shape;
    const std::size_t rows_of_q = lse.size();
    std::vector<float> absorbed(rows_of_q * shape.key_dim);
    for (std::size_t i = 0; i < rows_of_q; ++i)
      absorb_query(i, absorbed.data() + i * shape.key_dim);
    std::vector<float> latents(rows_of_q * shape.value_dim);
    std::vector<float> latent_lse(rows_of_q);
    AttentionInputs inputs = call.inputs;
    inputs.q = absorbed.data();
    const Status got = prefill_attention(inputs, latents, latent_lse, nullptr, call.options);
    EXPECT_TRUE(got) << got.error().describe();
    std::vector<double> values;
    for (std::size_t i = 0; i < rows_of_q; ++i) {
      for (std::uint32_t c = 0; c < expansion.value_dim; ++c) {
        const float* up = up_row(value_up, expansion.value_dim, i, c);
        double sum = 0.0;
        for (std::uint32_t r = 0; r < shape.value_dim; ++r) {
          sum += double{up[r]} * double{latents[i * shape.value_dim + r]};
        }
        values.push_back(sum);
      }
    }
    return values;
  }

  AttentionCase call;  // its own q, out and lse play no part
  LatentExpansion expansion;
  std::vector<float> key_up;
  std::vector<float> value_up;
  std::vector<float> q;
  std::vector<float> out;
  std::vector<float> lse;

 private:
  std::vector<float> drawn(std::size_t count, float scale) {
    std::vector<float> values(count);
    for (float& value : values) value = normal_(random_) * scale;
    return values;
  }
  // Row `output` of the matrix of query row i's head.
  const float* up_row(const std::vector<float>& up, std::uint32_t outputs, std::size_t i,
                      std::uint32_t output) const {
    const AttentionShape& shape = call.inputs.shape;
    const std::size_t head = i % shape.query_heads;
    return up.data() + (head * outputs + output) * shape.value_dim;
  }
  void absorb_query(std::size_t i, float* to) const {
    const std::uint32_t rank = call.inputs.shape.value_dim;
    const float* query = q.data() + i * query_width();
    std::vector<double> sums(rank, 0.0);
    for (std::uint32_t n = 0; n < expansion.content_dim; ++n) {
      const float* up = up_row(key_up, expansion.content_dim, i, n);
      for (std::uint32_t r = 0; r < rank; ++r) sums[r] += double{query[n]} * double{up[r]};
    }
    for (std::uint32_t r = 0; r < rank; ++r) to[r] = static_cast<float>(sums[r]);
    for (std::uint32_t c = 0; c < rope_dim(); ++c) to[rank + c] = query[expansion.content_dim + c];
  }

  std::mt19937_64 random_;
  std::normal_distribution<float> normal_;
};

}  // namespace emblema::testing_support
