#include "emblema/plan/weight_tensors.h"

#include <fmt/format.h>

#include "emblema/contract/bytes.h"
#include "emblema/plan/mixer_tensors.h"
#include "emblema/plan/tensor_list.h"

namespace emblema {
namespace {

constexpr std::uint32_t kFp32Bytes = 4;
constexpr std::uint32_t kInt32Bytes = 4;

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
        hidden_(model.hidden_size),
        list_(division.tensor) {}

  Result<std::vector<WeightTensor>> count() {
    list_.vectors("norms", "norms",
                  facts_.block.norms + (feed_.has_experts ? facts_.block.expert_norms : 0),
                  hidden_);
    if (facts_.block.layer_scale) list_.vectors("norms", "layer_scalar", 1, 1);
    if (facts_.layer_embedding.width > 0) add_layer_embedding();
    if (facts_.alternating) add_alternating();
    if (layer_.cache != LayerCache::kNone && facts_.shared_blocks) {
      add_shared_use();
    } else if (layer_.cache != LayerCache::kNone) {
      if (auto counted = add_attention(); !counted) return propagate(counted);
    }
    if (layer_.recurrent.mixer != RecurrentMixer::kNone) {
      const auto counted = add_mixer_tensors(model_, layer_, &list_);
      if (!counted) return propagate(counted);
    }
    if (feed_.intermediate_size > 0) {
      add_mlp({"dense MLP", "mlp.up_proj", "mlp.down_proj", feed_.intermediate_size,
               division_.tensor, 1, facts_.mlp_bias});
    }
    if (feed_.has_experts) add_mixture();
    return list_.tensors();
  }

  // Attention sees the layer's input beside the embedding, and is therefore twice as wide.
  std::vector<WeightTensor> count_shared_block() {
    const std::uint64_t input = 2 * hidden_;
    const std::uint64_t queries = list_.share(heads());
    const std::uint64_t keys = list_.share(layer_.num_key_value_heads);
    list_.vectors("norms", "shared_transformer.input_layernorm", 1, input);
    list_.vectors("norms", "shared_transformer.pre_ff_layernorm", 1, hidden_);
    list_.linear("attention", "shared_transformer.q_proj", queries * layer_.head_dim, input);
    list_.linear("attention", "shared_transformer.k_proj", keys * layer_.head_dim, input);
    list_.linear("attention", "shared_transformer.v_proj", keys * layer_.v_head_dim, input);
    list_.linear("attention", "shared_transformer.o_proj", hidden_, queries * layer_.v_head_dim);
    add_mlp({"dense MLP", "shared_transformer.gate_up_proj", "shared_transformer.down_proj",
             facts_.shared_blocks->intermediate_size, division_.tensor, 1, facts_.mixer_bias});
    return list_.tensors();
  }

 private:
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
    if (layer_.has_sinks) list_.vectors("attention", "self_attn.sinks", 1, list_.share(heads()));
    return {};
  }

  std::uint64_t heads() const { return layer_.num_attention_heads; }

  void add_grouped() {
    const std::uint64_t queries = list_.share(heads());
    const std::uint64_t keys = list_.share(layer_.num_key_value_heads);
    const std::uint64_t width = layer_.head_dim;
    const std::uint64_t gates = facts_.block.output_gate ? 2 : 1;
    const bool bias = facts_.attention_bias;
    list_.linear("attention", "self_attn.q_proj", queries * width * gates, hidden_, bias);
    const bool own_keys = layer_.cache != LayerCache::kShared || facts_.block.unused_keys;
    if (own_keys) {
      list_.linear("attention", "self_attn.k_proj", keys * width, hidden_, bias);
      const bool has_values = !facts_.keys_are_values || layer_.reach != LayerReach::kFull;
      if (has_values) {
        list_.linear("attention", "self_attn.v_proj", keys * layer_.v_head_dim, hidden_, bias);
      }
    }
    list_.linear("attention", "self_attn.o_proj", hidden_, queries * layer_.v_head_dim,
                 facts_.output_bias);
    const bool crosses = layer_.cache == LayerCache::kCross;
    if (crosses) list_.vectors("attention", "cross_attn.gates", 2, 1);
    if (!facts_.qk_norm && !crosses) return;
    const bool whole = facts_.block.qk_norm == QkNorm::kWhole;
    list_.vectors("attention", "self_attn.q_norm", 1, whole ? queries * width : width);
    if (own_keys) list_.vectors("attention", "self_attn.k_norm", 1, whole ? keys * width : width);
  }

