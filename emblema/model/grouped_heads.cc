#include "emblema/model/grouped_heads.h"

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

// KV heads per layer, 0 standing for "as many as query heads".
std::vector<std::uint64_t> read_key_value_heads(const ConfigFields& fields,
                                                const ModelFamily& family, std::uint64_t layers) {
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
       "num_attention_groups", "num_query_groups", "n_kv_heads"},
      kHeadsRange, layers);
  if (!heads.empty()) return heads;
  if (family.model_type == "gemma3_text" || family.model_type == "gemma3") {
    fields.problems().note(
        "num_key_value_heads is not given: 4 is assumed, as in Gemma3TextConfig");
    return std::vector<std::uint64_t>(layers, 4);
  }
  return std::vector<std::uint64_t>(layers, 0);
}

// 0 on a problem.
std::uint64_t read_head_dim(const ConfigFields& fields, const ModelFamily& family,
                            std::uint64_t hidden_size, std::uint64_t attention_heads) {
  for (const std::string_view key :
       {"head_dim", "attention_head_dim", "hidden_size_per_head", "kv_channels"}) {
    if (const auto width = fields.count({key}, kWidthOrAbsentRange); width.value_or(0) > 0) {
      return *width;
    }
  }
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

// Sliding layers whose heads differ from the full ones.
GroupedHeads read_local_heads(const ConfigFields& fields, GroupedHeads full) {
  GroupedHeads local = full;
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
  const CountRange width = {1, ConfigLimits::kWidthMax};
  local.head_dim = fields.count({"swa_head_dim"}, width).value_or(local.head_dim);
  local.v_head_dim = fields.count({"swa_v_head_dim"}, width).value_or(local.v_head_dim);
  return local;
}

bool has_local_heads(const ConfigFields& fields) {
  return fields.has("attention_other_setting") || fields.has("swa_num_attention_heads") ||
         fields.has("swa_num_key_value_heads") || fields.has("swa_head_dim") ||
         fields.has("swa_v_head_dim");
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

std::vector<std::uint64_t> read_attention_heads(const ConfigFields& fields, std::uint64_t layers) {
  auto heads = fields.counts_per_layer(
      {"num_attention_heads_per_layer", "num_query_heads", "num_attention_heads", "n_head",
       "n_heads", "num_heads", "decoder_attention_heads"},
      kHeadsRange, layers);
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
                                             const std::vector<bool>& is_local) {
  ConfigProblems& problems = fields.problems();
  const std::vector<std::uint64_t> key_value_heads =
      read_key_value_heads(fields, family, attention_heads.size());
  const std::uint64_t head_dim =
      problems.failed() ? 0 : read_head_dim(fields, family, hidden_size, attention_heads.front());
  const auto v_given = fields.count({"v_head_dim"}, kWidthOrAbsentRange);
  const bool local_differs = has_local_heads(fields);
  if (problems.failed()) return {};
  std::vector<GroupedHeads> layers;
  GroupedHeads local;
  for (std::size_t layer = 0; layer < attention_heads.size(); ++layer) {
    GroupedHeads heads;
    heads.attention_heads = attention_heads[layer];
    heads.key_value_heads =
        key_value_heads[layer] > 0 ? key_value_heads[layer] : attention_heads[layer];
    heads.head_dim = head_dim;
    heads.v_head_dim = v_given.value_or(0) > 0 ? *v_given : head_dim;
    if (local_differs && is_local[layer]) {
      if (local.head_dim == 0) local = read_local_heads(fields, heads);
      heads = local;
    }
    if (!problems.failed()) check_heads(fields, heads, layer);
    if (problems.failed()) return {};
    layers.push_back(heads);
  }
  return layers;
}

}  // namespace emblema
