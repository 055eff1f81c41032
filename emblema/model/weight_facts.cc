#include "emblema/model/weight_facts.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "emblema/model/config_fields.h"
#include "emblema/model/layer_overrides.h"
#include "emblema/model/model_config.h"
#include "emblema/model/model_family.h"
#include "emblema/model/weight_quantization.h"

namespace emblema {
namespace {

constexpr CountRange kWidthRange = {1, ConfigLimits::kWidthMax};
constexpr CountRange kWidthOrNoneRange = {0, ConfigLimits::kWidthMax};
constexpr CountRange kExpertsRange = {0, ConfigLimits::kHeadsMax};
constexpr CountRange kLayersRange = {0, ConfigLimits::kLayersMax};

std::uint32_t narrow(std::uint64_t value) {
  return static_cast<std::uint32_t>(value);  // every range ends below 2^32
}

class WeightReader {
 public:
  WeightReader(const ConfigFields& text, const ConfigFields& outer, const ModelConfig& config)
      : text_(text), outer_(outer), config_(config), layers_(config.num_hidden_layers) {}

  // Empty: all is there.
  const std::string& missing() const { return missing_; }

  WeightFacts read(const WeightClass& block) {
    facts_.block = block;
    facts_.layers.assign(layers_, LayerWeightFacts{});
    facts_.vocab_size =
        narrow(text_.count({"vocab_size", "padded_vocab_size"}, kWidthRange).value_or(0));
    if (facts_.vocab_size == 0) lacks("vocab_size");
    if (config_.hidden_size == 0) lacks("hidden_size");
    read_flags();
    read_dtype();
    read_mixer();
    read_compressed();
    read_layer_embedding();
    read_alternating();
    read_shared_blocks();
    read_experts();
    read_layers();
    facts_.quantization = read_quantization(text_);
    if (!facts_.quantization && !failed()) facts_.quantization = read_quantization(outer_);
    return facts_;
  }

 private:
  bool failed() const { return text_.problems().failed(); }

  void lacks(std::string_view field) {
    if (missing_.empty()) missing_ = fmt::format("{} is not given", text_.path_of(field));
  }

  // The language part's own, else what stands around it, else the class's.
  bool flag(std::string_view key, bool assumed) const {
    if (const auto own = text_.flag(key)) return *own;
    return outer_.flag(key).value_or(assumed);
  }

  void read_flags() {
    const WeightClass& block = facts_.block;
    facts_.tie_word_embeddings = flag("tie_word_embeddings", block.tied);
    facts_.attention_bias = block.qkv_bias;
    for (const std::string_view key : {"qkv_bias", "attention_bias"}) {
      if (const auto given = text_.flag(key)) facts_.attention_bias = *given;
    }
    facts_.output_bias =
        text_.flag("attention_out_bias").value_or(facts_.attention_bias && block.output_bias);
    facts_.keys_are_values = text_.flag("attention_k_eq_v").value_or(false);
    facts_.mlp_bias = text_.flag("mlp_bias").value_or(false);
    facts_.qk_norm = block.qk_norm != QkNorm::kNone &&
                     text_.flag("use_qk_norm").value_or(!block.qk_norm_by_flag);
  }

  void read_dtype() {
    const std::string& dtype = config_.torch_dtype;
    facts_.dtype_bytes = dtype == "float32" || dtype == "torch.float32" ? 4 : 2;
  }

  void read_mixer() {
    for (const std::string_view key : {"mamba_conv_bias", "use_conv_bias"}) {
      if (const auto given = text_.flag(key)) facts_.conv_bias = *given;
    }
    for (const std::string_view key :
         {"mamba_proj_bias", "projectors_bias", "use_bias", "add_bias_linear"}) {
      if (text_.flag(key).value_or(false)) facts_.mixer_bias = true;
    }
    facts_.mixer_norm = text_.flag("mamba_rms_norm").value_or(facts_.block.mixer_norm);
    const JsonValue* rank = text_.value().find("mamba_dt_rank");
    if (rank == nullptr) return;
    if (rank->is_string() && rank->text == "auto") {
      facts_.time_step_rank = (config_.hidden_size + 15) / 16;  // as in MambaConfig
      return;
    }
    facts_.time_step_rank = narrow(text_.count({"mamba_dt_rank"}, kWidthRange).value_or(0));
  }

  std::uint32_t need(ConfigFields::Aliases names, CountRange range) {
    const auto value = text_.count(names, range);
    if (!value) lacks(*names.begin());
    return narrow(value.value_or(1));
  }

  void read_compressed() {
    if (config_.family != AttentionFamily::kCompressed) return;
    CompressedWeightFacts facts;
    if (!config_.q_lora_rank) lacks("q_lora_rank");
    facts.o_groups = need({"o_groups"}, {1, ConfigLimits::kHeadsMax});
    facts.o_lora_rank = need({"o_lora_rank"}, kWidthRange);
    facts.streams = need({"hc_mult"}, {1, 1024});
    facts.hash_layers = count_hash_layers();
    facts_.compressed = facts;
  }

