#include "emblema/model/layer_sharing.h"

#include <fmt/format.h>

#include "emblema/model/layer_makeup.h"

namespace emblema {
namespace {

constexpr std::uint64_t kGemma3nSharedLayers = 15;  // Gemma3nTextConfig
constexpr std::uint64_t kClaFactor = 2;             // HunYuanConfig

void share(std::size_t donor, LayerFacts* layer) {
  layer->cache = LayerCache::kShared;
  layer->shares_with = static_cast<std::uint32_t>(donor);
  layer->has_indexer = false;
}

// Of one layer type. Widths and the rotary base tell sliding layers from full ones also where the
// window is never filled, so that all of them see everything.
bool is_alike(const LayerFacts& a, const LayerFacts& b) {
  return a.reach == b.reach && a.window_tokens == b.window_tokens &&
         a.num_key_value_heads == b.num_key_value_heads && a.head_dim == b.head_dim &&
         a.v_head_dim == b.v_head_dim && a.has_rope == b.has_rope && a.rope.theta == b.rope.theta;
}

// transformers' Gemma3nTextAttention: the donor is the last layer of the same type among those that
// have a cache of their own.
void share_last_layers(const ConfigFields& text, std::uint64_t shared, ModelConfig* config) {
  const std::size_t layers = config->layers.size();
  const std::size_t own = layers - shared;
  for (std::size_t layer = own; layer < layers; ++layer) {
    LayerFacts& facts = config->layers[layer];
    if (facts.cache == LayerCache::kNone) continue;
    std::size_t donor = own;
    for (std::size_t i = own; i-- > 0 && donor == own;) {
      const LayerFacts& other = config->layers[i];
      if (other.cache == LayerCache::kOwn && is_alike(other, facts)) donor = i;
    }
    if (donor == own) {
      text.problems().invalid(
          fmt::format("{} is {}, but none of the first {} layers attends like layer {}; allowed: "
                      "fewer",
                      text.path_of("num_kv_shared_layers"), shared, own, layer));
      return;
    }
    share(donor, &facts);
  }
}

// Cross-layer attention: `factor` layers in a row use the keys and values of the first.
void share_groups(const ConfigFields& text, std::uint64_t factor, ModelConfig* config) {
  for (std::size_t layer = 0; layer < config->layers.size(); ++layer) {
    const std::size_t donor = layer - layer % factor;
    if (donor == layer || config->layers[layer].cache == LayerCache::kNone) continue;
    if (config->layers[donor].cache != LayerCache::kOwn) {
      text.problems().invalid(
          fmt::format("layer {} shares the keys of layer {}, which has none", layer, donor));
      return;
    }
    share(donor, &config->layers[layer]);
  }
}

void read_cla(const ConfigFields& text, ModelConfig* config) {
  const auto use = text.flag("use_cla");
  const auto factor = text.count({"cla_share_factor"}, {1, ConfigLimits::kLayersMax});
  if (text.problems().failed() || !use.value_or(factor.value_or(1) > 1)) return;
  if (!factor) {
    text.problems().note(
        fmt::format("cla_share_factor is not given: {} is assumed, as in "
                    "HunYuanConfig",
                    kClaFactor));
  }
  share_groups(text, factor.value_or(kClaFactor), config);
}

void read_cross_layers(const ConfigFields& text, ModelConfig* config) {
  const std::vector<bool> cross =
      read_layer_set(text, "cross_attention_layers", 0, config->layers.size());
  bool any = false;
  for (std::size_t layer = 0; layer < cross.size(); ++layer) {
    LayerFacts& facts = config->layers[layer];
    if (!cross[layer] || facts.cache == LayerCache::kNone) continue;
    any = true;
    facts.cache = LayerCache::kCross;
    facts.reach = LayerReach::kFull;
    facts.window_tokens = 0;
    facts.has_rope = false;
  }
  if (!any) return;
  text.problems().note(
      "cross-attention layers hold one row per image token, not per text token: counted only where "
      "--encoder-tokens is given");
}

}  // namespace

void share_layers(const ConfigFields& text, const ModelFamily& family, ModelConfig* config) {
  const std::uint64_t layers = config->layers.size();
  auto shared = text.count({"num_kv_shared_layers"}, {0, layers - 1});
  if (!shared && family.model_type.starts_with("gemma3n") && layers > kGemma3nSharedLayers) {
    text.problems().note(
        fmt::format("num_kv_shared_layers is not given: {} is assumed, as in "
                    "Gemma3nTextConfig",
                    kGemma3nSharedLayers));
    shared = kGemma3nSharedLayers;
  }
  if (text.problems().failed()) return;
  if (shared.value_or(0) > 0) share_last_layers(text, *shared, config);
  read_cla(text, config);
  if (!text.problems().failed()) read_cross_layers(text, config);
}

void add_cross_attention(const ConfigFields& text, const ModelFamily& family, ModelConfig* config) {
  for (LayerFacts& layer : config->layers) {
    layer.has_cross_attention = layer.cache == LayerCache::kOwn;
  }
  // Whisper pads every input to the same length; elsewhere the input decides.
  const auto positions = text.count({"max_source_positions"}, {1, ConfigLimits::kTokensMax});
  if (family.model_type == "whisper") config->encoder_positions = positions.value_or(1500);
  if (text.problems().failed()) return;
  if (config->encoder_positions > 0) {
    text.problems().note(fmt::format(
        "cross-attention holds {} encoder positions per sequence, counted at their full length",
        config->encoder_positions));
    return;
  }
  text.problems().note(
      "cross-attention holds one row per encoder token, not per decoder token: counted only where "
      "--encoder-tokens is given");
}

}  // namespace emblema
