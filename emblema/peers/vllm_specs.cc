#include "emblema/peers/vllm_specs.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "emblema/contract/bytes.h"
#include "emblema/peers/question.h"

namespace emblema {
namespace {

constexpr std::uint64_t kScaleBytes = 4;         // fp32
constexpr std::uint64_t kIndexQuantBlock = 128;  // numbers under one fp32 scale
constexpr std::uint64_t kDsMlaRowBytes = 656;    // 512 e4m3, 4 fp32 scales, 64 bf16
constexpr std::uint64_t kV4RowBytes = 584;       // 448 e4m3, 64 bf16, 8 scales
constexpr std::uint64_t kV4AlignBytes = 576;     // FlashMLA loads whole rows of a block
constexpr std::uint64_t kV4WindowBlock = 64;     // tokens, of V4's windows
constexpr std::uint64_t kCsaStateBlock = 4;
constexpr std::uint64_t kHcaStateBlock = 8;
constexpr std::uint64_t kCsaRatio = 4;
constexpr std::uint64_t kHcaRatio = 128;
// A layer with a window is paged in its backend's smallest kernel block, not in --block-size.
constexpr std::uint64_t kWindowBlock = 16;

constexpr std::array<std::string_view, 20> kMlaTypes = {"axk1",
                                                        "deepseek_v2",
                                                        "deepseek_v3",
                                                        "deepseek_v32",
                                                        "deepseek_mtp",
                                                        "k3_dspark",
                                                        "glm_moe_dsa",
                                                        "glm4_moe_lite",
                                                        "glm4_moe_lite_mtp",
                                                        "kimi_k2",
                                                        "kimi_linear",
                                                        "longcat_flash",
                                                        "longcat_flash_ngram",
                                                        "pangu_ultra_moe",
                                                        "pangu_ultra_moe_mtp",
                                                        "bailing_hybrid",
                                                        "bailing_hybrid_mtp",
                                                        "bailing_hybrid_v3_mtp",
                                                        "deepseek_v4",
                                                        "eagle"};

std::uint64_t index_row_bytes(const ModelConfig& model) {
  return model.index_head_dim + ceil_div(model.index_head_dim, kIndexQuantBlock) * kScaleBytes;
}

// Widths of one layer's keys and values on one rank.
struct Heads {
  std::uint64_t count = 0;
  std::uint64_t key_dim = 0;
  std::uint64_t value_dim = 0;
};

class SpecBuilder {
 public:
  SpecBuilder(const ModelConfig& model, const PeerQuestion& question,
              const VllmSpecOptions& options)
      : model_(model), question_(question), options_(options), shape_(vllm_cache_shape(model)) {}

  Result<std::vector<LayerSpec>> build(const std::vector<std::uint32_t>& stages) {
    for (std::uint32_t i = 0; i < stages.size(); ++i) {
      layer_ = i;
      stage_ = stages[i];
      const bool is_draft = i >= model_.layers.size();
      const LayerFacts& facts = is_draft ? draft_like_layer(model_) : model_.layers[i];
      const auto ok = is_draft ? push_draft(facts) : push_layer(facts);
      if (!ok) return propagate(ok);
    }
    return std::move(specs_);
  }

  // Bytes of one token in the attention of `facts`, and of its state, on one rank.
  Result<std::uint64_t> attention_row(const LayerFacts& facts) const {
    if (shape_ == CacheShape::kLatent || shape_ == CacheShape::kSparseLatent) return latent_row();
    const auto heads = heads_of(facts);
    if (!heads) return propagate(heads);
    return grouped_row(*heads);
  }

  Result<StateBytes> state_of(const LayerFacts& facts) const {
    return state_bytes(PeerEngine::kVllm, facts.recurrent, question_.tensor,
                       model_element_bytes(model_), ssm_element(facts.recurrent.mixer));
  }

 private:
  Status push_layer(const LayerFacts& facts) {
    if (facts.cache == LayerCache::kOwn) {
      const auto ok =
          shape_ == CacheShape::kCompressed ? push_compressed(facts) : push_attention(facts);
      if (!ok) return ok;
    }
    return facts.recurrent.mixer == RecurrentMixer::kNone ? Status() : push_state(facts);
  }

  // Draft layers of V4 have a window only; those of hybrids attend and keep no state.
  Status push_draft(const LayerFacts& facts) {
    if (shape_ == CacheShape::kCompressed) return push_v4_window(facts);
    if (facts.cache != LayerCache::kOwn) {
      return fail(ErrorCode::Invalid,
                  fmt::format("draft layers is {}; allowed: 0, {} has no layer that attends",
                              question_.draft_layers, model_.name));
    }
    return push_attention(facts);
  }

