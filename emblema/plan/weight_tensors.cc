#include "emblema/plan/weight_tensors.h"

#include <algorithm>

#include <fmt/format.h>

#include "emblema/contract/bytes.h"

namespace emblema {
namespace {

constexpr std::uint32_t kFp32Bytes = 4;
constexpr std::uint32_t kInt32Bytes = 4;

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

class LayerCounter {
 public:
  // `hashed`: experts are chosen by token id.
  LayerCounter(const ModelConfig& model, const LayerFacts& layer, const LayerWeightFacts& feed,
               bool hashed, const TensorDivision& division)
      : model_(model),
        facts_(*model.weights),
        layer_(layer),
        feed_(feed),
        hashed_(hashed),
        division_(division),
        hidden_(model.hidden_size) {}

  Result<std::vector<WeightTensor>> count() {
    vectors("norms", "norms",
            facts_.block.norms + (feed_.has_experts ? facts_.block.expert_norms : 0), hidden_);
    if (facts_.block.layer_scale) vectors("norms", "layer_scalar", 1, 1);
    if (facts_.layer_embedding.width > 0) add_layer_embedding();
    if (layer_.cache != LayerCache::kNone) {
      if (auto counted = add_attention(); !counted) return propagate(counted);
    }
    if (layer_.recurrent.mixer != RecurrentMixer::kNone) {
      if (auto counted = add_mixer(); !counted) return propagate(counted);
    }
    if (feed_.intermediate_size > 0) {
      add_mlp({"dense MLP", "mlp.up_proj", "mlp.down_proj", feed_.intermediate_size,
               division_.tensor, 1, facts_.mlp_bias});
    }
    if (feed_.has_experts) add_mixture();
    return tensors_;
  }

 private:
  // A linear layer, and its bias where there is one.
  void linear(std::string_view part, std::string_view module, std::uint64_t rows,
              std::uint64_t columns, bool bias = false) {
    tensors_.push_back({part, module, 1, rows, columns, true, 0});
    if (bias) vectors(part, module, 1, rows);
  }

  // One that is never quantised.
  void matrix(std::string_view part, std::string_view module, std::uint64_t rows,
              std::uint64_t columns, std::uint32_t bytes = 0) {
    tensors_.push_back({part, module, 1, rows, columns, false, bytes});
  }

  void vectors(std::string_view part, std::string_view module, std::uint64_t copies,
               std::uint64_t width, std::uint32_t bytes = 0) {
    if (copies == 0 || width == 0) return;
    tensors_.push_back({part, module, copies, 1, width, false, bytes});
  }

  std::uint64_t share(std::uint64_t count) const { return ceil_div(count, division_.tensor); }

  Status add_attention() {
    switch (model_.family) {
      case AttentionFamily::kGrouped:
        add_grouped();
        if (layer_.has_indexer) add_block_indexer();
        break;
      case AttentionFamily::kLatent:
        add_latent();
        if (layer_.has_indexer) add_indexer();
        break;
      case AttentionFamily::kCompressed:
        add_compressed();
        return {};
    }
    if (layer_.has_sinks) vectors("attention", "self_attn.sinks", 1, share(heads()));
    return {};
  }

  std::uint64_t heads() const { return layer_.num_attention_heads; }

  void add_grouped() {
    const std::uint64_t queries = share(heads());
    const std::uint64_t keys = share(layer_.num_key_value_heads);
    const std::uint64_t width = layer_.head_dim;
    const std::uint64_t gates = facts_.block.output_gate ? 2 : 1;
    const bool bias = facts_.attention_bias;
    linear("attention", "self_attn.q_proj", queries * width * gates, hidden_, bias);
    const bool own_keys = layer_.cache != LayerCache::kShared;
    if (own_keys) {
      linear("attention", "self_attn.k_proj", keys * width, hidden_, bias);
      const bool has_values = !facts_.keys_are_values || layer_.reach != LayerReach::kFull;
      if (has_values) {
        linear("attention", "self_attn.v_proj", keys * layer_.v_head_dim, hidden_, bias);
      }
    }
    linear("attention", "self_attn.o_proj", hidden_, queries * layer_.v_head_dim,
           facts_.output_bias);
    const bool crosses = layer_.cache == LayerCache::kCross;
    if (crosses) vectors("attention", "cross_attn.gates", 2, 1);
    if (!facts_.qk_norm && !crosses) return;
    const bool whole = facts_.block.qk_norm == QkNorm::kWhole;
    vectors("attention", "self_attn.q_norm", 1, whole ? queries * width : width);
    if (own_keys) vectors("attention", "self_attn.k_norm", 1, whole ? keys * width : width);
  }

