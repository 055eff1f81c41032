// Which layers slide. Rules and figures: the configuration classes of transformers named per test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/model/model_config.h"

namespace emblema {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

Result<ModelConfig> read(const std::string& model_type, int layers, const std::string& members) {
  return parse_model_config(R"({"model_type": ")" + model_type + R"(", "hidden_size": 3584,
      "num_attention_heads": 28, "num_key_value_heads": 4, "head_dim": 128,
      "num_hidden_layers": )" + std::to_string(layers) +
                                (members.empty() ? "" : ", " + members) + "}",
                            "test");
}

// The window of every layer, 0 for a full one; empty when refused.
std::vector<std::uint32_t> windows_of(const Result<ModelConfig>& config) {
  std::vector<std::uint32_t> windows;
  EXPECT_TRUE(config) << config.error().message;
  if (!config) return windows;
  for (const LayerFacts& layer : config->layers) {
    EXPECT_EQ(layer.reach != LayerReach::kFull, layer.window_tokens > 0);
    windows.push_back(layer.window_tokens);
  }
  return windows;
}

// Bytes of one sequence in 2-byte numbers: windows capped.
std::uint64_t bytes_at(const ModelConfig& config, std::uint64_t tokens) {
  std::uint64_t bytes = 0;
  for (const LayerFacts& layer : config.layers) {
    const std::uint64_t kept =
        layer.window_tokens > 0 ? std::min<std::uint64_t>(tokens, layer.window_tokens) : tokens;
    bytes += 2 * kept * layer.num_key_value_heads * (layer.head_dim + layer.v_head_dim);
  }
  return bytes;
}

// hf-mem issues 60 and 70: sliding layers left out, or counted as full.
TEST(LayerWindows, AlternatingWindowAndFullLayersAreBothCounted) {
  std::string types;
  for (int i = 0; i < 18; ++i) {
    types += std::string(i > 0 ? "," : "") + R"("sliding_attention","full_attention")";
  }
  const auto config = parse_model_config(
      R"({"model_type": "gpt_oss", "num_hidden_layers": 36, "hidden_size": 2880,
          "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64,
          "sliding_window": 128, "layer_types": [)" +
          types + "]}",
      "test");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->layers[0].window_tokens, 128u);
  EXPECT_EQ(config->layers[1].window_tokens, 0u);
  EXPECT_EQ(bytes_at(*config, 1), 73'728u);
  EXPECT_EQ(bytes_at(*config, 128), 36ull * 2048 * 128);
  EXPECT_EQ(bytes_at(*config, 129), 36ull * 2048 * 128 + 18 * 2048);
  EXPECT_EQ(bytes_at(*config, 8192), 306'708'480u);
  EXPECT_TRUE(config->has_attention_sinks);
}

