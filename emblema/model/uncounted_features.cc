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
    {"is_encoder_decoder", "encoder-decoder attention"},
    {"cross_attention_layers", "cross-attention layers"},
    {"num_kv_shared_layers", "layers that share another layer's keys and values"},
    {"use_cla", "layers that share another layer's keys and values"},
    {"linear_attn_config", "linear-attention state"},
    {"linear_num_value_heads", "linear-attention state"},
    {"linear_key_head_dim", "linear-attention state"},
    {"layer_group_size", "linear-attention state"},
    {"attn_type_list", "linear-attention state"},
    {"full_attention_interval", "linear-attention state"},
    {"hybrid_override_pattern", "state-space layers"},
    {"layers_block_type", "state-space layers"},
    {"_block_types", "recurrent layers"},
    {"block_types", "recurrent layers"},
    {"lru_width", "recurrent layers"},
    {"attn_layer_period", "state-space layers"},
    {"attn_layer_indices", "state-space layers"},
    {"mamba_d_state", "state-space layers"},
    {"mamba_d_conv", "state-space layers"},
    {"mamba_n_heads", "state-space layers"},
    {"mamba_num_heads", "state-space layers"},
    {"ssm_state_size", "state-space layers"},
    {"ssm_cfg", "state-space layers"},
    {"state_size", "state-space layers"},
    {"conv_L_cache", "convolution state"},
    {"conv_window", "convolution state"},
    {"block_configs", "layers of unequal structure"},
    {"sparse_config", "a block-sparse index cache"},
    {"attention_types", "local attention by attention_types"},
    {"attention_layers", "local attention by attention_layers"},
    {"index_topk_freq", "index keys on some layers only"},
    {"index_topk_pattern", "index keys on some layers only"},
    {"tie_kv_across_layers", "layers that share another layer's keys and values"},
});

// model_types whose configs may leave all of the fields above to class defaults.
constexpr auto kModelTypes = std::to_array<Feature>({
    {"bamba", "state-space layers"},
    {"bart", "encoder-decoder attention"},
    {"falcon_h1", "state-space layers"},
    {"falcon_mamba", "state-space layers"},
    {"gemma3n", "layers that share another layer's keys and values"},
    {"gemma3n_text", "layers that share another layer's keys and values"},
    {"gemma4", "two geometries and proportional rotary embeddings"},
    {"gemma4_text", "two geometries and proportional rotary embeddings"},
    {"jamba", "state-space layers"},
    {"kimi_linear", "linear-attention state"},
    {"lfm2", "convolution state"},
    {"lfm2_moe", "convolution state"},
    {"llama4", "chunked attention"},
    {"llama4_text", "chunked attention"},
    {"mamba", "state-space layers"},
    {"mamba2", "state-space layers"},
    {"minimax", "linear-attention state"},
    {"minimax_m1", "linear-attention state"},
    {"minimax_m3", "a block-sparse index cache"},
    {"mllama", "cross-attention layers"},
    {"mllama_text_model", "cross-attention layers"},
    {"nemotron-nas", "layers of unequal structure"},
    {"nemotron_h", "state-space layers"},
    {"qwen3_5_moe_text", "linear-attention state"},
    {"qwen3_5_text", "linear-attention state"},
    {"qwen3_next", "linear-attention state"},
    {"recurrent_gemma", "recurrent layers"},
    {"rwkv", "recurrent layers"},
    {"t5", "encoder-decoder attention"},
    {"whisper", "encoder-decoder attention"},
    {"zamba", "state-space layers"},
    {"zamba2", "state-space layers"},
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

// attention_chunk_size cuts attention into chunks (Llama 4). MiMo-V2 carries the key without
// meaning: vLLM deletes it.
void refuse_chunks(const ConfigFields& text) {
  const JsonValue* chunk = text.value().find("attention_chunk_size");
  if (chunk == nullptr || !announces(*chunk)) return;
  if (text.text({"model_type"}) == "mimo_v2_flash") {
    text.problems().note("attention_chunk_size is ignored: MiMo-V2 slides by hybrid_layer_pattern");
    return;
  }
  refuse(text, {"attention_chunk_size", "chunked attention"}, *chunk);
}

void refuse_block_sparse_index(const ConfigFields& text) {
  const auto sparse = text.object("sparse_attention_config");
  if (!sparse || !sparse->flag("use_sparse_attention").value_or(true)) return;
  refuse(text, {"sparse_attention_config", "a block-sparse index cache"}, sparse->value());
}

void refuse_shared_layers(const ConfigFields& text) {
  const auto factor = text.count({"cla_share_factor"}, {0, UINT64_MAX});
  if (factor.value_or(1) <= 1 || text.has("use_cla")) return;  // use_cla decides where it is given
  refuse(text, {"cla_share_factor", "layers that share another layer's keys and values"},
         *text.value().find("cla_share_factor"));
}

}  // namespace

void refuse_uncounted_features(const ConfigFields& text, const ConfigFields& outer) {
  for (const Feature& feature : kFeatures) {
    const JsonValue* value = text.value().find(feature.field);
    if (value != nullptr && announces(*value)) return refuse(text, feature, *value);
  }
  const JsonValue* encoder = outer.value().find("is_encoder_decoder");
  if (encoder != nullptr && announces(*encoder)) {
    return refuse(outer, {"is_encoder_decoder", "encoder-decoder attention"}, *encoder);
  }
  refuse_chunks(text);
  refuse_block_sparse_index(text);
  refuse_shared_layers(text);
  const JsonValue* type = text.value().find("model_type");
  if (type == nullptr || !type->is_string()) return;
  for (const Feature& feature : kModelTypes) {
    if (type->text == feature.field) refuse(text, {"model_type", feature.meaning}, *type);
  }
}

}  // namespace emblema
