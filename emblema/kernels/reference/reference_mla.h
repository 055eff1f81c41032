// Multi-head latent attention in double precision, both ways (DeepSeek-V2, arXiv 2405.04434,
// section 2.1; DeepSeek-V3, arXiv 2412.19437, section 2.1.1): the proof that reading latents
// directly gives what expanded keys and values give.
//
//   c = RMSNorm(W_DKV h)   k_r = RoPE_t(W_KR h)        cached row = [c ; k_r]
//   c_q = RMSNorm(W_DQ h)  (h itself without a query rank)
//   q_i = W_UQ,i c_q = [q_n,i ; q_r,i], q_r,i rotated at t
//   expanded: k_i = [W_UK,i c ; k_r], v_i = W_UV,i c, u_i = sum of p v_i
//   absorbed: q~_i = W_UK,i^T q_n,i, logit = scale (q~_i . c + q_r,i . k_r), u_i = W_UV,i sum of p
//   c o = W_O [u_i]
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "emblema/kernels/attention.h"
#include "emblema/kernels/reference/reference_attention.h"
#include "emblema/layout/rope_table.h"

namespace emblema {

// Row-major matrices, [outputs][inputs].
struct MlaWeights {
  std::uint32_t hidden_size = 0;
  std::uint32_t heads = 0;
  std::uint32_t query_rank = 0;  // 0: queries straight from the hidden state (DeepSeek-V2-Lite)
  std::uint32_t latent_rank = 0;
  std::uint32_t nope_dim = 0;
  std::uint32_t rope_dim = 0;
  std::uint32_t value_dim = 0;
  double norm_epsilon = 1e-6;
  double scale = 1.0;

  std::vector<double> query_down;   // W_DQ [query_rank][hidden]
  std::vector<double> query_norm;   // [query_rank]
  std::vector<double> query_up;     // W_UQ [heads][nope + rope][query_rank or hidden]
  std::vector<double> latent_down;  // W_DKV [latent_rank][hidden]
  std::vector<double> latent_norm;  // [latent_rank]
  std::vector<double> rope_key;     // W_KR [rope_dim][hidden]
  std::vector<double> key_up;       // W_UK [heads][nope_dim][latent_rank]
  std::vector<double> value_up;     // W_UV [heads][value_dim][latent_rank]
  std::vector<double> output;       // W_O [hidden][heads][value_dim]
};

// The cached row of one token: [latent_rank + rope_dim].
std::vector<double> mla_row(const MlaWeights& weights, const RopeTable& rope,
                            std::span<const double> hidden, std::int64_t position);

// The queries of one token, rotary part rotated: [heads][nope_dim + rope_dim].
std::vector<double> mla_query(const MlaWeights& weights, const RopeTable& rope,
                              std::span<const double> hidden, std::int64_t position);

// Output of one token at `position` over cached rows [places.size()][latent_rank + rope_dim]:
// [hidden_size].
std::vector<double> mla_expanded(const MlaWeights& weights, const RopeTable& rope,
                                 std::span<const double> hidden, std::int64_t position,
                                 std::span<const double> rows,
                                 std::span<const ReferenceRows::Place> places);
std::vector<double> mla_absorbed(const MlaWeights& weights, const RopeTable& rope,
                                 std::span<const double> hidden, std::int64_t position,
                                 std::span<const double> rows,
                                 std::span<const ReferenceRows::Place> places);

// The output side absorbed too: W_O,i W_UV,i computed once, [heads][hidden][latent_rank].
std::vector<double> mla_output_product(const MlaWeights& weights);
std::vector<double> mla_absorbed_both(const MlaWeights& weights, const RopeTable& rope,
                                      std::span<const double> output_product,
                                      std::span<const double> hidden, std::int64_t position,
                                      std::span<const double> rows,
                                      std::span<const ReferenceRows::Place> places);

// prefill_attention in the expanded form, in double: the same inputs, checks, shapes and errors.
[[nodiscard]] Status reference_prefill(const AttentionInputs& inputs,
                                       const LatentExpansion& expansion, std::span<double> out,
                                       std::span<double> lse);

}  // namespace emblema