  // One use of a shared block: an adapter divided as in vLLM (model_executor/models/zamba2.py, by
  // rank and by columns), and a projection back that is not.
  void add_shared_use() {
    const SharedBlockFacts& shared = *facts_.shared_blocks;
    const std::uint64_t rank = shared.adapter_rank;
    list_.linear("attention", "linear", hidden_, hidden_);
    list_.linear("dense MLP", "gate_up_adapter.0", list_.share(rank), hidden_);
    list_.linear("dense MLP", "gate_up_adapter.1", 2 * list_.share(shared.intermediate_size), rank);
    if (!shared.attention_adapters) return;
    for (const std::uint64_t all :
         {layer_.num_attention_heads, layer_.num_key_value_heads, layer_.num_key_value_heads}) {
      list_.linear("attention", "qkv_adapter.0", list_.share(rank), 2 * hidden_);
      list_.linear("attention", "qkv_adapter.1", list_.share(all) * layer_.head_dim, rank);
    }
  }

  // Nothing of it is divided: transformers' plan for tensor parallelism of Gemma-3n names attention
  // and MLP alone.
  void add_alternating() {
    const std::uint64_t streams = facts_.alternating->streams;
    const std::uint64_t rank = facts_.alternating->laurel_rank;
    list_.matrix("residuals", "altup.correction_coefs", streams, streams);
    list_.matrix("residuals", "altup.prediction_coefs", streams * streams, streams);
    list_.matrix("residuals", "altup.modality_router", streams, hidden_);
    list_.vectors("residuals", "altup.norm_and_scale", 2, hidden_);
    list_.linear("residuals", "laurel.linear_left", rank, hidden_);
    list_.linear("residuals", "laurel.linear_right", hidden_, rank);
    list_.vectors("residuals", "laurel.post_laurel_norm", 1, hidden_);
  }

  // What a layer adds of its own embedding: a gate, a projection back, a norm.
  void add_layer_embedding() {
    const std::uint64_t width = facts_.layer_embedding.width;
    list_.linear("layer embedding", "per_layer_input_gate", width, hidden_);
    list_.linear("layer embedding", "per_layer_projection", hidden_, width);
    list_.vectors("layer embedding", "post_per_layer_input_norm", 1, hidden_);
  }

  void add_latent() {
    const std::uint64_t queries = list_.share(heads());
    const std::uint64_t query_width = model_.qk_nope_head_dim + model_.qk_rope_head_dim;
    const std::uint64_t rank = model_.kv_lora_rank;
    const bool bias = facts_.attention_bias;
    if (model_.q_lora_rank) {
      list_.linear("attention", "self_attn.q_a_proj", *model_.q_lora_rank, hidden_, bias);
      list_.vectors("attention", "self_attn.q_a_layernorm", 1, *model_.q_lora_rank);
      list_.linear("attention", "self_attn.q_b_proj", queries * query_width, *model_.q_lora_rank);
    } else {
      list_.linear("attention", "self_attn.q_proj", queries * query_width, hidden_);
    }
    list_.linear("attention", "self_attn.kv_a_proj_with_mqa", rank + model_.qk_rope_head_dim,
                 hidden_, bias);
    list_.vectors("attention", "self_attn.kv_a_layernorm", 1, rank);
    list_.linear("attention", "self_attn.kv_b_proj",
                 queries * (std::uint64_t{model_.qk_nope_head_dim} + model_.v_head_dim), rank);
    list_.linear("attention", "self_attn.o_proj", hidden_, queries * model_.v_head_dim,
                 facts_.output_bias);
  }

