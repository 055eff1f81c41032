#include "emblema/model/layer_rope.h"

#include <cmath>
#include <string>

#include <fmt/format.h>

#include "emblema/model/model_config.h"
#include "emblema/model/rope_scaling.h"

namespace emblema {
namespace {

constexpr NumberRange kThetaRange = {1.0, 1e18};
constexpr NumberRange kShareRange = {0.0, 1.0};
constexpr double kLocalThetaDefault = 10000.0;  // Gemma3TextConfig.rope_local_base_freq
constexpr std::uint64_t kBaichuan13bHidden = 5120;

bool has_own_local_base(const ModelFamily& family) {
  for (const std::string_view prefix : {"gemma3", "gemma4"}) {
    if (family.model_type.starts_with(prefix)) return true;  // gemma3n too
  }
  return false;
}

// Gemma4TextConfig: full layers turn a quarter of their pairs, unless the config says otherwise.
bool is_proportional(const ModelFamily& family, const RopeQuestion& question) {
  return family.model_type.starts_with("gemma4") && !question.is_local;
}
constexpr double kProportionalShare = 0.25;

// Olmo3 and Step-3.5 scale only their full layers.
bool scales_local_layers(const ConfigFields& fields, const ModelFamily& family) {
  return family.model_type != "olmo3" && !fields.has("yarn_only_types");
}

// The object that speaks of this kind of layer. `found` false with no problem: there is none.
struct RopeObject {
  std::optional<ConfigFields> fields;
  bool is_per_type = false;
};

std::string_view layer_type_of(bool is_local) {
  return is_local ? "sliding_attention" : "full_attention";
}

// BeamConfig (transformers 5.24.0): layers of a type that has no set of parameters do not rotate.
bool has_no_rope_set(const ConfigFields& fields, const ModelFamily& family, bool is_local) {
  if (family.model_type != "beam") return false;
  const auto all = fields.object("rope_parameters");
  return all && !all->has(layer_type_of(is_local));
}

RopeObject find_rope_object(const ConfigFields& fields, bool is_local) {
  RopeObject result;
  auto all = fields.object("rope_parameters");
  if (!all) all = fields.object("rope_scaling");
  if (!all) return result;
  result.is_per_type = all->has("full_attention") || all->has("sliding_attention");
  if (result.is_per_type) {
    const std::string_view type = layer_type_of(is_local);
    result.fields = all->object(type);
    if (!result.fields) {
      fields.problems().invalid(
          fmt::format("{} is missing, but some layers are of that type; allowed: an object",
                      all->path_of(type)));
    }
    return result;
  }
  for (std::size_t i = 0; i < all->value().keys.size(); ++i) {
    if (!all->value().items[i].is_object()) continue;
    fields.problems().unsupported(
        fmt::format("{} is an object; this release reads one set of rope parameters, or one for "
                    "full_attention and one for sliding_attention",
                    all->path_of(shortened(all->value().keys[i]))));
    return result;
  }
  result.fields = std::move(all);
  return result;
}

// DeepSeek-V4 as transformers 5.24.0 writes it: one set for layers that are a window alone, one for
// those that compress. Before that, one set for both and two bases beside it.
RopeObject find_compressed_rope_object(const ConfigFields& fields, std::uint64_t compress_ratio) {
  const auto all = fields.object("rope_parameters");
  if (!all || (!all->has("main") && !all->has("compress"))) return find_rope_object(fields, false);
  const std::string_view kind = compress_ratio == 0 ? "main" : "compress";
  RopeObject result;
  result.is_per_type = true;
  result.fields = all->object(kind);
  if (!result.fields) {
    fields.problems().invalid(fmt::format(
        "{} is missing, but some layers are of that kind; allowed: an object", all->path_of(kind)));
  }
  return result;
}

// cos and sin of compressed layers stay at amplitude 1, which transformers spells out for YaRN.
void drop_unit_factor(const ConfigFields& fields, RopeFacts* rope) {
  if (rope->attention_factor.value_or(1.0) != 1.0) {
    fields.problems().unsupported(
        fmt::format("attention_factor of compressed layers is {}; this release counts 1",
                    *rope->attention_factor));
  }
  rope->attention_factor.reset();
}

double top_level_theta(const ConfigFields& fields, const ModelFamily& family,
                       const RopeQuestion& question) {
  const auto found = fields.first(
      {"rope_theta", "rotary_emb_base", "rope_embedding_base", "rope_base", "rotary_base"});
  const bool may_be_list = !question.whole_width && found.path == fields.path_of("rope_theta");
  if (found && found.value->is_array() && may_be_list) {
    return family.rope_theta;  // apply_rope_lists
  }
  if (found) {
    return fields.checked_number(*found.value, found.path, kThetaRange).value_or(family.rope_theta);
  }
  if (const auto attention = fields.object("attn_config")) {
    if (const auto theta = attention->number({"rope_theta"}, kThetaRange)) return *theta;
  }
  if (const auto ratio = fields.number({"rope_ratio"}, {1e-3, 1e9})) {
    return family.rope_theta * *ratio;  // ChatGLM
  }
  fields.problems().note(fmt::format("{} is not given: {} is assumed", fields.path_of("rope_theta"),
                                     family.rope_theta));
  return family.rope_theta;
}

double read_theta(const ConfigFields& fields, const ModelFamily& family, const RopeObject& object,
                  const RopeQuestion& question) {
  if (object.is_per_type && object.fields) {
    if (const auto theta = object.fields->number({"rope_theta"}, kThetaRange)) return *theta;
  }
  if (question.is_local) {
    if (const auto local = fields.number({"rope_local_base_freq", "swa_rope_theta"}, kThetaRange)) {
      return *local;
    }
    if (has_own_local_base(family)) return kLocalThetaDefault;
  }
  if (object.fields) {
    if (const auto theta = object.fields->number({"rope_theta"}, kThetaRange)) return *theta;
  }
  return top_level_theta(fields, family, question);
}

// Width that rotates, even; 0 with a problem recorded.
std::uint32_t read_rotary_dim(const ConfigFields& fields, const ModelFamily& family,
                              const RopeObject& object, const RopeQuestion& question,
                              double* share) {
  *share = 1.0;
  std::uint64_t rotary_dim = question.width;
  std::string source = fmt::format("a rotary width of {}", question.width);
  if (!question.whole_width) {
    if (const auto given = fields.count({"rotary_dim"}, {2, question.width})) {
      rotary_dim = *given;
      source = fmt::format("{} {}", fields.path_of("rotary_dim"), *given);
    } else {
      auto factor = object.fields ? object.fields->number({"partial_rotary_factor"}, kShareRange)
                                  : std::nullopt;
      if (!factor) {
        factor = fields.number({"partial_rotary_factor", "rotary_pct", "rope_pct"}, kShareRange);
      }
      const double used = factor.value_or(family.rotary_share);
      rotary_dim = static_cast<std::uint64_t>(static_cast<double>(question.width) * used);
      source = fmt::format("{} of a head of {}", used, question.width);
    }
    *share = static_cast<double>(rotary_dim) / static_cast<double>(question.width);
  }
  if (rotary_dim >= 2 && rotary_dim % 2 == 0) return static_cast<std::uint32_t>(rotary_dim);
  fields.problems().invalid(fmt::format(
      "{} gives {} rotary channels; allowed: an even number of at least 2", source, rotary_dim));
  return 0;
}

bool is_interleaved(const ConfigFields& fields, const ModelFamily& family) {
  return fields.flag("rope_interleave").value_or(family.interleaved);
}

// Hunyuan: "dynamic" with alpha is a fixed change of the base (HunYuanDenseV1RotaryEmbedding).
bool apply_alpha(const ConfigFields& object, std::uint64_t width, RopeFacts* rope) {
  const auto alpha = object.number({"alpha"}, {1e-6, 1e12});
  if (!alpha || width <= 2 || object.text({"type", "rope_type"}) != "dynamic") return false;
  const double dim = static_cast<double>(width);
  rope->theta *= std::pow(*alpha, dim / (dim - 2.0));
  return true;
}

}  // namespace

Positions read_positions(const ConfigFields& fields, const ModelFamily& family,
                         std::uint64_t hidden_size) {
  if (fields.flag("alibi").value_or(false)) return Positions::kAlibi;
  if (const auto attention = fields.object("attn_config")) {
    if (attention->flag("alibi").value_or(false)) return Positions::kAlibi;
    if (attention->flag("rope").value_or(false)) return Positions::kRotary;
  }
  if (family.model_type == "baichuan" && hidden_size == kBaichuan13bHidden) {
    return Positions::kAlibi;  // the 13B models; their config does not say
  }
  if (family.model_type == "zamba2" && !fields.flag("use_mem_rope").value_or(false)) {
    return Positions::kNone;
  }
  if (family.windows == WindowRule::kUnknown || family.model_type == "granitemoehybrid") {
    const std::string type = fields.text({"position_embedding_type"});
    if (type == "alibi") return Positions::kAlibi;
    if (type == "absolute" || type == "learned_absolute") return Positions::kLearned;
    if (type == "nope") return Positions::kNone;
  }
  return family.positions;
}

std::vector<bool> read_rotating_layers(const ConfigFields& fields, const ModelFamily& family,
                                       const std::vector<bool>& is_local) {
  const std::size_t layers = is_local.size();
  // KimiLinearConfig of transformers 5.24.0 drops the field: nothing rotates in its class.
  const bool is_kimi = family.model_type == "kimi_linear";
  std::vector<bool> rotates(layers, !fields.flag("mla_use_nope").value_or(is_kimi));
  for (std::size_t layer = 0; layer < layers; ++layer) {
    if (has_no_rope_set(fields, family, is_local[layer])) rotates[layer] = false;
  }
  bool any_local = false;
  for (const bool local : is_local) any_local = any_local || local;
  if (family.rope_on_windows_only && any_local) return is_local;
  // Llama 4's own files hold an empty list, which its class replaces by the interval.
  const JsonValue* given = fields.value().find("no_rope_layers");
  const bool is_empty = given != nullptr && given->is_array() && given->items.empty();
  const JsonValue* marks = is_empty ? nullptr : fields.layer_list("no_rope_layers", layers);
  if (marks != nullptr) {
    for (std::size_t layer = 0; layer < layers; ++layer) {
      const auto mark = fields.checked_count(
          marks->items[layer], fmt::format("{}[{}]", fields.path_of("no_rope_layers"), layer),
          {0, 1});
      if (!mark) return {};
      rotates[layer] = *mark == 1;  // as transformers reads it: 1 rotates
    }
    return rotates;
  }
  auto interval = fields.count({"no_rope_layer_interval"}, {1, ConfigLimits::kLayersMax});
  if (!interval && (family.model_type == "smollm3" || family.windows == WindowRule::kChunks)) {
    interval = 4;  // SmolLM3Config, Llama4TextConfig
  }
  for (std::size_t layer = 0; interval && layer < layers; ++layer) {
    rotates[layer] = (layer + 1) % *interval != 0;
  }
  return rotates;
}

std::optional<RopeFacts> read_rope(const ConfigFields& fields, const ModelFamily& family,
                                   const RopeQuestion& question) {
  const RopeObject object = find_rope_object(fields, question.is_local);
  if (fields.problems().failed()) return std::nullopt;
  RopeFacts rope;
  rope.theta = read_theta(fields, family, object, question);
  rope.interleaved = is_interleaved(fields, family);
  rope.rotary_dim = read_rotary_dim(fields, family, object, question, &rope.partial_rotary_factor);
  if (fields.problems().failed()) return std::nullopt;
  const bool plain_local = question.is_local && !object.is_per_type &&
                           (has_own_local_base(family) || !scales_local_layers(fields, family));
  if (object.fields && !plain_local && !apply_alpha(*object.fields, question.width, &rope)) {
    read_rope_scaling(fields, *object.fields, question.max_positions, &rope);
  }
  if (is_proportional(family, question) && !object.fields) {
    fields.problems().note(
        "rope_parameters is not given: full layers turn 0.25 of their pairs, as in "
        "Gemma4TextConfig");
    rope.scaling = RopeScaling::kProportional;
    rope.partial_rotary_factor = kProportionalShare;
  }
  if (rope.scaling == RopeScaling::kProportional) {
    rope.rotary_dim = static_cast<std::uint32_t>(question.width);
    if (rope.rotary_dim % 2 != 0) {
      fields.problems().invalid(
          fmt::format("a head of {} turns in pairs; allowed: an even width", question.width));
    }
  }
  if (fields.problems().failed()) return std::nullopt;
  return rope;
}

std::optional<RopeFacts> read_compressed_rope(const ConfigFields& fields, const ModelFamily& family,
                                              const RopeQuestion& question,
                                              std::uint64_t compress_ratio) {
  const RopeObject object = find_compressed_rope_object(fields, compress_ratio);
  if (fields.problems().failed()) return std::nullopt;
  RopeFacts rope;
  rope.interleaved = is_interleaved(fields, family);
  rope.unit_amplitude = true;
  rope.rotary_dim = read_rotary_dim(fields, family, object, question, &rope.partial_rotary_factor);
  if (compress_ratio == 0) {
    rope.theta = read_theta(fields, family, object, question);
  } else {
    auto theta =
        object.is_per_type ? object.fields->number({"rope_theta"}, kThetaRange) : std::nullopt;
    if (!theta) theta = fields.number({"compress_rope_theta"}, kThetaRange);
    if (!theta && !fields.problems().failed()) {
      fields.problems().invalid(
          fmt::format("{} is missing, but some layers are compressed; allowed: a number from {}",
                      fields.path_of("compress_rope_theta"), kThetaRange.min));
    }
    rope.theta = theta.value_or(0.0);
    if (object.fields) {
      read_rope_scaling(fields, *object.fields, question.max_positions, &rope);
      drop_unit_factor(fields, &rope);
    } else {
      fields.problems().note(fmt::format("{} is not given: compressed layers rotate without YaRN",
                                         fields.path_of("rope_scaling")));
    }
  }
  if (fields.problems().failed()) return std::nullopt;
  return rope;
}

void apply_rope_lists(const ConfigFields& fields, std::uint64_t width,
                      std::vector<RopeFacts*> facts) {
  if (const auto theta = fields.first({"rope_theta"}); theta && theta.value->is_array()) {
    const auto thetas = fields.numbers_per_layer({"rope_theta"}, kThetaRange, facts.size());
    for (std::size_t layer = 0; layer < thetas.size(); ++layer) facts[layer]->theta = thetas[layer];
  }
  const auto shares =
      fields.numbers_per_layer({"partial_rotary_factors"}, kShareRange, facts.size());
  for (std::size_t layer = 0; layer < shares.size(); ++layer) {
    const auto dim = static_cast<std::uint32_t>(static_cast<double>(width) * shares[layer]);
    if (dim < 2 || dim % 2 != 0) {
      fields.problems().invalid(
          fmt::format("{}[{}] gives {} rotary channels; allowed: an even number of at least 2",
                      fields.path_of("partial_rotary_factors"), layer, dim));
      return;
    }
    facts[layer]->rotary_dim = dim;
    facts[layer]->partial_rotary_factor = shares[layer];
  }
}

}  // namespace emblema
