#include "emblema/model/layer_indexers.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "emblema/model/layer_makeup.h"

namespace emblema {
namespace {

constexpr CountRange kWidthRange = {1, ConfigLimits::kWidthMax};
constexpr CountRange kTopkRange = {0, ConfigLimits::kWidthMax};
constexpr CountRange kIndexHeadsRange = {1, ConfigLimits::kHeadsMax};
constexpr std::string_view kBlockSparseWord = "minimax_m3_sparse";

std::uint32_t narrow(std::uint64_t value) {
  return static_cast<std::uint32_t>(value);  // every range ends below 2^32
}

// The layers that layer_types calls indexed; read_layer_makeup has checked every word.
struct IndexedWords {
  std::vector<bool> layers;
  std::string first;  // "layer_types[3] is \"indexed_attention\""; empty: none
  std::string_view word;
};

IndexedWords read_indexed_words(const ConfigFields& text, std::uint64_t layers) {
  IndexedWords result{std::vector<bool>(layers, false), "", ""};
  const JsonValue* types = text.layer_list("layer_types", layers);
  for (std::uint64_t layer = 0; types != nullptr && layer < layers; ++layer) {
    const std::string path = fmt::format("{}[{}]", text.path_of("layer_types"), layer);
    const LayerWord* word = read_layer_word(text, types->items[layer], path);
    if (word == nullptr) return result;
    result.layers[layer] = word->is_indexed;
    if (!word->is_indexed || !result.first.empty()) continue;
    result.first = fmt::format("{} is \"{}\"", path, word->name);
    result.word = word->name;
  }
  return result;
}

void refuse_unsized(const ConfigFields& text, const IndexedWords& indexed, std::string_view why) {
  text.problems().unsupported(
      fmt::format("{}, but how large its index keys are is not known: {}", indexed.first, why));
}

void mark_layers(const std::vector<bool>& indexed, ModelConfig* config) {
  for (std::size_t layer = 0; layer < indexed.size(); ++layer) {
    LayerFacts& facts = config->layers[layer];
    facts.has_indexer = indexed[layer] && facts.cache == LayerCache::kOwn;
  }
}

// MiniMaxM3VLTextConfig of transformers 5.24.0: the same facts as sparse_attention_config, flat.
void fill_block_sparse_words(const ConfigFields& text, ModelConfig* config) {
  const IndexedWords indexed = read_indexed_words(text, config->num_hidden_layers);
  if (text.problems().failed() || indexed.first.empty()) return;
  if (indexed.word != kBlockSparseWord) {
    return refuse_unsized(
        text, indexed, "this release reads index_topk and index_head_dim beside latent attention");
  }
  config->index_head_dim = narrow(text.need_count("index_head_dim", kWidthRange));
  config->index_n_heads = narrow(text.count({"index_n_heads"}, kIndexHeadsRange).value_or(0));
  config->index_topk = narrow(text.count({"index_topk_blocks"}, kTopkRange).value_or(0));
  mark_layers(indexed.layers, config);
}

// Which layers run an indexer of their own: all, or those that indexer_types calls "full" (the
// others use the choice of the layer before).
std::vector<bool> read_indexer_types(const ConfigFields& text, std::uint64_t layers) {
  const JsonValue* types = text.layer_list("indexer_types", layers);
  std::vector<bool> own(layers, true);
  for (std::uint64_t layer = 0; types != nullptr && layer < layers; ++layer) {
    const JsonValue& type = types->items[layer];
    own[layer] = type.is_string() && type.text == "full";
    if (own[layer] || (type.is_string() && type.text == "shared")) continue;
    text.problems().unsupported(fmt::format("{}[{}] is {}; this release counts full and shared",
                                            text.path_of("indexer_types"), layer, type.describe()));
    break;
  }
  return own;
}

}  // namespace

void fill_block_sparse_index(const ConfigFields& text, ModelConfig* config) {
  const auto sparse = text.object("sparse_attention_config");
  if (!sparse) return fill_block_sparse_words(text, config);
  if (!sparse->flag("use_sparse_attention").value_or(true)) return;
  const std::uint64_t layers = config->num_hidden_layers;
  auto sparse_on = sparse->counts_per_layer({"sparse_attention_freq"}, {0, 1}, layers);
  const auto no_value = sparse->counts_per_layer({"sparse_disable_index_value"}, {0, 1}, layers);
  if (text.problems().failed()) return;
  if (sparse_on.empty()) sparse_on.assign(layers, 1);
  for (std::size_t layer = 0; layer < sparse_on.size(); ++layer) {
    LayerFacts& facts = config->layers[layer];
    facts.has_indexer = sparse_on[layer] == 1 && facts.cache == LayerCache::kOwn;
    if (!facts.has_indexer || (!no_value.empty() && no_value[layer] == 1)) continue;
    text.problems().unsupported(fmt::format(
        "{} does not switch the index value of layer {} off; this release counts index keys alone",
        sparse->path_of("sparse_disable_index_value"), layer));
    return;
  }
  config->index_head_dim = narrow(sparse->need_count("sparse_index_dim", kWidthRange));
  config->index_n_heads =
      narrow(sparse->count({"sparse_num_index_heads"}, kIndexHeadsRange).value_or(0));
  config->index_topk = narrow(sparse->count({"sparse_topk_blocks"}, kTopkRange).value_or(0));
}

void fill_sparse_indexer(const ConfigFields& text, ModelConfig* config) {
  const std::uint64_t layers = config->num_hidden_layers;
  const IndexedWords named = read_indexed_words(text, layers);
  const auto topk = text.count({"index_topk"}, kTopkRange);
  if (text.problems().failed()) return;
  const bool is_named = !named.first.empty();
  if (is_named && named.word == kBlockSparseWord) {
    return refuse_unsized(text, named, "this release counts them beside keys and values");
  }
  if (topk.value_or(0) == 0) {
    if (is_named) refuse_unsized(text, named, text.path_of("index_topk") + " is missing or 0");
    return;
  }
  config->index_topk = narrow(*topk);
  config->index_head_dim = narrow(text.need_count("index_head_dim", kWidthRange));
  config->index_n_heads = narrow(text.count({"index_n_heads"}, kIndexHeadsRange).value_or(0));
  std::vector<bool> indexed = read_indexer_types(text, layers);
  for (std::size_t layer = 0; is_named && layer < indexed.size(); ++layer) {
    indexed[layer] = indexed[layer] && named.layers[layer];
  }
  mark_layers(indexed, config);
}

}  // namespace emblema