  // What follows the attention of each layer, as transformers 5.24.0 writes it: "dense", "sparse";
  // of DeepSeek-V4 "moe", and "hash_moe" for the first layers, which pick experts by the token's
  // number. Empty: the field is absent.
  std::vector<std::string_view> read_mlp_words() {
    const JsonValue* types = text_.value().find("mlp_layer_types");
    std::vector<std::string_view> words;
    for (std::uint64_t layer = 0; types != nullptr && layer < layers_; ++layer) {
      const bool is_given = layer < types->items.size();
      const std::string_view word = is_given ? std::string_view(types->items[layer].text) : "";
      words.push_back(word);
      const bool is_known =
          word == "dense" || word == "sparse" || word == "moe" || word == "hash_moe";
      const bool is_late = word == "hash_moe" && layer > 0 && words[layer - 1] != word;
      if (is_known && !is_late) continue;
      if (missing_.empty()) {
        missing_ = fmt::format("{}[{}] is no word that is read here",
                               text_.path_of("mlp_layer_types"), layer);
      }
    }
    return words;
  }

  std::uint32_t count_hash_layers() {
    const auto words = read_mlp_words();
    if (words.empty()) return need({"num_hash_layers"}, kLayersRange);
    return narrow(static_cast<std::uint64_t>(std::count(words.begin(), words.end(), "hash_moe")));
  }

  void read_layer_embedding() {
    LayerEmbeddingFacts facts;
    facts.width =
        narrow(text_.count({"hidden_size_per_layer_input"}, kWidthOrNoneRange).value_or(0));
    if (facts.width == 0 && facts_.block.alternates) lacks("hidden_size_per_layer_input");
    if (facts.width == 0) return;
    facts.vocab_size = need({"vocab_size_per_layer_input"}, kWidthRange);
    facts_.layer_embedding = facts;
  }

  void read_alternating() {
    if (!facts_.block.alternates) return;
    AlternatingFacts facts;
    facts.streams = need({"altup_num_inputs"}, {1, 1024});
    facts.laurel_rank = need({"laurel_rank"}, kWidthRange);
    facts_.alternating = facts;
  }

  void read_shared_blocks() {
    if (!facts_.block.shares_blocks) return;
    SharedBlockFacts facts;
    facts.blocks = need({"num_mem_blocks"}, {1, ConfigLimits::kLayersMax});
    facts.intermediate_size = need({"intermediate_size", "ffn_hidden_size"}, kWidthRange);
    facts.adapter_rank = need({"adapter_rank", "lora_rank"}, kWidthRange);
    for (const std::string_view key :
         {"use_shared_attention_adapter", "use_shared_attention_lora"}) {
      if (text_.flag(key).value_or(false)) facts.attention_adapters = true;
    }
    facts_.shared_blocks = facts;
  }

  std::uint64_t expert_width() const {
    if (const auto own =
            text_.count({"moe_intermediate_size", "expert_ffn_hidden_size", "moe_ffn_hidden_size"},
                        kWidthOrNoneRange);
        own.value_or(0) > 0) {
      return *own;
    }
    const JsonValue* dense = text_.value().find("intermediate_size");
    if (dense == nullptr || dense->is_array()) return 0;
    return text_.count({"intermediate_size"}, kWidthOrNoneRange).value_or(0);
  }

  void read_experts() {
    const auto routed = text_.count(
        {"n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts"}, kExpertsRange);
    if (routed.value_or(0) == 0) return;
    ExpertFacts experts;
    experts.routed = narrow(*routed);
    experts.identity = narrow(text_.count({"zero_expert_num"}, kExpertsRange).value_or(0));
    experts.intermediate_size = narrow(expert_width());
    if (experts.intermediate_size == 0) lacks("moe_intermediate_size");
    const auto visited = text_.count({"num_experts_per_tok", "num_experts_per_token",
                                      "experts_per_token", "moe_topk", "moe_k", "top_k_experts"},
                                     {1, std::uint64_t{experts.routed} + experts.identity});
    experts.per_token = narrow(visited.value_or(0));
    if (!visited) lacks("num_experts_per_tok");
    experts.shared_intermediate_size = narrow(shared_width(experts));
    facts_.experts = experts;
  }