  // What a layer adds of its own embedding: a gate, a projection back, a norm.
  void add_layer_embedding() {
    const std::uint64_t width = facts_.layer_embedding.width;
    linear("layer embedding", "per_layer_input_gate", width, hidden_);
    linear("layer embedding", "per_layer_projection", hidden_, width);
    vectors("layer embedding", "post_per_layer_input_norm", 1, hidden_);
  }

  void add_latent() {
    const std::uint64_t queries = share(heads());
    const std::uint64_t query_width = model_.qk_nope_head_dim + model_.qk_rope_head_dim;
    const std::uint64_t rank = model_.kv_lora_rank;
    const bool bias = facts_.attention_bias;
    if (model_.q_lora_rank) {
      linear("attention", "self_attn.q_a_proj", *model_.q_lora_rank, hidden_, bias);
      vectors("attention", "self_attn.q_a_layernorm", 1, *model_.q_lora_rank);
      linear("attention", "self_attn.q_b_proj", queries * query_width, *model_.q_lora_rank);
    } else {
      linear("attention", "self_attn.q_proj", queries * query_width, hidden_);
    }
    linear("attention", "self_attn.kv_a_proj_with_mqa", rank + model_.qk_rope_head_dim, hidden_,
           bias);
    vectors("attention", "self_attn.kv_a_layernorm", 1, rank);
    linear("attention", "self_attn.kv_b_proj",
           queries * (std::uint64_t{model_.qk_nope_head_dim} + model_.v_head_dim), rank);
    linear("attention", "self_attn.o_proj", hidden_, queries * model_.v_head_dim,
           facts_.output_bias);
  }

  // DeepSeek-V3.2 and GLM-5; replicated, as its keys are. The norm of its keys has a bias.
  void add_indexer() {
    const std::uint64_t width = model_.index_head_dim;
    const std::uint64_t input = model_.q_lora_rank.value_or(model_.hidden_size);
    linear("indexer", "self_attn.indexer.wq_b", model_.index_n_heads * width, input);
    linear("indexer", "self_attn.indexer.wk", width, hidden_);
    vectors("indexer", "self_attn.indexer.k_norm", 2, width);
    tensors_.push_back(
        {"indexer", "self_attn.indexer.weights_proj", 1, model_.index_n_heads, hidden_, false, 0});
  }

  // DeepSeek-V4: one vector is key and value; heads come back through groups.
  void add_compressed() {
    const CompressedWeightFacts& facts = *facts_.compressed;
    const std::uint64_t width = layer_.head_dim;
    const std::uint64_t rank = model_.q_lora_rank.value_or(0);
    const std::uint64_t groups = share(facts.o_groups);
    const std::uint64_t group_width = ceil_div(heads(), facts.o_groups) * width;
    linear("attention", "attn.wq_a", rank, hidden_);
    vectors("attention", "attn.q_norm", 1, rank);
    linear("attention", "attn.wq_b", share(heads()) * width, rank);
    linear("attention", "attn.wkv", width, hidden_);
    vectors("attention", "attn.kv_norm", 1, width);
    vectors("attention", "attn.attn_sink", 1, share(heads()), kFp32Bytes);
    linear("attention", "attn.wo_a", groups * facts.o_lora_rank, group_width);
    linear("attention", "attn.wo_b", hidden_, groups * facts.o_lora_rank);
    if (layer_.compress_ratio > 0) add_compressor("attention", width);
    if (layer_.has_indexer) {
      linear("indexer", "attn.indexer.wq_b",
             model_.index_n_heads * std::uint64_t{model_.index_head_dim}, rank);
      matrix("indexer", "attn.indexer.weights_proj", model_.index_n_heads, hidden_);
      add_compressor("indexer", model_.index_head_dim);
    }
    add_mixing(2);
  }

