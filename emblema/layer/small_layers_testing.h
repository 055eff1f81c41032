// What tests of this room share: two layers small enough for plain loops, and those loops in
// double. Part of no library.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "emblema/layer/attention_layer.h"
#include "emblema/layer/seeded_values.h"

namespace emblema::small_layers {

using Doubles = std::vector<double>;
inline constexpr double kTheta = 100.0;
inline constexpr double kNormEps = 1e-5;

struct Made {
  ModelConfig model;
  LayerGeometry layer;
  AttentionLayer make() const { return AttentionLayer::create(model, layer, {.seed = 11}).value(); }
};

inline Made latent(std::optional<std::uint32_t> query_rank = std::nullopt) {
  Made made;
  made.model.family = AttentionFamily::kLatent;
  made.model.hidden_size = 24;
  made.model.q_lora_rank = query_rank;
  made.model.kv_lora_rank = 16;
  made.model.qk_nope_head_dim = 6;
  made.model.qk_rope_head_dim = 4;
  made.model.v_head_dim = 5;
  made.model.rms_norm_eps = kNormEps;
  made.layer.kind = "mla";
  made.layer.query_heads = 3;
  made.layer.kv_heads = 1;
  made.layer.key_dim = 20;
  made.layer.value_dim = 16;
  made.layer.scale = 0.3;
  made.layer.rope.theta = kTheta;
  made.layer.rope.rotary_dim = 4;
  made.layer.rope.interleaved = true;
  return made;
}

// Half of each key rotates; keys and values differ in width.
inline Made grouped() {
  Made made;
  made.model.hidden_size = 24;
  made.layer.kind = "gqa";
  made.layer.query_heads = 6;
  made.layer.kv_heads = 2;
  made.layer.key_dim = 8;
  made.layer.value_dim = 5;
  made.layer.scale = 0.3;
  made.layer.rope.theta = kTheta;
  made.layer.rope.rotary_dim = 4;
  return made;
}

inline std::vector<float> values(std::size_t count, std::uint64_t key) {
  std::vector<float> made(count);
  fill_uniform(made, key, 1.7F);
  return made;
}

// W x for `out` rows from `first` of W [...][x.size()].
template <class Numbers>
Doubles apply(const std::vector<float>& weights, std::size_t first, std::size_t out,
              const Numbers& x) {
  Doubles y(out, 0.0);
  for (std::size_t i = 0; i < out; ++i) {
    for (std::size_t j = 0; j < x.size(); ++j) {
      y[i] += double{weights[(first + i) * x.size() + j]} * x[j];
    }
  }
  return y;
}

// R(by) on `dim` channels from `offset`, as Su et al. 2021 define it.
inline void turn(Doubles& x, std::size_t offset, std::size_t dim, bool interleaved, double by) {
  for (std::size_t i = 0; i < dim / 2; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(dim);
    const double angle = by * std::pow(kTheta, exponent);
    double& u = x[offset + (interleaved ? 2 * i : i)];
    double& v = x[offset + (interleaved ? 2 * i + 1 : i + dim / 2)];
    const double turned = u * std::cos(angle) - v * std::sin(angle);
    v = u * std::sin(angle) + v * std::cos(angle);
    u = turned;
  }
}

}  // namespace emblema::small_layers