  // DeepSeek-V3.2 and GLM-5; replicated, as its keys are. The norm of its keys has a bias.
  void add_indexer() {
    const std::uint64_t width = model_.index_head_dim;
    const std::uint64_t input = model_.q_lora_rank.value_or(model_.hidden_size);
    list_.linear("indexer", "self_attn.indexer.wq_b", model_.index_n_heads * width, input);
    list_.linear("indexer", "self_attn.indexer.wk", width, hidden_);
    list_.vectors("indexer", "self_attn.indexer.k_norm", 2, width);
    list_.add(
        {"indexer", "self_attn.indexer.weights_proj", 1, model_.index_n_heads, hidden_, false, 0});
  }

  // DeepSeek-V4: one vector is key and value; heads come back through groups.
  void add_compressed() {
    const CompressedWeightFacts& facts = *facts_.compressed;
    const std::uint64_t width = layer_.head_dim;
    const std::uint64_t rank = model_.q_lora_rank.value_or(0);
    const std::uint64_t groups = list_.share(facts.o_groups);
    const std::uint64_t group_width = ceil_div(heads(), facts.o_groups) * width;
    list_.linear("attention", "attn.wq_a", rank, hidden_);
    list_.vectors("attention", "attn.q_norm", 1, rank);
    list_.linear("attention", "attn.wq_b", list_.share(heads()) * width, rank);
    list_.linear("attention", "attn.wkv", width, hidden_);
    list_.vectors("attention", "attn.kv_norm", 1, width);
    list_.vectors("attention", "attn.attn_sink", 1, list_.share(heads()), kFp32Bytes);
    list_.linear("attention", "attn.wo_a", groups * facts.o_lora_rank, group_width);
    list_.linear("attention", "attn.wo_b", hidden_, groups * facts.o_lora_rank);
    if (layer_.compress_ratio > 0) add_compressor("attention", width);
    if (layer_.has_indexer) {
      list_.linear("indexer", "attn.indexer.wq_b",
                   model_.index_n_heads * std::uint64_t{model_.index_head_dim}, rank);
      list_.matrix("indexer", "attn.indexer.weights_proj", model_.index_n_heads, hidden_);
      add_compressor("indexer", model_.index_head_dim);
    }
    add_mixing(2);
  }

  // Values and gates for each token, a bias for each place in a group, a norm. Groups of ratio 4
  // overlap: each token gives to two of them.
  void add_compressor(std::string_view part, std::uint64_t width) {
    const std::uint64_t wide = (layer_.compress_ratio == 4 ? 2 : 1) * width;
    list_.matrix(part, "attn.compressor.wkv", wide, hidden_);
    list_.matrix(part, "attn.compressor.wgate", wide, hidden_);
    list_.matrix(part, "attn.compressor.ape", layer_.compress_ratio, wide, kFp32Bytes);
    list_.vectors(part, "attn.compressor.norm", 1, width);
  }

  // Hyper-connections: how n streams are read, written and mixed, from all of them.
  void add_mixing(std::uint64_t sublayers) {
    const std::uint64_t streams = facts_.compressed->streams;
    const std::uint64_t outputs = (2 + streams) * streams;
    for (std::uint64_t i = 0; i < sublayers; ++i) {
      list_.matrix("norms", "hc_fn", outputs, streams * hidden_, kFp32Bytes);
      list_.vectors("norms", "hc_base", 1, outputs + 3, kFp32Bytes);  // and three scales
    }
  }

