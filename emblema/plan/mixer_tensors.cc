#include "emblema/plan/mixer_tensors.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include <fmt/format.h>

namespace emblema {
namespace {

// "Mamba-2" and its like, for a message.
std::string_view name_of(RecurrentMixer mixer) {
  switch (mixer) {
    case RecurrentMixer::kNone:
      return "no";
    case RecurrentMixer::kMamba1:
      return "Mamba-1";
    case RecurrentMixer::kMamba2:
      return "Mamba-2";
    case RecurrentMixer::kGatedDelta:
      return "gated delta";
    case RecurrentMixer::kKimiDelta:
      return "Kimi delta";
    case RecurrentMixer::kLightning:
      return "lightning attention";
    case RecurrentMixer::kRgLru:
      return "RG-LRU";
    case RecurrentMixer::kShortConv:
      return "short-convolution";
    case RecurrentMixer::kKvConv:
      return "KV-convolution";
  }
  return "unknown";
}

class MixerCounter {
 public:
  MixerCounter(const ModelConfig& model, TensorList* list)
      : model_(model), facts_(*model.weights), hidden_(model.hidden_size), list_(*list) {}

  Status add(const RecurrentFacts& state) {
    switch (state.mixer) {
      case RecurrentMixer::kMamba1:
        if (facts_.time_step_rank == 0) {
          return fail(ErrorCode::Unsupported,
                      fmt::format("mamba_dt_rank is not given, so weights of Mamba-1 layers are "
                                  "not counted in {}; give --weights",
                                  model_.name));
        }
        add_mamba1(state);
        return {};
      case RecurrentMixer::kMamba2:
        add_mamba2(state);
        return {};
      case RecurrentMixer::kGatedDelta:
        add_gated_delta(state);
        return {};
      case RecurrentMixer::kKimiDelta:
        add_kimi_delta(state);
        return {};
      case RecurrentMixer::kLightning:
        add_lightning(state);
        return {};
      default:
        return fail(ErrorCode::Unsupported,
                    fmt::format("weights of {} layers are not counted in {}; give --weights",
                                name_of(state.mixer), model_.name));
    }
  }

 private:
  void add_convolution(const RecurrentFacts& state, std::uint64_t channels, bool bias) {
    if (state.conv_channels == 0) return;
    const std::uint64_t kernel = std::uint64_t{state.conv_columns} + 1;
    list_.matrix("mixer", "mixer.conv1d", channels, kernel);
    if (bias) list_.vectors("mixer", "mixer.conv1d", 1, channels);
  }

  // JambaMambaMixer: time step, B and C are normalised.
  void add_mamba1(const RecurrentFacts& state) {
    const std::uint64_t inner = list_.share(state.state_rows);
    const std::uint64_t rank = facts_.time_step_rank;
    const std::uint64_t width = state.state_columns;
    list_.linear("mixer", "mixer.in_proj", 2 * inner, hidden_, facts_.mixer_bias);
    add_convolution(state, inner, facts_.conv_bias);
    list_.linear("mixer", "mixer.x_proj", rank + 2 * width, inner);
    list_.linear("mixer", "mixer.dt_proj", inner, rank, true);
    list_.vectors("mixer", "mixer.A_log", inner, width);
    list_.vectors("mixer", "mixer.D", 1, inner);
    list_.linear("mixer", "mixer.out_proj", hidden_, inner, facts_.mixer_bias);
    if (facts_.block.model_type == "jamba") {
      list_.vectors("mixer", "mixer.norms", 1, rank + 2 * width);
    }
  }

