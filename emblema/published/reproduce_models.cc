#include "emblema/published/reproduce_models.h"

#include <algorithm>
#include <utility>

#include "emblema/plan/roofline.h"

namespace emblema {

ModelConfig as_grouped(const ModelConfig& latent, std::uint32_t kv_heads) {
  ModelConfig model;
  model.name = latent.name + " with KV heads";
  model.hidden_size = latent.hidden_size;
  model.num_hidden_layers = latent.num_hidden_layers;
  model.num_attention_heads = latent.num_attention_heads;
  model.max_positions = latent.max_positions;
  LayerFacts layer;
  layer.num_attention_heads = latent.num_attention_heads;
  layer.num_key_value_heads = kv_heads;
  layer.head_dim = latent.qk_nope_head_dim;
  layer.v_head_dim = latent.v_head_dim;
  layer.rope.rotary_dim = layer.head_dim;
  model.layers.assign(model.num_hidden_layers, layer);
  return model;
}

ModelConfig with_kv_heads(ModelConfig model, std::uint32_t kv_heads) {
  for (LayerFacts& layer : model.layers) layer.num_key_value_heads = kv_heads;
  return model;
}

ModelConfig rank_of(ModelConfig model, std::uint32_t degree) {
  model.num_attention_heads /= degree;
  for (LayerFacts& layer : model.layers) {
    layer.num_attention_heads /= degree;
    if (model.family != AttentionFamily::kGrouped) continue;
    layer.num_key_value_heads = std::max(1u, layer.num_key_value_heads / degree);
  }
  return model;
}

Result<Rational> token_bytes(const ModelConfig& model, const GeometryOptions& options) {
  const auto geometry = ModelGeometry::from(model, options);
  if (!geometry) return propagate(geometry);
  return geometry->growing_bytes_per_token();
}

Result<Rational> sequence_bytes(const ModelConfig& model, std::uint64_t tokens,
                                const GeometryOptions& options) {
  const auto geometry = ModelGeometry::from(model, options);
  if (!geometry) return propagate(geometry);
  const auto bytes = geometry->bytes_per_sequence(tokens);
  if (!bytes) return propagate(bytes);
  return Rational(*bytes);
}

Result<Rational> layer_bytes(const ModelConfig& model, const GeometryOptions& options) {
  return ratio(token_bytes(model, options), Rational(model.num_hidden_layers));
}

Result<Rational> decode_intensity(const ModelConfig& model) {
  const auto geometry = ModelGeometry::from(model);
  if (!geometry) return propagate(geometry);
  const auto step = attention_step(*geometry, 8192);  // any length: it cancels in full layers
  if (!step) return propagate(step);
  return intensity_of(*step);
}

Result<Rational> ratio(const Result<Rational>& a, const Result<Rational>& b) {
  if (!a) return a;
  if (!b) return b;
  return divide(*a, *b, "a ratio of two figures");
}

Result<Rational> saved_part(const Result<Rational>& small, const Result<Rational>& large) {
  const auto part = ratio(small, large);
  if (!part) return part;
  return Rational::of(part->denominator() - part->numerator(), part->denominator());
}

}  // namespace emblema
