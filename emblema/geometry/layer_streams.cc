#include "emblema/geometry/layer_streams.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "emblema/contract/bytes.h"
#include "emblema/geometry/entry_regions.h"
#include "emblema/geometry/rope.h"
#include "emblema/geometry/tensor_share.h"

namespace emblema {
namespace {

using Regions = std::vector<EntryRegion>;

constexpr std::uint64_t kCsaRatio = 4;  // tokens per entry
constexpr std::uint64_t kHcaRatio = 128;

// A window (or chunk) as long as the longest position never hides anything: the layer is a full
// one.
std::uint64_t binding_tokens(const ModelConfig& model, const LayerFacts& layer, LayerReach reach) {
  if (layer.reach != reach) return 0;
  const bool binds = model.max_positions == 0 || layer.window_tokens < model.max_positions;
  return binds ? layer.window_tokens : 0;
}

bool sees_everything(const ModelConfig& model, const LayerFacts& layer) {
  return binding_tokens(model, layer, LayerReach::kWindow) == 0 &&
         binding_tokens(model, layer, LayerReach::kChunk) == 0;
}

std::string_view word_of(RecurrentMixer mixer) {
  switch (mixer) {
    case RecurrentMixer::kNone:
      return "none";
    case RecurrentMixer::kMamba1:
      return "mamba";
    case RecurrentMixer::kMamba2:
      return "mamba2";
    case RecurrentMixer::kGatedDelta:
      return "gdn";
    case RecurrentMixer::kKimiDelta:
      return "kda";
    case RecurrentMixer::kLightning:
      return "lightning";
    case RecurrentMixer::kRgLru:
      return "rg-lru";
    case RecurrentMixer::kShortConv:
    case RecurrentMixer::kKvConv:
      return "conv";
  }
  return "none";
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

// What the layer's reach lets a paged stream forget.
Stream within_reach(Stream stream, const LayerGeometry& layer) {
  if (layer.chunk_tokens == 0) return with_window(std::move(stream), layer.window_tokens);
  stream.retention = Retention::kChunk;
  stream.retention_tokens = layer.chunk_tokens;
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

// fp32 where the config does not say.
StateDtype declared_state_dtype(const ModelConfig& model) {
  if (model.state_dtype == "bfloat16") return StateDtype::kBf16;
  return model.state_dtype == "float16" ? StateDtype::kFp16 : StateDtype::kFp32;
}

class LayerBuilder {
 public:
  LayerBuilder(const ModelConfig& model, const GeometryOptions& options)
      : model_(model),
        kv_dtype_(options.kv_dtype),
        state_dtype_(options.state_dtype.value_or(declared_state_dtype(model))),
        first_layer_(options.first_layer),
        tensor_parallel_(options.tensor_parallel),
        encoder_tokens_(options.encoder_tokens > 0 ? options.encoder_tokens
                                                   : model.encoder_positions),
        indexer_dtype_(options.indexer_dtype.value_or(default_indexer_dtype(
            options.kv_dtype, model.family == AttentionFamily::kCompressed))) {}

  // `index` counts from the first layer that the options ask for.
  Result<LayerGeometry> build(const LayerFacts& whole, std::uint32_t index, bool is_draft) const {
    const auto share = tensor_share(whole, tensor_parallel_);
    LayerGeometry layer;
    layer.index = index;
    layer.model_layer = first_layer_ + index;
    if (!share) return fail_of(layer, share.error());
    const LayerFacts& facts = *share;
    layer.is_draft = is_draft;
    layer.query_heads = facts.num_attention_heads;
    layer.softcap = model_.attn_logit_softcapping.value_or(0);
    layer.has_sinks = facts.has_sinks;
    layer.has_rope = facts.has_rope;
    if (facts.has_rope) layer.rope = facts.rope;
    layer.max_positions = model_.max_positions;
    if (model_.family != AttentionFamily::kCompressed) {
      layer.window_tokens = binding_tokens(model_, facts, LayerReach::kWindow);
      layer.chunk_tokens = binding_tokens(model_, facts, LayerReach::kChunk);
    }
    if (model_.family == AttentionFamily::kGrouped) layer.kind = kind_of_heads(whole);
    Status built = facts.cache == LayerCache::kNone ? Status() : attention(facts, &layer);
    if (built) built = push_state(facts, &layer);
    if (!built) return fail_of(layer, built.error());
    return layer;
  }

 private:
  static tl::unexpected<Error> fail_of(const LayerGeometry& layer, const Error& error) {
    return fail(error.code, fmt::format("layer {}: {}", layer.model_layer, error.message));
  }

  // What the model is, whatever a rank holds of it.
  static std::string_view kind_of_heads(const LayerFacts& whole) {
    if (whole.cache == LayerCache::kNone) return "";
    if (whole.num_key_value_heads == whole.num_attention_heads) return "mha";
    return whole.num_key_value_heads == 1 ? "mqa" : "gqa";
  }

  Status attention(const LayerFacts& facts, LayerGeometry* layer) const {
    if (facts.cache == LayerCache::kShared) {
      if (facts.shares_with < first_layer_) {
        return fail(ErrorCode::Invalid,
                    fmt::format("it reads the rows of layer {}, but first_layer is {}; allowed: up "
                                "to {}, so that both are in one stage",
                                facts.shares_with, first_layer_, facts.shares_with));
      }
      layer->shares_with = facts.shares_with - first_layer_;
    }
    switch (model_.family) {
      case AttentionFamily::kGrouped:
        return grouped(facts, layer);
      case AttentionFamily::kLatent:
        return latent(facts, layer);
      case AttentionFamily::kCompressed:
        break;
    }
    return compressed(facts, layer);
  }

  // One row per sequence: the state of the recurrent mixer and of its convolution.
  Status push_state(const LayerFacts& facts, LayerGeometry* layer) const {
    const std::string_view word = word_of(facts.recurrent.mixer);
    if (facts.recurrent.mixer == RecurrentMixer::kNone) {
      if (layer->kind.empty()) layer->kind = word;
      return {};
    }
    layer->kind += (layer->kind.empty() ? "" : "+") + std::string(word);
    auto stream = make_stream(StreamRole::kState, state_regions(facts.recurrent, state_dtype_));
    if (!stream) return propagate(stream);
    stream->retention = Retention::kFixed;
    stream->retention_tokens = 1;
    stream->sharding = Sharding::kByHead;
    return push(in_arena(std::move(*stream)), layer);
  }

  Result<Stream> kv_stream(StreamRole role, const LayerFacts& facts) const {
    auto stream = make_stream(
        role,
        grouped_regions({facts.num_key_value_heads, facts.head_dim, facts.v_head_dim}, kv_dtype_));
    if (stream) stream->sharding = Sharding::kByHead;
    return stream;
  }

  // Keys and values of the encoder's tokens, or of an image's.
  Status push_cross(const LayerFacts& facts, LayerGeometry* layer) const {
    auto stream = kv_stream(StreamRole::kCross, facts);
    if (!stream) return propagate(stream);
    stream->retention = Retention::kEncoder;
    stream->retention_tokens = encoder_tokens_;
    return push(in_arena(std::move(*stream)), layer);
  }

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
    return push(within_reach(std::move(*stream), *layer), layer);
  }

  Status grouped(const LayerFacts& facts, LayerGeometry* layer) const {
    const std::uint32_t heads = facts.num_key_value_heads;
    layer->kv_heads = heads;
    layer->key_dim = facts.head_dim;
    layer->value_dim = facts.v_head_dim;
    layer->scale = scale_of(facts.head_dim, *layer, false);
    if (facts.cache == LayerCache::kShared) return {};
    if (facts.cache == LayerCache::kCross) {
      layer->kind = "cross";
      return push_cross(facts, layer);
    }
    auto stream = kv_stream(StreamRole::kKv, facts);
    if (!stream) return propagate(stream);
    if (const auto ok = push(within_reach(std::move(*stream), *layer), layer); !ok) return ok;
    if (facts.has_cross_attention) {
      layer->kind += "+cross";
      if (const auto ok = push_cross(facts, layer); !ok) return ok;
    }
    return push_indexer(facts, layer);
  }

  Status latent(const LayerFacts& facts, LayerGeometry* layer) const {
    layer->kind = "mla";
    layer->kv_heads = 1;
    layer->key_dim = model_.kv_lora_rank + model_.qk_rope_head_dim;
    layer->value_dim = model_.kv_lora_rank;
    layer->scale = scale_of(model_.qk_nope_head_dim + model_.qk_rope_head_dim, *layer, true);
    if (facts.cache == LayerCache::kShared) return {};
    auto stream =
        make_stream(StreamRole::kLatent,
                    latent_regions({model_.kv_lora_rank, model_.qk_rope_head_dim}, kv_dtype_));
    if (!stream) return propagate(stream);
    if (const auto ok = push(within_reach(std::move(*stream), *layer), layer); !ok) return ok;
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
  StateDtype state_dtype_;
  std::uint32_t first_layer_;
  std::uint32_t tensor_parallel_;
  std::uint64_t encoder_tokens_;
  IndexerDtype indexer_dtype_;
};

bool caches_index_keys(const ModelConfig& model) {
  return std::any_of(model.layers.begin(), model.layers.end(), [](const LayerFacts& layer) {
    return layer.has_indexer || layer.compress_ratio == kCsaRatio;
  });
}

// What a draft (MTP) layer looks like. Grouped: the last layer that sees everything
// and has a cache of its own. MLA: the last
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
      std::find_if(model.layers.rbegin(), model.layers.rend(), [&model](const LayerFacts& layer) {
        return layer.cache == LayerCache::kOwn && sees_everything(model, layer);
      });
  if (full != model.layers.rend()) facts = *full;
  facts.recurrent = {};  // draft layers of hybrid models attend
  facts.has_indexer = caches_index_keys(model);
  return facts;
}

Status check_options(const ModelConfig& model, const GeometryOptions& options) {
  if (options.first_layer >= model.num_hidden_layers) {
    return fail(ErrorCode::Invalid,
                fmt::format("first_layer is {}; allowed: 0 to {}, the last layer of {}",
                            options.first_layer, model.num_hidden_layers - 1, model.name));
  }
  if (options.layers > model.num_hidden_layers - options.first_layer) {
    return fail(ErrorCode::Invalid,
                fmt::format("layers is {}; allowed: 1 to {}, the layers of {}{}", options.layers,
                            model.num_hidden_layers - options.first_layer, model.name,
                            options.first_layer > 0 ? " from first_layer on" : ""));
  }
  if (options.tensor_parallel == 0) {
    return fail(ErrorCode::Invalid, "tensor_parallel is 0; allowed: at least 1");
  }
  if (options.tensor_rank >= options.tensor_parallel) {
    return fail(ErrorCode::Invalid,
                fmt::format("tensor_rank is {}; allowed: 0 to tensor_parallel ({}) less one",
                            options.tensor_rank, options.tensor_parallel));
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
  const bool keeps_state =
      std::any_of(model.layers.begin(), model.layers.end(),
                  [](const LayerFacts& layer) { return layer.recurrent.state_heads > 0; });
  if (options.state_dtype && !keeps_state) {
    return fail(ErrorCode::Unsupported,
                fmt::format("state dtype is {}, but {} keeps no recurrent state; allowed: none",
                            to_string(*options.state_dtype), model.name));
  }
  const bool crosses =
      std::any_of(model.layers.begin(), model.layers.end(), [](const LayerFacts& layer) {
        return layer.has_cross_attention || layer.cache == LayerCache::kCross;
      });
  if (options.encoder_tokens > 0 && !crosses) {
    return fail(ErrorCode::Unsupported,
                fmt::format("encoder tokens is {}, but {} has no cross-attention; allowed: 0",
                            options.encoder_tokens, model.name));
  }
  return {};
}

}  // namespace

Result<std::vector<LayerGeometry>> layers_of(const ModelConfig& model,
                                             const GeometryOptions& options) {
  if (const auto ok = check_options(model, options); !ok) return propagate(ok);
  const LayerBuilder builder(model, options);
  const std::uint32_t first = options.first_layer;
  const std::uint32_t trunk =
      options.layers == 0 ? model.num_hidden_layers - first : options.layers;
  const std::uint32_t drafts = options.speculative_mtp ? model.num_nextn_predict_layers : 0;
  std::vector<LayerGeometry> layers;
  layers.reserve(trunk + drafts);
  for (std::uint32_t index = 0; index < trunk + drafts; ++index) {
    const bool is_draft = index >= trunk;
    const LayerFacts facts = is_draft ? draft_facts(model) : model.layers[first + index];
    auto layer = builder.build(facts, index, is_draft);
    if (!layer) return propagate(layer);
    layers.push_back(std::move(*layer));
  }
  return layers;
}

}  // namespace emblema
