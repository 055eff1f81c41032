#include "emblema/peers/sglang_cells.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "emblema/contract/bytes.h"
#include "emblema/peers/question.h"

namespace emblema {
namespace {

constexpr PeerEngine kEngine = PeerEngine::kSglang;
constexpr std::uint64_t kCsaRatio = 4;
constexpr std::uint64_t kHcaRatio = 128;

constexpr std::array<std::string_view, 21> kMlaArchitectures = {"DeepseekV2ForCausalLM",
                                                                "DeepseekV3ForCausalLM",
                                                                "DeepseekV32ForCausalLM",
                                                                "DeepseekV3ForCausalLMNextN",
                                                                "Glm4MoeLiteForCausalLM",
                                                                "Glm4MoeLiteForCausalLMNextN",
                                                                "GlmMoeDsaForCausalLM",
                                                                "GlmMoeDsaForCausalLMNextN",
                                                                "LongcatFlashForCausalLM",
                                                                "LongcatFlashForCausalLMNextN",
                                                                "DotsVLMForCausalLM",
                                                                "MistralLarge3ForCausalLM",
                                                                "MistralLarge3ForCausalLMEagle",
                                                                "PixtralForConditionalGeneration",
                                                                "KimiK25ForConditionalGeneration",
                                                                "Eagle3DeepseekV2ForCausalLM",
                                                                "MiniCPM3ForCausalLM",
                                                                "DeepseekVL2ForCausalLM",
                                                                "KimiVLForConditionalGeneration",
                                                                "KimiLinearForCausalLM",
                                                                "SarvamMLAForCausalLM"};

constexpr std::array<std::string_view, 11> kSlidingArchitectures = {
    "Llama4", "GptOss", "MiMoV2",      "Step3p5", "Step3p7",     "Gemma4",
    "Laguna", "Mellum", "MuseGlimmer", "Inkling", "UnlimitedOCR"};

constexpr std::array<std::string_view, 15> kExtraBufferArchitectures = {
    "KimiLinearForCausalLM",
    "KimiK3ForConditionalGeneration",
    "Qwen3_5ForConditionalGeneration",
    "Qwen3_5MoeForConditionalGeneration",
    "Qwen3_5ForCausalLM",
    "Qwen3_5MoeForCausalLM",
    "Qwen3NextForCausalLM",
    "InternS2PreviewForConditionalGeneration",
    "MiniCPMV4_6ForConditionalGeneration",
    "BailingMoeV2_5ForCausalLM",
    "BailingMoeV3ForCausalLM",
    "FalconH1ForCausalLM",
    "GraniteMoeHybridForCausalLM",
    "NemotronHForCausalLM",
    "NemotronHPuzzleForCausalLM"};

template <class Match>
bool any_architecture(const ModelConfig& model, Match match) {
  return std::any_of(model.architectures.begin(), model.architectures.end(), match);
}

bool is_mla(const ModelConfig& model) {
  return any_architecture(model, [](const std::string& name) {
    return std::find(kMlaArchitectures.begin(), kMlaArchitectures.end(), name) !=
               kMlaArchitectures.end() ||
           name.starts_with("BailingMoe") || name.starts_with("KimiK3");
  });
}

bool is_sliding(const ModelConfig& model) {
  return any_architecture(model, [](const std::string& name) {
    return std::any_of(kSlidingArchitectures.begin(), kSlidingArchitectures.end(),
                       [&name](std::string_view start) { return name.starts_with(start); });
  });
}

struct Widths {
  std::uint32_t heads = 0;
  std::uint32_t key_dim = 0;
  std::uint32_t value_dim = 0;
  friend bool operator==(const Widths&, const Widths&) = default;
};

class CellBuilder {
 public:
  CellBuilder(const ModelConfig& model, const PeerQuestion& question,
              const SglangCellOptions& options, const SglangModel& seen)
      : model_(model), question_(question), options_(options), seen_(seen) {}