  // Values and gates for each token, a bias for each place in a group, a norm. Groups of ratio 4
  // overlap: each token gives to two of them.
  void add_compressor(std::string_view part, std::uint64_t width) {
    const std::uint64_t wide = (layer_.compress_ratio == 4 ? 2 : 1) * width;
    matrix(part, "attn.compressor.wkv", wide, hidden_);
    matrix(part, "attn.compressor.wgate", wide, hidden_);
    matrix(part, "attn.compressor.ape", layer_.compress_ratio, wide, kFp32Bytes);
    vectors(part, "attn.compressor.norm", 1, width);
  }

  // Hyper-connections: how n streams are read, written and mixed, from all of them.
  void add_mixing(std::uint64_t sublayers) {
    const std::uint64_t streams = facts_.compressed->streams;
    const std::uint64_t outputs = (2 + streams) * streams;
    for (std::uint64_t i = 0; i < sublayers; ++i) {
      matrix("norms", "hc_fn", outputs, streams * hidden_, kFp32Bytes);
      vectors("norms", "hc_base", 1, outputs + 3, kFp32Bytes);  // and three scales
    }
  }

  // MiniMax-M3: index queries are divided as its KV heads are, its one index key is not.
  void add_block_indexer() {
    const std::uint64_t width = model_.index_head_dim;
    linear("indexer", "self_attn.index_q_proj", share(model_.index_n_heads) * width, hidden_);
    linear("indexer", "self_attn.index_k_proj", width, hidden_);
    vectors("indexer", "self_attn.index_norms", 2, width);
  }

  struct Mlp {
    std::string_view part;
    std::string_view up;  // gate and up, or up alone
    std::string_view down;
    std::uint64_t width = 0;
    std::uint32_t ranks = 1;
    std::uint64_t copies = 1;
    bool bias = false;
  };

  void add_mlp(const Mlp& mlp) {
    const std::uint64_t columns = ceil_div(mlp.width, mlp.ranks);
    const std::uint64_t inputs = mlp.copies * (facts_.block.gated ? 2 : 1);
    tensors_.push_back({mlp.part, mlp.up, inputs, columns, hidden_, true, 0});
    tensors_.push_back({mlp.part, mlp.down, mlp.copies, hidden_, columns, true, 0});
    if (!mlp.bias) return;
    vectors(mlp.part, mlp.up, inputs, columns);
    vectors(mlp.part, mlp.down, mlp.copies, hidden_);
  }

  void add_mixture() {
    const ExpertFacts& experts = *facts_.experts;
    const std::uint64_t chosen = std::uint64_t{experts.routed} + experts.identity;
    matrix("router", "mlp.gate", chosen, hidden_, facts_.block.router_bytes);
    if (hashed_) {
      matrix("router", "mlp.tid2eid", facts_.vocab_size, experts.per_token, kInt32Bytes);
    } else if (facts_.block.correction_bias) {
      vectors("router", "mlp.gate", 1, chosen, kFp32Bytes);
    }
    if (facts_.block.expert_bias) vectors("router", "mlp.gate", 1, chosen);
    if (facts_.block.scaled_router) vectors("router", "mlp.gate", 1, hidden_ + chosen);
    add_mlp({"experts", "mlp.experts.0.up_proj", "mlp.experts.0.down_proj",
             experts.intermediate_size, division_.expert_tensor,
             ceil_div(experts.routed, division_.experts), facts_.block.expert_bias});
    if (experts.shared_intermediate_size == 0) return;
    add_mlp({"shared experts", "mlp.shared_experts.up_proj", "mlp.shared_experts.down_proj",
             experts.shared_intermediate_size, division_.tensor});
    if (facts_.block.shared_gate) vectors("router", "mlp.shared_expert_gate", 1, hidden_);
  }

