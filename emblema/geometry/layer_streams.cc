#include "emblema/geometry/layer_streams.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "emblema/contract/bytes.h"
#include "emblema/geometry/entry_regions.h"
#include "emblema/geometry/rope.h"

namespace emblema {
namespace {

using Regions = std::vector<EntryRegion>;

constexpr std::uint64_t kCsaRatio = 4;  // tokens per entry
constexpr std::uint64_t kHcaRatio = 128;

// A window as long as the longest position never hides anything: the layer is a full one.
std::uint64_t binding_window(const ModelConfig& model, const LayerFacts& layer) {
  if (layer.reach != LayerReach::kWindow) return 0;
  const bool binds = model.max_positions == 0 || layer.window_tokens < model.max_positions;
  return binds ? layer.window_tokens : 0;
}

Result<Stream> make_stream(StreamRole role, Result<Regions> regions) {
  if (!regions) return propagate(regions);
  Stream stream;
  stream.role = role;
  stream.regions = std::move(*regions);
  for (const EntryRegion& region : stream.regions) {
    const auto bytes = region_bytes(region);
    if (!bytes) return propagate(bytes);
    const auto sum = add_bytes(stream.entry_bytes, *bytes, "bytes of an entry");
    if (!sum) return propagate(sum);
    stream.entry_bytes = *sum;
  }
  return stream;
}

Stream with_window(Stream stream, std::uint64_t window_tokens) {
  if (window_tokens == 0) return stream;
  stream.retention = Retention::kWindow;
  stream.retention_tokens = window_tokens;
  return stream;
}

Stream with_stride(Stream stream, std::uint64_t stride_tokens) {
  stream.stride_tokens = stride_tokens;
  return stream;
}

Stream in_arena(Stream stream) {
  stream.placement = Placement::kArena;
  return stream;
}

// Projected keys and gate scores of tokens that are not pooled yet, fp32 as in DeepSeek's reference
// code: `rows` rows of two vectors of `width` numbers.
Result<Stream> compressor_stream(const char* kv, const char* score, std::uint64_t width,
                                 std::uint64_t rows) {
  auto stream = make_stream(StreamRole::kCompressor,
                            Regions{{kv, width, Encoding::kFp32}, {score, width, Encoding::kFp32}});
  if (!stream) return stream;
  stream->retention = Retention::kFixed;
  stream->retention_tokens = rows;
  return in_arena(std::move(*stream));
}

class LayerBuilder {
 public:
  LayerBuilder(const ModelConfig& model, const GeometryOptions& options)
      : model_(model),
        kv_dtype_(options.kv_dtype),
        indexer_dtype_(options.indexer_dtype.value_or(default_indexer_dtype(
            options.kv_dtype, model.family == AttentionFamily::kCompressed))) {}

  Result<LayerGeometry> build(const LayerFacts& facts, std::uint32_t index, bool is_draft) const {
    LayerGeometry layer;
    layer.index = index;
    layer.is_draft = is_draft;
    layer.query_heads = facts.num_attention_heads;
    layer.softcap = model_.attn_logit_softcapping.value_or(0);
    layer.has_sinks = facts.has_sinks;
    layer.has_rope = facts.has_rope;
    if (facts.has_rope) layer.rope = facts.rope;
    layer.max_positions = model_.max_positions;
    const Status built = model_.family == AttentionFamily::kGrouped  ? grouped(facts, &layer)
                         : model_.family == AttentionFamily::kLatent ? latent(facts, &layer)
                                                                     : compressed(facts, &layer);
    if (!built) {
      return fail(built.error().code, fmt::format("layer {}: {}", index, built.error().message));
    }
    return layer;
  }

 private:
  Status push(Result<Stream> stream, LayerGeometry* layer) const {
    if (!stream) return propagate(stream);
    layer->streams.push_back(std::move(*stream));
    return {};
  }

  Result<Stream> indexer_stream() const {
    return make_stream(StreamRole::kIndexer,
                       indexer_regions(model_.index_head_dim, indexer_dtype_));
  }