  // Gate, input, B, C and a time step for each head; A, D and the step's bias for each head.
  void add_mamba2(const RecurrentFacts& state) {
    const std::uint64_t inner_all = std::uint64_t{state.state_heads} * state.state_rows;
    const std::uint64_t width = std::max<std::uint64_t>(state.state_columns, 1);
    const std::uint64_t groups_all =
        state.conv_channels > inner_all ? (state.conv_channels - inner_all) / 2 / width : 0;
    const std::uint64_t step_heads = list_.share(state.state_heads);
    const std::uint64_t inner = step_heads * state.state_rows;
    const std::uint64_t channels = inner + 2 * list_.share(groups_all) * width;
    list_.linear("mixer", "mixer.in_proj", inner + channels + step_heads, hidden_,
                 facts_.mixer_bias);
    add_convolution(state, channels, facts_.conv_bias);
    list_.vectors("mixer", "mixer.A_log", 3, step_heads);
    if (facts_.mixer_norm) list_.vectors("mixer", "mixer.norm", 1, inner);
    list_.linear("mixer", "mixer.out_proj", hidden_, inner, facts_.mixer_bias);
  }

  // Qwen3NextGatedDeltaNet: q, k, v and a gate as wide as v; beta and alpha for each value head.
  void add_gated_delta(const RecurrentFacts& state) {
    const std::uint64_t values_all = std::uint64_t{state.state_heads} * state.state_columns;
    const std::uint64_t key_width = std::max<std::uint64_t>(state.state_rows, 1);
    const std::uint64_t key_heads_all =
        state.conv_channels > values_all ? (state.conv_channels - values_all) / 2 / key_width : 0;
    const std::uint64_t step_heads = list_.share(state.state_heads);
    const std::uint64_t values = step_heads * state.state_columns;
    const std::uint64_t channels = values + 2 * list_.share(key_heads_all) * key_width;
    list_.linear("mixer", "linear_attn.in_proj_qkvz", channels + values, hidden_);
    list_.linear("mixer", "linear_attn.in_proj_ba", 2 * step_heads, hidden_);
    add_convolution(state, channels, false);
    list_.vectors("mixer", "linear_attn.A_log", 2, step_heads);
    list_.vectors("mixer", "linear_attn.norm", 1, state.state_columns);
    list_.linear("mixer", "linear_attn.out_proj", hidden_, values);
  }

  // KimiDeltaAttention: q, k and v, each under a convolution; decay and output gate through a
  // bottleneck as wide as a head.
  void add_kimi_delta(const RecurrentFacts& state) {
    const std::uint64_t step_heads = list_.share(state.state_heads);
    const std::uint64_t width = state.state_columns;
    const std::uint64_t inner = step_heads * width;
    for (const std::string_view module :
         {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}) {
      list_.linear("mixer", module, inner, hidden_);
    }
    add_convolution(state, 3 * inner, false);
    for (const std::string_view module : {"self_attn.f", "self_attn.g"}) {
      list_.linear("mixer", module, width, hidden_);
      list_.linear("mixer", module, inner, width);
    }
    list_.linear("mixer", "self_attn.b_proj", step_heads, hidden_);
    list_.vectors("mixer", "self_attn.dt_bias", 1, inner);
    list_.vectors("mixer", "self_attn.A_log", 1, step_heads);
    list_.vectors("mixer", "self_attn.o_norm", 1, width);
    list_.linear("mixer", "self_attn.o_proj", hidden_, inner);
  }

  // MiniMax's lightning attention: q, k and v, an output gate, a norm.
  void add_lightning(const RecurrentFacts& state) {
    const std::uint64_t inner = list_.share(state.state_heads) * state.state_rows;
    list_.linear("mixer", "self_attn.qkv_proj", 3 * inner, hidden_);
    list_.linear("mixer", "self_attn.output_gate", inner, hidden_);
    list_.vectors("mixer", "self_attn.norm", 1, inner);
    list_.linear("mixer", "self_attn.out_proj", hidden_, inner);
  }

  const ModelConfig& model_;
  const WeightFacts& facts_;
  std::uint64_t hidden_;
  TensorList& list_;
};

}  // namespace

Status add_mixer_tensors(const ModelConfig& model, const LayerFacts& layer, TensorList* list) {
  return MixerCounter(model, list).add(layer.recurrent);
}

}  // namespace emblema
