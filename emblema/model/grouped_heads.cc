#include "emblema/model/grouped_heads.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "emblema/model/model_config.h"

namespace emblema {
namespace {

constexpr CountRange kHeadsRange = {1, ConfigLimits::kHeadsMax};
constexpr CountRange kWidthOrAbsentRange = {0, ConfigLimits::kWidthMax};

// Falcon before its new decoder architecture, and GPT-BigCode: one KV head unless switched off.
// Both classes default to multi_query = true.
bool is_multi_query(const ConfigFields& fields, const ModelFamily& family) {
  const bool falcon = family.model_type == "falcon";
  if (!falcon && family.model_type != "gpt_bigcode") return false;
  if (falcon && fields.flag("new_decoder_architecture").value_or(false)) return false;
  const auto flag = fields.flag("multi_query");
  if (!flag) {
    fields.problems().note(
        fmt::format("{} is not given: one KV head is assumed, as in the class of this model",
                    fields.path_of("multi_query")));
  }
  return flag.value_or(true);
}

// Nemotron-NAS: query heads behind each KV head, block by block. 0 where a block does not attend.
std::vector<std::uint64_t> read_block_heads(const ConfigFields& fields,
                                            const std::vector<std::uint64_t>& attention_heads,
                                            const std::vector<bool>& attends) {
  const JsonValue* blocks = fields.layer_list("block_configs", attends.size());
  std::vector<std::uint64_t> heads;
  for (std::size_t layer = 0; blocks != nullptr && layer < attends.size(); ++layer) {
    heads.push_back(0);
    if (!attends[layer]) continue;
    const std::string path = fmt::format("{}[{}]", fields.path_of("block_configs"), layer);
    const auto attention =
        ConfigFields(blocks->items[layer], path, &fields.problems()).object("attention");
    if (!attention) return {};  // read_layer_makeup has recorded it
    if (const auto given = attention->count({"num_key_value_heads"}, kHeadsRange)) {
      heads.back() = *given;
      continue;
    }
    const auto group = attention->count({"n_heads_in_group"}, {1, attention_heads[layer]});
    if (!group && !fields.problems().failed()) {
      fields.problems().invalid(
          fmt::format("{}.attention.n_heads_in_group is missing; allowed: 1 "
                      "to {}",
                      path, attention_heads[layer]));
    }
    if (fields.problems().failed()) return {};
    heads.back() = attention_heads[layer] / *group;
  }
  return heads;
}

// Fields of such heads that other rules read.
constexpr auto kOtherHeadFields = std::to_array<std::string_view>({
    "num_global_key_value_heads",
    "num_swa_key_value_heads",
    "swa_num_key_value_heads",
});

// A number, or a list, under a key that speaks of heads of keys and values: not of their width.
bool looks_like_key_value_heads(std::string_view key, const JsonValue& value) {
  if (!value.is_number() && !value.is_array() && !value.is_string()) return false;
  const auto& others = kOtherHeadFields;
  if (std::find(others.begin(), others.end(), key) != others.end()) return false;
  std::string lower(key);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto has = [&lower](std::string_view word) {
    return lower.find(word) != std::string::npos;
  };
  if (has("dim") || has("size") || has("type") || has("encoder")) return false;
  return has("head") && (has("kv") || has("key_value"));
}

// Grouped heads under a misspelt key would be taken for as many as query heads.
void note_unknown_key_value_heads(const ConfigFields& fields) {
  const JsonValue& object = fields.value();
  for (std::size_t i = 0; i < object.keys.size(); ++i) {
    if (!looks_like_key_value_heads(object.keys[i], object.items[i])) continue;
    fields.problems().note(fmt::format(
        "num_key_value_heads is not given: as many as attention heads are assumed; '{}' is not "
        "known",
        shortened(fields.path_of(object.keys[i]))));
    return;  // one is enough to look at the file
  }
}

// KV heads per layer, 0 standing for "as many as query heads".
std::vector<std::uint64_t> read_key_value_heads(const ConfigFields& fields,
                                                const ModelFamily& family,
                                                const std::vector<std::uint64_t>& attention_heads,
                                                const std::vector<bool>& attends) {
  const std::size_t layers = attends.size();
  if (fields.has("block_configs")) return read_block_heads(fields, attention_heads, attends);
  if (is_multi_query(fields, family)) return std::vector<std::uint64_t>(layers, 1);
  if (const auto attention = fields.object("attn_config")) {
    if (const auto heads = attention->count({"kv_n_heads"}, kHeadsRange)) {
      return std::vector<std::uint64_t>(layers, *heads);
    }
  }
  if (fields.flag("multi_query_attention").value_or(true)) {
    auto grouped = fields.counts_per_layer({"multi_query_group_num"}, kHeadsRange, layers);
    if (!grouped.empty()) return grouped;
  }
  auto heads = fields.counts_per_layer(
      {"n_head_kv", "num_kv_heads", "num_key_value_heads", "num_key_value_heads_per_layer",
       "num_attention_groups", "num_query_groups", "n_kv_heads", "decoder_num_key_value_heads"},
      kHeadsRange, layers);
  if (!heads.empty()) return heads;
  if (family.model_type == "gemma3_text" || family.model_type == "gemma3") {
    fields.problems().note(
        "num_key_value_heads is not given: 4 is assumed, as in Gemma3TextConfig");
    return std::vector<std::uint64_t>(layers, 4);
  }
  note_unknown_key_value_heads(fields);
  if (const auto attention = fields.object("attn_config")) note_unknown_key_value_heads(*attention);
  return std::vector<std::uint64_t>(layers, 0);
}

// The first of `keys` that is above 0, or 0.
std::uint64_t first_width(const ConfigFields& fields, ConfigFields::Aliases keys) {
  for (const std::string_view key : keys) {
    if (const auto width = fields.count({key}, kWidthOrAbsentRange); width.value_or(0) > 0) {
      return *width;
    }
  }
  return 0;
}

// 0 on a problem.
std::uint64_t read_head_dim(const ConfigFields& fields, const ModelFamily& family,
                            std::uint64_t hidden_size, std::uint64_t attention_heads) {
  // Zamba attends over two hidden states side by side; its kv_channels says half of that.
  const bool doubled = family.model_type == "zamba" || family.model_type == "zamba2";
  const std::uint64_t given =
      doubled ? first_width(fields, {"attention_head_dim"})
              : first_width(fields, {"head_dim", "attention_head_dim", "hidden_size_per_head",
                                     "kv_channels", "d_kv"});
  if (given > 0) return given;
  if (doubled) hidden_size *= 2;
  ConfigProblems& problems = fields.problems();
  if (problems.failed()) return 0;
  if (family.head_dim > 0) {
    problems.note(fmt::format("{} is not given: {} is assumed, as in the class of this model",
                              fields.path_of("head_dim"), family.head_dim));
    return family.head_dim;
  }
  if (hidden_size == 0) {
    problems.invalid(fmt::format("{} and {} are missing; allowed: 1 to {}",
                                 fields.path_of("hidden_size"), fields.path_of("head_dim"),
                                 ConfigLimits::kWidthMax));
    return 0;
  }
  if (hidden_size % attention_heads != 0) {
    problems.invalid(fmt::format(
        "{} is missing and hidden_size {} is not a multiple of num_attention_heads {}; allowed: "
        "1 to {}",
        fields.path_of("head_dim"), hidden_size, attention_heads, ConfigLimits::kWidthMax));
    return 0;
  }
  return hidden_size / attention_heads;
}

// MiMoV2FlashConfig of transformers 5.24.0 has no field for it: its class doubles them.
bool doubles_local_key_value_heads(const ConfigFields& fields, const ModelFamily& family) {
  return family.model_type == "mimo_v2_flash" && !fields.has("swa_num_key_value_heads");
}

// Sliding layers whose heads differ from the full ones.
GroupedHeads read_local_heads(const ConfigFields& fields, const ModelFamily& family,
                              GroupedHeads full) {
  GroupedHeads local = full;
  if (doubles_local_key_value_heads(fields, family)) {
    local.key_value_heads *= 2;
    fields.problems().note(
        "swa_num_key_value_heads is not given: twice num_key_value_heads are assumed, as in the "
        "class of this model");
  }
  if (const auto other = fields.object("attention_other_setting")) {
    local.attention_heads =
        other->count({"num_attention_heads"}, kHeadsRange).value_or(local.attention_heads);
    local.key_value_heads =
        other->count({"num_attention_groups"}, kHeadsRange).value_or(local.key_value_heads);
    local.head_dim =
        other->count({"head_dim"}, {1, ConfigLimits::kWidthMax}).value_or(local.head_dim);
    local.v_head_dim = local.head_dim;
  }
  local.attention_heads =
      fields.count({"swa_num_attention_heads"}, kHeadsRange).value_or(local.attention_heads);
  local.key_value_heads =
      fields.count({"swa_num_key_value_heads"}, kHeadsRange).value_or(local.key_value_heads);
  if (const auto heads = fields.count({"num_swa_attention_heads"}, kHeadsRange)) {
    // Baichuan-M1: as wide in all, in more heads.
    if (*heads != full.attention_heads && full.attention_heads * full.head_dim % *heads != 0) {
      fields.problems().invalid(fmt::format(
          "{} is {}; allowed: a divisor of num_attention_heads x head_dim ({})",
          fields.path_of("num_swa_attention_heads"), *heads, full.attention_heads * full.head_dim));
      return local;
    }
    local.attention_heads = *heads;
    local.head_dim = full.attention_heads * full.head_dim / *heads;
    local.v_head_dim = local.head_dim;
  }
  local.key_value_heads =
      fields.count({"num_swa_key_value_heads"}, kHeadsRange).value_or(local.key_value_heads);
  const CountRange width = {1, ConfigLimits::kWidthMax};
  local.head_dim = fields.count({"swa_head_dim"}, width).value_or(local.head_dim);
  local.v_head_dim = fields.count({"swa_v_head_dim"}, width).value_or(local.v_head_dim);
  return local;
}

bool has_local_heads(const ConfigFields& fields, const ModelFamily& family) {
  if (doubles_local_key_value_heads(fields, family)) return true;
  for (const std::string_view key :
       {"attention_other_setting", "swa_num_attention_heads", "swa_num_key_value_heads",
        "swa_head_dim", "swa_v_head_dim", "num_swa_attention_heads", "num_swa_key_value_heads"}) {
    if (fields.has(key)) return true;
  }
  return false;
}

// Gemma-4's full layers have wider heads, and fewer of them for keys where these are values too.
GroupedHeads read_global_heads(const ConfigFields& fields, const ModelFamily& family,
                               GroupedHeads heads) {
  const CountRange width = {1, ConfigLimits::kWidthMax};
  auto global_width = fields.count({"global_head_dim"}, width);
  const bool is_gemma4 = family.model_type.starts_with("gemma4");
  // Written by transformers 5.24.0, the full layers' width stands in per_layer_config.
  if (!global_width && is_gemma4 && !fields.has("per_layer_config")) {
    fields.problems().note("global_head_dim is not given: 512 is assumed, as in Gemma4TextConfig");
    global_width = 512;
  }
  heads.head_dim = global_width.value_or(heads.head_dim);
  heads.v_head_dim = global_width.value_or(heads.v_head_dim);
  if (fields.flag("attention_k_eq_v").value_or(!is_gemma4)) {
    heads.key_value_heads =
        fields.count({"num_global_key_value_heads"}, kHeadsRange).value_or(heads.key_value_heads);
  }
  return heads;
}

void check_heads(const ConfigFields& fields, const GroupedHeads& heads, std::size_t layer) {
  if (heads.key_value_heads <= heads.attention_heads &&
      heads.attention_heads % heads.key_value_heads == 0) {
    return;
  }
  fields.problems().invalid(fmt::format(
      "layer {} has {} KV heads for {} query heads (num_key_value_heads, num_attention_heads); "
      "allowed: a divisor of {}",
      layer, heads.key_value_heads, heads.attention_heads, heads.attention_heads));
}

}  // namespace

std::vector<std::uint64_t> read_attention_heads(const ConfigFields& fields, std::uint64_t layers,
                                                bool is_decoder) {
  std::vector<std::uint64_t> heads;
  if (is_decoder) {
    heads = fields.counts_per_layer(
        {"decoder_attention_heads", "num_decoder_attention_heads", "decoder_num_attention_heads"},
        kHeadsRange, layers);
  }
  if (heads.empty() && !fields.problems().failed()) {
    heads = fields.counts_per_layer(
        {"num_attention_heads_per_layer", "num_query_heads", "num_attention_heads", "n_head",
         "n_heads", "num_heads", "decoder_attention_heads", "attention_heads"},
        kHeadsRange, layers);
  }
  if (heads.empty() && !fields.problems().failed()) {
    fields.problems().invalid(fmt::format("{} is missing; allowed: {} to {}",
                                          fields.path_of("num_attention_heads"), kHeadsRange.min,
                                          kHeadsRange.max));
  }
  return heads;
}

std::vector<GroupedHeads> read_grouped_heads(const ConfigFields& fields, const ModelFamily& family,
                                             std::uint64_t hidden_size,
                                             const std::vector<std::uint64_t>& attention_heads,
                                             const std::vector<bool>& attends,
                                             const std::vector<bool>& is_local) {
  ConfigProblems& problems = fields.problems();
  if (std::find(attends.begin(), attends.end(), true) == attends.end()) {
    return std::vector<GroupedHeads>(attends.size());
  }
  const std::vector<std::uint64_t> key_value_heads =
      read_key_value_heads(fields, family, attention_heads, attends);
  const std::uint64_t head_dim =
      problems.failed() ? 0 : read_head_dim(fields, family, hidden_size, attention_heads.front());
  const auto v_given = fields.count({"v_head_dim"}, kWidthOrAbsentRange);
  const bool local_differs = has_local_heads(fields, family);
  const bool full_differs = fields.has("global_head_dim") ||
                            fields.has("num_global_key_value_heads") ||
                            family.model_type.starts_with("gemma4");
  if (problems.failed()) return {};
  std::vector<GroupedHeads> layers;
  GroupedHeads local;
  for (std::size_t layer = 0; layer < attention_heads.size(); ++layer) {
    GroupedHeads heads;
    if (!attends[layer]) {
      layers.push_back(heads);
      continue;
    }
    heads.attention_heads = attention_heads[layer];
    heads.key_value_heads =
        key_value_heads[layer] > 0 ? key_value_heads[layer] : attention_heads[layer];
    heads.head_dim = head_dim;
    heads.v_head_dim = v_given.value_or(0) > 0 ? *v_given : head_dim;
    if (local_differs && is_local[layer]) {
      if (local.head_dim == 0) local = read_local_heads(fields, family, heads);
      heads = local;
    }
    if (full_differs && !is_local[layer]) heads = read_global_heads(fields, family, heads);
    if (!problems.failed()) check_heads(fields, heads, layer);
    if (problems.failed()) return {};
    layers.push_back(heads);
  }
  return layers;
}

}  // namespace emblema
