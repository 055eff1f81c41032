#include "emblema/plan/crossover.h"

#include <algorithm>

#include <fmt/format.h>

#include "emblema/contract/bytes.h"
#include "emblema/plan/printed_number.h"

namespace emblema {
namespace {

constexpr std::uint32_t kDegreeMax = 1024;

std::uint64_t tokens_in(std::uint64_t pool_bytes, const Rational& bytes_per_token) {
  const auto tokens = divide(Rational(pool_bytes), bytes_per_token, "tokens of a pool");
  return tokens ? tokens->floor() : UINT64_MAX;  // a pool of less than 2^64 such fractions
}

Status check_grows(const ModelGeometry& model, const Rational& bytes_per_token) {
  if (bytes_per_token.numerator() > 0) return {};
  return fail(ErrorCode::Invalid,
              fmt::format("growing bytes per token of {} is 0; allowed: models whose cache grows "
                          "with the context",
                          model.model().name));
}

}  // namespace

Result<Rational> rank_bytes_per_token(const ModelGeometry& whole, std::uint32_t degree) {
  GeometryOptions options = whole.options();
  options.tensor_parallel = degree;
  const auto rank = ModelGeometry::from(whole.model(), options);
  if (!rank) return propagate(rank);
  return rank->growing_bytes_per_token();
}

Result<TensorCrossover> tensor_crossover(const ModelGeometry& grouped, const ModelGeometry& latent,
                                         std::uint64_t pool_bytes_per_rank) {
  const auto grouped_whole = rank_bytes_per_token(grouped, 1);
  if (!grouped_whole) return propagate(grouped_whole);
  const auto latent_whole = rank_bytes_per_token(latent, 1);
  if (!latent_whole) return propagate(latent_whole);
  if (const Status ok = check_grows(grouped, *grouped_whole); !ok) return propagate(ok);
  if (const Status ok = check_grows(latent, *latent_whole); !ok) return propagate(ok);
  const auto real_degree = divide(*grouped_whole, *latent_whole, "the crossover's degree");
  if (!real_degree) return propagate(real_degree);
  TensorCrossover crossover;
  crossover.real_degree = *real_degree;
  for (std::uint32_t degree = 1; degree <= kDegreeMax; ++degree) {
    const auto of_grouped = rank_bytes_per_token(grouped, degree);
    const auto of_latent = rank_bytes_per_token(latent, degree);
    if (!of_grouped || !of_latent) continue;  // not valid; degree 1 has shown that figures fit
    crossover.degrees.push_back({degree, *of_grouped, *of_latent,
                                 tokens_in(pool_bytes_per_rank, *of_grouped),
                                 tokens_in(pool_bytes_per_rank, *of_latent)});
    const bool holds_more = !at_most(*of_latent, *of_grouped);
    if (holds_more && !crossover.first_degree) crossover.first_degree = degree;
  }
  return crossover;
}

Result<KeyValueWeights> key_value_weights(const ModelConfig& model) {
  if (model.family != AttentionFamily::kGrouped) {
    return fail(
        ErrorCode::Unsupported,
        fmt::format("{} has latents; allowed: models with key and value heads", model.name));
  }
  if (model.hidden_size == 0) {
    return fail(ErrorCode::Invalid,
                fmt::format("hidden_size of {} is 0; allowed: at least 1", model.name));
  }
  constexpr std::string_view kWhat = "parameters of W_K and W_V";
  KeyValueWeights weights;
  for (const LayerFacts& layer : model.layers) {
    if (layer.cache != LayerCache::kOwn) continue;
    const std::uint64_t width = std::uint64_t{layer.head_dim} + layer.v_head_dim;
    const auto per_head = mul_bytes(model.hidden_size, width, kWhat);
    if (!per_head) return propagate(per_head);
    const auto ungrouped = mul_bytes(*per_head, layer.num_attention_heads, kWhat);
    if (!ungrouped) return propagate(ungrouped);
    const auto sum = add_bytes(weights.ungrouped, *ungrouped, kWhat);
    if (!sum) return propagate(sum);
    weights.ungrouped = *sum;
    weights.parameters += *per_head * layer.num_key_value_heads;  // at most as many heads
  }
  return weights;
}

}  // namespace emblema