  double scale_of(std::uint32_t qk_dim, const LayerGeometry& layer, bool mscale_in_scale) const {
    if (model_.query_pre_attn_scalar) return 1.0 / std::sqrt(*model_.query_pre_attn_scalar);
    return softmax_scale(qk_dim, layer.rope, mscale_in_scale && layer.has_rope);
  }

  Status push_indexer(const LayerFacts& facts, LayerGeometry* layer) const {
    if (!facts.has_indexer) return {};
    layer->kind += "+dsa";
    auto stream = indexer_stream();
    if (!stream) return propagate(stream);
    return push(with_window(std::move(*stream), layer->window_tokens), layer);
  }

  Status grouped(const LayerFacts& facts, LayerGeometry* layer) const {
    const std::uint32_t heads = facts.num_key_value_heads;
    layer->kind = heads == facts.num_attention_heads ? "mha" : heads == 1 ? "mqa" : "gqa";
    layer->kv_heads = heads;
    layer->key_dim = facts.head_dim;
    layer->value_dim = facts.v_head_dim;
    layer->window_tokens = binding_window(model_, facts);
    layer->scale = scale_of(facts.head_dim, *layer, false);
    auto stream = make_stream(
        StreamRole::kKv, grouped_regions({heads, facts.head_dim, facts.v_head_dim}, kv_dtype_));
    if (!stream) return propagate(stream);
    stream->sharding = Sharding::kByHead;
    if (const auto ok = push(with_window(std::move(*stream), layer->window_tokens), layer); !ok) {
      return ok;
    }
    return push_indexer(facts, layer);
  }

  Status latent(const LayerFacts& facts, LayerGeometry* layer) const {
    layer->kind = "mla";
    layer->kv_heads = 1;
    layer->key_dim = model_.kv_lora_rank + model_.qk_rope_head_dim;
    layer->value_dim = model_.kv_lora_rank;
    layer->window_tokens = binding_window(model_, facts);
    layer->scale = scale_of(model_.qk_nope_head_dim + model_.qk_rope_head_dim, *layer, true);
    auto stream =
        make_stream(StreamRole::kLatent,
                    latent_regions({model_.kv_lora_rank, model_.qk_rope_head_dim}, kv_dtype_));
    if (!stream) return propagate(stream);
    if (const auto ok = push(with_window(std::move(*stream), layer->window_tokens), layer); !ok) {
      return ok;
    }
    return push_indexer(facts, layer);
  }

  Status compressed(const LayerFacts& facts, LayerGeometry* layer) const {
    const std::uint32_t ratio = facts.compress_ratio;
    layer->kind = ratio == 0 ? "swa" : ratio == kCsaRatio ? "csa" : "hca";
    layer->kv_heads = 1;
    layer->key_dim = facts.head_dim;  // the value is the key, rotated channels included
    layer->value_dim = facts.head_dim;
    layer->window_tokens = facts.window_tokens;
    layer->scale = scale_of(facts.head_dim, *layer, false);
    const std::uint32_t rope = model_.qk_rope_head_dim;
    const auto entry = compressed_regions({facts.head_dim - rope, rope}, kv_dtype_);
    auto window = make_stream(StreamRole::kWindow, entry);
    if (!window) return propagate(window);
    if (ratio != 0) {
      auto stream = make_stream(StreamRole::kCompressed, entry);
      if (!stream) return propagate(stream);
      layer->streams.push_back(with_stride(std::move(*stream), ratio));
    }
    if (ratio == kCsaRatio) {
      auto indexer = indexer_stream();
      if (!indexer) return propagate(indexer);
      layer->streams.push_back(with_stride(std::move(*indexer), ratio));
    }
    layer->streams.push_back(in_arena(with_window(std::move(*window), facts.window_tokens)));
    return push_compressors(facts, layer);
  }

