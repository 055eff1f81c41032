// How quantization_config says that weights are stored.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/model/model_config.h"
#include "emblema/model/model_config_testing.h"

namespace emblema {
namespace {

using namespace model_testing;
using testing::ElementsAre;
using testing::HasSubstr;

std::string quantised(const std::string& members) {
  return plain(R"("vocab_size": 1000, "intermediate_size": 512, "quantization_config": )" +
               members);
}

QuantizationFacts read(const std::string& members) {
  const ModelConfig config = parsed(quantised(members));
  EXPECT_TRUE(config.weights && config.weights->quantization) << members;
  return config.weights ? config.weights->quantization.value_or(QuantizationFacts{})
                        : QuantizationFacts{};
}

TEST(WeightQuantization, EachMethodHasItsFormat) {
  const WeightFormat blocks = {.bits = 8, .block_rows = 128, .block_columns = 64, .scale_bytes = 4};
  EXPECT_EQ(*read(R"({"quant_method": "fp8", "weight_block_size": [128, 64]})").linear, blocks);
  const WeightFormat whole = {.bits = 8, .scale_bytes = 4};
  EXPECT_EQ(*read(R"({"quant_method": "fp8"})").linear, whole);
  EXPECT_EQ(*read(R"({"quant_method": "modelopt", "quant_algo": "FP8"})").experts, whole);
  const WeightFormat rows = {.bits = 8, .block_rows = 1, .scale_bytes = 4};
  EXPECT_EQ(*read(R"({"quant_method": "fbgemm_fp8"})").linear, rows);

  const WeightFormat microscaled = {
      .bits = 4, .block_rows = 1, .block_columns = 32, .scale_bytes = 1};
  const auto mxfp4 = read(R"({"quant_method": "mxfp4"})");
  EXPECT_EQ(*mxfp4.experts, microscaled);
  EXPECT_FALSE(mxfp4.linear) << "attention stays in 16 bits";

  const WeightFormat nvfp4 = {
      .bits = 4, .block_rows = 1, .block_columns = 16, .scale_bytes = 1, .matrix_bytes = 4};
  EXPECT_EQ(*read(R"({"quant_method": "modelopt", "quant_algo": "NVFP4"})").linear, nvfp4);
  EXPECT_EQ(*read(R"({"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized",
                      "config_groups": {"group_0": {"targets": ["Linear"], "weights":
                        {"num_bits": 4, "type": "float", "strategy": "tensor_group",
                         "group_size": 16}}}})")
                 .linear,
            nvfp4);
}

TEST(WeightQuantization, Int4HasScalesAndZeroPointsPerGroup) {
  const WeightFormat gptq = {.bits = 4,
                             .block_rows = 1,
                             .block_columns = 128,
                             .scale_bytes = 2,
                             .zero_bits = 4,
                             .column_bytes = 4};
  EXPECT_EQ(*read(R"({"quant_method": "gptq", "bits": 4, "group_size": 128})").linear, gptq);
  EXPECT_EQ(read(R"({"quant_method": "gptq", "bits": 8, "group_size": -1})").linear->block_columns,
            0u)
      << "-1: one group as wide as the matrix";
  const auto awq = read(R"({"quant_method": "awq", "w_bit": 4, "q_group_size": 64})");
  EXPECT_EQ(awq.linear->block_columns, 64u);
  EXPECT_EQ(awq.linear->column_bytes, 0u);
  const WeightFormat packed = {.bits = 4, .block_rows = 1, .block_columns = 32, .scale_bytes = 2};
  EXPECT_EQ(*read(R"({"quant_method": "compressed-tensors", "config_groups": {"group_0": {
                      "weights": {"num_bits": 4, "type": "int", "strategy": "group",
                                  "group_size": 32, "symmetric": true}}}})")
                 .experts,
            packed);
}

TEST(WeightQuantization, WhatIsNotKnownIsNamedAndFailsNothing) {
  EXPECT_THAT(read(R"({"quant_method": "bitsandbytes"})").uncounted, HasSubstr("bitsandbytes"));
  EXPECT_THAT(read(R"({"bits": 4})").uncounted, HasSubstr("quant_method \"\""));
  EXPECT_THAT(read(R"({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"})").uncounted,
              HasSubstr("MIXED_PRECISION"));
  EXPECT_THAT(read(R"({"quant_method": "compressed-tensors", "config_groups": {"a": {}, "b": {}}})")
                  .uncounted,
              HasSubstr("2 groups"));
  EXPECT_THAT(read(R"({"quant_method": "fp8", "ignore": ["re:.*[0-9]+"]})").uncounted,
              HasSubstr("re:.*[0-9]+"));
  EXPECT_FALSE(parsed(quantised("{}")).weights->quantization);
  EXPECT_FALSE(parsed(quantised("null")).weights->quantization);
}

