#include "emblema/model/model_config.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "emblema/model/config_fields.h"
#include "emblema/model/json_value.h"
#include "emblema/model/layer_facts.h"
#include "emblema/model/model_family.h"
#include "emblema/model/uncounted_features.h"

namespace emblema {
namespace {

// What a config may leave to its class: the positions; and, where it is the language part of a
// multimodal one, its sizes. A plain config.json without those is broken.
struct ClassDefaults {
  std::string_view model_type;
  std::string_view class_name;
  std::uint32_t hidden_size = 0;
  std::uint32_t layers = 0;
  std::uint32_t heads = 0;
  std::uint32_t key_value_heads = 0;
  std::uint64_t max_positions = 0;
};

constexpr auto kClassDefaults = std::to_array<ClassDefaults>({
    {"gemma3_text", "Gemma3TextConfig", 2304, 26, 8, 4, 131'072},
    {"gemma3n_text", "Gemma3nTextConfig", 2048, 35, 8, 2, 32'768},
    {"llama", "LlamaConfig", 4096, 32, 32, 32, 2048},
    {"mistral", "MistralConfig", 4096, 32, 32, 8, 131'072},
});

// The least of them counts; model_max_length overrides them (as in vLLM).
constexpr auto kPositionNames = std::to_array<std::string_view>(
    {"max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_target_positions",
     "max_seq_length", "seq_len", "max_sequence_length", "max_position_embedding", "n_ctx",
     "max_context_length"});
constexpr std::string_view kPositionsOverride = "model_max_length";

// A config that has one of these describes layers itself.
constexpr auto kLayerCountNames =
    std::to_array<std::string_view>({"num_hidden_layers", "n_layer", "n_layers", "num_layers",
                                     "num_transformer_layers", "decoder_layers"});
constexpr auto kAttentionNames = std::to_array<std::string_view>(
    {"num_attention_heads", "num_key_value_heads", "n_head", "n_heads", "num_heads",
     "decoder_attention_heads", "kv_lora_rank"});

// Where several are present, SGLang's order.
constexpr auto kLanguageNames = std::to_array<std::string_view>(
    {"thinker_config", "llm_config", "language_config", "text_config"});
// The name of the language part in some configs, of a checkpoint in others.
constexpr std::string_view kLanguageModel = "language_model";
// Names that mean as little as they say: read where nothing else describes a model.
constexpr auto kVagueNames = std::to_array<std::string_view>({"model", "decoder"});

// The language part, and what is around it. The outer sizes are those of a vision tower or of
// nothing at all, so nothing but the data type and the architectures is ever read there.
struct Levels {
  JsonValue text;
  std::string path;
};

void set_if_absent(JsonValue* object, std::string_view key, std::uint64_t value,
                   std::string_view class_name, ConfigProblems* problems) {
  if (value == 0 || object->find(key) != nullptr) return;
  JsonValue number;
  number.kind = JsonValue::Kind::kUnsigned;
  number.whole = value;
  number.real = static_cast<double>(value);
  // In front, where it also hides a null member of that name.
  object->keys.insert(object->keys.begin(), std::string(key));
  object->items.insert(object->items.begin(), std::move(number));
  problems->note(fmt::format("{} is not given: {} is assumed, as in {}", key, value, class_name));
}

template <class Names>
bool has_any(const JsonValue& object, const Names& names) {
  return std::any_of(names.begin(), names.end(),
                     [&object](std::string_view name) { return object.find(name) != nullptr; });
}

void apply_class_defaults(JsonValue* text, ConfigProblems* problems) {
  const JsonValue* type = text->find("model_type");
  if (type == nullptr || !type->is_string()) return;
  const std::string model_type = type->text;  // the object moves below
  for (const ClassDefaults& entry : kClassDefaults) {
    if (entry.model_type != model_type) continue;
    set_if_absent(text, "hidden_size", entry.hidden_size, entry.class_name, problems);
    set_if_absent(text, "num_hidden_layers", entry.layers, entry.class_name, problems);
    const bool has_heads = text->find("num_attention_heads") != nullptr;
    if (!has_heads || model_type.starts_with("gemma3")) {
      set_if_absent(text, "num_key_value_heads", entry.key_value_heads, entry.class_name, problems);
    }
    set_if_absent(text, "num_attention_heads", entry.heads, entry.class_name, problems);
  }
}

// An object that counts layers, itself or further in. As deep as JsonLimits allow.
bool describes_layers(const JsonValue& value) {
  if (!value.is_object()) return false;
  if (has_any(value, kLayerCountNames)) return true;
  const auto is_inside = [&value](std::string_view name) {
    const JsonValue* inner = value.find(name);
    return inner != nullptr && describes_layers(*inner);
  };
  return std::any_of(kLanguageNames.begin(), kLanguageNames.end(), is_inside) ||
         is_inside(kLanguageModel) ||
         std::any_of(kVagueNames.begin(), kVagueNames.end(), is_inside);
}

// The name of the object to step into, or "" where the level is the language part.
std::string_view next_level(const ConfigFields& level) {
  for (const std::string_view name : kLanguageNames) {
    const auto inner = level.object(name);
    if (inner && !inner->value().items.empty()) return name;
  }
  const auto describes = [&level](std::string_view name) {
    const JsonValue* inner = level.value().find(name);
    return inner != nullptr && describes_layers(*inner);
  };
  if (describes(kLanguageModel)) return kLanguageModel;
  for (const std::string_view name : kVagueNames) {
    if (!describes(name)) continue;
    if (!has_any(level.value(), kLayerCountNames) && !has_any(level.value(), kAttentionNames)) {
      return name;
    }
    level.problems().note(
        fmt::format("{} describes layers too and is not read: what stands beside "
                    "it is taken for the model",
                    level.path_of(name)));
  }
  return "";
}

// Walks into the language part.
Levels find_language_part(const JsonValue& root, ConfigProblems* problems) {
  Levels levels{root, ""};
  // A decoder that stands beside its encoder: T5Gemma, TrOCR.
  const JsonValue* encodes = root.find("is_encoder_decoder");
  const JsonValue* decoder = root.find("decoder");
  if (encodes != nullptr && encodes->boolean && decoder != nullptr && decoder->is_object()) {
    levels = {*decoder, "decoder"};
  }
  while (!problems->failed()) {
    const ConfigFields level(levels.text, levels.path, problems);
    const std::string_view name = next_level(level);
    if (name.empty()) break;
    JsonValue inner = *levels.text.find(name);  // a copy: it is part of what it replaces
    levels = {std::move(inner), level.path_of(name)};
  }
  if (!levels.path.empty()) apply_class_defaults(&levels.text, problems);
  return levels;
}

std::vector<std::string> read_architectures(const ConfigFields& text, const ConfigFields& outer) {
  std::vector<std::string> names;
  for (const ConfigFields* fields : {&text, &outer}) {
    const JsonValue* list = fields->value().find("architectures");
    if (list == nullptr) continue;
    for (const JsonValue& item : list->items) {
      if (list->is_array() && item.is_string()) names.push_back(item.text);
    }
    if (!names.empty()) return names;
  }
  return names;
}

// 0: the config names no length.
std::uint64_t read_max_positions(const ConfigFields& text) {
  const CountRange range = {1, ConfigLimits::kTokensMax};
  if (const auto all = text.count({kPositionsOverride}, range)) return *all;
  std::uint64_t smallest = 0;
  for (const std::string_view name : kPositionNames) {
    const auto length = text.count({name}, range);
    if (length && (smallest == 0 || *length < smallest)) smallest = *length;
  }
  return smallest;
}

// A class' default, nested or not. It bounds lengths and is no fact that others are made of, so it
// comes after the layers: YaRN still wants the length that it stretches to be said.
void assume_positions(const ConfigFields& text, ModelConfig* config) {
  if (config->max_positions > 0) return;
  for (const ClassDefaults& entry : kClassDefaults) {
    if (entry.model_type != config->model_type) continue;
    config->max_positions = entry.max_positions;
    text.problems().note(
        fmt::format("max_position_embeddings is not given: {} is assumed, as in {}",
                    entry.max_positions, entry.class_name));
  }
}

// Hybrid models whose class counts the words or letters of its layers instead.
std::optional<std::uint64_t> count_listed_layers(const ConfigFields& text) {
  const auto found = text.first({"hybrid_override_pattern", "layers_block_type"});
  if (!found) return std::nullopt;
  const std::uint64_t layers =
      found.value->is_string() ? found.value->text.size() : found.value->items.size();
  if (layers == 0 || layers > ConfigLimits::kLayersMax) return std::nullopt;
  text.problems().note(
      fmt::format("num_hidden_layers is not given: {} has {}", found.path, layers));
  return layers;
}

// `is_decoder`: the sizes of an encoder stand beside the decoder's own (Whisper-turbo has 32 and 4
// layers).
std::uint32_t read_layer_count(const ConfigFields& text, const ModelFamily& family,
                               bool is_decoder) {
  const CountRange range = {1, ConfigLimits::kLayersMax};
  std::optional<std::uint64_t> layers;
  if (is_decoder) {
    layers =
        text.count({"decoder_layers", "num_decoder_layers", "decoder_num_hidden_layers"}, range);
  }
  if (!layers)
    layers = text.count({"num_hidden_layers", "n_layer", "n_layers", "num_layers",
                         "num_transformer_layers", "decoder_layers"},
                        range);
  if (!layers && !text.problems().failed()) layers = count_listed_layers(text);
  if (!layers) {
    if (!text.problems().failed()) {
      text.problems().invalid(fmt::format("{} is missing; allowed: {} to {}",
                                          text.path_of("num_hidden_layers"), range.min, range.max));
    }
    return 0;
  }
  if (!family.model_type.starts_with("longcat_flash")) return static_cast<std::uint32_t>(*layers);
  text.problems().note(
      fmt::format("{} layers of two attention sublayers each: read as {} attention layers", *layers,
                  2 * *layers));
  return static_cast<std::uint32_t>(2 * *layers);
}

void read_softmax_facts(const ConfigFields& text, const ModelFamily& family, ModelConfig* config) {
  const auto cap = text.number({"attn_logit_softcapping"}, {0.0, 1e9});
  if (cap.value_or(0.0) > 0.0) config->attn_logit_softcapping = cap;
  if (family.unit_scale) {
    config->query_pre_attn_scalar = 1.0;
    return;
  }
  const NumberRange range = {1e-9, 1e9};
  config->query_pre_attn_scalar = text.number({"query_pre_attn_scalar"}, range);
  auto scale = text.number({"attention_multiplier"}, range);  // Granite: the scale itself
  if (const auto attention = text.object("attn_config"); attention && !scale) {
    scale = attention->number({"softmax_scale"}, range);  // MPT
  }
  if (scale && !config->query_pre_attn_scalar) {
    config->query_pre_attn_scalar = 1.0 / (*scale * *scale);
  }
}

void read_common_facts(const ConfigFields& text, const ConfigFields& outer,
                       const ModelFamily& family, ModelConfig* config) {
  config->hidden_size = static_cast<std::uint32_t>(
      text.count({"hidden_size", "n_embd", "d_model", "model_dim"}, {1, ConfigLimits::kWidthMax})
          .value_or(0));
  config->max_positions = read_max_positions(text);
  config->num_nextn_predict_layers =
      static_cast<std::uint32_t>(text.count({"num_nextn_predict_layers", "mtp_num_hidden_layers",
                                             "num_mtp_modules", "num_mtp_layers", "n_mtp_layers"},
                                            {0, ConfigLimits::kLayersMax})
                                     .value_or(0));
  config->rms_norm_eps = text.number({"rms_norm_eps", "layer_norm_epsilon", "layer_norm_eps",
                                      "norm_epsilon", "norm_eps", "layernorm_epsilon"},
                                     {0.0, 1.0})
                             .value_or(config->rms_norm_eps);
  config->torch_dtype = text.text({"torch_dtype", "dtype"});
  if (config->torch_dtype.empty()) config->torch_dtype = outer.text({"torch_dtype", "dtype"});
  read_softmax_facts(text, family, config);
}

void note_family(const ConfigFields& text, const ModelFamily& family, const ModelConfig& config) {
  if (family.model_type == config.model_type && !config.model_type.empty()) return;
  const std::string said = config.model_type.empty() ? std::string("model_type is not given")
                                                     : fmt::format("model_type '{}' is not known",
                                                                   shortened(config.model_type));
  std::string_view how =
      "grouped attention from num_attention_heads, num_key_value_heads, head_dim";
  if (config.family == AttentionFamily::kLatent) how = "latent attention from kv_lora_rank";
  if (config.family == AttentionFamily::kCompressed) how = "DeepSeek-V4 from compress_ratios";
  if (!family.model_type.empty()) {
    text.problems().note(
        fmt::format("{}; read as '{}' from architectures", said, family.model_type));
  } else {
    text.problems().note(fmt::format("{}; read as {}", said, how));
  }
}

void read_config(const ConfigFields& text, const ConfigFields& outer, ModelConfig* config) {
  refuse_uncounted_features(text, outer);
  if (text.problems().failed()) return;
  config->model_type = text.text({"model_type"});
  config->architectures = read_architectures(text, outer);
  const ModelFamily& family = find_model_family(config->model_type, config->architectures);
  config->family = read_attention_family(text, family);
  const bool is_decoder = attends_to_encoder(text, outer, family);
  refuse_unplain_attention(text, outer, family, config->family, is_decoder);
  config->num_hidden_layers = read_layer_count(text, family, is_decoder);
  read_common_facts(text, outer, family, config);
  if (text.problems().failed()) return;
  note_family(text, family, *config);
  fill_layers(text, outer, family, config);
  assume_positions(text, config);
  if (!text.problems().failed()) refuse_unread_state(text, family, *config);
  if (!text.problems().failed()) read_weight_facts(text, outer, config);
}

}  // namespace

Result<ModelConfig> parse_model_config(std::string_view json, std::string_view name) {
  const std::string shown(name);
  if (json.size() > ConfigLimits::kFileBytesMax) {
    return fail(ErrorCode::Invalid, fmt::format("{} has {} bytes; allowed: up to {}", shown,
                                                json.size(), ConfigLimits::kFileBytesMax));
  }
  const auto root = parse_json_object(json);
  if (!root) {
    return fail(root.error().code, fmt::format("{} {}", shown, root.error().message));
  }
  ConfigProblems problems;
  const Levels levels = find_language_part(*root, &problems);
  ModelConfig config;
  config.name = shown;
  if (!problems.failed()) {
    const ConfigFields text(levels.text, levels.path, &problems);
    const ConfigFields outer(*root, "", &problems);
    read_config(text, outer, &config);
  }
  if (problems.failed()) {
    return fail(problems.error().code, fmt::format("{}: {}", shown, problems.error().message));
  }
  config.notes = problems.notes();
  return config;
}

}  // namespace emblema
