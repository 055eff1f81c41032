// Models filled in by hand, for tests of the rooms behind the parser: the numbers are those of the
// public config.json files.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "emblema/model/model_config.h"

namespace emblema::samples {

inline ModelConfig grouped(std::string name, std::uint32_t layers, std::uint32_t query_heads,
                           std::uint32_t kv_heads, std::uint32_t head_dim) {
  ModelConfig model;
  model.name = std::move(name);
  model.family = AttentionFamily::kGrouped;
  model.hidden_size = query_heads * head_dim;
  model.num_hidden_layers = layers;
  model.num_attention_heads = query_heads;
  LayerFacts layer;
  layer.num_attention_heads = query_heads;
  layer.num_key_value_heads = kv_heads;
  layer.head_dim = head_dim;
  layer.v_head_dim = head_dim;
  layer.rope.rotary_dim = head_dim;
  model.layers.assign(layers, layer);
  return model;
}

inline void set_window(LayerFacts* layer, std::uint32_t window_tokens) {
  layer->reach = LayerReach::kWindow;
  layer->window_tokens = window_tokens;
}

inline ModelConfig llama_3_70b() {
  ModelConfig model = grouped("llama-3-70b", 80, 64, 8, 128);
  model.max_positions = 8192;
  return model;
}

// Alternating window and full layers, beginning with a window.
inline ModelConfig gpt_oss_120b() {
  ModelConfig model = grouped("gpt-oss-120b", 36, 64, 8, 64);
  model.max_positions = 131'072;
  model.has_attention_sinks = true;
  for (LayerFacts& layer : model.layers) layer.has_sinks = true;
  for (std::size_t i = 0; i < model.layers.size(); i += 2) set_window(&model.layers[i], 128);
  return model;
}

inline ModelConfig latent(std::string name, std::uint32_t layers, std::uint32_t heads) {
  ModelConfig model;
  model.name = std::move(name);
  model.family = AttentionFamily::kLatent;
  model.hidden_size = 7168;
  model.num_hidden_layers = layers;
  model.num_attention_heads = heads;
  model.q_lora_rank = 1536;
  model.kv_lora_rank = 512;
  model.qk_nope_head_dim = 128;
  model.qk_rope_head_dim = 64;
  model.v_head_dim = 128;
  LayerFacts layer;
  layer.num_attention_heads = heads;
  layer.rope.rotary_dim = 64;
  layer.rope.interleaved = true;
  model.layers.assign(layers, layer);
  return model;
}

inline ModelConfig deepseek_v3() {
  ModelConfig model = latent("deepseek-v3", 61, 128);
  model.max_positions = 163'840;
  model.num_nextn_predict_layers = 1;
  for (LayerFacts& layer : model.layers) {
    layer.rope.scaling = RopeScaling::kYarn;
    layer.rope.factor = 40;
    layer.rope.original_max_positions = 4096;
    layer.rope.mscale = 1.0;
    layer.rope.mscale_all_dim = 1.0;
  }
  return model;
}

inline ModelConfig deepseek_v3_2() {
  ModelConfig model = deepseek_v3();
  model.name = "deepseek-v3.2";
  model.index_head_dim = 128;
  model.index_n_heads = 64;
  model.index_topk = 2048;
  for (LayerFacts& layer : model.layers) layer.has_indexer = true;
  return model;
}

// The ratios of config.json without its last entry, which is the draft layer's.
inline ModelConfig deepseek_v4(std::string name, std::uint32_t layers, std::uint32_t heads,
                               std::uint32_t first_ratio) {
  ModelConfig model;
  model.name = std::move(name);
  model.family = AttentionFamily::kCompressed;
  model.hidden_size = 4096;
  model.num_hidden_layers = layers;
  model.num_attention_heads = heads;
  model.max_positions = 1'048'576;
  model.num_nextn_predict_layers = 1;
  model.q_lora_rank = 1024;
  model.qk_rope_head_dim = 64;
  model.index_head_dim = 128;
  model.index_n_heads = 64;
  model.index_topk = 512;
  model.has_attention_sinks = true;
  for (std::uint32_t i = 0; i < layers; ++i) {
    LayerFacts layer;
    layer.num_attention_heads = heads;
    layer.has_sinks = true;
    set_window(&layer, 128);
    layer.head_dim = 512;
    layer.compress_ratio = i < 2 ? first_ratio : i % 2 == 0 ? 4 : 128;
    layer.has_indexer = layer.compress_ratio == 4;
    layer.rope.rotary_dim = 64;
    layer.rope.interleaved = true;
    layer.rope.unit_amplitude = true;
    if (layer.compress_ratio != 0) {
      layer.rope.theta = 160'000;
      layer.rope.scaling = RopeScaling::kYarn;
      layer.rope.factor = 16;
      layer.rope.original_max_positions = 65'536;
    }
    model.layers.push_back(layer);
  }
  return model;
}

inline ModelConfig deepseek_v4_flash() {
  return deepseek_v4("deepseek-v4-flash", 43, 64, 0);
}

inline ModelConfig deepseek_v4_pro() {
  return deepseek_v4("deepseek-v4-pro", 61, 128, 128);
}

}  // namespace emblema::samples
