#include "emblema/model/layer_makeup.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

namespace emblema {
namespace {

using Makeup = std::vector<LayerMakeup>;

constexpr CountRange kLayerRange = {0, ConfigLimits::kLayersMax};
constexpr std::uint64_t kGatedDeltaInterval = 4;  // Qwen3NextConfig
constexpr std::uint64_t kJambaPeriod = 8;         // JambaConfig
constexpr std::uint64_t kJambaOffset = 4;
constexpr std::uint64_t kZambaPeriod = 6;  // ZambaConfig
constexpr std::uint64_t kZambaOffset = 4;

constexpr auto kWords = std::to_array<LayerWord>({
    {.name = "full_attention", .attends = true},
    {.name = "attention", .attends = true},
    {.name = "sliding_attention", .attends = true, .slides = true},
    {.name = "chunked_attention", .attends = true, .is_chunked = true},
    {.name = "indexed_attention", .attends = true, .is_indexed = true},
    {.name = "minimax_m3_sparse", .attends = true, .is_indexed = true},
    {.name = "linear_attention", .is_recurrent = true},
    {.name = "mamba", .is_recurrent = true},
    {.name = "recurrent", .is_recurrent = true},
    {.name = "conv", .is_recurrent = true},
    {.name = "hybrid", .attends = true, .is_recurrent = true},  // Zamba2: both in one layer
    {.name = "mlp"},
    {.name = "moe"},
});

// Fields that only a mixer of one kind has, for families without a row.
RecurrentMixer mixer_by_fields(const ConfigFields& fields) {
  if (fields.has("linear_attn_config")) return RecurrentMixer::kKimiDelta;
  if (fields.has("linear_num_value_heads")) return RecurrentMixer::kGatedDelta;
  if (fields.has("conv_L_cache")) return RecurrentMixer::kShortConv;
  if (fields.has("lru_width")) return RecurrentMixer::kRgLru;
  for (const std::string_view key : {"mamba_n_heads", "mamba_num_heads", "mamba_headdim"}) {
    if (fields.has(key)) return RecurrentMixer::kMamba2;
  }
  if (fields.has("mamba_d_state")) return RecurrentMixer::kMamba1;
  return RecurrentMixer::kNone;
}

// Ring-2.5 and its successor share a model_type: Lightning in the one, Kimi delta in the other
// (BailingHybridConfig of transformers 5.24.0), which alone has these.
bool is_delta_bailing(const ConfigFields& fields, const ModelFamily& family) {
  return family.model_type == "bailing_hybrid" &&
         (fields.has("kda_lower_bound") || fields.has("kda_safe_gate") ||
          fields.has("linear_head_dim"));
}

RecurrentMixer find_mixer(const ConfigFields& fields, const ModelFamily& family) {
  if (is_delta_bailing(fields, family)) return RecurrentMixer::kKimiDelta;
  return family.mixer != RecurrentMixer::kNone ? family.mixer : mixer_by_fields(fields);
}

class MakeupReader {
 public:
  MakeupReader(const ConfigFields& fields, const ModelFamily& family, std::uint64_t layers)
      : fields_(fields), family_(family), layers_(layers), mixer_(find_mixer(fields, family)) {}

  Makeup read() const {
    for (const auto rule :
         {&MakeupReader::by_letters, &MakeupReader::by_words, &MakeupReader::by_block_configs,
          &MakeupReader::by_indices, &MakeupReader::by_marks, &MakeupReader::by_period,
          &MakeupReader::by_tiles}) {
      auto makeup = (this->*rule)();
      if (fields_.problems().failed()) return {};
      if (makeup) return *makeup;
    }
    Makeup makeup = by_class();
    return fields_.problems().failed() ? Makeup{} : makeup;
  }

 private:
  // Attention where `attends`, the mixer elsewhere.
  Makeup either(const std::vector<bool>& attends) const {
    Makeup makeup;
    for (std::uint64_t layer = 0; layer < attends.size(); ++layer) {
      makeup.push_back(attends[layer] ? LayerMakeup{} : LayerMakeup{false, mixer_});
    }
    return makeup;
  }

