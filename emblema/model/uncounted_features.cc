#include "emblema/model/uncounted_features.h"

#include <algorithm>
#include <array>
#include <cctype>
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
    {"kv_source_layers", "layers that share another layer's latents"},
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
    {"d_state", "state-space layers"},
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
    {"retnet", "retention state"},
    {"rwkv", "recurrent layers"},
    {"rwkv5", "recurrent layers"},
    {"rwkv6", "recurrent layers"},
    {"rwkv7", "recurrent layers"},
    {"xlstm", "recurrent layers"},
});

// model_types that read their whole input at once. Those that may also be decoders say is_decoder.
constexpr auto kCachelessTypes = std::to_array<std::string_view>({
    "albert",
    "audio-spectrogram-transformer",
    "beit",
    "bert",
    "camembert",
    "chinese_clip",
    "clip",
    "clip_text_model",
    "clip_vision_model",
    "convbert",
    "convnext",
    "deberta",
    "deberta-v2",
    "deit",
    "dinov2",
    "dinov3_vit",
    "distilbert",
    "electra",
    "esm",
    "funnel",
    "hubert",
    "layoutlm",
    "layoutlmv2",
    "layoutlmv3",
    "longformer",
    "mobilebert",
    "modernbert",
    "mpnet",
    "nomic_bert",
    "resnet",
    "roberta",
    "siglip",
    "siglip2",
    "siglip2_text_model",
    "siglip2_vision_model",
    "siglip_text_model",
    "siglip_vision_model",
    "squeezebert",
    "swin",
    "swinv2",
    "vit",
    "vit_mae",
    "wav2vec2",
    "wavlm",
    "xlm-roberta",
    "xlm-roberta-xl",
});

// Words of attention_type, in small letters alone, for attention to everything before a token by
// any number of heads. Some are names of kernels, which change no byte.
constexpr auto kPlainAttention = std::to_array<std::string_view>({
    "causal",
    "default",
    "dense",
    "eager",
    "flash",
    "flashattention",
    "flashattention2",
    "full",
    "fullattention",
    "global",
    "gqa",
    "groupedquery",
    "groupedqueryattention",
    "mha",
    "mqa",
    "multihead",
    "multiheadattention",
    "multiquery",
    "multiqueryattention",
    "originalfull",
    "sdpa",
    "selfattention",
    "softmax",
    "standard",
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

void refuse_cacheless_type(const ConfigFields& fields) {
  const JsonValue* type = fields.value().find("model_type");
  if (type == nullptr || !type->is_string()) return;
  const auto& types = kCachelessTypes;
  if (std::find(types.begin(), types.end(), type->text) == types.end()) return;
  if (const JsonValue* decodes = fields.value().find("is_decoder")) {
    if (decodes->boolean) return;
  }
  fields.problems().unsupported(
      fmt::format("{} '{}' keeps no KV cache: it reads its whole input at once; supported: models "
                  "that decode token by token",
                  fields.path_of("model_type"), type->text));
}

bool is_plain_attention(const JsonValue& value, AttentionFamily attention) {
  if (!value.is_string()) return false;
  std::string letters;
  for (const char c : value.text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0) letters += static_cast<char>(std::tolower(byte));
  }
  const auto& plain = kPlainAttention;
  if (std::find(plain.begin(), plain.end(), letters) != plain.end()) return true;
  const bool latent = letters == "mla" || letters == "latent" || letters == "multiheadlatent" ||
                      letters == "multiheadlatentattention";
  return latent && attention == AttentionFamily::kLatent;
}

// A decoder that stands beside its encoder as an object has sizes of its own (T5Gemma).
bool has_decoder_object(const ConfigFields& outer) {
  const JsonValue* decoder = outer.value().find("decoder");
  return decoder != nullptr && decoder->is_object();
}

void refuse_unknown(const ConfigFields& fields, std::string_view field, const JsonValue& value,
                    std::string_view what) {
  fields.problems().unsupported(fmt::format("{} is {}, but {} is not known for this model_type",
                                            fields.path_of(field), value.describe(), what));
}

// Dory runs layers in the middle several times over, each time with keys and values of their own
// (DoryConfig of transformers 5.24.0); "last_loop" keeps those of the last time alone.
void refuse_loops(const ConfigFields& text) {
  const auto loops = text.count({"n_recurrent_loops"}, {1, ConfigLimits::kLayersMax});
  if (loops.value_or(1) == 1 || text.text({"recurrent_kv_cache_mode"}) == "last_loop") return;
  text.problems().unsupported(fmt::format(
      "{} is {}: layers that keep keys and values for each of their runs, which this release does "
      "not count",
      text.path_of("n_recurrent_loops"), *loops));
}

}  // namespace

void refuse_unplain_attention(const ConfigFields& text, const ConfigFields& outer,
                              const ModelFamily& family, AttentionFamily attention,
                              bool attends_to_encoder) {
  if (!family.model_type.empty()) return;
  for (const std::string_view field : {"attention_window", "local_attention_window"}) {
    const JsonValue* value = text.value().find(field);
    if (value == nullptr || !announces(*value)) continue;
    return refuse_unknown(text, field, *value, "which layers slide");
  }
  const JsonValue* type = text.value().find("attention_type");
  if (type != nullptr && announces(*type) && !is_plain_attention(*type, attention)) {
    return refuse_unknown(text, "attention_type", *type, "what it keeps");
  }
  const JsonValue* crosses = text.value().find("add_cross_attention");
  if (crosses != nullptr && announces(*crosses) && !attends_to_encoder) {
    return refuse_unknown(text, "add_cross_attention", *crosses,
                          "which layers hold rows of an encoder");
  }
  if (!attends_to_encoder || has_decoder_object(outer)) return;
  const ConfigFields& said = text.has("is_encoder_decoder") ? text : outer;
  if (const JsonValue* encodes = said.value().find("is_encoder_decoder")) {
    refuse_unknown(said, "is_encoder_decoder", *encodes, "which sizes are the decoder's");
  }
}

void refuse_uncounted_features(const ConfigFields& text, const ConfigFields& outer) {
  refuse_cacheless_type(text);
  refuse_cacheless_type(outer);
  refuse_loops(text);
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