  std::uint64_t shared_width(const ExpertFacts& experts) {
    // Llama 4 has one shared expert beside its routed ones, and no field for it.
    const bool llama4 = facts_.block.model_type.starts_with("llama4");
    const auto count = text_.count(
        {"n_shared_experts", "num_shared_experts", "moe_num_shared_experts"}, kExpertsRange);
    const auto given =
        text_.count({"shared_expert_intermediate_size", "moe_shared_expert_intermediate_size",
                     "shared_intermediate_size"},
                    kWidthOrNoneRange);
    if (given) return *given;
    const std::uint64_t width = count.value_or(llama4 ? 1 : 0) * experts.intermediate_size;
    if (width <= ConfigLimits::kWidthMax) return width;
    text_.problems().invalid(
        fmt::format("{} is {}, shared experts {} wide in all; allowed: up to {}",
                    text_.path_of("n_shared_experts"), *count, width, ConfigLimits::kWidthMax));
    return 0;
  }

  void read_layers() {
    if (failed()) return;
    const std::vector<bool> sparse = read_expert_layers();
    if (failed()) return;
    bool any_dense = false;
    for (std::uint64_t layer = 0; layer < layers_; ++layer) {
      facts_.layers[layer].has_experts = facts_.experts.has_value() && sparse[layer];
      any_dense = any_dense || has_dense(layer);
    }
    if (any_dense) read_dense_widths();
  }

  // Nemotron-H: a layer is one thing alone.
  const JsonValue* letters() const {
    const JsonValue* pattern = text_.value().find("hybrid_override_pattern");
    const bool usable =
        pattern != nullptr && pattern->is_string() && pattern->text.size() >= layers_;
    return usable ? pattern : nullptr;
  }

  // Its newer spelling: words, of which "mlp" and "moe" are layers of their own.
  const JsonValue* words() const {
    const JsonValue* list = text_.value().find("layers_block_type");
    const bool usable = facts_.block.model_type == "nemotron_h" && list != nullptr &&
                        list->is_array() && list->items.size() >= layers_;
    return usable ? list : nullptr;
  }

  bool has_dense(std::uint64_t layer) const {
    if (facts_.shared_blocks) return false;  // theirs is shared too
    if (const JsonValue* pattern = letters()) return pattern->text[layer] == '-';
    if (const JsonValue* list = words()) return list->items[layer].text == "mlp";
    return facts_.block.dense_beside_experts || !facts_.layers[layer].has_experts;
  }

  void read_dense_widths() {
    const bool double_wide = text_.flag("use_double_wide_mlp").value_or(false);  // Gemma-4
    const JsonValue* outer_width = text_.value().find("intermediate_size_mlp");  // Llama 4
    std::vector<std::uint64_t> widths =
        outer_width != nullptr
            ? text_.counts_per_layer({"intermediate_size_mlp"}, kWidthRange, layers_)
            : text_.counts_per_layer(
                  {"dense_intermediate_size", "intermediate_size", "ffn_hidden_size"}, kWidthRange,
                  layers_);
    if (failed()) return;
    if (widths.empty()) {
      lacks("intermediate_size");
      return;
    }
    for (std::uint64_t layer = 0; layer < layers_; ++layer) {
      if (!has_dense(layer)) continue;
      const bool wide = double_wide && config_.layers[layer].cache == LayerCache::kShared;
      facts_.layers[layer].intermediate_size = narrow(widths[layer] * (wide ? 2 : 1));
    }
  }

  // Which layers have a mixture; all of them when nothing says otherwise.
  std::vector<bool> read_expert_layers() {
    std::vector<bool> sparse(layers_, facts_.experts.has_value());
    if (!facts_.experts) return sparse;
    if (const JsonValue* pattern = letters()) {
      for (std::uint64_t layer = 0; layer < layers_; ++layer) {
        sparse[layer] = pattern->text[layer] == 'E';
      }
      return sparse;
    }
    if (const JsonValue* list = words()) {
      for (std::uint64_t layer = 0; layer < layers_; ++layer) {
        sparse[layer] = list->items[layer].text == "moe";
      }
      return sparse;
    }
    if (const auto words = read_mlp_words(); !words.empty()) {
      for (std::uint64_t layer = 0; layer < layers_; ++layer) {
        sparse[layer] = words[layer] != "dense";
      }
      return sparse;
    }
    apply_periods(&sparse);
    if (!failed()) apply_dense_lists(&sparse);
    return sparse;
  }

  void apply_periods(std::vector<bool>* sparse) {
    const auto first = text_.count({"first_k_dense_replace"}, kLayersRange).value_or(0);
    const auto step =
        text_.count({"decoder_sparse_step", "interleave_moe_layer_step"}, {1, kLayersRange.max});
    const auto period = text_.count({"expert_layer_period"}, {1, kLayersRange.max});
    const auto offset = text_.count({"expert_layer_offset"}, kLayersRange).value_or(0);
    const auto marks = text_.counts_per_layer({"moe_layer_freq"}, kLayersRange, layers_);
    if (failed()) return;
    const JsonValue* freq = text_.value().find("moe_layer_freq");
    const bool listed = freq != nullptr && freq->is_array();
    for (std::uint64_t layer = 0; layer < layers_; ++layer) {
      bool here = layer >= first;
      if (step) here = here && (layer + 1) % *step == 0;
      if (period) here = here && layer % *period == offset;
      if (listed) here = here && marks[layer] > 0;
      if (!listed && !marks.empty() && marks[layer] > 0) here = here && layer % marks[layer] == 0;
      here = here && layer % facts_.block.experts_every == 0;
      (*sparse)[layer] = here;
    }
  }