  // Needs a mixer that is known, or says that `what` names layers of an unknown one.
  bool has_mixer(const std::string& what) const {
    if (mixer_ != RecurrentMixer::kNone) return true;
    fields_.problems().unsupported(
        fmt::format("{}, but no field says what state such a layer keeps; this release counts "
                    "Mamba, gated delta, Kimi delta, lightning, RG-LRU and short-convolution "
                    "layers",
                    what));
    return false;
  }

  // Nemotron-H: M Mamba-2, * attention, - an MLP, E a mixture of experts.
  std::optional<Makeup> by_letters() const {
    const auto found = fields_.first({"hybrid_override_pattern"});
    if (!found) return std::nullopt;
    if (!found.value->is_string() || found.value->text.size() < layers_) {
      fields_.problems().invalid(
          fmt::format("{} is {}; allowed: a string with a letter for each of the {} layers",
                      found.path, found.value->describe(), layers_));
      return std::nullopt;
    }
    const RecurrentMixer mixer = mixer_ == RecurrentMixer::kNone ? RecurrentMixer::kMamba2 : mixer_;
    Makeup makeup;
    for (std::uint64_t layer = 0; layer < layers_; ++layer) {
      const char letter = found.value->text[layer];
      if (letter != 'M' && letter != '*' && letter != '-' && letter != 'E') {
        fields_.problems().unsupported(
            fmt::format("{} has '{}' at {}; this release counts M, *, - and E", found.path,
                        shortened(std::string(1, letter)), layer));
        return std::nullopt;
      }
      makeup.push_back({letter == '*', letter == 'M' ? mixer : RecurrentMixer::kNone});
    }
    return makeup;
  }

  std::optional<Makeup> by_words() const {
    for (const std::string_view key : {"layers_block_type", "layer_types"}) {
      const JsonValue* words = fields_.layer_list(key, layers_);
      if (fields_.problems().failed()) return std::nullopt;
      if (words == nullptr) continue;
      Makeup makeup;
      for (std::uint64_t layer = 0; layer < layers_; ++layer) {
        const std::string path = fmt::format("{}[{}]", fields_.path_of(key), layer);
        const LayerWord* word = read_layer_word(fields_, words->items[layer], path);
        if (word == nullptr) return std::nullopt;
        if (word->is_recurrent && !has_mixer(fmt::format("{} is \"{}\"", path, word->name))) {
          return std::nullopt;
        }
        makeup.push_back({word->attends, word->is_recurrent ? mixer_ : RecurrentMixer::kNone});
      }
      return with_parallel_parts(std::move(makeup));
    }
    return std::nullopt;
  }

  // Models whose every layer has a mixer beside its attention.
  Makeup with_parallel_parts(Makeup makeup) const {
    const bool convolves = mixer_ == RecurrentMixer::kKvConv;
    if (convolves || family_.model_type == "falcon_h1") {
      for (LayerMakeup& layer : makeup) layer.mixer = mixer_;
    }
    return makeup;
  }