  LayerSpec make(std::string_view part, SpecKind kind) const {
    LayerSpec spec;
    spec.name = fmt::format("{}.{}", layer_, part);
    spec.layer = layer_;
    spec.stage = stage_;
    spec.kind = kind;
    spec.block_tokens = options_.block_tokens;
    return spec;
  }

  Status push(LayerSpec spec) {
    const auto bytes = mul_bytes(spec.row_bytes, spec.block_tokens, "bytes of a page");
    const std::uint64_t page =
        spec.kind == SpecKind::kState ? spec.row_bytes : bytes.value_or(UINT64_MAX);
    if (page > PeerLimits::kPageBytesMax) {
      return fail(ErrorCode::Invalid,
                  fmt::format("a page of {} tokens of layer {} has {} bytes; allowed: up to {}",
                              spec.block_tokens, layer_, page, PeerLimits::kPageBytesMax));
    }
    specs_.push_back(std::move(spec));
    return {};
  }

  Result<Heads> heads_of(const LayerFacts& facts) const {
    if (model_.family == AttentionFamily::kLatent) {  // expanded; values padded to the keys' width
      const std::uint64_t dim = model_.qk_nope_head_dim + model_.qk_rope_head_dim;
      return divided({facts.num_attention_heads, dim, dim});
    }
    return divided({facts.num_key_value_heads, facts.head_dim, facts.v_head_dim});
  }

  // max(1, heads / tensor): below one head a rank, heads are replicated.
  Result<Heads> divided(Heads heads) const {
    const std::uint64_t tensor = question_.tensor;
    const bool divides =
        heads.count >= tensor ? heads.count % tensor == 0 : tensor % heads.count == 0;
    if (!divides) {
      return refuse(PeerEngine::kVllm, ErrorCode::Invalid,
                    fmt::format("tensor is {}; allowed: divisors and multiples of {} KV heads "
                                "(layer {})",
                                tensor, heads.count, layer_));
    }
    heads.count = std::max<std::uint64_t>(1, heads.count / tensor);
    return heads;
  }

  Result<std::uint64_t> grouped_row(const Heads& heads) const {
    const std::uint64_t dims = heads.key_dim + heads.value_dim;
    switch (options_.dtype.quant) {
      case VllmQuant::kPlain:
        return heads.count * dims * options_.dtype.element_bytes;
      case VllmQuant::kNvfp4:
        if (heads.key_dim % 16 != 0 || heads.value_dim % 16 != 0) break;
        return heads.count * (dims / 2 + dims / 16);
      case VllmQuant::kInt4PerTokenHead:
        return heads.count * (heads.key_dim / 2 + heads.value_dim / 2 + 2 * kScaleBytes);
      case VllmQuant::kBytePerTokenHead:
        return heads.count * (dims + 2 * kScaleBytes);
      case VllmQuant::kDsMla:
        break;
    }
    return no_meaning(fmt::format("heads of {} and {}", heads.key_dim, heads.value_dim));
  }

  Result<std::uint64_t> latent_row() const {
    const std::uint64_t dims = model_.kv_lora_rank + model_.qk_rope_head_dim;
    const bool packs = model_.kv_lora_rank == 512 && model_.qk_rope_head_dim == 64;
    if (options_.dtype.quant == VllmQuant::kDsMla && packs) return kDsMlaRowBytes;
    if (options_.dtype.quant == VllmQuant::kPlain) return dims * options_.dtype.element_bytes;
    return no_meaning(
        fmt::format("latents of {} + {}", model_.kv_lora_rank, model_.qk_rope_head_dim));
  }

  tl::unexpected<Error> no_meaning(const std::string& what) const {
    return refuse(PeerEngine::kVllm, ErrorCode::Invalid,
                  fmt::format("kv cache dtype is {}, which has no meaning for {}; allowed: auto, "
                              "float16, bfloat16, fp8 ... (layer {})",
                              options_.dtype.name, what, layer_));
  }

