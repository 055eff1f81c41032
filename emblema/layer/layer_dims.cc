#include "emblema/layer/layer_dims.h"

#include <cmath>

#include <fmt/format.h>

namespace emblema {
namespace {

tl::unexpected<Error> invalid(const LayerGeometry& layer, std::string_view what) {
  return fail(ErrorCode::Invalid, fmt::format("layer {}: {}", layer.index, what));
}

Status check_range(const LayerGeometry& layer, std::string_view name, std::uint64_t value,
                   std::uint64_t most) {
  if (value >= 1 && value <= most) return {};
  return invalid(layer, fmt::format("{} is {}; allowed: 1 to {}", name, value, most));
}

Status check_width(const LayerGeometry& layer, std::string_view name, std::uint64_t value) {
  return check_range(layer, name, value, ConfigLimits::kWidthMax);
}

Status check_heads(const LayerGeometry& layer, std::string_view name, std::uint64_t value) {
  return check_range(layer, name, value, ConfigLimits::kHeadsMax);
}

Status check_equal(const LayerGeometry& layer, std::string_view name, std::uint64_t value,
                   std::string_view other_name, std::uint64_t other) {
  if (value == other) return {};
  return invalid(layer, fmt::format("{} is {}; allowed: {} = {}", name, value, other_name, other));
}

// A cache can do without it, so a config may leave it out; a projection cannot.
Status check_hidden(const ModelConfig& model, const LayerGeometry& layer) {
  if (model.hidden_size > 0) return check_width(layer, "hidden_size", model.hidden_size);
  return invalid(layer, fmt::format("hidden_size is not given by the config; allowed: 1 to {}",
                                    ConfigLimits::kWidthMax));
}

Status check_family(const ModelConfig& model, const LayerGeometry& layer) {
  if (model.family == AttentionFamily::kCompressed) {
    return fail(ErrorCode::Unsupported,
                fmt::format("layer {}: attention of the compressed family (model_type '{}', kind "
                            "{}) has no projections here; supported: grouped, latent",
                            layer.index, model.model_type, layer.kind));
  }
  for (const Stream& stream : layer.streams) {
    if (stream.role == StreamRole::kKv || stream.role == StreamRole::kLatent) continue;
    return fail(ErrorCode::Unsupported,
                fmt::format("layer {}: no projection writes rows of the stream '{}'; supported: "
                            "'{}', '{}'",
                            layer.index, to_string(stream.role), to_string(StreamRole::kKv),
                            to_string(StreamRole::kLatent)));
  }
  return {};
}

Status check_rope(const LayerGeometry& layer, std::uint64_t width) {
  if (!layer.has_rope || (layer.rope.rotary_dim >= 2 && layer.rope.rotary_dim <= width)) return {};
  return invalid(layer,
                 fmt::format("rotary_dim is {}; allowed: 2 to {}", layer.rope.rotary_dim, width));
}

Status check_softmax(const LayerGeometry& layer) {
  if (!std::isfinite(layer.scale) || layer.scale <= 0) {
    return invalid(layer, fmt::format("softmax scale is {}; allowed: finite, > 0", layer.scale));
  }
  if (!std::isfinite(layer.softcap) || layer.softcap < 0) {
    return invalid(layer,
                   fmt::format("softcap is {}; allowed: 0 (none) or finite, > 0", layer.softcap));
  }
  return {};
}

Status first_failure(std::initializer_list<Status> checks) {
  for (const Status& check : checks) {
    if (!check) return check;
  }
  return {};
}

Result<LayerDims> latent_dims(const ModelConfig& model, const LayerGeometry& layer) {
  LayerDims dims;
  dims.kind = RowKind::kLatent;
  dims.kv_heads = 1;
  dims.content_dim = model.qk_nope_head_dim;
  dims.tail_dim = model.qk_rope_head_dim;
  dims.value_dim = model.v_head_dim;
  dims.latent_dim = model.kv_lora_rank;
  dims.query_rank = model.q_lora_rank.value_or(0);
  const std::uint64_t row = dims.latent_dim + dims.tail_dim;
  const Status status = first_failure(
      {check_width(layer, "kv_lora_rank", dims.latent_dim),
       check_width(layer, "qk_nope_head_dim", dims.content_dim),
       check_width(layer, "v_head_dim", dims.value_dim),
       check_width(layer, "q_lora_rank", model.q_lora_rank.value_or(1)),
       check_equal(layer, "kv_heads", layer.kv_heads, "1 for latents", 1),
       check_equal(layer, "key_dim", layer.key_dim, "kv_lora_rank + qk_rope_head_dim", row),
       check_equal(layer, "value_dim", layer.value_dim, "kv_lora_rank", dims.latent_dim),
       check_rope(layer, dims.tail_dim)});
  if (!status) return propagate(status);
  return dims;
}

Result<LayerDims> grouped_dims(const LayerGeometry& layer) {
  LayerDims dims;
  dims.kv_heads = layer.kv_heads;
  dims.content_dim = layer.key_dim;
  dims.value_dim = layer.value_dim;
  const Status status = first_failure({check_heads(layer, "kv_heads", dims.kv_heads),
                                       check_width(layer, "key_dim", dims.content_dim),
                                       check_width(layer, "value_dim", dims.value_dim),
                                       check_rope(layer, dims.content_dim)});
  if (!status) return propagate(status);
  if (layer.query_heads % layer.kv_heads != 0) {
    return invalid(layer, fmt::format("query_heads is {}; allowed: a multiple of kv_heads = {}",
                                      layer.query_heads, layer.kv_heads));
  }
  return dims;
}

}  // namespace

Result<LayerDims> LayerDims::from(const ModelConfig& model, const LayerGeometry& layer) {
  const Status common =
      first_failure({check_family(model, layer), check_hidden(model, layer),
                     check_heads(layer, "query_heads", layer.query_heads), check_softmax(layer)});
  if (!common) return propagate(common);
  Result<LayerDims> dims =
      model.family == AttentionFamily::kLatent ? latent_dims(model, layer) : grouped_dims(layer);
  if (!dims) return dims;
  dims->hidden = model.hidden_size;
  dims->query_heads = layer.query_heads;
  dims->norm_eps = model.rms_norm_eps;
  return dims;
}

}  // namespace emblema