// vLLM issues 15705 and 17306, transformers issue 40126.
TEST(LayerWindows, QwenSlidesFromMaxWindowLayersOnAndOnlyWhenSwitchedOn) {
  const std::string window = R"("sliding_window": 4096, )";
  const auto off =
      read("qwen2", 28, window + R"("use_sliding_window": false, "max_window_layers": 21)");
  const auto from_21 =
      read("qwen2", 28, window + R"("use_sliding_window": true, "max_window_layers": 21)");
  const auto none =
      read("qwen2", 28, window + R"("use_sliding_window": true, "max_window_layers": 28)");
  ASSERT_TRUE(off && from_21 && none);
  EXPECT_EQ(bytes_at(*off, 32'768), 1'879'048'192u);
  EXPECT_EQ(bytes_at(*from_21, 32'768), 1'468'006'400u);
  EXPECT_EQ(bytes_at(*none, 32'768), 1'879'048'192u);
  EXPECT_EQ(from_21->layers[20].window_tokens, 0u);
  EXPECT_EQ(from_21->layers[21].window_tokens, 4096u);
  EXPECT_THAT(read("qwen2", 28, R"("sliding_window": 4096, "max_window_layers": 0)")->notes,
              Contains(HasSubstr("use_sliding_window is not given: off")));
}

TEST(LayerWindows, TheClassDecidesWithoutLayerTypes) {
  const std::string window = R"("sliding_window": 16)";
  EXPECT_THAT(windows_of(read("gemma2", 4, window)), ElementsAre(16, 0, 16, 0));
  EXPECT_THAT(windows_of(read("gemma3_text", 7, window)), ElementsAre(16, 16, 16, 16, 16, 0, 16));
  EXPECT_THAT(windows_of(read("gemma3_text", 4, window + R"(, "sliding_window_pattern": 2)")),
              ElementsAre(16, 0, 16, 0));
  EXPECT_THAT(windows_of(read("cohere2", 5, window)), ElementsAre(16, 16, 16, 0, 16));
  EXPECT_THAT(windows_of(read("exaone4", 4, window + R"(, "sliding_window_pattern": "LLG")")),
              ElementsAre(16, 16, 0, 16));
  EXPECT_THAT(windows_of(read("olmo3", 4, window)), ElementsAre(16, 16, 16, 0));
  EXPECT_THAT(windows_of(read("gpt_oss", 3, window)), ElementsAre(16, 0, 16));
  for (const std::string type : {"mistral", "mixtral", "phi3", "starcoder2"}) {
    EXPECT_THAT(windows_of(read(type, 2, window)), ElementsAre(16, 16)) << type;
  }
  EXPECT_THAT(windows_of(read("llama", 2, window)), ElementsAre(0, 0));
  EXPECT_THAT(read("llama", 2, window)->notes,
              Contains(HasSubstr("sliding_window is 16: ignored")));
}

TEST(LayerWindows, ZeroNullAndAbsentSwitchAWindowOff) {
  for (const std::string members : {R"("sliding_window": 0)", R"("sliding_window": null)", ""}) {
    EXPECT_THAT(windows_of(read("mistral", 2, members)), ElementsAre(0, 0)) << members;
  }
  EXPECT_THAT(windows_of(read("gemma2", 2, R"("sliding_window": 0)")), ElementsAre(0, 0));
  EXPECT_THAT(windows_of(read("exaone4", 2, R"("sliding_window": null)")), ElementsAre(0, 0));
}

TEST(LayerWindows, AWindowThatNoPositionCanFillIsFull) {
  const auto window_of = [](const std::string& positions) {
    const auto config =
        read("phi3", 1, R"("sliding_window": 4096, "max_position_embeddings": )" + positions);
    return config ? config->layers[0].window_tokens : 99;
  };
  EXPECT_EQ(window_of("4095"), 0u);
  EXPECT_EQ(window_of("4096"), 0u);
  EXPECT_EQ(window_of("4097"), 4096u);
}

TEST(LayerWindows, LayerTypesWinOverTheClass) {
  EXPECT_THAT(windows_of(read("gemma2", 3, R"("sliding_window": 8, "layer_types":
                  ["full_attention", "full_attention", "sliding_attention", "full_attention"])")),
              ElementsAre(0, 0, 8))
      << "what is behind the last layer belongs to draft layers";
  EXPECT_THAT(windows_of(read("never_heard_of", 2, R"("sliding_window": 8, "layer_types":
                  ["sliding_attention", "full_attention"])")),
              ElementsAre(8, 0));
}

std::vector<bool> chunked(const Result<ModelConfig>& config) {
  std::vector<bool> chunks;
  EXPECT_TRUE(config) << config.error().message;
  if (!config) return chunks;
  for (const LayerFacts& layer : config->layers) {
    chunks.push_back(layer.reach == LayerReach::kChunk && layer.window_tokens == 8192);
  }
  return chunks;
}

// Llama4TextConfig: every fourth layer sees everything and does not rotate; its own files leave the
// pattern out or give an empty no_rope_layers.
TEST(LayerWindows, Llama4AttendsInChunksWhereItRotates) {
  const std::string chunk = R"("attention_chunk_size": 8192)";
  for (const std::string more :
       {"", R"(, "no_rope_layers": [])", R"(, "no_rope_layers": [1, 1, 1, 0, 1])",
        R"(, "no_rope_layer_interval": 4)",
        R"(, "layer_types": ["chunked_attention", "chunked_attention", "chunked_attention",
                             "full_attention", "chunked_attention"])"}) {
    const auto config = read("llama4_text", 5, chunk + more);
    EXPECT_THAT(chunked(config), ElementsAre(true, true, true, false, true)) << more;
    EXPECT_TRUE(config && config->layers[0].has_rope && !config->layers[3].has_rope) << more;
  }
  EXPECT_THAT(chunked(read("llama4_text", 4, chunk + R"(, "no_rope_layer_interval": 2)")),
              ElementsAre(true, false, true, false));
  EXPECT_THAT(windows_of(read("llama4_text", 4, R"("attention_chunk_size": null)")),
              ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(windows_of(read("llama4_text", 4, chunk + R"(, "max_position_embeddings": 8192)")),
              ElementsAre(0, 0, 0, 0))
      << "a chunk as long as all positions never ends";
}

TEST(LayerWindows, ListsOfIndicesNameTheLayersThatSlide) {
  EXPECT_THAT(windows_of(read("baichuan_m1", 4, R"("sliding_window": 16, "conv_window": 2,
                  "sliding_window_layers": [1, 3])")),
              ElementsAre(0, 16, 0, 16));
  const auto beyond =
      read("baichuan_m1", 4, R"("sliding_window": 16, "sliding_window_layers": [4])");
  ASSERT_FALSE(beyond);
  EXPECT_THAT(beyond.error().message, HasSubstr("sliding_window_layers[0] is 4"));
}

TEST(LayerWindows, WhatCannotBeKnownIsRefusedByName) {
  const auto refusal = [](const Result<ModelConfig>& config) {
    return config ? std::string("it was read") : config.error().describe();
  };
  EXPECT_THAT(refusal(read("gemma2", 2, "")),
              HasSubstr("Invalid: test: sliding_window is missing"));
  EXPECT_THAT(refusal(read("never_heard_of", 2, R"("sliding_window": 8)")),
              HasSubstr("Unsupported: test: sliding_window is 8, but which layers slide"));
  EXPECT_THAT(refusal(read("llama", 2, R"("layer_types": ["linear_attention", "full_attention"])")),
              HasSubstr("Unsupported: test: layer_types[0] is \"linear_attention\", but no field"));
  EXPECT_THAT(
      refusal(read("llama", 2, R"("layer_types": ["full_attention", "strided_attention"])")),
      HasSubstr("Unsupported: test: layer_types[1] is \"strided_attention\""));
  EXPECT_THAT(
      refusal(read("llama", 2, R"("layer_types": ["full_attention", "chunked_attention"])")),
      HasSubstr("Invalid: test: attention_chunk_size is missing"));
  EXPECT_THAT(refusal(read("llama", 2, R"("layer_types": ["full_attention"])")),
              HasSubstr("layer_types has 1 entries"));
  EXPECT_THAT(refusal(read("llama", 2, R"("layer_types": [1, 2])")),
              HasSubstr("layer_types[0] is 1"));
  EXPECT_THAT(refusal(read("mistral", 2, R"("sliding_window": -1)")),
              HasSubstr("sliding_window is -1"));
  EXPECT_THAT(refusal(read("mistral", 2, R"("sliding_window": 1e30)")),
              HasSubstr("sliding_window is 1e30"));
  EXPECT_THAT(
      refusal(read("exaone4", 2, R"("sliding_window": 8, "sliding_window_pattern": "LGLG")")),
      HasSubstr("sliding_window_pattern is \"LGLG\""));
  EXPECT_THAT(
      refusal(read("gemma3_text", 2, R"("sliding_window": 8, "sliding_window_pattern": 0)")),
      HasSubstr("sliding_window_pattern is 0"));
}

}  // namespace
}  // namespace emblema
