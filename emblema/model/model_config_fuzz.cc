// Any bytes at all: a Result, never a crash, a hang or an exception; what is accepted holds
// together.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "emblema/contract/check.h"
#include "emblema/model/model_config.h"

namespace emblema {
namespace {

void check_layer(const ModelConfig& config, const LayerFacts& layer) {
  EMBLEMA_CHECK((layer.reach != LayerReach::kFull) == (layer.window_tokens > 0),
                "a window has a length, a full layer none");
  if (layer.recurrent.mixer != RecurrentMixer::kNone) {
    EMBLEMA_CHECK(layer.recurrent.conv_channels > 0 || layer.recurrent.state_heads > 0 ||
                      layer.recurrent.mixer == RecurrentMixer::kShortConv,
                  "a mixer keeps something");
  }
  if (layer.cache == LayerCache::kNone) {
    EMBLEMA_CHECK(layer.num_attention_heads == 0 && !layer.has_rope, "no attention, no heads");
    return;
  }
  if (layer.cache == LayerCache::kShared) {
    EMBLEMA_CHECK(config.layers[layer.shares_with].cache == LayerCache::kOwn, "a donor has rows");
  }
  EMBLEMA_CHECK(layer.num_attention_heads >= 1, "every layer has query heads");
  EMBLEMA_CHECK(layer.num_attention_heads <= config.num_attention_heads,
                "the widest is the model's");
  if (config.family == AttentionFamily::kGrouped) {
    EMBLEMA_CHECK(layer.num_key_value_heads >= 1, "keys need a head");
    EMBLEMA_CHECK(layer.num_attention_heads % layer.num_key_value_heads == 0, "whole groups");
    EMBLEMA_CHECK(layer.head_dim >= 1 && layer.v_head_dim >= 1, "keys and values have a width");
  }
  if (!layer.has_rope) return;
  EMBLEMA_CHECK(layer.rope.rotary_dim >= 2 && layer.rope.rotary_dim % 2 == 0, "pairs rotate");
  EMBLEMA_CHECK(layer.rope.theta > 0 && layer.rope.factor > 0, "rotary numbers are positive");
}

void check_config(const ModelConfig& config) {
  EMBLEMA_CHECK(config.num_hidden_layers >= 1, "a model has layers");
  EMBLEMA_CHECK(config.layers.size() == config.num_hidden_layers, "one entry per layer");
  if (config.family == AttentionFamily::kLatent) {
    EMBLEMA_CHECK(config.kv_lora_rank >= 1 && config.qk_rope_head_dim >= 1, "a latent has widths");
    EMBLEMA_CHECK(config.qk_nope_head_dim >= 1 && config.v_head_dim >= 1, "and so have its heads");
  }
  for (const LayerFacts& layer : config.layers) check_layer(config, layer);
}

}  // namespace
}  // namespace emblema

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = emblema::parse_model_config(text, "fuzz");
  if (config) {
    emblema::check_config(*config);
  } else {
    EMBLEMA_CHECK(config.error().message.find('\n') == std::string::npos, "one line");
  }
  return 0;
}