  // Nemotron-NAS: a block without attention, or with a linear layer in its place.
  std::optional<Makeup> by_block_configs() const {
    const JsonValue* blocks = fields_.layer_list("block_configs", layers_);
    if (blocks == nullptr) return std::nullopt;
    Makeup makeup;
    for (std::uint64_t layer = 0; layer < layers_; ++layer) {
      const std::string path = fmt::format("{}[{}]", fields_.path_of("block_configs"), layer);
      if (!blocks->items[layer].is_object()) {
        fields_.problems().invalid(
            fmt::format("{} is {}; allowed: an object", path, blocks->items[layer].describe()));
        return std::nullopt;
      }
      const ConfigFields block(blocks->items[layer], path, &fields_.problems());
      const auto attention = block.object("attention");
      if (fields_.problems().failed()) return std::nullopt;
      if (!attention) {
        fields_.problems().invalid(
            fmt::format("{}.attention is missing; allowed: an object", path));
        return std::nullopt;
      }
      for (const std::string_view key : {"window_length", "num_sink_tokens"}) {
        const auto tokens = attention->count({key}, {0, ConfigLimits::kTokensMax});
        if (tokens.value_or(0) == 0) continue;
        fields_.problems().unsupported(
            fmt::format("{} is {}; this release counts blocks that see everything before them",
                        attention->path_of(key), *tokens));
        return std::nullopt;
      }
      const bool absent = attention->flag("no_op").value_or(false) ||
                          attention->flag("replace_with_linear").value_or(false);
      makeup.push_back({!absent, RecurrentMixer::kNone});
    }
    return makeup;
  }

  std::optional<Makeup> by_indices() const {
    if (const auto linear = fields_.object("linear_attn_config")) return by_kimi_lists(*linear);
    for (const std::string_view key : {"attn_layer_indices", "full_attn_idxs"}) {
      if (!fields_.has(key)) continue;
      if (!has_mixer(fields_.path_of(key) + " lists the layers that attend")) return std::nullopt;
      return either(read_layer_set(fields_, key, 0, layers_));
    }
    if (!fields_.has("hybrid_layer_ids") || family_.model_type != "zamba2") return std::nullopt;
    Makeup makeup;
    for (const bool both : read_layer_set(fields_, "hybrid_layer_ids", 0, layers_)) {
      makeup.push_back({both, mixer_});
    }
    return makeup;
  }

  // Kimi-Linear counts its layers from 1; a layer in neither list attends.
  std::optional<Makeup> by_kimi_lists(const ConfigFields& linear) const {
    if (!linear.has("kda_layers") && !linear.has("full_attn_layers")) {
      fields_.problems().invalid(
          fmt::format("{} and full_attn_layers are missing; allowed: lists of layers, the first "
                      "being 1",
                      linear.path_of("kda_layers")));
      return std::nullopt;
    }
    std::vector<bool> full = read_layer_set(linear, "full_attn_layers", 1, layers_);
    const std::vector<bool> delta = read_layer_set(linear, "kda_layers", 1, layers_);
    if (fields_.problems().failed()) return std::nullopt;
    if (full.empty()) full.assign(layers_, false);
    for (std::uint64_t layer = 0; layer < layers_ && !delta.empty(); ++layer) {
      if (full[layer] && delta[layer]) {
        fields_.problems().invalid(
            fmt::format("{} and full_attn_layers both name layer {}; "
                        "allowed: one of them",
                        linear.path_of("kda_layers"), layer + 1));
        return std::nullopt;
      }
      full[layer] = !delta[layer];
    }
    return either(full);
  }

  // MiniMax: 1 attends, 0 is linear.
  std::optional<Makeup> by_marks() const {
    const JsonValue* marks = fields_.layer_list("attn_type_list", layers_);
    if (marks == nullptr) return std::nullopt;
    std::vector<bool> attends;
    for (std::uint64_t layer = 0; layer < layers_; ++layer) {
      const auto mark = fields_.checked_count(
          marks->items[layer], fmt::format("{}[{}]", fields_.path_of("attn_type_list"), layer),
          {0, 1});
      if (!mark) return std::nullopt;
      attends.push_back(*mark == 1);
    }
    const bool any_linear = std::find(attends.begin(), attends.end(), false) != attends.end();
    if (any_linear && !has_mixer(fields_.path_of("attn_type_list") + " holds 0")) {
      return std::nullopt;
    }
    return either(attends);
  }