  Result<SglangCell> build(std::uint32_t first, std::uint32_t count) {
    for (std::uint32_t i = first; i < first + count; ++i) {
      const LayerFacts& layer = model_.layers[i];
      if (const auto ok = add_state(layer); !ok) return propagate(ok);
      if (layer.cache != LayerCache::kOwn) continue;
      const bool slides = seen_.pool == SglangPool::kSliding && layer.reach != LayerReach::kFull;
      (slides ? cell_.sliding_layers : cell_.full_layers).push_back(i);
      if (layer.compress_ratio == kCsaRatio) ++cell_.csa_layers;
      if (layer.compress_ratio == kHcaRatio) ++cell_.hca_layers;
    }
    Status ok;
    if (seen_.pool == SglangPool::kCompressed) {
      std::swap(cell_.full_layers, cell_.sliding_layers);
      ok = compressed();
    } else if (seen_.pool == SglangPool::kSliding) {
      ok = sliding();
    } else {
      ok = seen_.shape == CacheShape::kGrouped ? grouped() : latent();
      if (ok) ok = add_drafts();
    }
    if (!ok) return propagate(ok);
    const std::uint64_t most = std::max(cell_.full_bytes, cell_.sliding_bytes);
    if (most > PeerLimits::kPageBytesMax) {
      return fail(ErrorCode::Invalid, fmt::format("a token has {} bytes; allowed: up to {}", most,
                                                  PeerLimits::kPageBytesMax));
    }
    return std::move(cell_);
  }

 private:
  Status add_state(const LayerFacts& layer) {
    if (layer.recurrent.mixer == RecurrentMixer::kNone) return {};
    const std::uint64_t element =
        question_.ssm_dtype == "auto" || question_.ssm_dtype == "float32" ? 4 : 2;
    const auto bytes = state_bytes(kEngine, layer.recurrent, options_.attention_tensor, 2, element);
    if (!bytes) return propagate(bytes);
    const auto sum = add_bytes(cell_.state_bytes, bytes->total(), "bytes of recurrent state");
    if (!sum) return propagate(sum);
    cell_.state_bytes = *sum;
    return {};
  }

  // One head count for all: SGLang reads a single one from the config.
  Result<Widths> widths_of(const std::vector<std::uint32_t>& layers) const {
    std::optional<Widths> widths;
    for (const std::uint32_t i : layers) {
      const LayerFacts& layer = model_.layers[i];
      const Widths own{layer.num_key_value_heads, layer.head_dim, layer.v_head_dim};
      if (widths && *widths != own) {
        return refuse(kEngine, ErrorCode::Unsupported,
                      fmt::format("layer {} has {} KV heads of {} and {}; allowed: one size for "
                                  "all layers of a pool",
                                  i, own.heads, own.key_dim, own.value_dim));
      }
      widths = own;
    }
    return widths.value_or(Widths{});
  }

  std::uint64_t heads_per_rank(const Widths& widths, std::uint64_t ranks) const {
    return std::max<std::uint64_t>(1, widths.heads / ranks);
  }

  // Keys and values of one token in one layer of a pool, with mxfp8's scales.
  std::uint64_t layer_bytes(const Widths& widths, std::uint64_t ranks) const {
    const std::uint64_t numbers =
        heads_per_rank(widths, ranks) * (std::uint64_t{widths.key_dim} + widths.value_dim);
    return numbers * options_.dtype.element_bytes + (options_.dtype.mxfp8 ? numbers / 32 : 0);
  }

  Status grouped() {
    if (cell_.full_layers.empty()) return {};
    const auto widths = widths_of(cell_.full_layers);
    if (!widths) return propagate(widths);
    const std::uint64_t ranks = options_.attention_tensor / question_.decode_context;
    const std::uint64_t layers = cell_.full_layers.size();
    const std::uint64_t heads = heads_per_rank(*widths, ranks);
    const std::uint64_t element = options_.dtype.element_bytes;
    cell_.key_bytes = heads * widths->key_dim * layers * element;
    const std::uint64_t numbers =
        heads * (std::uint64_t{widths->key_dim} + widths->value_dim) * layers;
    std::uint64_t bytes = numbers * element;
    if (options_.dtype.mxfp8) bytes += numbers / 32;
    if (options_.dtype.fp4) {
      // Data, a scale for 16 numbers of K and V, and one layer unpacked to fp8 as scratch.
      const std::uint64_t keys = heads * widths->key_dim;
      bytes = bytes / 2 + keys * layers * 2 * element / 16 + keys * 2 * element;
    }
    return set_tokens(bytes);
  }

