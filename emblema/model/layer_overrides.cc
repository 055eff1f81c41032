#include "emblema/model/layer_overrides.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace emblema {
namespace {

constexpr CountRange kHeadsRange = {1, ConfigLimits::kHeadsMax};
constexpr CountRange kWidthRange = {1, ConfigLimits::kWidthMax};

// Fields that change no byte of a cache.
constexpr auto kWeightFields = std::to_array<std::string_view>({
    "hidden_act",
    "intermediate_size",
    "moe_intermediate_size",
    "n_routed_experts",
    "n_shared_experts",
    "num_experts",
    "num_experts_per_tok",
    "num_local_experts",
    "shared_expert_intermediate_size",
});

bool is_weight_field(std::string_view key) {
  return std::find(kWeightFields.begin(), kWeightFields.end(), key) != kWeightFields.end();
}

std::uint32_t narrow(std::uint64_t value) {
  return static_cast<std::uint32_t>(value);  // every range ends below 2^32
}

// "05", as the writer pads it. nullopt: no number.
std::optional<std::uint64_t> layer_number(std::string_view key) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), number);
  if (error != std::errc() || end != key.data() + key.size()) return std::nullopt;
  return number;
}

// What one layer is given, in the order of the file. Stops at a problem.
void for_each_layer(const ConfigFields& text, std::uint64_t layers,
                    const std::function<void(std::uint64_t, const ConfigFields&)>& visit) {
  const auto all = text.object("per_layer_config");
  if (!all) return;
  const JsonValue& object = all->value();  // walked, not searched: it may have a key per layer
  std::vector<bool> seen(layers, false);
  for (std::size_t i = 0; i < object.keys.size() && !text.problems().failed(); ++i) {
    const std::string path = all->path_of(shortened(object.keys[i]));
    const auto layer = layer_number(object.keys[i]);
    if (!layer || *layer >= layers || seen[*layer]) {
      text.problems().invalid(
          fmt::format("{} is no layer; allowed: 0 to {}, each once", path, layers - 1));
      return;
    }
    seen[*layer] = true;
    if (object.items[i].is_null()) continue;
    if (!object.items[i].is_object()) {
      text.problems().invalid(
          fmt::format("{} is {}; allowed: an object or null", path, object.items[i].describe()));
      return;
    }
    visit(*layer, ConfigFields(object.items[i], path, &text.problems()));
  }
}

class OverrideReader {
 public:
  OverrideReader(const ConfigFields& fields, AttentionFamily family, LayerFacts* facts)
      : fields_(fields), family_(family), facts_(facts) {}

  void read() {
    const JsonValue& object = fields_.value();
    for (std::size_t i = 0; i < object.keys.size(); ++i) {
      if (object.items[i].is_null() || is_weight_field(object.keys[i])) continue;
      read_field(object.keys[i]);
      if (fields_.problems().failed()) return;
    }
    check_heads();
  }

 private:
  void read_field(const std::string& key) {
    // Latents are as wide whatever their heads are, and heads of keys are none of their facts.
    const bool is_latent = family_ == AttentionFamily::kLatent;
    const bool is_grouped = family_ == AttentionFamily::kGrouped;
    if (key == "num_attention_heads" && family_ != AttentionFamily::kCompressed) {
      set(key, kHeadsRange, &facts_->num_attention_heads);
    } else if (key == "num_key_value_heads" && is_latent) {
      fields_.count({key}, kHeadsRange);
    } else if (key == "num_key_value_heads" && is_grouped) {
      set(key, kHeadsRange, &facts_->num_key_value_heads);
    } else if (key == "head_dim" && is_grouped) {
      const bool is_one_width = facts_->v_head_dim == facts_->head_dim;
      set(key, kWidthRange, &facts_->head_dim);
      if (is_one_width && !fields_.has("v_head_dim")) facts_->v_head_dim = facts_->head_dim;
    } else if (key == "v_head_dim" && is_grouped) {
      set(key, kWidthRange, &facts_->v_head_dim);
    } else {
      refuse(key);
    }
  }

  void set(std::string_view key, CountRange range, std::uint32_t* value) {
    const auto given = fields_.count({key}, range);
    if (given && facts_->cache != LayerCache::kNone) *value = narrow(*given);
  }

  void refuse(std::string_view key) {
    const JsonValue* value = fields_.value().find(key);
    fields_.problems().unsupported(
        fmt::format("{} is {}: this release counts layers that differ in num_attention_heads, "
                    "num_key_value_heads, head_dim and v_head_dim",
                    fields_.path_of(shortened(key)), value->describe()));
  }

  void check_heads() {
    if (family_ != AttentionFamily::kGrouped || facts_->cache == LayerCache::kNone) return;
    const std::uint32_t heads = facts_->num_attention_heads;
    const std::uint32_t key_value_heads = facts_->num_key_value_heads;
    if (key_value_heads <= heads && heads % key_value_heads == 0) return;
    fields_.problems().invalid(
        fmt::format("{} gives {} KV heads for {} query heads; allowed: a divisor of {}",
                    fields_.path_of("num_key_value_heads"), key_value_heads, heads, heads));
  }

  const ConfigFields& fields_;
  AttentionFamily family_;
  LayerFacts* facts_;
};

}  // namespace

void apply_layer_overrides(const ConfigFields& text, ModelConfig* config) {
  for_each_layer(text, config->layers.size(),
                 [config](std::uint64_t layer, const ConfigFields& fields) {
                   OverrideReader(fields, config->family, &config->layers[layer]).read();
                 });
}

std::string find_weight_override(const ConfigFields& text) {
  const JsonValue* all = text.value().find("per_layer_config");
  if (all == nullptr) return {};
  for (std::size_t layer = 0; layer < all->items.size(); ++layer) {
    for (const std::string& key : all->items[layer].keys) {
      if (!is_weight_field(key)) continue;
      return fmt::format("{}.{}.{}", text.path_of("per_layer_config"), all->keys[layer], key);
    }
  }
  return {};
}

}  // namespace emblema