  std::optional<Makeup> by_period() const {
    if (const auto group = fields_.count({"layer_group_size"}, {1, ConfigLimits::kLayersMax})) {
      return by_layer_group(*group);
    }
    const CountRange range = {1, ConfigLimits::kLayersMax};
    const auto interval = fields_.count({"full_attention_interval"}, range);
    if (interval || family_.mixer == RecurrentMixer::kGatedDelta) {
      if (!has_mixer(fields_.path_of("full_attention_interval") + " is given")) return std::nullopt;
      return every_nth_attends(interval, "full_attention_interval", kGatedDeltaInterval);
    }
    if (family_.model_type == "zamba") return std::nullopt;  // shifts its period by three layers
    const auto period = fields_.count({"attn_layer_period"}, range);
    if (!period && family_.model_type != "jamba") return std::nullopt;
    if (!has_mixer(fields_.path_of("attn_layer_period") + " is given")) return std::nullopt;
    const std::uint64_t every = period.value_or(kJambaPeriod);
    const auto offset = fields_.count({"attn_layer_offset"}, kLayerRange);
    if (!period || !offset) {
      fields_.problems().note(fmt::format(
          "attn_layer_period or attn_layer_offset is not given: {} and {} are assumed, as in "
          "JambaConfig",
          every, offset.value_or(kJambaOffset)));
    }
    std::vector<bool> attends(layers_);
    for (std::uint64_t layer = 0; layer < layers_; ++layer) {
      attends[layer] = layer % every == offset.value_or(kJambaOffset);
    }
    return either(attends);
  }

  // Ring-linear: the last layer of each group attends, and so do layers behind the last whole
  // group.
  std::optional<Makeup> by_layer_group(std::uint64_t group) const {
    if (group > 1 && !has_mixer(fields_.path_of("layer_group_size") + " is given")) {
      return std::nullopt;
    }
    std::vector<bool> attends(layers_);
    for (std::uint64_t layer = 0; layer < layers_; ++layer) {
      attends[layer] = (layer + 1) % group == 0 || layer >= layers_ / group * group;
    }
    return either(attends);
  }

  Makeup every_nth_attends(const std::optional<std::uint64_t>& every, std::string_view key,
                           std::uint64_t assumed) const {
    if (!every) {
      fields_.problems().note(fmt::format(
          "{} is not given: {} is assumed, as in the class of this model", key, assumed));
    }
    std::vector<bool> attends(layers_);
    for (std::uint64_t layer = 0; layer < layers_; ++layer) {
      attends[layer] = (layer + 1) % every.value_or(assumed) == 0;
    }
    return either(attends);
  }

  // RecurrentGemma: a few words that repeat until the last layer.
  std::optional<Makeup> by_tiles() const {
    const auto found = fields_.first({"_block_types", "block_types"});
    if (!found && family_.model_type != "recurrent_gemma") return std::nullopt;
    std::vector<bool> tile = {false, false, true};  // RecurrentGemmaConfig
    if (found) {
      tile.clear();
      for (const JsonValue& item : found.value->items) {
        const auto path = fmt::format("{}[{}]", found.path, tile.size());
        const LayerWord* word = read_layer_word(fields_, item, path);
        if (word == nullptr) return std::nullopt;
        tile.push_back(word->attends);
      }
      if (!found.value->is_array() || tile.empty()) {
        fields_.problems().invalid(
            fmt::format("{} is {}; allowed: a list of recurrent and "
                        "attention",
                        found.path, found.value->describe()));
        return std::nullopt;
      }
    }
    if (!has_mixer("block_types is given")) return std::nullopt;
    std::vector<bool> attends(layers_);
    for (std::uint64_t layer = 0; layer < layers_; ++layer) {
      attends[layer] = tile[layer % tile.size()];
    }
    return either(attends);
  }