  Status add_mixer() {
    const RecurrentFacts& state = layer_.recurrent;
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

  void add_convolution(const RecurrentFacts& state, std::uint64_t channels, bool bias) {
    if (state.conv_channels == 0) return;
    const std::uint64_t kernel = std::uint64_t{state.conv_columns} + 1;
    matrix("mixer", "mixer.conv1d", channels, kernel);
    if (bias) vectors("mixer", "mixer.conv1d", 1, channels);
  }

  // JambaMambaMixer: time step, B and C are normalised.
  void add_mamba1(const RecurrentFacts& state) {
    const std::uint64_t inner = share(state.state_rows);
    const std::uint64_t rank = facts_.time_step_rank;
    const std::uint64_t width = state.state_columns;
    linear("mixer", "mixer.in_proj", 2 * inner, hidden_, facts_.mixer_bias);
    add_convolution(state, inner, facts_.conv_bias);
    linear("mixer", "mixer.x_proj", rank + 2 * width, inner);
    linear("mixer", "mixer.dt_proj", inner, rank, true);
    vectors("mixer", "mixer.A_log", inner, width);
    vectors("mixer", "mixer.D", 1, inner);
    linear("mixer", "mixer.out_proj", hidden_, inner, facts_.mixer_bias);
    if (facts_.block.model_type == "jamba") {
      vectors("mixer", "mixer.norms", 1, rank + 2 * width);
    }
  }

  // Gate, input, B, C and a time step for each head; A, D and the step's bias for each head.
  void add_mamba2(const RecurrentFacts& state) {
    const std::uint64_t inner_all = std::uint64_t{state.state_heads} * state.state_rows;
    const std::uint64_t width = std::max<std::uint64_t>(state.state_columns, 1);
    const std::uint64_t groups_all =
        state.conv_channels > inner_all ? (state.conv_channels - inner_all) / 2 / width : 0;
    const std::uint64_t step_heads = share(state.state_heads);
    const std::uint64_t inner = step_heads * state.state_rows;
    const std::uint64_t channels = inner + 2 * share(groups_all) * width;
    linear("mixer", "mixer.in_proj", inner + channels + step_heads, hidden_, facts_.mixer_bias);
    add_convolution(state, channels, facts_.conv_bias);
    vectors("mixer", "mixer.A_log", 3, step_heads);
    if (facts_.mixer_norm) vectors("mixer", "mixer.norm", 1, inner);
    linear("mixer", "mixer.out_proj", hidden_, inner, facts_.mixer_bias);
  }

  // Qwen3NextGatedDeltaNet: q, k, v and a gate as wide as v; beta and alpha for each value head.
  void add_gated_delta(const RecurrentFacts& state) {
    const std::uint64_t values_all = std::uint64_t{state.state_heads} * state.state_columns;
    const std::uint64_t key_width = std::max<std::uint64_t>(state.state_rows, 1);
    const std::uint64_t key_heads_all =
        state.conv_channels > values_all ? (state.conv_channels - values_all) / 2 / key_width : 0;
    const std::uint64_t step_heads = share(state.state_heads);
    const std::uint64_t values = step_heads * state.state_columns;
    const std::uint64_t channels = values + 2 * share(key_heads_all) * key_width;
    linear("mixer", "linear_attn.in_proj_qkvz", channels + values, hidden_);
    linear("mixer", "linear_attn.in_proj_ba", 2 * step_heads, hidden_);
    add_convolution(state, channels, false);
    vectors("mixer", "linear_attn.A_log", 2, step_heads);
    vectors("mixer", "linear_attn.norm", 1, state.state_columns);
    linear("mixer", "linear_attn.out_proj", hidden_, values);
  }

  // KimiDeltaAttention: q, k and v, each under a convolution; decay and output gate through a
  // bottleneck as wide as a head.
  void add_kimi_delta(const RecurrentFacts& state) {
    const std::uint64_t step_heads = share(state.state_heads);
    const std::uint64_t width = state.state_columns;
    const std::uint64_t inner = step_heads * width;
    for (const std::string_view module :
         {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}) {
      linear("mixer", module, inner, hidden_);
    }
    add_convolution(state, 3 * inner, false);
    for (const std::string_view module : {"self_attn.f", "self_attn.g"}) {
      linear("mixer", module, width, hidden_);
      linear("mixer", module, inner, width);
    }
    linear("mixer", "self_attn.b_proj", step_heads, hidden_);
    vectors("mixer", "self_attn.dt_bias", 1, inner);
    vectors("mixer", "self_attn.A_log", 1, step_heads);
    vectors("mixer", "self_attn.o_norm", 1, width);
    linear("mixer", "self_attn.o_proj", hidden_, inner);
  }

  // MiniMax's lightning attention: q, k and v, an output gate, a norm.
  void add_lightning(const RecurrentFacts& state) {
    const std::uint64_t inner = share(state.state_heads) * state.state_rows;
    linear("mixer", "self_attn.qkv_proj", 3 * inner, hidden_);
    linear("mixer", "self_attn.output_gate", inner, hidden_);
    vectors("mixer", "self_attn.norm", 1, inner);
    linear("mixer", "self_attn.out_proj", hidden_, inner);
  }

  const ModelConfig& model_;
  const WeightFacts& facts_;
  const LayerFacts& layer_;
  const LayerWeightFacts& feed_;
  bool hashed_;
  const TensorDivision& division_;
  std::uint64_t hidden_;
  std::vector<WeightTensor> tensors_;
};

// How the streams of DeepSeek-V4 become one before a head: a weight, a base and a scale.
void add_last_mixing(const ModelConfig& model, std::vector<WeightTensor>* tensors) {
  if (!model.weights->compressed) return;
  const std::uint64_t streams = model.weights->compressed->streams;
  tensors->push_back(
      {"head", "hc_head_fn", 1, streams, streams * model.hidden_size, false, kFp32Bytes});
  tensors->push_back({"head", "hc_head_base", 1, 1, streams + 1, false, kFp32Bytes});
}

// The last layer's: those of ratio 0 are DeepSeek-V4's drafts.
LayerFacts draft_layer(const ModelConfig& model) {
  LayerFacts layer = model.layers.back();
  if (model.family == AttentionFamily::kCompressed) {
    layer.compress_ratio = 0;
    layer.has_indexer = false;
  }
  return layer;
}

}  // namespace

Result<std::vector<WeightTensor>> layer_tensors(const ModelConfig& model, std::uint32_t layer,
                                                const TensorDivision& division) {
  const WeightFacts& facts = *model.weights;
  const bool hashed = facts.compressed && layer < facts.compressed->hash_layers;
  return LayerCounter(model, model.layers[layer], facts.layers[layer], hashed, division).count();
}

Result<std::vector<WeightTensor>> draft_tensors(const ModelConfig& model,
                                                const TensorDivision& division) {
  const DraftRule rule = model.weights->block.drafts;
  if (rule == DraftRule::kUnknown) {
    return fail(
        ErrorCode::Unsupported,
        fmt::format("weights of draft layers are not counted in {}; give --weights", model.name));
  }
  const LayerFacts layer = draft_layer(model);
  auto tensors = LayerCounter(model, layer, model.weights->layers.back(), false, division).count();
  if (!tensors) return tensors;
  const std::uint64_t hidden = model.hidden_size;
  // DeepSeek-V3's projection of both inputs is not quantised, DeepSeek-V4's two are.
  const bool linear = rule == DraftRule::kDeepSeekV4;
  tensors->push_back({"drafts", "eh_proj", 2, hidden, hidden, linear, 0});
  tensors->push_back({"drafts", "norms", 3, 1, hidden, false, 0});
  add_last_mixing(model, &*tensors);
  for (WeightTensor& tensor : *tensors) tensor.part = "drafts";
  return tensors;
}

std::vector<WeightTensor> first_tensors(const ModelConfig& model, std::uint32_t ranks) {
  const WeightFacts& facts = *model.weights;
  const auto table = [&](std::string_view part, std::uint64_t rows, std::uint64_t columns) {
    return WeightTensor{part, "embed_tokens", 1, ceil_div(rows, ranks), columns, false, 0};
  };
  std::vector<WeightTensor> tensors = {
      table("embedding", std::uint64_t{facts.vocab_size} + facts.block.extra_embeddings,
            model.hidden_size)};
  const std::uint64_t width = facts.layer_embedding.width;
  if (width == 0) return tensors;
  const std::uint64_t all = width * model.num_hidden_layers;
  tensors.push_back(table("layer embedding", facts.layer_embedding.vocab_size, all));
  tensors.push_back(
      {"layer embedding", "per_layer_model_projection", 1, all, model.hidden_size, false, 0});
  tensors.push_back({"layer embedding", "per_layer_projection_norm", 1, 1, width, false, 0});
  return tensors;
}

std::vector<WeightTensor> final_tensors(const ModelConfig& model) {
  std::vector<WeightTensor> tensors = {{"head", "norm", 1, 1, model.hidden_size, false, 0}};
  add_last_mixing(model, &tensors);
  return tensors;
}

}  // namespace emblema