  void apply_dense_lists(std::vector<bool>* sparse) {
    const JsonValue* dense = text_.value().find("mlp_only_layers");
    if (dense == nullptr) return;
    if (!dense->is_array()) {
      text_.problems().invalid(fmt::format("{} is {}; allowed: a list of layers",
                                           text_.path_of("mlp_only_layers"), dense->describe()));
      return;
    }
    for (std::size_t i = 0; i < dense->items.size(); ++i) {
      const auto path = fmt::format("{}[{}]", text_.path_of("mlp_only_layers"), i);
      const auto layer = text_.checked_count(dense->items[i], path, {0, layers_ - 1});
      if (!layer) return;
      (*sparse)[*layer] = false;
    }
  }

  const ConfigFields& text_;
  const ConfigFields& outer_;
  const ModelConfig& config_;
  std::uint64_t layers_;
  std::string missing_;
  WeightFacts facts_;
};

// Does `text` start with a match of `pattern`, where * is any run of characters? The match must end
// at the end of `text` or before a dot.
bool glob_matches(std::string_view pattern, std::string_view text) {
  std::size_t at = 0;
  std::size_t in = 0;
  std::optional<std::size_t> star;
  std::size_t resume = 0;
  while (true) {
    const bool at_boundary = in == text.size() || text[in] == '.';
    if (at == pattern.size() && at_boundary) return true;
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      resume = in;
    } else if (at < pattern.size() && in < text.size() && pattern[at] == text[in]) {
      ++at;
      ++in;
    } else if (star && resume < text.size()) {
      at = *star + 1;
      in = ++resume;
    } else {
      return false;
    }
  }
}

// "model.language_model.layers.0" and "language_model.model.layers.0" are "model.layers.0".
std::string without_wrapper(std::string_view pattern) {
  static constexpr std::string_view kWrapper = "language_model.";
  std::string plain(pattern);
  const std::size_t at = plain.find(kWrapper);
  if (at == 0 || (at != std::string::npos && plain[at - 1] == '.'))
    plain.erase(at, kWrapper.size());
  return plain;
}

// A config's own part for a tower, else an architecture that is named for more than text.
std::string find_towers(const ConfigFields& outer, const ModelConfig& config) {
  for (const std::string_view key :
       {"vision_config", "audio_config", "visual", "mm_vision_tower", "vit_config"}) {
    const JsonValue* part = outer.value().find(key);
    if (part != nullptr && part->kind != JsonValue::Kind::kNull) return std::string(key);
  }
  for (const std::string& name : config.architectures) {
    if (name.find("ForConditionalGeneration") != std::string::npos) return shortened(name);
  }
  return "";
}

}  // namespace

void read_weight_facts(const ConfigFields& text, const ConfigFields& outer, ModelConfig* config) {
  const ModelFamily& family = find_model_family(config->model_type, config->architectures);
  const auto block = find_weight_class(family.model_type);
  const std::string override_path = find_weight_override(text);
  WeightReader reader(text, outer, *config);
  WeightFacts facts = reader.read(block.value_or(WeightClass{}));
  config->kv_cache_scheme = read_kv_cache_scheme(text);
  if (!config->kv_cache_scheme) config->kv_cache_scheme = read_kv_cache_scheme(outer);
  if (text.problems().failed()) return;
  if (!block) {
    config->weights_missing =
        fmt::format("a rule for the weights of model_type '{}' is not in this release",
                    shortened(config->model_type));
  } else if (!override_path.empty()) {
    config->weights_missing =
        fmt::format("{} makes a layer differ in its weights", shortened(override_path));
  } else if (!reader.missing().empty()) {
    config->weights_missing = reader.missing();
  } else {
    facts.towers = find_towers(outer, *config);
    config->weights = std::move(facts);
  }
}

bool is_not_converted(const QuantizationFacts& facts, std::string_view module) {
  for (const std::string& spelled : facts.not_converted) {
    const std::string pattern = without_wrapper(spelled);
    if (glob_matches(pattern, module)) return true;
    // A plain name may stand anywhere in the module's path, at a dot.
    for (std::size_t dot = module.find('.'); dot != std::string_view::npos;
         dot = module.find('.', dot + 1)) {
      if (glob_matches(pattern, module.substr(dot + 1))) return true;
    }
  }
  return false;
}

}  // namespace emblema