  Status push_attention(const LayerFacts& facts) {
    const bool latent = shape_ == CacheShape::kLatent || shape_ == CacheShape::kSparseLatent;
    LayerSpec spec = make("attn", latent ? SpecKind::kLatent : SpecKind::kFull);
    const auto row = attention_row(facts);
    if (!row) return propagate(row);
    spec.row_bytes = *row;
    if (latent) {
      spec.shape = fmt::format("latent {}+{} {}", model_.kv_lora_rank, model_.qk_rope_head_dim,
                               options_.dtype.name);
    } else {
      const auto heads = heads_of(facts);
      if (!heads) return propagate(heads);
      spec.shape = fmt::format("{} x {}+{} {}", heads->count, heads->key_dim, heads->value_dim,
                               options_.dtype.name);
    }
    if (facts.reach == LayerReach::kWindow) {
      spec.kind = latent ? SpecKind::kWindowLatent : SpecKind::kWindow;
      spec.window_tokens = facts.window_tokens;
      if (!latent) spec.block_tokens = kWindowBlock;
    } else if (facts.reach == LayerReach::kChunk) {
      spec.kind = SpecKind::kChunk;
      spec.chunk_tokens = facts.window_tokens;
    }
    if (const auto ok = push(std::move(spec)); !ok || !facts.has_indexer) return ok;
    LayerSpec indexer = make("indexer", SpecKind::kLatent);
    indexer.row_bytes = index_row_bytes(model_);
    indexer.shape = fmt::format("index {}", model_.index_head_dim);
    return push(std::move(indexer));
  }

  // One entry in `ratio` tokens.
  Status push_entries(std::string_view part, std::uint64_t row_bytes, std::uint64_t ratio) {
    LayerSpec spec = make(part, SpecKind::kLatent);
    spec.row_bytes = row_bytes;
    spec.tokens_per_entry = ratio;
    spec.align_bytes = kV4AlignBytes;
    spec.shape = fmt::format("{} of {}", part, ratio);
    return push(std::move(spec));
  }

  Status push_rows(std::string_view part, std::uint64_t row_bytes, std::uint64_t block,
                   std::uint64_t window) {
    LayerSpec spec = make(part, SpecKind::kWindowLatent);
    spec.row_bytes = row_bytes;
    spec.block_tokens = block;
    spec.window_tokens = window;
    spec.align_bytes = kV4AlignBytes;
    spec.shape = std::string(part);
    return push(std::move(spec));
  }

  Status push_v4_window(const LayerFacts& facts) {
    return push_rows("window", kV4RowBytes, kV4WindowBlock, facts.window_tokens);
  }

  // Keys and gate scores, fp32; CSA pools two groups from rows twice as wide.
  Status push_compressed(const LayerFacts& facts) {
    const std::uint64_t ratio = facts.compress_ratio;
    const std::uint64_t width = facts.head_dim;
    Status ok;
    if (ratio != 0) ok = push_entries("attn", kV4RowBytes, ratio);
    if (ok && ratio == kCsaRatio) ok = push_entries("indexer", index_row_bytes(model_), ratio);
    if (ok) ok = push_v4_window(facts);
    if (ok && ratio == kHcaRatio) {
      ok = push_rows("compressor", 2 * width * kScaleBytes, kHcaStateBlock, kHcaRatio);
    }
    if (!ok || ratio != kCsaRatio) return ok;
    const std::uint64_t window = 2 * kCsaRatio;
    ok = push_rows("compressor", 4 * width * kScaleBytes, kCsaStateBlock, window);
    if (!ok) return ok;
    return push_rows("indexer_compressor",
                     std::uint64_t{2} * 2 * model_.index_head_dim * kScaleBytes, kCsaStateBlock,
                     window);
  }

  // Qwen3-Next's state follows the model's type, Kimi-Linear's is fp32; Nemotron-H's and Qwen3.5's
  // are as their configs say, else fp32.
  std::uint64_t ssm_element(RecurrentMixer mixer) const {
    if (question_.ssm_dtype != "auto") return question_.ssm_dtype == "float32" ? 4 : 2;
    if (mixer == RecurrentMixer::kKimiDelta) return 4;
    const bool follows_config =
        model_.model_type == "nemotron_h" || model_.model_type.starts_with("qwen3_5");
    if (!follows_config) return model_element_bytes(model_);
    return model_.state_dtype.empty() || model_.state_dtype == "float32" ? 4 : 2;
  }

  Status push_state(const LayerFacts& facts) {
    const auto bytes = state_of(facts);
    if (!bytes) return propagate(bytes);
    LayerSpec spec = make("state", SpecKind::kState);
    spec.row_bytes = bytes->total();
    spec.speculative_blocks = question_.speculative_tokens;
    spec.shape = fmt::format("state {}+{}", bytes->convolution, bytes->state);
    spec.padded_bytes = options_.padded_state_bytes;
    if (question_.mamba_mode == MambaCacheMode::kNone) spec.block_tokens = options_.max_model_len;
    return push(std::move(spec));
  }

