#include "emblema/geometry/model_check.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace emblema {
namespace {

Status in_range(std::string_view field, std::uint64_t value, std::uint64_t low,
                std::uint64_t high) {
  if (value >= low && value <= high) return {};
  return fail(ErrorCode::Invalid,
              fmt::format("{} is {}; allowed: {} to {}", field, value, low, high));
}

Status check_positive(std::string_view field, const std::optional<double>& value) {
  if (!value || (std::isfinite(*value) && *value > 0)) return {};
  return fail(ErrorCode::Invalid,
              fmt::format("{} is {}; allowed: a finite number above 0", field, *value));
}

Status check_width(std::string_view field, std::uint64_t value) {
  return in_range(field, value, 1, ConfigLimits::kWidthMax);
}

Status check_grouped_layer(const LayerFacts& layer, const std::string& where) {
  const std::uint32_t heads = layer.num_attention_heads;
  const std::string field = where + "num_key_value_heads";
  if (const auto ok = in_range(field, layer.num_key_value_heads, 1, heads); !ok) return ok;
  if (heads % layer.num_key_value_heads != 0) {
    return fail(ErrorCode::Invalid,
                fmt::format("{} is {}; allowed: a divisor of num_attention_heads ({})", field,
                            layer.num_key_value_heads, heads));
  }
  if (const auto ok = check_width(where + "head_dim", layer.head_dim); !ok) return ok;
  return check_width(where + "v_head_dim", layer.v_head_dim);
}

Status check_compressed_layer(const ModelConfig& model, const LayerFacts& layer,
                              const std::string& where) {
  if (const auto ok = check_width(where + "head_dim", layer.head_dim); !ok) return ok;
  if (const auto ok = in_range("qk_rope_head_dim", model.qk_rope_head_dim, 1, layer.head_dim - 1);
      !ok) {
    return ok;
  }
  if (const auto ok =
          in_range(where + "sliding_window", layer.window_tokens, 1, ConfigLimits::kTokensMax);
      !ok) {
    return ok;
  }
  switch (layer.compress_ratio) {
    case 0:
    case 128:
      return {};
    case 4:
      return check_width("index_head_dim", model.index_head_dim);
    default:
      return fail(ErrorCode::Unsupported, fmt::format("{}compress_ratio is {}; allowed: 0, 4, 128",
                                                      where, layer.compress_ratio));
  }
}

// Another layer's rows serve only a layer that would have written the same kind of rows.
Status check_sharing(const ModelConfig& model, const LayerFacts& layer, std::size_t index) {
  const bool crosses = layer.cache == LayerCache::kCross || layer.has_cross_attention;
  if (crosses && model.family != AttentionFamily::kGrouped) {
    return fail(ErrorCode::Unsupported,
                fmt::format("layer {}: cross-attention of latents; allowed: of keys and values per "
                            "KV head",
                            index));
  }
  if (layer.cache != LayerCache::kShared) return {};
  if (model.family == AttentionFamily::kCompressed) {
    return fail(ErrorCode::Unsupported,
                fmt::format("layer {}: shared compressed entries; allowed: shared keys and values, "
                            "or latents",
                            index));
  }
  const bool is_earlier = layer.shares_with < index;
  if (!is_earlier || model.layers[layer.shares_with].cache != LayerCache::kOwn) {
    return fail(
        ErrorCode::Invalid,
        fmt::format("layer {}: shares_with is {}; allowed: an earlier layer with a cache of "
                    "its own",
                    index, layer.shares_with));
  }
  const LayerFacts& donor = model.layers[layer.shares_with];
  const bool fits = donor.num_key_value_heads == layer.num_key_value_heads &&
                    donor.head_dim == layer.head_dim && donor.v_head_dim == layer.v_head_dim;
  if (fits) return {};
  return fail(
      ErrorCode::Invalid,
      fmt::format("layer {}: {} KV heads of {} and {}; allowed: those of layer {}, whose "
                  "cache it shares ({} of {} and {})",
                  index, layer.num_key_value_heads, layer.head_dim, layer.v_head_dim,
                  layer.shares_with, donor.num_key_value_heads, donor.head_dim, donor.v_head_dim));
}

Status check_layer(const ModelConfig& model, const LayerFacts& layer, std::size_t index) {
  const std::string where = fmt::format("layer {}: ", index);
  if (layer.reach != LayerReach::kFull && layer.window_tokens == 0) {
    return fail(ErrorCode::Invalid,
                fmt::format("{}window_tokens is 0; allowed: at least 1", where));
  }
  if (const auto ok = check_sharing(model, layer, index); !ok) return ok;
  if (layer.cache == LayerCache::kNone) {
    return in_range(where + "num_attention_heads of a layer that does not attend",
                    layer.num_attention_heads, 0, 0);
  }
  // Per layer, because some models widen with depth (OpenELM) or by kind of layer (MiMo-V2).
  if (const auto ok = in_range(where + "num_attention_heads", layer.num_attention_heads, 1,
                               model.num_attention_heads);
      !ok) {
    return ok;
  }
  if (layer.has_indexer) {
    if (const auto ok = check_width("index_head_dim", model.index_head_dim); !ok) return ok;
  }
  switch (model.family) {
    case AttentionFamily::kGrouped:
      return check_grouped_layer(layer, where);
    case AttentionFamily::kLatent:
      return {};  // its widths are the model's
    case AttentionFamily::kCompressed:
      return check_compressed_layer(model, layer, where);
  }
  return {};
}

Status check_latent_widths(const ModelConfig& model) {
  if (const auto ok = check_width("kv_lora_rank", model.kv_lora_rank); !ok) return ok;
  if (const auto ok = check_width("qk_rope_head_dim", model.qk_rope_head_dim); !ok) return ok;
  if (const auto ok = check_width("qk_nope_head_dim", model.qk_nope_head_dim); !ok) return ok;
  return check_width("v_head_dim", model.v_head_dim);
}

}  // namespace

Status check_model(const ModelConfig& model) {
  if (const auto ok =
          in_range("num_hidden_layers", model.num_hidden_layers, 1, ConfigLimits::kLayersMax);
      !ok) {
    return ok;
  }
  if (model.layers.size() != model.num_hidden_layers) {
    return fail(ErrorCode::Invalid,
                fmt::format("the config has facts of {} layers; allowed: num_hidden_layers ({})",
                            model.layers.size(), model.num_hidden_layers));
  }
  const bool any_attends =
      std::any_of(model.layers.begin(), model.layers.end(),
                  [](const LayerFacts& layer) { return layer.cache != LayerCache::kNone; });
  if (const auto ok = in_range("num_attention_heads", model.num_attention_heads,
                               any_attends ? 1 : 0, ConfigLimits::kHeadsMax);
      !ok) {
    return ok;
  }
  if (const auto ok = in_range("num_nextn_predict_layers", model.num_nextn_predict_layers, 0,
                               ConfigLimits::kLayersMax);
      !ok) {
    return ok;
  }
  if (const auto ok = check_positive("query_pre_attn_scalar", model.query_pre_attn_scalar); !ok) {
    return ok;
  }
  if (model.attn_logit_softcapping != 0.0) {  // 0 is another spelling of none
    const auto ok = check_positive("attn_logit_softcapping", model.attn_logit_softcapping);
    if (!ok) return ok;
  }
  if (model.family == AttentionFamily::kLatent) {
    if (const auto ok = check_latent_widths(model); !ok) return ok;
  }
  for (std::size_t index = 0; index < model.layers.size(); ++index) {
    if (const auto ok = check_layer(model, model.layers[index], index); !ok) return ok;
  }
  return {};
}

}  // namespace emblema