TEST(KvCacheSchemeOf, WhatCheckpointsAskOfTheCache) {
  const auto numbers = [](const std::string& members) -> std::string {
    const auto scheme = parsed(quantised(members)).kv_cache_scheme;
    return scheme ? scheme->method + ":" + scheme->numbers : "none";
  };
  // nvidia/GLM-5.1-NVFP4 and poolside/Laguna-S-2.1-FP8
  EXPECT_EQ(numbers(R"({"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_scheme":
                        {"dynamic": false, "num_bits": 8, "type": "float"}})"),
            "modelopt:fp8");
  EXPECT_EQ(numbers(R"({"quant_method": "compressed-tensors", "kv_cache_scheme":
                        {"dynamic": false, "num_bits": 8, "type": "float",
                         "strategy": "tensor"}})"),
            "compressed-tensors:fp8");
  EXPECT_EQ(numbers(R"({"quant_method": "modelopt", "quant_algo": "FP8", "quantization":
                        {"kv_cache_quant_algo": "FP8"}})"),
            "modelopt:fp8");
  EXPECT_EQ(numbers(R"({"quant_method": "modelopt", "kv_cache_quant_algo": "NVFP4"})"),
            "modelopt:nvfp4");
  EXPECT_EQ(numbers(R"({"quant_method": "modelopt", "kv_cache_scheme":
                        {"num_bits": 4, "type": "float"}})"),
            "modelopt:nvfp4");
  EXPECT_EQ(numbers(R"({"quant_method": "modelopt", "kv_cache_scheme": {"num_bits": 8}})"),
            "modelopt:");
  EXPECT_EQ(numbers(R"({"quant_method": "modelopt", "kv_cache_scheme":
                        {"dynamic": true, "num_bits": 8, "type": "float"}})"),
            "modelopt:");
  EXPECT_EQ(numbers(R"({"quant_method": "modelopt", "kv_cache_scheme": 7})"), "modelopt:");
  EXPECT_EQ(numbers(R"({"quant_method": "fp8", "weight_block_size": [128, 128]})"), "none")
      << "weights in fp8 ask nothing of the cache";
  EXPECT_EQ(numbers(R"({"quant_method": "modelopt", "kv_cache_scheme": null})"), "none");
}

TEST(WeightQuantization, PatternsBecomeNames) {
  EXPECT_THAT(read(R"({"quant_method": "fp8", "ignore": ["lm_head", "re:^.*self_attn\\.o_proj$",
                       "re:.*mlp\\.(gate|up)_proj.*"]})")
                  .not_converted,
              ElementsAre("lm_head", "*self_attn.o_proj", "*mlp.gate_proj*", "*mlp.up_proj*"));
}

TEST(WeightQuantization, ModulesThatStay) {
  const auto stays = [](std::string pattern, std::string_view module) {
    QuantizationFacts facts;
    facts.not_converted = {std::move(pattern)};
    return is_not_converted(facts, module);
  };
  constexpr std::string_view kQuery = "model.layers.3.self_attn.q_proj";
  EXPECT_TRUE(stays("model.layers.3.self_attn.q_proj", kQuery));
  EXPECT_TRUE(stays("model.layers.3.self_attn", kQuery));
  EXPECT_TRUE(stays("self_attn", kQuery));
  EXPECT_TRUE(stays("self_attn.q_proj", kQuery));
  EXPECT_TRUE(stays("model.layers.*.self_attn", kQuery));
  EXPECT_TRUE(stays("*self_attn*", kQuery));
  EXPECT_TRUE(stays("model.language_model.layers.3.self_attn", kQuery));
  EXPECT_TRUE(stays("language_model.model.layers.3.self_attn.q_proj", kQuery));
  EXPECT_FALSE(stays("model.layers.30.self_attn", kQuery));
  EXPECT_FALSE(stays("model.layers.3.self_attn.q", kQuery)) << "whole parts of a name";
  EXPECT_FALSE(stays("attn", kQuery));
  EXPECT_FALSE(stays("lm_head", kQuery));
  EXPECT_FALSE(stays("", kQuery));
  EXPECT_FALSE(stays("gate", "model.layers.3.mlp.gate_proj"));
}

TEST(WeightQuantization, BadValuesAreOneError) {
  const auto message = [](const std::string& members) {
    return refused(quantised(members)).message;
  };
  EXPECT_THAT(message(R"({"quant_method": 8})"),
              HasSubstr("quantization_config.quant_method is 8"));
  EXPECT_THAT(message(R"({"quant_method": "fp8", "weight_block_size": [128]})"),
              HasSubstr("quantization_config.weight_block_size is a list of 1; allowed: a list"));
  EXPECT_THAT(message(R"({"quant_method": "fp8", "weight_block_size": [128, 0]})"),
              HasSubstr("quantization_config.weight_block_size[1] is 0"));
  EXPECT_THAT(message(R"({"quant_method": "fp8", "ignored_layers": "lm_head"})"),
              HasSubstr("quantization_config.ignored_layers is \"lm_head\""));
  EXPECT_THAT(message(R"({"quant_method": "fp8", "ignored_layers": [7]})"),
              HasSubstr("quantization_config.ignored_layers[0] is 7"));
  EXPECT_THAT(message(R"({"quant_method": "gptq", "bits": 64})"),
              HasSubstr("quantization_config.bits is 64"));
  EXPECT_THAT(message(R"({"quant_method": "gptq", "group_size": -2})"),
              HasSubstr("quantization_config.group_size is -2"));
}

}  // namespace
}  // namespace emblema