  const ModelConfig& model_;
  const PeerQuestion& question_;
  const VllmSpecOptions& options_;
  const CacheShape shape_;
  std::uint32_t layer_ = 0;
  std::uint32_t stage_ = 0;
  std::vector<LayerSpec> specs_;
};

}  // namespace

std::uint64_t page_bytes(const LayerSpec& spec) {
  if (spec.padded_bytes != 0) return spec.padded_bytes;
  if (spec.kind == SpecKind::kState) return spec.row_bytes;
  return round_up(spec.block_tokens / spec.tokens_per_entry * spec.row_bytes, spec.align_bytes);
}

bool same_spec(const LayerSpec& a, const LayerSpec& b) {
  return a.kind == b.kind && a.block_tokens == b.block_tokens && a.row_bytes == b.row_bytes &&
         a.tokens_per_entry == b.tokens_per_entry && a.align_bytes == b.align_bytes &&
         a.padded_bytes == b.padded_bytes && a.window_tokens == b.window_tokens &&
         a.chunk_tokens == b.chunk_tokens && a.speculative_blocks == b.speculative_blocks &&
         a.shape == b.shape;
}

CacheShape vllm_cache_shape(const ModelConfig& model) {
  if (model.family == AttentionFamily::kCompressed) return CacheShape::kCompressed;
  const bool known =
      std::find(kMlaTypes.begin(), kMlaTypes.end(), model.model_type) != kMlaTypes.end();
  if (model.family != AttentionFamily::kLatent || !known) return CacheShape::kGrouped;
  const bool sparse = std::any_of(model.layers.begin(), model.layers.end(),
                                  [](const LayerFacts& layer) { return layer.has_indexer; });
  return sparse ? CacheShape::kSparseLatent : CacheShape::kLatent;
}

bool has_recurrent_state(const ModelConfig& model) {
  return std::any_of(model.layers.begin(), model.layers.end(), [](const LayerFacts& layer) {
    return layer.recurrent.mixer != RecurrentMixer::kNone;
  });
}

bool has_attention(const ModelConfig& model) {
  return std::any_of(model.layers.begin(), model.layers.end(),
                     [](const LayerFacts& layer) { return layer.cache == LayerCache::kOwn; });
}

Result<HybridBlock> hybrid_block(const ModelConfig& model, const PeerQuestion& question,
                                 const VllmSpecOptions& options) {
  const SpecBuilder builder(model, question, options);
  HybridBlock block;
  std::uint64_t row = 0;
  for (const LayerFacts& layer : model.layers) {
    if (layer.cache == LayerCache::kOwn && row == 0) {
      const auto bytes = builder.attention_row(layer);
      if (!bytes) return propagate(bytes);
      row = *bytes;
    }
    if (layer.recurrent.mixer == RecurrentMixer::kNone) continue;
    const auto bytes = builder.state_of(layer);
    if (!bytes) return propagate(bytes);
    block.state_bytes = std::max(block.state_bytes, bytes->total());
  }
  constexpr std::uint64_t kLatentAlign = 128;
  const bool latent = vllm_cache_shape(model) != CacheShape::kGrouped;
  const std::uint64_t align = std::max(options.block_tokens, latent ? kLatentAlign : 1);
  std::uint64_t step = align;
  if (question.mamba_mode == MambaCacheMode::kAll) {
    if (question.mamba_chunk_tokens == 0) {
      return fail(ErrorCode::Invalid,
                  "mamba chunk tokens is 0; allowed: the chunk of the model's scan, which a state "
                  "per block must end on");
    }
    step = std::lcm(question.mamba_chunk_tokens, align);
  }
  const std::uint64_t needed = round_up(ceil_div(block.state_bytes, row), step);
  block.block_tokens = std::max(options.block_tokens, needed);
  const auto page = mul_bytes(block.block_tokens, row, "bytes of a page");
  if (!page) return propagate(page);
  if (*page != block.state_bytes) block.padded_bytes = *page;
  return block;
}

Result<std::vector<LayerSpec>> vllm_layer_specs(const ModelConfig& model,
                                                const PeerQuestion& question,
                                                const VllmSpecOptions& options,
                                                const std::vector<std::uint32_t>& stages) {
  return SpecBuilder(model, question, options).build(stages);
}

}  // namespace emblema
