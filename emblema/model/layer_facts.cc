#include "emblema/model/layer_facts.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

#include "emblema/model/grouped_heads.h"
#include "emblema/model/layer_rope.h"
#include "emblema/model/layer_windows.h"

namespace emblema {
namespace {

constexpr CountRange kWidthRange = {1, ConfigLimits::kWidthMax};

// DeepseekV4Config's defaults, for configs that leave the indexer out.
constexpr std::uint32_t kCompressedIndexHeadDim = 128;
constexpr std::uint32_t kCompressedIndexHeads = 64;
constexpr std::uint32_t kCompressedIndexTopk = 512;
constexpr std::uint64_t kIndexedRatio = 4;  // CSA: the compressed layers that have an indexer

std::uint32_t narrow(std::uint64_t value) {
  return static_cast<std::uint32_t>(value);  // every range ends below 2^32
}

std::uint32_t need_width(const ConfigFields& text, std::string_view key) {
  const auto width = text.count({key}, kWidthRange);
  if (!width && !text.problems().failed()) {
    text.problems().invalid(fmt::format("{} is missing; allowed: {} to {}", text.path_of(key),
                                        kWidthRange.min, kWidthRange.max));
  }
  return narrow(width.value_or(0));
}

void note_positions(const ConfigFields& text, Positions positions) {
  if (positions == Positions::kAlibi) {
    text.problems().note("positions by ALiBi: nothing is rotated");
  } else if (positions == Positions::kLearned) {
    text.problems().note("positions are learned embeddings: nothing is rotated");
  }
}

// has_rope and rope of every layer; widths come from `width_of(layer)`.
template <class WidthOf>
void fill_rope(const ConfigFields& text, const ModelFamily& family, const std::vector<bool>& local,
               bool whole_width, WidthOf width_of, ModelConfig* config) {
  const Positions positions = read_positions(text, family, config->hidden_size);
  note_positions(text, positions);
  const std::vector<bool> rotates = read_rotating_layers(text, family, local);
  if (text.problems().failed()) return;
  std::array<std::optional<RopeFacts>, 2> by_locality;
  std::vector<RopeFacts*> all;
  for (std::size_t layer = 0; layer < config->layers.size(); ++layer) {
    LayerFacts& facts = config->layers[layer];
    facts.has_rope = positions == Positions::kRotary && rotates[layer];
    all.push_back(&facts.rope);
    if (!facts.has_rope) continue;
    auto& rope = by_locality[local[layer] ? 1 : 0];
    if (!rope) {
      rope = read_rope(text, family,
                       {local[layer], width_of(facts), whole_width, config->max_positions});
      if (!rope) return;
      if (rope->short_factor.size() * config->layers.size() > ConfigLimits::kRopePairsTotalMax) {
        text.problems().invalid(fmt::format(
            "short_factor has {} entries for {} layers; allowed: {} in all",
            rope->short_factor.size(), config->layers.size(), ConfigLimits::kRopePairsTotalMax));
        return;
      }
    }
    facts.rope = *rope;
  }
  if (!whole_width) apply_rope_lists(text, width_of(config->layers.front()), all);
}

std::vector<bool> locality(const std::vector<LayerWindow>& windows) {
  std::vector<bool> local;
  for (const LayerWindow& window : windows) local.push_back(window.is_local);
  return local;
}

void fill_windows(const std::vector<LayerWindow>& windows, ModelConfig* config) {
  for (std::size_t layer = 0; layer < windows.size(); ++layer) {
    LayerFacts& facts = config->layers[layer];
    facts.window_tokens = narrow(windows[layer].window_tokens);
    facts.reach = facts.window_tokens > 0 ? LayerReach::kWindow : LayerReach::kFull;
  }
}

void fill_grouped(const ConfigFields& text, const ModelFamily& family,
                  const std::vector<std::uint64_t>& attention_heads, ModelConfig* config) {
  const auto windows =
      read_layer_windows(text, family, config->num_hidden_layers, config->max_positions);
  if (text.problems().failed()) return;
  const std::vector<bool> local = locality(windows);
  const auto heads = read_grouped_heads(text, family, config->hidden_size, attention_heads, local);
  if (text.problems().failed()) return;
  const bool local_sinks = text.flag("add_swa_attention_sink_bias").value_or(family.sinks);
  const bool full_sinks = text.flag("add_full_attention_sink_bias").value_or(family.sinks);
  fill_windows(windows, config);
  for (std::size_t layer = 0; layer < heads.size(); ++layer) {
    LayerFacts& facts = config->layers[layer];
    facts.num_attention_heads = narrow(heads[layer].attention_heads);
    facts.num_key_value_heads = narrow(heads[layer].key_value_heads);
    facts.head_dim = narrow(heads[layer].head_dim);
    facts.v_head_dim = narrow(heads[layer].v_head_dim);
    facts.has_sinks = local[layer] ? local_sinks : full_sinks;
  }
  fill_rope(
      text, family, local, false, [](const LayerFacts& facts) { return facts.head_dim; }, config);
}

// Which layers cache an index key: all, or those that indexer_types calls "full" (the others use
// the choice of the layer before).
std::vector<bool> read_indexed_layers(const ConfigFields& text, std::uint64_t layers) {
  const JsonValue* types = text.layer_list("indexer_types", layers);
  std::vector<bool> indexed(layers, true);
  for (std::uint64_t layer = 0; types != nullptr && layer < layers; ++layer) {
    const JsonValue& type = types->items[layer];
    indexed[layer] = type.is_string() && type.text == "full";
    if (indexed[layer] || (type.is_string() && type.text == "shared")) continue;
    text.problems().unsupported(fmt::format("{}[{}] is {}; this release counts full and shared",
                                            text.path_of("indexer_types"), layer, type.describe()));
    break;
  }
  return indexed;
}

void fill_sparse_indexer(const ConfigFields& text, ModelConfig* config) {
  const auto topk = text.count({"index_topk"}, {0, ConfigLimits::kWidthMax});
  if (topk.value_or(0) == 0) return;
  config->index_topk = narrow(*topk);
  config->index_head_dim = need_width(text, "index_head_dim");
  config->index_n_heads =
      narrow(text.count({"index_n_heads"}, {1, ConfigLimits::kHeadsMax}).value_or(0));
  const auto indexed = read_indexed_layers(text, config->num_hidden_layers);
  for (std::size_t layer = 0; layer < indexed.size(); ++layer) {
    config->layers[layer].has_indexer = indexed[layer];
  }
}

// MiniCPM3's class takes hidden_size / num_attention_heads where v_head_dim is absent.
std::uint32_t read_latent_v_head_dim(const ConfigFields& text, const ModelFamily& family,
                                     const ModelConfig& config) {
  const bool derived = !text.has("v_head_dim") && family.model_type == "minicpm3" &&
                       config.hidden_size > 0 &&
                       config.hidden_size % config.num_attention_heads == 0;
  if (!derived) return need_width(text, "v_head_dim");
  const std::uint32_t width = config.hidden_size / config.num_attention_heads;
  text.problems().note(fmt::format(
      "v_head_dim is not given: hidden_size / num_attention_heads = {} is assumed", width));
  return width;
}

void fill_latent(const ConfigFields& text, const ModelFamily& family, ModelConfig* config) {
  config->kv_lora_rank = need_width(text, "kv_lora_rank");
  config->qk_rope_head_dim = need_width(text, "qk_rope_head_dim");
  config->qk_nope_head_dim = need_width(text, "qk_nope_head_dim");
  config->v_head_dim = read_latent_v_head_dim(text, family, *config);
  const auto q_rank = text.count({"q_lora_rank"}, {0, ConfigLimits::kWidthMax});
  if (q_rank.value_or(0) > 0) config->q_lora_rank = narrow(*q_rank);
  const auto windows =
      read_layer_windows(text, family, config->num_hidden_layers, config->max_positions);
  if (text.problems().failed()) return;
  fill_windows(windows, config);
  fill_sparse_indexer(text, config);
  if (text.problems().failed()) return;
  const std::uint32_t width = config->qk_rope_head_dim;
  fill_rope(
      text, family, locality(windows), true, [width](const LayerFacts&) { return width; }, config);
}

std::vector<std::uint64_t> read_compress_ratios(const ConfigFields& text, std::uint64_t layers) {
  const JsonValue* list = text.layer_list("compress_ratios", layers);
  std::vector<std::uint64_t> ratios;
  for (std::uint64_t layer = 0; list != nullptr && layer < layers; ++layer) {
    const auto ratio = list->items[layer].as_count();
    if (!ratio || (*ratio != 0 && *ratio != 4 && *ratio != 128)) {
      text.problems().invalid(fmt::format("{}[{}] is {}; allowed: 0, 4 or 128",
                                          text.path_of("compress_ratios"), layer,
                                          list->items[layer].describe()));
      return {};
    }
    ratios.push_back(*ratio);
  }
  return ratios;
}

void fill_compressed_indexer(const ConfigFields& text, ModelConfig* config) {
  const auto width = text.count({"index_head_dim"}, kWidthRange);
  const auto heads = text.count({"index_n_heads"}, {1, ConfigLimits::kHeadsMax});
  const auto topk = text.count({"index_topk"}, kWidthRange);
  if (!width || !heads || !topk) {
    text.problems().note(
        fmt::format("index_head_dim, index_n_heads or index_topk is not given: {}, {} and {} are "
                    "assumed, as in "
                    "DeepseekV4Config",
                    kCompressedIndexHeadDim, kCompressedIndexHeads, kCompressedIndexTopk));
  }
  config->index_head_dim = narrow(width.value_or(kCompressedIndexHeadDim));
  config->index_n_heads = narrow(heads.value_or(kCompressedIndexHeads));
  config->index_topk = narrow(topk.value_or(kCompressedIndexTopk));
}

void fill_compressed(const ConfigFields& text, const ModelFamily& family, ModelConfig* config) {
  const std::uint32_t head_dim = need_width(text, "head_dim");
  const auto rope_width =
      text.count({"qk_rope_head_dim"}, {2, std::max<std::uint64_t>(head_dim, 2)});
  const auto window = text.count({"sliding_window"}, {1, ConfigLimits::kWindowTokensMax});
  const auto q_rank = text.count({"q_lora_rank"}, kWidthRange);
  const auto ratios = read_compress_ratios(text, config->num_hidden_layers);
  if (!rope_width) need_width(text, "qk_rope_head_dim");
  if (!window && !text.problems().failed()) {
    text.problems().invalid(fmt::format("{} is missing; allowed: 1 to {}",
                                        text.path_of("sliding_window"),
                                        ConfigLimits::kWindowTokensMax));
  }
  if (text.problems().failed()) return;
  if (q_rank) config->q_lora_rank = narrow(*q_rank);
  config->qk_rope_head_dim = narrow(*rope_width);
  if (std::find(ratios.begin(), ratios.end(), kIndexedRatio) != ratios.end()) {
    fill_compressed_indexer(text, config);
  }
  const RopeQuestion question = {false, *rope_width, true, config->max_positions};
  std::array<std::optional<RopeFacts>, 2> by_compression;
  for (std::size_t layer = 0; layer < ratios.size(); ++layer) {
    LayerFacts& facts = config->layers[layer];
    facts.reach = LayerReach::kWindow;
    facts.window_tokens = narrow(*window);
    facts.num_key_value_heads = 1;
    facts.head_dim = head_dim;
    facts.v_head_dim = head_dim;
    facts.compress_ratio = narrow(ratios[layer]);
    facts.has_indexer = ratios[layer] == kIndexedRatio;
    facts.has_sinks = true;
    auto& rope = by_compression[ratios[layer] > 0 ? 1 : 0];
    if (!rope) rope = read_compressed_rope(text, family, question, ratios[layer]);
    if (!rope) return;
    facts.rope = *rope;
  }
}

}  // namespace

AttentionFamily read_attention_family(const ConfigFields& text, const ModelFamily& family) {
  if (text.has("compress_ratios") || family.model_type == "deepseek_v4") {
    return AttentionFamily::kCompressed;
  }
  const bool latent = text.has("kv_lora_rank") && text.flag("use_mla").value_or(true);
  return latent ? AttentionFamily::kLatent : AttentionFamily::kGrouped;
}

void fill_layers(const ConfigFields& text, const ModelFamily& family, ModelConfig* config) {
  const auto heads = read_attention_heads(text, config->num_hidden_layers);
  if (text.problems().failed()) return;
  config->num_attention_heads = narrow(*std::max_element(heads.begin(), heads.end()));
  config->layers.assign(config->num_hidden_layers, LayerFacts{});
  for (std::size_t layer = 0; layer < heads.size(); ++layer) {
    config->layers[layer].num_attention_heads = narrow(heads[layer]);
  }
  switch (config->family) {
    case AttentionFamily::kGrouped:
      fill_grouped(text, family, heads, config);
      break;
    case AttentionFamily::kLatent:
      fill_latent(text, family, config);
      break;
    case AttentionFamily::kCompressed:
      if (!text.has("compress_ratios")) {
        text.problems().invalid(fmt::format("{} is missing; allowed: a list of 0, 4 and 128",
                                            text.path_of("compress_ratios")));
        break;
      }
      fill_compressed(text, family, config);
      break;
  }
  for (const LayerFacts& layer : config->layers) {
    config->num_attention_heads = std::max(config->num_attention_heads, layer.num_attention_heads);
    config->has_attention_sinks = config->has_attention_sinks || layer.has_sinks;
  }
}

}  // namespace emblema