  // CSA pools the previous group's four tokens with its own four, from two halves of a row twice
  // as wide; HCA pools its own 128 (DeepSeek-V4's reference code).
  Status push_compressors(const LayerFacts& facts, LayerGeometry* layer) const {
    const std::uint64_t width = facts.head_dim;
    const std::uint64_t index_width = model_.index_head_dim;
    switch (facts.compress_ratio) {
      case kCsaRatio:
        if (const auto ok = push(compressor_stream("kv", "score", 2 * width, 2 * kCsaRatio), layer);
            !ok) {
          return ok;
        }
        return push(
            compressor_stream("indexer_kv", "indexer_score", 2 * index_width, 2 * kCsaRatio),
            layer);
      case kHcaRatio:
        return push(compressor_stream("kv", "score", width, kHcaRatio), layer);
      default:
        return {};
    }
  }

  const ModelConfig& model_;
  KvDtype kv_dtype_;
  IndexerDtype indexer_dtype_;
};

bool caches_index_keys(const ModelConfig& model) {
  return std::any_of(model.layers.begin(), model.layers.end(), [](const LayerFacts& layer) {
    return layer.has_indexer || layer.compress_ratio == kCsaRatio;
  });
}

// What a draft (MTP) layer looks like. Grouped: the last layer that sees everything. MLA: the last
// layer, with an index key wherever the model has any. DeepSeek-V4: window only, with the plain
// rotation of its window-only layers, which DeepSeek-V4-Pro itself has none of.
LayerFacts draft_facts(const ModelConfig& model) {
  LayerFacts facts = model.layers.back();
  if (model.family == AttentionFamily::kCompressed) {
    facts.compress_ratio = 0;
    facts.has_indexer = false;
    const auto plain =
        std::find_if(model.layers.begin(), model.layers.end(),
                     [](const LayerFacts& layer) { return layer.compress_ratio == 0; });
    if (plain != model.layers.end()) {
      facts.rope = plain->rope;
    } else {
      const RopeFacts compressed_rope = facts.rope;
      facts.rope = RopeFacts{};
      facts.rope.rotary_dim = compressed_rope.rotary_dim;
      facts.rope.interleaved = compressed_rope.interleaved;
      facts.rope.unit_amplitude = compressed_rope.unit_amplitude;
    }
    return facts;
  }
  const auto full =
      std::find_if(model.layers.rbegin(), model.layers.rend(),
                   [&model](const LayerFacts& layer) { return binding_window(model, layer) == 0; });
  if (full != model.layers.rend()) facts = *full;
  facts.has_indexer = caches_index_keys(model);
  return facts;
}

Status check_options(const ModelConfig& model, const GeometryOptions& options) {
  if (options.layers > model.num_hidden_layers) {
    return fail(ErrorCode::Invalid,
                fmt::format("layers is {}; allowed: 1 to {}, the layers of {}", options.layers,
                            model.num_hidden_layers, model.name));
  }
  if (options.speculative_mtp && model.num_nextn_predict_layers == 0) {
    return fail(ErrorCode::Invalid,
                fmt::format("speculative mtp needs draft layers, but {} declares "
                            "num_nextn_predict_layers 0; allowed: models that declare at least 1",
                            model.name));
  }
  if (options.indexer_dtype && !caches_index_keys(model)) {
    return fail(ErrorCode::Unsupported,
                fmt::format("indexer dtype is {}, but {} caches no index keys; allowed: none",
                            to_string(*options.indexer_dtype), model.name));
  }
  return {};
}

}  // namespace

Result<std::vector<LayerGeometry>> layers_of(const ModelConfig& model,
                                             const GeometryOptions& options) {
  if (const auto ok = check_options(model, options); !ok) return propagate(ok);
  const LayerBuilder builder(model, options);
  const std::uint32_t trunk = options.layers == 0 ? model.num_hidden_layers : options.layers;
  const std::uint32_t drafts = options.speculative_mtp ? model.num_nextn_predict_layers : 0;
  std::vector<LayerGeometry> layers;
  layers.reserve(trunk + drafts);
  for (std::uint32_t index = 0; index < trunk + drafts; ++index) {
    const bool is_draft = index >= trunk;
    auto layer =
        builder.build(is_draft ? draft_facts(model) : model.layers[index], index, is_draft);
    if (!layer) return propagate(layer);
    layers.push_back(std::move(*layer));
  }
  return layers;
}

}  // namespace emblema
