#include "emblema/model/layer_facts.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "emblema/model/compressed_layers.h"
#include "emblema/model/grouped_heads.h"
#include "emblema/model/layer_indexers.h"
#include "emblema/model/layer_makeup.h"
#include "emblema/model/layer_overrides.h"
#include "emblema/model/layer_rope.h"
#include "emblema/model/layer_sharing.h"
#include "emblema/model/layer_windows.h"
#include "emblema/model/recurrent_state.h"

namespace emblema {
namespace {

constexpr CountRange kWidthRange = {1, ConfigLimits::kWidthMax};

std::uint32_t narrow(std::uint64_t value) {
  return static_cast<std::uint32_t>(value);  // every range ends below 2^32
}

std::uint32_t need_width(const ConfigFields& text, std::string_view key) {
  return narrow(text.need_count(key, kWidthRange));
}

void note_positions(const ConfigFields& text, Positions positions) {
  if (positions == Positions::kAlibi) {
    text.problems().note("positions by ALiBi: nothing is rotated");
  } else if (positions == Positions::kLearned) {
    text.problems().note("positions are learned embeddings: nothing is rotated");
  } else if (positions == Positions::kNone) {
    text.problems().note("attention without position embeddings: nothing is rotated");
  }
}

// LongRope's tables are copied into every layer.
bool fits_limit(const ConfigFields& text, const RopeFacts& rope, std::size_t layers) {
  if (rope.short_factor.size() * layers <= ConfigLimits::kRopePairsTotalMax) return true;
  text.problems().invalid(
      fmt::format("short_factor has {} entries for {} layers; allowed: {} in all",
                  rope.short_factor.size(), layers, ConfigLimits::kRopePairsTotalMax));
  return false;
}

// has_rope and rope of every layer; widths come from `width_of(layer)`.
template <class WidthOf>
void fill_rope(const ConfigFields& text, const ModelFamily& family, const std::vector<bool>& local,
               bool whole_width, WidthOf width_of, ModelConfig* config) {
  const auto attends = [](const LayerFacts& layer) { return layer.cache != LayerCache::kNone; };
  const auto first = std::find_if(config->layers.begin(), config->layers.end(), attends);
  for (LayerFacts& layer : config->layers) layer.has_rope = false;
  if (first == config->layers.end()) return;
  const Positions positions = read_positions(text, family, config->hidden_size);
  note_positions(text, positions);
  const std::vector<bool> rotates = read_rotating_layers(text, family, local);
  if (text.problems().failed()) return;
  std::map<std::pair<bool, std::uint64_t>, RopeFacts> known;  // by locality and width
  std::vector<RopeFacts*> all;
  for (std::size_t layer = 0; layer < config->layers.size(); ++layer) {
    LayerFacts& facts = config->layers[layer];
    facts.has_rope = positions == Positions::kRotary && rotates[layer] && attends(facts);
    all.push_back(&facts.rope);
    if (!facts.has_rope) continue;
    const std::pair<bool, std::uint64_t> kind = {local[layer], width_of(facts)};
    auto rope = known.find(kind);
    if (rope == known.end()) {
      const auto read =
          read_rope(text, family, {kind.first, kind.second, whole_width, config->max_positions});
      if (!read || !fits_limit(text, *read, config->layers.size())) return;
      rope = known.emplace(kind, *read).first;
    }
    facts.rope = rope->second;
  }
  if (!whole_width) apply_rope_lists(text, width_of(*first), all);
}

std::vector<bool> locality(const std::vector<LayerWindow>& windows) {
  std::vector<bool> local;
  for (const LayerWindow& window : windows) local.push_back(window.is_local);
  return local;
}

void fill_windows(const std::vector<LayerWindow>& windows, ModelConfig* config) {
  for (std::size_t layer = 0; layer < windows.size(); ++layer) {
    LayerFacts& facts = config->layers[layer];
    if (facts.cache == LayerCache::kNone || windows[layer].window_tokens == 0) continue;
    facts.window_tokens = narrow(windows[layer].window_tokens);
    facts.reach = windows[layer].is_chunk ? LayerReach::kChunk : LayerReach::kWindow;
  }
}

std::vector<bool> attending_layers(const ModelConfig& config) {
  std::vector<bool> attends;
  for (const LayerFacts& layer : config.layers) attends.push_back(layer.cache != LayerCache::kNone);
  return attends;
}

std::uint32_t first_head_dim(const ModelConfig& config) {
  for (const LayerFacts& layer : config.layers) {
    if (layer.head_dim > 0) return layer.head_dim;
  }
  return 1;
}

// Baichuan-M1 convolves its own keys and values, of which the last few are then state.
void fill_conv_window(const ConfigFields& text, ModelConfig* config) {
  const auto convolves = [](const LayerFacts& layer) {
    return layer.recurrent.mixer == RecurrentMixer::kKvConv;
  };
  if (std::none_of(config->layers.begin(), config->layers.end(), convolves)) return;
  const std::uint64_t window = read_conv_window(text);
  for (LayerFacts& layer : config->layers) {
    if (!convolves(layer)) continue;
    if (window == 1) {
      layer.recurrent = {};
      continue;
    }
    const std::uint64_t width = std::uint64_t{layer.head_dim} + layer.v_head_dim;
    const std::uint64_t channels = layer.num_key_value_heads * width;
    if (channels > UINT32_MAX) {
      text.problems().invalid(
          fmt::format("keys and values of a layer have {} channels; allowed: "
                      "up to {} under a convolution",
                      channels, UINT32_MAX));
      return;
    }
    layer.recurrent.conv_channels = narrow(channels);
    layer.recurrent.conv_columns = narrow(window - 1);
  }
}

void fill_grouped(const ConfigFields& text, const ModelFamily& family,
                  const std::vector<std::uint64_t>& attention_heads, ModelConfig* config) {
  const auto windows =
      read_layer_windows(text, family, config->num_hidden_layers, config->max_positions);
  if (text.problems().failed()) return;
  const std::vector<bool> local = locality(windows);
  const auto heads = read_grouped_heads(text, family, config->hidden_size, attention_heads,
                                        attending_layers(*config), local);
  if (text.problems().failed()) return;
  const bool is_mimo = family.model_type == "mimo_v2_flash";  // sinks where it slides, by its class
  const bool local_sinks =
      text.flag("add_swa_attention_sink_bias").value_or(family.sinks || is_mimo);
  const bool full_sinks = text.flag("add_full_attention_sink_bias").value_or(family.sinks);
  fill_windows(windows, config);
  for (std::size_t layer = 0; layer < heads.size(); ++layer) {
    LayerFacts& facts = config->layers[layer];
    facts.num_attention_heads = narrow(heads[layer].attention_heads);
    facts.num_key_value_heads = narrow(heads[layer].key_value_heads);
    facts.head_dim = narrow(heads[layer].head_dim);
    facts.v_head_dim = narrow(heads[layer].v_head_dim);
    facts.has_sinks = heads[layer].attention_heads > 0 && (local[layer] ? local_sinks : full_sinks);
  }
  apply_layer_overrides(text, config);
  if (text.problems().failed()) return;
  fill_conv_window(text, config);
  fill_block_sparse_index(text, config);
  if (text.problems().failed()) return;
  if (family.model_type == "zamba" || family.model_type == "zamba2") {
    config->query_pre_attn_scalar = 0.5 * first_head_dim(*config);
  }
  fill_rope(
      text, family, local, false, [](const LayerFacts& facts) { return facts.head_dim; }, config);
}

// MiniCPM3's class takes hidden_size / num_attention_heads where v_head_dim is absent.
std::uint32_t read_latent_v_head_dim(const ConfigFields& text, const ModelFamily& family,
                                     const ModelConfig& config) {
  const std::uint32_t heads = std::max(1u, config.layers.front().num_attention_heads);
  const bool derived = !text.has("v_head_dim") && family.model_type == "minicpm3" &&
                       config.hidden_size > 0 && config.hidden_size % heads == 0;
  if (!derived) return need_width(text, "v_head_dim");
  const std::uint32_t width = config.hidden_size / heads;
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
  apply_layer_overrides(text, config);
  if (text.problems().failed()) return;
  fill_sparse_indexer(text, config);
  if (text.problems().failed()) return;
  const std::uint32_t width = config->qk_rope_head_dim;
  fill_rope(
      text, family, locality(windows), true, [width](const LayerFacts&) { return width; }, config);
}

// Without its rank a latent would be read as keys and values of every head.
void need_latent_rank(const ConfigFields& text, const ModelFamily& family) {
  const JsonValue* nope = text.value().find("qk_nope_head_dim");
  const bool has_nope = nope != nullptr && nope->as_count() != std::uint64_t{0};
  if (!has_nope && !family.latent) return;
  const std::string why =
      has_nope ? fmt::format("{} is given, which only latent attention has",
                             text.path_of("qk_nope_head_dim"))
               : fmt::format("a model of type '{}' has latent attention", family.model_type);
  text.problems().invalid(fmt::format("{} is missing; allowed: {} to {}; {}",
                                      text.path_of("kv_lora_rank"), kWidthRange.min,
                                      kWidthRange.max, why));
}

}  // namespace

AttentionFamily read_attention_family(const ConfigFields& text, const ModelFamily& family) {
  if (has_compressed_layers(text, family)) return AttentionFamily::kCompressed;
  if (!text.flag("use_mla").value_or(true)) return AttentionFamily::kGrouped;
  if (text.has("kv_lora_rank")) return AttentionFamily::kLatent;
  need_latent_rank(text, family);
  return AttentionFamily::kGrouped;
}

bool attends_to_encoder(const ConfigFields& text, const ConfigFields& outer,
                        const ModelFamily& family) {
  for (const ConfigFields* fields : {&text, &outer}) {
    if (const auto flag = fields->flag("is_encoder_decoder")) return *flag;
  }
  return family.cross_attends;
}

namespace {

// What each layer is made of, and the query heads of those that attend. Empty on a problem.
std::vector<std::uint64_t> fill_makeup(const ConfigFields& text, const ModelFamily& family,
                                       bool is_decoder, ModelConfig* config) {
  const std::uint64_t layers = config->num_hidden_layers;
  // DeepSeek-V4's layer_types are words of its own; every layer of it attends.
  const auto makeup = config->family == AttentionFamily::kCompressed
                          ? std::vector<LayerMakeup>(layers)
                          : read_layer_makeup(text, family, layers);
  if (text.problems().failed()) return {};
  const bool any_attends = std::any_of(makeup.begin(), makeup.end(),
                                       [](const LayerMakeup& layer) { return layer.attends; });
  std::vector<std::uint64_t> heads(layers, 0);
  if (any_attends) heads = read_attention_heads(text, layers, is_decoder);
  RecurrentFacts recurrent;  // one kind in a model
  for (std::size_t layer = 0; layer < layers && !text.problems().failed(); ++layer) {
    LayerFacts& facts = config->layers[layer];
    if (makeup[layer].attends) {
      facts.num_attention_heads = narrow(heads[layer]);
    } else {
      facts.cache = LayerCache::kNone;
    }
    if (makeup[layer].mixer == RecurrentMixer::kNone) continue;
    if (recurrent.mixer == RecurrentMixer::kNone) {
      recurrent = read_recurrent(text, makeup[layer].mixer, config->hidden_size);
    }
    facts.recurrent = recurrent;
  }
  return text.problems().failed() ? std::vector<std::uint64_t>{} : heads;
}

void fill_state_dtype(const ConfigFields& text, ModelConfig* config) {
  constexpr std::string_view kConvolution =
      "a convolution keeps kernel - 1 columns in bf16 (engines that keep kernel columns hold one "
      "more)";
  const auto any = [config](auto&& has) {
    return std::any_of(config->layers.begin(), config->layers.end(),
                       [&has](const LayerFacts& layer) { return has(layer.recurrent); });
  };
  if (any([](const RecurrentFacts& facts) { return facts.state_heads > 0; })) {
    config->state_dtype = read_state_dtype(text);
    const std::string how = config->state_dtype.empty()
                                ? std::string("fp32")
                                : fmt::format("{}, as the config says,", config->state_dtype);
    text.problems().note(
        fmt::format("state of recurrent layers: {} unless --state-dtype says otherwise; {}", how,
                    kConvolution));
  } else if (any([](const RecurrentFacts& facts) { return facts.conv_channels > 0; })) {
    text.problems().note(fmt::format("state of recurrent layers: {}", kConvolution));
  }
}

}  // namespace

void fill_layers(const ConfigFields& text, const ConfigFields& outer, const ModelFamily& family,
                 ModelConfig* config) {
  config->layers.assign(config->num_hidden_layers, LayerFacts{});
  const bool is_decoder = attends_to_encoder(text, outer, family);
  const auto heads = fill_makeup(text, family, is_decoder, config);
  if (text.problems().failed()) return;
  switch (config->family) {
    case AttentionFamily::kGrouped:
      fill_grouped(text, family, heads, config);
      break;
    case AttentionFamily::kLatent:
      fill_latent(text, family, config);
      break;
    case AttentionFamily::kCompressed:
      fill_compressed(text, family, config);
      break;
  }
  if (text.problems().failed()) return;
  share_layers(text, family, config);
  if (is_decoder) add_cross_attention(text, family, config);
  if (text.problems().failed()) return;
  fill_state_dtype(text, config);
  for (const LayerFacts& layer : config->layers) {
    config->num_attention_heads = std::max(config->num_attention_heads, layer.num_attention_heads);
    config->has_attention_sinks = config->has_attention_sinks || layer.has_sinks;
  }
}

}  // namespace emblema
