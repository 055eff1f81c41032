// What the tests of whole configs share: reading one that must be right, and one that must be
// refused.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include "emblema/model/model_config.h"

namespace emblema::model_testing {

inline ModelConfig parsed(const std::string& json) {
  auto config = parse_model_config(json, "test");
  EXPECT_TRUE(config) << config.error().describe() << "\n" << json;
  return config ? *config : ModelConfig{};
}

inline Error refused(const std::string& json) {
  const auto config = parse_model_config(json, "test");
  EXPECT_FALSE(config) << json;
  if (config) return {ErrorCode::Io, "it was read"};
  EXPECT_EQ(config.error().message.find('\n'), std::string::npos);
  EXPECT_EQ(config.error().message.rfind("test", 0), 0u) << "the message names its source";
  return config.error();
}

// 2-byte numbers of one token that grow with the context; windows are left out.
inline std::uint64_t growing_bytes(const ModelConfig& config) {
  std::uint64_t bytes = 0;
  for (const LayerFacts& layer : config.layers) {
    if (layer.reach == LayerReach::kWindow) continue;
    bytes += config.family == AttentionFamily::kLatent
                 ? 2ull * (config.kv_lora_rank + config.qk_rope_head_dim)
                 : 2ull * layer.num_key_value_heads * (layer.head_dim + layer.v_head_dim);
  }
  return bytes;
}

// A plain model of 32 layers, hidden 2560, 32 heads, with more members put in.
inline std::string plain(const std::string& members) {
  return R"({"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 2560,
             "num_attention_heads": 32)" +
         (members.empty() ? "" : ", " + members) + "}";
}

inline constexpr std::uint64_t kPlainMhaBytes = 2ull * 32 * 32 * 80 * 2;

}  // namespace emblema::model_testing