  Makeup by_class() const {
    const std::string_view type = family_.model_type;
    const std::vector<bool> nowhere(layers_, false);
    if (type == "mamba" || type == "mamba2" || type == "falcon_mamba") return either(nowhere);
    if (type == "falcon_h1" || type == "baichuan_m1") {
      return with_parallel_parts(Makeup(layers_, LayerMakeup{}));
    }
    if (type == "zamba") return by_zamba();
    if (type == "minimax") {
      fields_.problems().note(
          "layer_types is not given: layers attend and are linear by turns, as "
          "in MiniMaxConfig");
      std::vector<bool> attends(layers_);
      for (std::uint64_t layer = 0; layer < layers_; ++layer) attends[layer] = layer % 2 == 0;
      return either(attends);
    }
    if (type == "granitemoehybrid") {
      fields_.problems().note(
          "layer_types is not given: every layer is a Mamba layer, as in "
          "GraniteMoeHybridConfig");
      return either(nowhere);
    }
    if (type == "lfm2" || type == "lfm2_moe") {
      fields_.problems().note("layer_types is not given: every layer attends, as in Lfm2Config");
      return Makeup(layers_, LayerMakeup{});
    }
    if (family_.mixer != RecurrentMixer::kNone) {
      fields_.problems().invalid(
          fmt::format("which of the {} layers of this '{}' attend is missing; allowed: {}", layers_,
                      type, rule_names()));
    }
    return Makeup(layers_, LayerMakeup{});
  }

  // What the class of this model itself reads.
  std::string_view rule_names() const {
    switch (family_.mixer) {
      case RecurrentMixer::kKimiDelta:
        return "linear_attn_config with full_attn_layers and kda_layers, or layer_types";
      case RecurrentMixer::kLightning:
        return "attn_type_list, layer_group_size or layer_types";
      default:
        return "hybrid_override_pattern, layers_block_type, layer_types or attn_layer_indices";
    }
  }

  // ZambaConfig: two Mamba layers and a hybrid one, then hybrid by period and offset.
  Makeup by_zamba() const {
    const CountRange range = {1, ConfigLimits::kLayersMax};
    const std::uint64_t period = fields_.count({"attn_layer_period"}, range).value_or(kZambaPeriod);
    const std::uint64_t offset =
        fields_.count({"attn_layer_offset"}, kLayerRange).value_or(kZambaOffset);
    Makeup makeup;
    for (std::uint64_t layer = 0; layer < layers_; ++layer) {
      const bool both = layer < 3 ? layer == 2 : (layer - 3) % period == offset;
      makeup.push_back({both, mixer_});
    }
    return makeup;
  }

  const ConfigFields& fields_;
  const ModelFamily& family_;
  std::uint64_t layers_;
  RecurrentMixer mixer_;
};

}  // namespace

std::vector<LayerMakeup> read_layer_makeup(const ConfigFields& fields, const ModelFamily& family,
                                           std::uint64_t layers) {
  return MakeupReader(fields, family, layers).read();
}

const LayerWord* read_layer_word(const ConfigFields& fields, const JsonValue& word,
                                 const std::string& path) {
  if (!word.is_string()) {
    fields.problems().invalid(fmt::format("{} is {}; allowed: a string", path, word.describe()));
    return nullptr;
  }
  std::string known;
  for (const LayerWord& entry : kWords) {
    if (entry.name == word.text) return &entry;
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  fields.problems().unsupported(
      fmt::format("{} is {}; this release counts {}", path, word.describe(), known));
  return nullptr;
}

std::vector<bool> read_layer_set(const ConfigFields& fields, std::string_view key,
                                 std::uint64_t first, std::uint64_t layers) {
  const JsonValue* list = fields.value().find(key);
  if (list == nullptr) return {};
  if (!list->is_array()) {
    fields.problems().invalid(
        fmt::format("{} is {}; allowed: a list of layers", fields.path_of(key), list->describe()));
    return {};
  }
  std::vector<bool> named(layers, false);
  for (std::size_t i = 0; i < list->items.size(); ++i) {
    const auto layer = fields.checked_count(
        list->items[i], fmt::format("{}[{}]", fields.path_of(key), i), {first, layers - 1 + first});
    if (!layer) return {};
    named[*layer - first] = true;
  }
  return named;
}

}  // namespace emblema
