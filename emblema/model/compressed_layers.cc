#include "emblema/model/compressed_layers.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "emblema/model/layer_overrides.h"
#include "emblema/model/layer_rope.h"

namespace emblema {
namespace {

constexpr CountRange kWidthRange = {1, ConfigLimits::kWidthMax};

// DeepseekV4Config's defaults, for configs that leave the indexer out.
constexpr std::uint32_t kIndexHeadDim = 128;
constexpr std::uint32_t kIndexHeads = 64;
constexpr std::uint32_t kIndexTopk = 512;

constexpr std::uint64_t kIndexedRatio = 4;  // CSA: the compressed layers that have an indexer

// A word of layer_types, and what it compresses by (DeepseekV4Config of transformers 5.24.0).
struct RatioWord {
  std::string_view name;
  std::string_view older_rate;  // the field that said it before compress_rates did
  std::uint64_t ratio = 0;
};

constexpr auto kRatioWords = std::to_array<RatioWord>({
    {"sliding_attention", "", 0},
    {"compressed_sparse_attention", "compress_rate_csa", 4},
    {"heavily_compressed_attention", "compress_rate_hca", 128},
});

std::uint32_t narrow(std::uint64_t value) {
  return static_cast<std::uint32_t>(value);  // every range ends below 2^32
}

std::vector<std::uint64_t> read_ratio_list(const ConfigFields& text, std::uint64_t layers) {
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

// A word stands for one ratio. A config that gives it another one is not the model counted here.
void check_rate(const ConfigFields& text, const RatioWord& word) {
  if (word.ratio == 0) return;
  const auto rates = text.object("compress_rates");
  const ConfigFields& fields = rates ? *rates : text;
  const std::string_view key = rates ? word.name : word.older_rate;
  const auto rate = fields.count({key}, {0, ConfigLimits::kTokensMax});
  if (!rate || *rate == word.ratio) return;
  text.problems().unsupported(
      fmt::format("{} is {}; this release counts {}", fields.path_of(key), *rate, word.ratio));
}

const RatioWord* read_ratio_word(const ConfigFields& text, const JsonValue& word,
                                 std::uint64_t layer) {
  const std::string path = fmt::format("{}[{}]", text.path_of("layer_types"), layer);
  std::string known;
  for (const RatioWord& entry : kRatioWords) {
    if (word.is_string() && word.text == entry.name) return &entry;
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  text.problems().unsupported(fmt::format("{} is {}; this release counts {} in a DeepSeek-V4", path,
                                          word.describe(), known));
  return nullptr;
}

std::vector<std::uint64_t> read_ratio_words(const ConfigFields& text, std::uint64_t layers) {
  const JsonValue* words = text.layer_list("layer_types", layers);
  std::vector<std::uint64_t> ratios;
  for (std::uint64_t layer = 0; words != nullptr && layer < layers; ++layer) {
    const RatioWord* word = read_ratio_word(text, words->items[layer], layer);
    if (word == nullptr) return {};
    ratios.push_back(word->ratio);
  }
  for (const RatioWord& word : kRatioWords) check_rate(text, word);
  return ratios;
}

// Empty on a problem.
std::vector<std::uint64_t> read_ratios(const ConfigFields& text, std::uint64_t layers) {
  if (text.has("compress_ratios")) return read_ratio_list(text, layers);
  if (text.has("layer_types")) return read_ratio_words(text, layers);
  text.problems().invalid(
      fmt::format("{} is missing; allowed: a list of 0, 4 and 128, or layer_types in its place",
                  text.path_of("compress_ratios")));
  return {};
}

void fill_indexer(const ConfigFields& text, ModelConfig* config) {
  const auto width = text.count({"index_head_dim"}, kWidthRange);
  const auto heads = text.count({"index_n_heads"}, {1, ConfigLimits::kHeadsMax});
  const auto topk = text.count({"index_topk"}, kWidthRange);
  if (!width || !heads || !topk) {
    text.problems().note(
        fmt::format("index_head_dim, index_n_heads or index_topk is not given: {}, {} and {} are "
                    "assumed, as in "
                    "DeepseekV4Config",
                    kIndexHeadDim, kIndexHeads, kIndexTopk));
  }
  config->index_head_dim = narrow(width.value_or(kIndexHeadDim));
  config->index_n_heads = narrow(heads.value_or(kIndexHeads));
  config->index_topk = narrow(topk.value_or(kIndexTopk));
}

// What all layers have in common.
struct CommonWidths {
  std::uint32_t entry = 0;
  std::uint32_t rope = 0;
  std::uint32_t window = 0;
};

CommonWidths read_common_widths(const ConfigFields& text) {
  CommonWidths widths;
  widths.entry = narrow(text.need_count("head_dim", kWidthRange));
  const std::uint64_t rope_max = std::max<std::uint64_t>(widths.entry, 2);
  widths.rope = narrow(text.need_count("qk_rope_head_dim", {2, rope_max}));
  widths.window = narrow(text.need_count("sliding_window", {1, ConfigLimits::kWindowTokensMax}));
  return widths;
}

}  // namespace

bool has_compressed_layers(const ConfigFields& text, const ModelFamily& family) {
  return text.has("compress_ratios") || text.has("compress_rates") ||
         family.model_type == "deepseek_v4";
}

void fill_compressed(const ConfigFields& text, const ModelFamily& family, ModelConfig* config) {
  const auto ratios = read_ratios(text, config->num_hidden_layers);
  const CommonWidths widths = read_common_widths(text);
  const auto q_rank = text.count({"q_lora_rank"}, kWidthRange);
  if (text.problems().failed()) return;
  if (q_rank) config->q_lora_rank = narrow(*q_rank);
  config->qk_rope_head_dim = widths.rope;
  if (std::find(ratios.begin(), ratios.end(), kIndexedRatio) != ratios.end()) {
    fill_indexer(text, config);
  }
  const RopeQuestion question = {false, widths.rope, true, config->max_positions};
  std::array<std::optional<RopeFacts>, 2> by_compression;
  for (std::size_t layer = 0; layer < ratios.size(); ++layer) {
    LayerFacts& facts = config->layers[layer];
    facts.reach = LayerReach::kWindow;
    facts.window_tokens = widths.window;
    facts.num_key_value_heads = 1;
    facts.head_dim = widths.entry;
    facts.v_head_dim = widths.entry;
    facts.compress_ratio = narrow(ratios[layer]);
    facts.has_indexer = ratios[layer] == kIndexedRatio;
    facts.has_sinks = true;
    auto& rope = by_compression[ratios[layer] > 0 ? 1 : 0];
    if (!rope) rope = read_compressed_rope(text, family, question, ratios[layer]);
    if (!rope) return;
    facts.rope = *rope;
  }
  apply_layer_overrides(text, config);
}

}  // namespace emblema