  // MiniMax-M3: index queries are divided as its KV heads are, its one index key is not.
  void add_block_indexer() {
    const std::uint64_t width = model_.index_head_dim;
    list_.linear("indexer", "self_attn.index_q_proj", list_.share(model_.index_n_heads) * width,
                 hidden_);
    list_.linear("indexer", "self_attn.index_k_proj", width, hidden_);
    list_.vectors("indexer", "self_attn.index_norms", 2, width);
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
    list_.add({mlp.part, mlp.up, inputs, columns, hidden_, true, 0});
    list_.add({mlp.part, mlp.down, mlp.copies, hidden_, columns, true, 0});
    if (!mlp.bias) return;
    list_.vectors(mlp.part, mlp.up, inputs, columns);
    list_.vectors(mlp.part, mlp.down, mlp.copies, hidden_);
  }

  void add_mixture() {
    const ExpertFacts& experts = *facts_.experts;
    const std::uint64_t chosen = std::uint64_t{experts.routed} + experts.identity;
    list_.matrix("router", "mlp.gate", chosen, hidden_, facts_.block.router_bytes);
    if (hashed_) {
      list_.matrix("router", "mlp.tid2eid", facts_.vocab_size, experts.per_token, kInt32Bytes);
    } else if (facts_.block.correction_bias) {
      list_.vectors("router", "mlp.gate", 1, chosen, kFp32Bytes);
    }
    if (facts_.block.expert_bias) list_.vectors("router", "mlp.gate", 1, chosen);
    if (facts_.block.scaled_router) list_.vectors("router", "mlp.gate", 1, hidden_ + chosen);
    add_mlp({"experts", "mlp.experts.0.up_proj", "mlp.experts.0.down_proj",
             experts.intermediate_size, division_.expert_tensor,
             ceil_div(experts.routed, division_.experts), facts_.block.expert_bias});
    if (experts.shared_intermediate_size == 0) return;
    add_mlp({"shared experts", "mlp.shared_experts.up_proj", "mlp.shared_experts.down_proj",
             experts.shared_intermediate_size, division_.tensor});
    if (facts_.block.shared_gate) list_.vectors("router", "mlp.shared_expert_gate", 1, hidden_);
  }

  const ModelConfig& model_;
  const WeightFacts& facts_;
  const LayerFacts& layer_;
  const LayerWeightFacts& feed_;
  bool hashed_;
  const TensorDivision& division_;
  std::uint64_t hidden_;
  TensorList list_;
};

// How the streams of DeepSeek-V4 become one before a head: a weight, a base and a scale.
void add_last_mixing(const ModelConfig& model, std::vector<WeightTensor>* tensors) {
  if (!model.weights->compressed) return;
  const std::uint64_t streams = model.weights->compressed->streams;
  tensors->push_back(
      {"head", "hc_head_fn", 1, streams, streams * model.hidden_size, false, kFp32Bytes});
  tensors->push_back({"head", "hc_head_base", 1, 1, streams + 1, false, kFp32Bytes});
}

// Gemma-3n: a matrix for each stream but the first, after the embedding and before the head.
void add_stream_projections(const ModelConfig& model, std::string_view part,
                            std::vector<WeightTensor>* tensors) {
  if (!model.weights->alternating || model.weights->alternating->streams < 2) return;
  const std::uint64_t hidden = model.hidden_size;
  const std::uint64_t others = model.weights->alternating->streams - 1;
  tensors->push_back({part, "altup_projections", others, hidden, hidden, false, 0});
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

std::vector<WeightTensor> shared_block_tensors(const ModelConfig& model, std::uint32_t layer,
                                               const TensorDivision& division) {
  const WeightFacts& facts = *model.weights;
  return LayerCounter(model, model.layers[layer], facts.layers[layer], false, division)
      .count_shared_block();
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
  add_stream_projections(model, "residuals", &tensors);
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
  add_stream_projections(model, "head", &tensors);
  return tensors;
}

}  // namespace emblema
