#include "emblema/model/layer_windows.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "emblema/model/layer_makeup.h"
#include "emblema/model/layer_rope.h"
#include "emblema/model/model_config.h"

namespace emblema {
namespace {

constexpr std::uint64_t kQwenFirstWindowLayer = 28;  // Qwen2Config.max_window_layers

constexpr std::uint64_t kRecurrentGemmaWindow = 2048;  // RecurrentGemmaConfig

// What the config says of the window itself.
struct Window {
  bool is_given = false;     // the key is there
  std::uint64_t tokens = 0;  // 0: switched off
};

bool follows_qwen_rule(const ConfigFields& fields, const ModelFamily& family) {
  return family.windows == WindowRule::kFromLayer ||
         (family.windows == WindowRule::kUnknown && fields.has("max_window_layers"));
}

Window read_window(const ConfigFields& fields, const ModelFamily& family) {
  Window window;
  const CountRange range = {0, ConfigLimits::kWindowTokensMax};
  auto tokens = fields.count({"sliding_window", "sliding_window_size", "window_size"}, range);
  if (!tokens && family.model_type == "recurrent_gemma") {
    tokens = fields.count({"attention_window_size"}, range);
    if (!tokens) {
      fields.problems().note(fmt::format(
          "attention_window_size is not given: {} is assumed, as in RecurrentGemmaConfig",
          kRecurrentGemmaWindow));
      tokens = kRecurrentGemmaWindow;
    }
  }
  window.is_given = tokens.has_value();
  window.tokens = tokens.value_or(0);
  const auto use = fields.flag("use_sliding_window");
  if (use.has_value() && !*use) {
    window = {true, 0};
  } else if (!use && window.tokens > 0 && family.model_type != "dots1" &&
             follows_qwen_rule(fields, family)) {
    fields.problems().note(fmt::format(
        "{} is {} but use_sliding_window is not given: off, as in the class of this model",
        fields.path_of("sliding_window"), window.tokens));
    window = {true, 0};
  }
  return window;
}

// layer_types: one word per layer. nullopt: absent, or a problem.
std::optional<std::vector<const LayerWord*>> read_layer_types(const ConfigFields& fields,
                                                              std::uint64_t layers) {
  const JsonValue* types = fields.layer_list("layer_types", layers);
  if (types == nullptr) return std::nullopt;
  std::vector<const LayerWord*> words;
  for (std::uint64_t layer = 0; layer < layers; ++layer) {
    const std::string path = fmt::format("{}[{}]", fields.path_of("layer_types"), layer);
    words.push_back(read_layer_word(fields, types->items[layer], path));
    if (words.back() == nullptr) return std::nullopt;
  }
  if (types->items.size() > layers) {
    fields.problems().note(fmt::format("{} has {} entries; those behind layer {} are ignored",
                                       fields.path_of("layer_types"), types->items.size(),
                                       layers - 1));
  }
  return words;
}

std::optional<std::vector<bool>> local_by_layer_types(const ConfigFields& fields,
                                                      std::uint64_t layers) {
  const auto words = read_layer_types(fields, layers);
  if (!words) return std::nullopt;
  std::vector<bool> local;
  for (const LayerWord* word : *words) local.push_back(word->slides);
  return local;
}

// Baichuan-M1 and Inkling list the layers that slide.
std::optional<std::vector<bool>> local_by_indices(const ConfigFields& fields,
                                                  std::uint64_t layers) {
  for (const std::string_view key : {"sliding_window_layers", "local_layer_ids"}) {
    if (fields.has(key)) return read_layer_set(fields, key, 0, layers);
  }
  return std::nullopt;
}

// hybrid_layer_pattern: 1 slides, 0 is full (MiMo-V2).
std::optional<std::vector<bool>> local_by_hybrid_pattern(const ConfigFields& fields,
                                                         std::uint64_t layers) {
  const JsonValue* pattern = fields.layer_list("hybrid_layer_pattern", layers);
  if (pattern == nullptr) return std::nullopt;
  std::vector<bool> local;
  for (std::uint64_t layer = 0; layer < layers; ++layer) {
    const auto mark = fields.checked_count(
        pattern->items[layer], fmt::format("{}[{}]", fields.path_of("hybrid_layer_pattern"), layer),
        {0, 1});
    if (!mark) return std::nullopt;
    local.push_back(*mark == 1);
  }
  return local;
}

// N of "every Nth layer is full": a number, or a string such as "LLLG" of that length.
std::uint64_t read_full_every(const ConfigFields& fields, const ModelFamily& family) {
  const auto found = fields.first({"sliding_window_pattern", "global_attn_every_n_layers"});
  if (!found) return family.full_every;
  if (!found.value->is_string()) {
    return fields.checked_count(*found.value, found.path, {1, ConfigLimits::kLayersMax})
        .value_or(0);
  }
  const std::string& word = found.value->text;
  const bool regular =
      word.size() >= 2 && word.back() == 'G' &&
      std::count(word.begin(), word.end(), 'L') == static_cast<std::ptrdiff_t>(word.size()) - 1;
  if (regular) return word.size();
  fields.problems().unsupported(
      fmt::format("{} is {}; this release counts a number, or L...LG with the full layer last",
                  found.path, found.value->describe()));
  return 0;
}

std::vector<bool> every_nth_full(std::uint64_t layers, std::uint64_t every) {
  std::vector<bool> local(layers, false);
  for (std::uint64_t layer = 0; every > 0 && layer < layers; ++layer) {
    local[layer] = (layer + 1) % every != 0;
  }
  return local;
}

std::vector<bool> local_from_layer(const ConfigFields& fields, const ModelFamily& family,
                                   std::uint64_t layers) {
  // Qwen3MoeConfig of transformers 5.24.0 has a window for all layers or for none.
  if (family.model_type == "qwen3_moe") return std::vector<bool>(layers, true);
  const auto given = fields.count({"max_window_layers"}, {0, ConfigLimits::kLayersMax});
  if (!given) {
    fields.problems().note(
        fmt::format("max_window_layers is not given: {} is assumed, as in the class of this model",
                    kQwenFirstWindowLayer));
  }
  std::vector<bool> local(layers, false);
  for (std::uint64_t layer = given.value_or(kQwenFirstWindowLayer); layer < layers; ++layer) {
    local[layer] = true;
  }
  return local;
}

std::vector<bool> local_by_family(const ConfigFields& fields, const ModelFamily& family,
                                  const Window& window, std::uint64_t layers) {
  if (follows_qwen_rule(fields, family)) {
    return window.tokens > 0 ? local_from_layer(fields, family, layers)
                             : std::vector<bool>(layers, false);
  }
  const bool has_pattern =
      fields.has("sliding_window_pattern") && family.windows != WindowRule::kNever;
  if (has_pattern || family.windows == WindowRule::kAllButEveryNth) {
    if (family.windows_optional && window.tokens == 0) return std::vector<bool>(layers, false);
    return every_nth_full(layers, read_full_every(fields, family));
  }
  switch (family.windows) {
    case WindowRule::kEvery:
      return std::vector<bool>(layers, window.tokens > 0);
    case WindowRule::kEvenLayers:
      return every_nth_full(layers, 2);
    case WindowRule::kUnknown:
      if (window.tokens > 0) {
        fields.problems().unsupported(fmt::format(
            "{} is {}, but which layers slide is not known for this model_type; this release reads "
            "layer_types",
            fields.path_of("sliding_window"), window.tokens));
      }
      break;
    default:
      if (window.tokens > 0) {
        fields.problems().note(fmt::format("{} is {}: ignored, as in the class of this model",
                                           fields.path_of("sliding_window"), window.tokens));
      }
      break;
  }
  return std::vector<bool>(layers, false);
}

// MiMo-V2 carries the key without meaning: vLLM deletes it.
bool ignores_chunks(const ConfigFields& fields) {
  return fields.text({"model_type"}).starts_with("mimo_v2") || fields.has("hybrid_layer_pattern");
}

// The layers that attend within chunks: those that layer_types names, else of Llama 4 those that
// rotate (its full layers do not).
std::vector<bool> chunked_layers(const ConfigFields& fields, const ModelFamily& family,
                                 std::uint64_t layers, std::uint64_t chunk_tokens) {
  std::vector<bool> chunked(layers, false);
  if (const auto words = read_layer_types(fields, layers)) {
    for (std::uint64_t layer = 0; layer < layers; ++layer) {
      chunked[layer] = (*words)[layer]->is_chunked;
    }
    return chunked;
  }
  if (chunk_tokens == 0 || fields.problems().failed()) return chunked;
  if (family.windows == WindowRule::kChunks) return read_rotating_layers(fields, family, chunked);
  if (ignores_chunks(fields)) {
    fields.problems().note(
        "attention_chunk_size is ignored: MiMo-V2 slides by hybrid_layer_pattern");
    return chunked;
  }
  fields.problems().unsupported(fmt::format(
      "{} is {}, but which layers attend in chunks is not known for this model_type; this release "
      "reads layer_types",
      fields.path_of("attention_chunk_size"), chunk_tokens));
  return chunked;
}

void mark_chunks(const ConfigFields& fields, const ModelFamily& family, std::uint64_t max_positions,
                 std::vector<LayerWindow>* windows) {
  ConfigProblems& problems = fields.problems();
  const auto given = fields.count({"attention_chunk_size"}, {0, ConfigLimits::kWindowTokensMax});
  const std::vector<bool> chunked =
      chunked_layers(fields, family, windows->size(), given.value_or(0));
  if (problems.failed()) return;
  const bool any = std::find(chunked.begin(), chunked.end(), true) != chunked.end();
  if (!any) return;
  if (!given) {
    problems.invalid(fmt::format(
        "{} is missing, but some layers attend in chunks; allowed: 1 to {} tokens, or 0 for none",
        fields.path_of("attention_chunk_size"), ConfigLimits::kWindowTokensMax));
    return;
  }
  if (*given == 0) return;
  if (max_positions > 0 && *given >= max_positions) {
    problems.note(
        fmt::format("attention_chunk_size {} is not below the {} positions: it never "
                    "binds",
                    *given, max_positions));
    return;
  }
  for (std::size_t layer = 0; layer < windows->size(); ++layer) {
    if (chunked[layer]) (*windows)[layer] = {false, *given, true};
  }
}

}  // namespace

std::vector<LayerWindow> read_layer_windows(const ConfigFields& fields, const ModelFamily& family,
                                            std::uint64_t layers, std::uint64_t max_positions) {
  ConfigProblems& problems = fields.problems();
  Window window = read_window(fields, family);
  const bool never_binds = max_positions > 0 && window.tokens >= max_positions;
  auto listed = local_by_layer_types(fields, layers);
  if (!listed) listed = local_by_hybrid_pattern(fields, layers);
  if (!listed) listed = local_by_indices(fields, layers);
  if (problems.failed()) return {};
  // A window that cannot bind is settled first: which layers it is for does not matter then.
  const bool rule_matters = !(never_binds && family.windows == WindowRule::kUnknown);
  if (!listed && !rule_matters) listed = std::vector<bool>(layers, false);
  const std::vector<bool> local =
      listed ? *listed : local_by_family(fields, family, window, layers);
  if (problems.failed()) return {};
  const bool any_local = std::find(local.begin(), local.end(), true) != local.end();
  if (any_local && !window.is_given) {
    problems.invalid(fmt::format(
        "{} is missing, but some layers slide; allowed: 1 to {} tokens, or 0 for no window",
        fields.path_of("sliding_window"), ConfigLimits::kWindowTokensMax));
    return {};
  }
  if (never_binds && (any_local || !rule_matters)) {
    problems.note(fmt::format("sliding_window {} is not below the {} positions: it never binds",
                              window.tokens, max_positions));
    window.tokens = 0;
  }
  std::vector<LayerWindow> result(layers);
  for (std::uint64_t layer = 0; layer < layers; ++layer) {
    result[layer].is_local = local[layer];
    result[layer].window_tokens = local[layer] ? window.tokens : 0;
  }
  mark_chunks(fields, family, max_positions, &result);
  if (problems.failed()) return {};
  return result;
}

}  // namespace emblema