  Status latent() {
    const std::uint64_t layers = cell_.full_layers.size();
    const std::uint64_t numbers = std::uint64_t{model_.kv_lora_rank} + model_.qk_rope_head_dim;
    std::uint64_t row = numbers * options_.dtype.element_bytes;
    if (seen_.shape == CacheShape::kSparseLatent && options_.dtype.name == "fp8_e4m3" &&
        !question_.dsa_trtllm) {
      row = model_.kv_lora_rank + model_.kv_lora_rank / 128 * 4 +
            std::uint64_t{model_.qk_rope_head_dim} * 2;
    }
    std::uint64_t bytes = row * layers;
    if (options_.dtype.fp4) bytes = bytes / 2 + numbers / 16 * layers;
    for (const std::uint32_t i : cell_.full_layers) {
      if (!model_.layers[i].has_indexer) continue;
      bytes += model_.index_head_dim + model_.index_head_dim / 128 * 4;
    }
    cell_.key_bytes = bytes;
    return set_tokens(bytes);
  }

  Status set_tokens(std::uint64_t bytes) {
    cell_.full_bytes = bytes;
    cell_.bytes_per_token = bytes;
    return {};
  }

  // EAGLE and MTP: the cell grows by the share of layers, and is cut to whole bytes.
  Status add_drafts() {
    const std::uint64_t layers = cell_.full_layers.size();
    if (question_.draft_layers == 0 || layers == 0) return {};
    const auto grown = mul_bytes(cell_.full_bytes, layers + question_.draft_layers, "a cell");
    if (!grown) return propagate(grown);
    cell_.bytes_per_token = *grown / layers;
    return {};
  }

  Status sliding() {
    if (options_.dtype.fp4) {
      return fail(ErrorCode::Unsupported,
                  fmt::format("kv cache dtype is {} with sliding windows, for which SGLang's rule "
                              "is not written down here; allowed: other dtypes",
                              options_.dtype.name));
    }
    const auto full = widths_of(cell_.full_layers);
    if (!full) return propagate(full);
    const auto windows = widths_of(cell_.sliding_layers);
    if (!windows) return propagate(windows);
    const std::uint64_t ranks = options_.attention_tensor;
    const std::uint64_t full_layer = cell_.full_layers.empty() ? 0 : layer_bytes(*full, ranks);
    const std::uint64_t window_layer =
        cell_.sliding_layers.empty() ? 0 : layer_bytes(*windows, ranks);
    cell_.full_bytes = full_layer * (cell_.full_layers.size() + question_.draft_layers);
    cell_.sliding_bytes = window_layer * cell_.sliding_layers.size();
    if (cell_.full_layers.empty()) {
      cell_.bytes_per_token = cell_.sliding_bytes + cell_.full_bytes;
      return {};
    }
    const auto share = multiply(options_.sliding_ratio, cell_.sliding_bytes, "a cell");
    if (!share) return propagate(share);
    const auto sum = add(*share, cell_.full_bytes, "a cell");
    if (!sum) return propagate(sum);
    cell_.bytes_per_token = *sum;
    return {};
  }

  // A sum of bytes at a share of a token each.
  struct Part {
    std::uint64_t bytes;
    Rational share;
  };

  Status compressed() {
    const std::uint64_t layers = cell_.sliding_layers.size();
    const std::uint64_t head_dim = model_.layers.front().head_dim;
    const std::uint64_t rope = model_.qk_rope_head_dim;
    const std::uint64_t row = head_dim - rope + rope * 2 + 8;
    const std::uint64_t index_row = model_.index_head_dim + model_.index_head_dim / 128 * 4;
    const std::uint64_t window = model_.layers.front().window_tokens;
    // Rows not yet compressed: a ring per window page, twice as long when drafts may be undone.
    const std::uint64_t ring = question_.draft_layers > 0 ? 16 : 8;
    const auto rings = multiply(options_.sliding_ratio, Rational::of(ring, window), "a cell");
    if (!rings) return propagate(rings);
    // Of such a row, for each of its dimensions: K and scores of two groups, fp32.
    constexpr std::uint64_t kRowBytes = 16;
    const std::uint64_t csa = cell_.csa_layers;
    const std::array parts = {
        Part{row * layers, options_.sliding_ratio},
        Part{row * csa, Rational::of(1, kCsaRatio)},
        Part{row * cell_.hca_layers, Rational::of(1, kHcaRatio)},
        Part{index_row * csa, Rational::of(1, kCsaRatio)},
        Part{head_dim * kRowBytes * csa, *rings},
        Part{model_.index_head_dim * kRowBytes * csa, *rings},
    };
    Rational sum;
    for (const Part& part : parts) {
      const auto bytes = multiply(part.share, part.bytes, "a cell");
      if (!bytes) return propagate(bytes);
      const auto next = add(sum, *bytes, "a cell");
      if (!next) return propagate(next);
      sum = *next;
    }
    if (question_.draft_layers > 0) {
      // One draft layer, whatever their number.
      const auto grown = multiply(sum, Rational::of(layers + 1, layers), "a cell");
      if (!grown) return propagate(grown);
      sum = *grown;
    }
    cell_.row_bytes = row;
    cell_.index_row_bytes = index_row;
    cell_.sliding_bytes = row * layers;
    cell_.bytes_per_token = sum;
    return {};
  }

