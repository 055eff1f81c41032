#include "emblema/model/uncounted_features.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace emblema {
namespace {

struct Feature {
  std::string_view field;
  std::string_view meaning;
};

// Any value but null, false, 0, "" and the empty list or object announces the feature.
constexpr auto kFeatures = std::to_array<Feature>({
    {"sparse_config", "compressed keys beside the cache"},
    {"attention_types", "local attention by attention_types"},
    {"attention_layers", "local attention by attention_layers"},
    {"index_topk_freq", "index keys on some layers only"},
    {"index_topk_pattern", "index keys on some layers only"},
    {"tie_kv_across_layers", "layers that share another layer's keys and values"},
    {"num_kv_reused_layers", "layers that share another layer's keys and values"},
    {"kv_reuse_every_i_layer", "layers that share another layer's keys and values"},
    {"ssm_cfg", "state-space layers"},
    {"mixer_types", "layers of several mixers"},
    {"hyena_layer_idxs", "convolution layers"},
    {"attn_mode", "linear-attention state"},
    {"decoder_retention_heads", "retention state"},
});

// Fields of recurrent layers. Where layer_makeup.cc found such layers, they have been read; where
// it found none, leaving them out would be a guess.
constexpr auto kRecurrentFields = std::to_array<Feature>({
    {"linear_attn_config", "linear-attention state"},
    {"linear_num_value_heads", "linear-attention state"},
    {"linear_key_head_dim", "linear-attention state"},
    {"lru_width", "recurrent layers"},
    {"mamba_d_state", "state-space layers"},
    {"mamba_d_conv", "state-space layers"},
    {"mamba_n_heads", "state-space layers"},
    {"mamba_num_heads", "state-space layers"},
    {"ssm_state_size", "state-space layers"},
    {"state_size", "state-space layers"},
    {"conv_L_cache", "convolution state"},
    {"conv_window", "convolution state"},
});

// model_types whose state this release has no formula for.
constexpr auto kModelTypes = std::to_array<Feature>({
    {"plamo2", "state-space layers"},
    {"rwkv", "recurrent layers"},
    {"rwkv5", "recurrent layers"},
    {"rwkv6", "recurrent layers"},
    {"rwkv7", "recurrent layers"},
    {"xlstm", "recurrent layers"},
});

bool announces(const JsonValue& value) {
  switch (value.kind) {
    case JsonValue::Kind::kNull:
      return false;
    case JsonValue::Kind::kBoolean:
      return value.boolean;
    case JsonValue::Kind::kUnsigned:
      return value.whole != 0;
    case JsonValue::Kind::kString:
      return !value.text.empty();
    case JsonValue::Kind::kArray:
    case JsonValue::Kind::kObject:
      return !value.items.empty();
    default:
      return true;
  }
}

void refuse(const ConfigFields& fields, const Feature& feature, const JsonValue& value) {
  fields.problems().unsupported(fmt::format("{} is {}: {}, which this release does not count",
                                            fields.path_of(feature.field), value.describe(),
                                            feature.meaning));
}

}  // namespace

void refuse_uncounted_features(const ConfigFields& text) {
  for (const Feature& feature : kFeatures) {
    const JsonValue* value = text.value().find(feature.field);
    if (value != nullptr && announces(*value)) return refuse(text, feature, *value);
  }
  const JsonValue* type = text.value().find("model_type");
  // The format of the mamba_ssm package itself: no model_type, sizes by its own defaults.
  const JsonValue* ssm = text.value().find("ssm_cfg");
  if (type == nullptr && ssm != nullptr) {
    return refuse(text, {"ssm_cfg", "state-space layers of the mamba_ssm package"}, *ssm);
  }
  if (type == nullptr || !type->is_string()) return;
  for (const Feature& feature : kModelTypes) {
    if (type->text == feature.field) refuse(text, {"model_type", feature.meaning}, *type);
  }
}

void refuse_unread_state(const ConfigFields& text, const ModelFamily& family,
                         const ModelConfig& config) {
  if (family.mixer != RecurrentMixer::kNone) return;
  for (const LayerFacts& layer : config.layers) {
    if (layer.recurrent.mixer != RecurrentMixer::kNone) return;
  }
  for (const Feature& feature : kRecurrentFields) {
    const JsonValue* value = text.value().find(feature.field);
    if (value == nullptr || !announces(*value)) continue;
    text.problems().unsupported(
        fmt::format("{} is {}: {}, but which layers keep it is not known for this model_type; this "
                    "release reads layer_types, layers_block_type, hybrid_override_pattern and "
                    "attn_layer_indices",
                    text.path_of(feature.field), value->describe(), feature.meaning));
    return;
  }
}

}  // namespace emblema
