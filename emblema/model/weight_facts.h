// Facts that the size of a model's weights follows from, copied from its config.json and validated.
// No derived number lives here: plan/weights.h counts.
//
// A missing field never fails a config, because a cache is sized without it: the facts are absent
// then, and ModelConfig::weights_missing says why. A malformed field is an error like any other.
// Plain values; any thread may read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emblema/model/weight_class.h"

namespace emblema {

class ConfigFields;
struct ModelConfig;

// How one kind of matrix is stored. Scales lie over blocks of rows (outputs) x columns (inputs).
struct WeightFormat {
  std::uint32_t bits = 16;          // of one weight
  std::uint32_t block_rows = 0;     // under one scale; 0: all rows
  std::uint32_t block_columns = 0;  // under one scale; 0: all columns
  std::uint32_t scale_bytes = 0;    // of one scale; 0: there are none
  std::uint32_t zero_bits = 0;      // of the zero point beside each scale
  std::uint32_t matrix_bytes = 0;   // once for each matrix
  std::uint32_t column_bytes = 0;   // once for each input

  friend bool operator==(const WeightFormat&, const WeightFormat&) = default;
};

struct QuantizationFacts {
  std::string method;                   // quant_method, as spelled
  std::string uncounted;                // not empty: what in it this release cannot count
  std::optional<WeightFormat> linear;   // of linear layers; absent: they stay as they are
  std::optional<WeightFormat> experts;  // of routed experts
  // Modules that stay as they are: names, runs of their parts ("lm_head", "self_attn"), or patterns
  // with * in them.
  std::vector<std::string> not_converted;
};

// What quantization_config asks of the KV cache. Engines act on it by method.
struct KvCacheScheme {
  std::string method;   // quant_method, as spelled
  std::string numbers;  // "fp8" (e4m3, one scale per tensor), "nvfp4"; "": a scheme not known here
};

struct ExpertFacts {
  std::uint32_t routed = 0;     // experts of one layer that have weights
  std::uint32_t identity = 0;   // that the router may choose and that have none (LongCat)
  std::uint32_t per_token = 0;  // of those that one token visits; 1 to routed + identity
  std::uint32_t intermediate_size = 0;
  std::uint32_t shared_intermediate_size = 0;  // of all shared experts together; 0: none
};

// What only DeepSeek-V4 has: AttentionFamily::kCompressed.
struct CompressedWeightFacts {
  std::uint32_t o_groups = 0;     // groups of heads that share a projection to o_lora_rank
  std::uint32_t o_lora_rank = 0;  // of one group
  std::uint32_t streams = 0;      // hc_mult: residual streams that are mixed before each sublayer
  std::uint32_t hash_layers = 0;  // the first ones, which choose experts by token id
};

// An embedding for each layer beside the model's (Gemma-3n, Gemma-4's small models).
struct LayerEmbeddingFacts {
  std::uint32_t width = 0;       // hidden_size_per_layer_input; 0: none
  std::uint32_t vocab_size = 0;  // of these embeddings
};

// Gemma-3n: streams of which a layer updates one, and a low-rank residual (AltUp, LAuReL).
struct AlternatingFacts {
  std::uint32_t streams = 0;      // altup_num_inputs
  std::uint32_t laurel_rank = 0;  // of the residual
};

// Zamba2: blocks of attention and MLP that the layers which attend use in turn. Each use has an
// adapter of its own.
struct SharedBlockFacts {
  std::uint32_t blocks = 0;             // num_mem_blocks
  std::uint32_t intermediate_size = 0;  // of their MLP
  std::uint32_t adapter_rank = 0;
  bool attention_adapters = false;  // for queries, keys and values too, not for the MLP alone
};

// The feed-forward part of one layer: a dense MLP, a mixture, both, or neither.
struct LayerWeightFacts {
  std::uint32_t intermediate_size = 0;  // 0: no dense MLP
  bool has_experts = false;
};

struct WeightFacts {
  WeightClass block;  // what the class fixes
  std::uint32_t vocab_size = 0;
  bool tie_word_embeddings = false;
  bool attention_bias = false;  // of queries, keys and values
  bool output_bias = false;     // of the attention's output
  bool mlp_bias = false;
  bool qk_norm = false;          // block.qk_norm is there
  bool conv_bias = true;         // of a recurrent mixer's convolution
  bool mixer_bias = false;       // of its projections
  bool mixer_norm = false;       // before its output projection (Mamba-2)
  bool keys_are_values = false;  // layers that see everything have no value projection
  LayerEmbeddingFacts layer_embedding;
  std::uint32_t time_step_rank = 0;  // Mamba-1: rank of its time step; 0: not given
  std::uint32_t dtype_bytes = 2;     // of what is not quantised
  std::optional<ExpertFacts> experts;
  std::optional<CompressedWeightFacts> compressed;
  std::optional<AlternatingFacts> alternating;
  std::optional<SharedBlockFacts> shared_blocks;
  std::optional<QuantizationFacts> quantization;
  std::vector<LayerWeightFacts> layers;  // one for each of ModelConfig::layers
  std::string towers;  // what announces weights beside the language part; "": none
};

// REQUIRES: `config` is filled but for its weights. Sets weights, or weights_missing. Problems are
// recorded in `text`. `outer` is the whole config, often the same.
void read_weight_facts(const ConfigFields& text, const ConfigFields& outer, ModelConfig* config);

// Does `module` ("model.layers.3.mlp.gate") stay as it is?
bool is_not_converted(const QuantizationFacts& facts, std::string_view module);

}  // namespace emblema