  const ModelConfig& model_;
  const PeerQuestion& question_;
  const SglangCellOptions& options_;
  const SglangModel& seen_;
  SglangCell cell_;
};

}  // namespace

Result<SglangDtype> parse_sglang_dtype(std::string_view word, const ModelConfig& model) {
  const std::string name(word);
  if (word == "auto") {
    const bool half = model.torch_dtype == "float16";
    const std::uint64_t bytes = model_element_bytes(model);
    return SglangDtype{name,
                       bytes == 4 ? "torch.float32"
                       : half     ? "torch.float16"
                                  : "torch.bfloat16",
                       bytes};
  }
  if (word == "bf16" || word == "bfloat16") return SglangDtype{name, "torch.bfloat16", 2};
  if (word == "fp8_e4m3") return SglangDtype{name, "torch.float8_e4m3fn", 1};
  if (word == "fp8_e5m2") return SglangDtype{name, "torch.float8_e5m2", 1};
  if (word == "mxfp8") return SglangDtype{name, "torch.float8_e4m3fn", 1, false, true};
  if (word == "nvfp4" || word == "fp4_mx_block16") {
    return SglangDtype{name, "torch.float4_e2m1fn_x2", 1, true};
  }
  return refuse(kEngine, ErrorCode::Invalid,
                fmt::format("kv cache dtype is '{}'; allowed: auto, bf16, bfloat16, fp8_e4m3, "
                            "fp8_e5m2, mxfp8, nvfp4, fp4_mx_block16",
                            word));
}

std::uint64_t sglang_state_slots(const ModelConfig& model) {
  constexpr std::uint64_t kWithRadixCache = 3;
  constexpr std::uint64_t kExtraBuffers = 2;
  const bool extra = any_architecture(model, [](const std::string& name) {
    return std::find(kExtraBufferArchitectures.begin(), kExtraBufferArchitectures.end(), name) !=
           kExtraBufferArchitectures.end();
  });
  return kWithRadixCache + (extra ? kExtraBuffers : 0);
}

Result<SglangModel> sglang_model(const ModelConfig& model) {
  switch (model.family) {
    case AttentionFamily::kCompressed:
      return SglangModel{CacheShape::kCompressed, SglangPool::kCompressed};
    case AttentionFamily::kGrouped: {
      const bool slides =
          is_sliding(model) &&
          std::any_of(model.layers.begin(), model.layers.end(), [](const LayerFacts& layer) {
            return layer.cache == LayerCache::kOwn && layer.reach != LayerReach::kFull;
          });
      return SglangModel{CacheShape::kGrouped, slides ? SglangPool::kSliding : SglangPool::kTokens};
    }
    case AttentionFamily::kLatent:
      break;
  }
  if (!is_mla(model)) {
    return refuse(
        kEngine, ErrorCode::Unsupported,
        fmt::format("architecture is {}; allowed with latents: {}",
                    fmt::join(model.architectures, ", "), fmt::join(kMlaArchitectures, ", ")));
  }
  const bool sparse = model.index_topk > 0 &&
                      std::any_of(model.layers.begin(), model.layers.end(),
                                  [](const LayerFacts& layer) { return layer.has_indexer; });
  return SglangModel{sparse ? CacheShape::kSparseLatent : CacheShape::kLatent, SglangPool::kTokens};
}

Result<SglangCell> sglang_cell(const ModelConfig& model, const PeerQuestion& question,
                               const SglangCellOptions& options, std::uint32_t first,
                               std::uint32_t count) {
  const auto seen = sglang_model(model);
  if (!seen) return propagate(seen);
  return CellBuilder(model, question, options, *seen).build(first, count);
}

}  // namespace emblema
