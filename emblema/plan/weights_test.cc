// Weights counted from configs, against what the published checkpoints hold.
#include "emblema/plan/weights.h"

#include <algorithm>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace emblema {
namespace {

using testing::HasSubstr;

ModelConfig preset(std::string_view name) {
  auto model = load_model_config(name);
  EXPECT_TRUE(model) << name;
  return model ? *model : ModelConfig{};
}

ModelConfig config(const std::string& members) {
  auto model = parse_model_config(
      R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "vocab_size": 100,
          "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
          "intermediate_size": 96, "torch_dtype": "bfloat16")" +
          (members.empty() ? "" : ", " + members) + "}",
      "test");
  EXPECT_TRUE(model) << model.error().describe();
  return model ? *model : ModelConfig{};
}

WeightsEstimate estimate(const ModelConfig& model, const WeightSplit& split = {}) {
  const auto weights = estimate_weights(model, split);
  EXPECT_TRUE(weights) << weights.error().describe();
  return weights ? *weights : WeightsEstimate{};
}

const WeightPart* part_of(const WeightsEstimate& weights, std::string_view name) {
  for (const WeightPart& part : weights.parts) {
    if (part.name == name) return &part;
  }
  return nullptr;
}

// Numbers in the published checkpoint, without draft layers: `safetensors.total` of the model's
// page on the Hugging Face Hub, unless another source stands beside it.
const std::map<std::string_view, std::uint64_t>& published() {
  static const std::map<std::string_view, std::uint64_t> totals = {
      {"deepseek-r1", 671'026'419'200},  // the Hub's 684,531,386,000 hold an MTP layer and scales
      {"deepseek-v2", 235'741'434'880},
      {"deepseek-v2-lite", 15'706'484'224},
      {"deepseek-v3", 671'026'419'200},
      {"gemma-2-27b", 27'227'128'320},
      {"gemma-2-2b", 2'614'341'888},
      {"gemma-3-1b", 999'885'952},
      {"glm-4.5", 352'797'829'024},  // GLM-4.6's 356,785,898,816 without its MTP layer
      {"gpt-oss-120b", 116'829'156'672},
      {"gpt-oss-20b", 20'914'757'184},
      {"jamba-1.5-mini", 51'570'323'328},
      {"kimi-linear-48b-a3b", 49'122'681'728},
      {"llama-2-70b", 68'976'648'192},
      {"llama-2-7b", 6'738'415'616},
      {"llama-3-70b", 70'553'706'496},
      {"llama-3-8b", 8'030'261'248},
      {"llama-3.1-405b", 405'853'388'800},
      {"llama-3.1-70b", 70'553'706'496},
      {"llama-3.1-8b", 8'030'261'248},
      {"llama-3.2-1b", 1'235'814'400},
      {"minimax-m1", 456'089'655'296},
      {"minimax-m2.5", 228'689'764'864},  // of MiniMax-M2, the same shapes
      {"mistral-7b", 7'241'732'096},
      {"mistral-7b-v0.3", 7'248'023'552},
      {"mixtral-8x7b", 46'702'792'704},
      {"nemotron-3-nano-30b-a3b", 31'577'940'288},  // n_params that llama.cpp prints
      {"olmo-3.1-32b", 32'233'522'176},
      {"phi-4-mini", 3'836'021'760},
      {"qwen2.5-72b", 72'706'203'648},
      {"qwen3-235b-a22b", 235'093'634'560},
      {"qwen3-32b", 32'762'123'264},
      {"qwen3.6-35b-a3b", 34'660'610'688},     // of Qwen-AgentWorld-35B-A3B, its text part alone
      {"qwen3-next-80b-a3b", 79'674'391'296},  // of Qwen3-Coder-Next, the same shapes without MTP
  };
  return totals;
}

TEST(Weights, EveryPublishedTotalIsCountedExactly) {
  for (const auto& [name, total] : published()) {
    EXPECT_EQ(estimate(preset(name)).parameters, total) << name;
  }
}

TEST(Weights, ClassesWithoutAPresetAreCountedExactlyToo) {
  struct Case {
    std::string_view json;
    std::uint64_t total;  // the Hub's
  };
  const Case cases[] = {
      // SmolLM3-3B
      {R"({"model_type": "smollm3", "num_hidden_layers": 36, "hidden_size": 2048,
           "num_attention_heads": 16, "num_key_value_heads": 4, "intermediate_size": 11008,
           "vocab_size": 128256})",
       3'075'098'624},
      // Seed-OSS-36B
      {R"({"model_type": "seed_oss", "num_hidden_layers": 64, "hidden_size": 5120, "head_dim": 128,
           "num_attention_heads": 80, "num_key_value_heads": 8, "intermediate_size": 27648,
           "vocab_size": 155136, "attention_bias": true, "attention_out_bias": false,
           "tie_word_embeddings": false})",
       36'151'104'512},
      // Qwen1.5-MoE-A2.7B
      {R"({"model_type": "qwen2_moe", "num_hidden_layers": 24, "hidden_size": 2048,
           "num_attention_heads": 16, "num_key_value_heads": 16, "intermediate_size": 5632,
           "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632,
           "num_experts": 60, "num_experts_per_tok": 4, "decoder_sparse_step": 1,
           "vocab_size": 151936, "tie_word_embeddings": false})",
       14'315'784'192},
      // Phi-3-mini-4k
      {R"({"model_type": "phi3", "num_hidden_layers": 32, "hidden_size": 3072,
           "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 8192,
           "sliding_window": 2047, "vocab_size": 32064, "tie_word_embeddings": false})",
       3'821'079'552},
  };
  for (const Case& entry : cases) {
    const auto model = parse_model_config(entry.json, "test");
    ASSERT_TRUE(model) << model.error().describe();
    EXPECT_EQ(estimate(*model).parameters, entry.total) << entry.json;
  }
}

TEST(Weights, DraftLayersComplete) {
  WeightSplit with_drafts;
  with_drafts.has_drafts = true;
  // The Hub's totals of whole checkpoints.
  EXPECT_EQ(estimate(preset("deepseek-v4-flash"), with_drafts).parameters, 290'944'616'402u);
  EXPECT_EQ(estimate(preset("deepseek-v4-pro"), with_drafts).parameters, 1'598'839'674'782u);
  EXPECT_EQ(estimate(preset("glm-5"), with_drafts).parameters, 753'864'139'008u);
  EXPECT_EQ(estimate(preset("longcat-flash"), with_drafts).parameters, 561'862'880'256u);
  EXPECT_EQ(estimate(preset("glm-4.5"), with_drafts).parameters, 356'785'898'816u) << "GLM-4.6";
  EXPECT_EQ(estimate(preset("deepseek-v3.2"), with_drafts).parameters + 2 * 129'280ull * 7'168,
            685'355'329'792u)
      << "with copies of embedding and head beside its MTP layer";
  EXPECT_EQ(estimate(preset("deepseek-r1"), with_drafts).parameters + 2 * 129'280ull * 7'168,
            684'489'845'504u);
  const std::uint64_t embedding_and_head = 2 * 151'552ull * 5'120;
  EXPECT_EQ(estimate(preset("glm-4.5"), with_drafts).parameters + embedding_and_head,
            358'337'791'296u)
      << "GLM-4.5 stores copies of both beside its MTP layer";
  EXPECT_EQ(estimate_weights(preset("minimax-m2.5"), with_drafts).error().code,
            ErrorCode::Unsupported);
  EXPECT_EQ(estimate(preset("llama-3-8b"), with_drafts).parameters, 8'030'261'248u) << "none";
}

TEST(Weights, TextPartsStayBelowTheTotalsWithTheirTowers) {
  const std::map<std::string_view, std::uint64_t> whole = {
      // the Hub, with vision towers
      {"gemma-3-27b", 27'432'406'640},    {"gemma-4-26b-a4b", 25'805'933'872},
      {"llama-4-scout", 108'641'793'536}, {"minimax-m3", 427'040'140'160},
      {"qwen3.5-27b", 27'781'427'952},
  };
  for (const auto& [name, total] : whole) {
    const std::uint64_t counted = estimate(preset(name)).parameters;
    EXPECT_LT(counted, total) << name;
    EXPECT_GT(counted, total / 100 * 96) << name;
  }
}

// Gemma-4's card: 26B A4B has 25.2B parameters, 3.8B of them active; E2B 2.3B without the tables of
// its layers' embeddings.
TEST(Weights, Gemma4sLayersHaveMixturesOrEmbeddings) {
  const auto mixture = estimate(preset("gemma-4-26b-a4b"));
  EXPECT_EQ(mixture.parameters / 100'000'000, 252u);
  EXPECT_EQ(mixture.active_parameters / 100'000'000, 38u);
  const auto small = estimate(preset("gemma-4-e2b"));
  const std::uint64_t tables = 262'144ull * 35 * 256;
  EXPECT_EQ((small.parameters - tables + 50'000'000) / 100'000'000, 23u);
  ASSERT_NE(part_of(small, "layer embedding"), nullptr);
  EXPECT_GT(part_of(small, "layer embedding")->parameters, tables);
}

TEST(Weights, StoredBytesAreTheIndicesTotalSize) {
  // metadata.total_size of the published model.safetensors.index.json
  EXPECT_EQ(estimate(preset("gpt-oss-20b")).bytes, 13'761'264'768u);
  EXPECT_EQ(estimate(preset("gpt-oss-120b")).bytes, 65'248'815'744u);
  EXPECT_EQ(estimate(preset("qwen3-235b-a22b")).bytes, 470'187'269'120u);
  EXPECT_EQ(estimate(preset("llama-3-8b")).bytes, 16'060'522'496u);
}

// Sizes of all files of a repository, which hold headers, a tokenizer and texts beside the weights.
TEST(Weights, StoredBytesAreJustBelowTheFilesOfARepository) {
  WeightSplit whole;
  whole.has_drafts = true;
  const std::map<std::string_view, std::uint64_t> files = {
      {"deepseek-v4-flash", 159'630'041'626},
      {"deepseek-v4-pro", 864'739'856'856},
  };
  for (const auto& [name, bytes] : files) {
    const std::uint64_t counted = estimate(preset(name), whole).bytes;
    EXPECT_LT(counted, bytes) << name;
    EXPECT_GT(counted, bytes - bytes / 1000) << name;
  }
  // DeepSeek-V3's 163 files; its MTP layer brings copies of embedding and head.
  const std::uint64_t v3 = estimate(preset("deepseek-v3"), whole).bytes + 2 * 2 * 129'280ull * 7168;
  EXPECT_LT(v3, 688'586'727'753u);
  EXPECT_GT(v3, 688'586'727'753u - 20'000'000u);
}

TEST(Weights, Fp8BlocksHaveAScaleEach) {
  const auto model = config(R"("quantization_config": {"quant_method": "fp8",
                                "weight_block_size": [32, 32]})");
  const auto weights = estimate(model);
  // q and o 64 x 64; k and v 32 x 64; up and gate 96 x 64, down 64 x 96; blocks of 32 x 32.
  const std::uint64_t linear = 2 * 64 * 64 + 2 * 32 * 64 + 3 * 96 * 64;
  const std::uint64_t blocks = linear / (32 * 32);
  const std::uint64_t plain = 2 * 2 * 64 + 64 + 2 * 100 * 64;  // norms, embedding, head
  EXPECT_EQ(weights.bytes, 2 * (linear + 4 * blocks) + 2 * plain);
  EXPECT_EQ(weights.parameters, 2 * linear + plain) << "scales are not parameters";
  EXPECT_EQ(estimate(config(R"("quantization_config": {"quant_method": "fp8",
                                "weight_block_size": [48, 128]})"))
                .bytes,
            2 * (linear + 4 * (2 * 2 + 2 * 1 + 2 * 2 + 2)) + 2 * plain)
      << "a ragged block has a scale too";
}

TEST(Weights, ModulesThatAreNotConvertedKeepTheirType) {
  const std::string fp8 = R"("quantization_config": {"quant_method": "fp8")";
  const auto all = estimate(config(fp8 + "}"));
  const auto without = estimate(config(fp8 + R"(, "ignored_layers": ["model.layers.1.mlp"]})"));
  // One layer's MLP in 2 bytes instead of 1, without three scales.
  EXPECT_EQ(without.bytes - all.bytes, 3 * 96 * 64 - 3 * 4u);
}

TEST(Weights, Int4GroupsCarryScalesAndZeroPoints) {
  const auto weights = estimate(config(R"("quantization_config": {"quant_method": "awq",
                                           "bits": 4, "group_size": 32, "zero_point": true})"));
  const std::uint64_t linear = 2 * 64 * 64 + 2 * 32 * 64 + 3 * 96 * 64;
  const std::uint64_t plain = 2 * 2 * 64 + 64 + 2 * 100 * 64;
  // Half a byte each; 2.5 bytes for 32 of them.
  EXPECT_EQ(weights.bytes, 2 * (linear / 2 + linear / 32 * 5 / 2) + 2 * plain);
}

TEST(Weights, ActiveParametersVisitTheChosenExperts) {
  // The tables of the models' papers and cards, in billions: 37, 22, 5.1 (gpt-oss counts no
  // embedding: 0.58), 3.6, 12.9.
  const auto active = [](std::string_view name) {
    return estimate(preset(name)).active_parameters / 100'000'000;
  };
  EXPECT_EQ(active("deepseek-v3"), 375u);
  EXPECT_EQ(active("qwen3-235b-a22b"), 221u);
  EXPECT_EQ(active("gpt-oss-120b"), 57u);
  EXPECT_EQ(active("mixtral-8x7b"), 128u);
  const auto dense = estimate(preset("llama-3-8b"));
  EXPECT_EQ(dense.active_parameters, dense.parameters);
}

TEST(Weights, ARankHoldsItsHeadsColumnsAndVocabulary) {
  WeightSplit split;
  split.tensor = 8;
  const auto rank = estimate(preset("llama-3-70b"), split);
  // 8 query heads and 1 KV head of 128, 3,584 columns, 16,032 words; norms on every rank.
  const std::uint64_t layer = 8192ull * (2 * 8 * 128 + 2 * 128 + 3 * 3584) + 2 * 8192;
  EXPECT_EQ(rank.parameters, 80 * layer + 8192 + 2 * 16'032ull * 8192);
  split.tensor = 16;
  const auto half = estimate(preset("llama-3-70b"), split);
  const std::uint64_t replicated = 8192ull * (2 * 4 * 128 + 2 * 128 + 3 * 1792) + 2 * 8192;
  EXPECT_EQ(half.parameters, 80 * replicated + 8192 + 2 * 8'016ull * 8192)
      << "KV heads are replicated beyond their number";
}

TEST(Weights, LatentDownProjectionsAreOnEveryRank) {
  WeightSplit split;
  split.tensor = 8;
  const auto rank = estimate(preset("deepseek-v3"), split);
  const auto* attention = part_of(rank, "attention");
  ASSERT_NE(attention, nullptr);
  const std::uint64_t layer =
      1536 * 7168 + 1536 + 16 * 192 * 1536 + 576 * 7168 + 512 + 16 * 256 * 512 + 7168 * 16 * 128;
  EXPECT_EQ(attention->parameters, 61 * layer);
  const auto* experts = part_of(rank, "experts");
  ASSERT_NE(experts, nullptr);
  EXPECT_EQ(experts->parameters, 58ull * 256 * 3 * 7168 * (2048 / 8));
}

TEST(Weights, ExpertsAreDividedWholeOrByColumns) {
  const auto experts = [](std::uint32_t tensor, std::uint32_t expert_parallel) {
    WeightSplit split;
    split.tensor = tensor;
    split.expert_parallel = expert_parallel;
    const auto rank = estimate(preset("deepseek-v3"), split);
    return part_of(rank, "experts")->parameters;
  };
  const std::uint64_t one = 3ull * 7168 * 2048;
  EXPECT_EQ(experts(1, 1), 58 * 256 * one);
  EXPECT_EQ(experts(8, 8), 58 * 32 * one) << "32 whole experts";
  EXPECT_EQ(experts(1, 32), 58 * 8 * one);
  EXPECT_EQ(experts(8, 2), 58 * 128 * one / 4) << "128 experts, a quarter of each";
  EXPECT_EQ(experts(1, 96), 58 * 3 * one) << "the fullest rank";
}

TEST(Weights, StagesHoldTheirLayersAndTheEnds) {
  for (const std::string_view name : {"llama-3-8b", "deepseek-v3", "gemma-2-2b", "qwen3.5-27b"}) {
    const ModelConfig model = preset(name);
    const auto whole = estimate(model);
    const std::uint32_t half = model.num_hidden_layers / 2;
    WeightSplit first;
    first.layers = half;
    first.has_head = false;
    WeightSplit last;
    last.first_layer = half;
    last.has_embedding = false;
    const std::uint64_t sum = estimate(model, first).parameters + estimate(model, last).parameters;
    const std::uint64_t tied = model.weights->tie_word_embeddings
                                   ? std::uint64_t{model.weights->vocab_size} * model.hidden_size
                                   : 0;
    EXPECT_EQ(sum, whole.parameters + tied) << name << ": a tied head is a copy on the last stage";
  }
}

TEST(Weights, TensorParallelismNeverAddsBytesAndLosesNone) {
  for (const Preset& entry : presets()) {
    const ModelConfig model = preset(entry.name);
    const auto whole = estimate_weights(model, {});
    if (!whole) continue;  // the next test names those
    std::uint64_t before = whole->bytes;
    for (std::uint32_t tensor = 1; tensor <= 64; ++tensor) {
      WeightSplit split;
      split.tensor = tensor;
      const auto rank = estimate(model, split);
      EXPECT_LE(rank.bytes, before) << entry.name << " over " << tensor;
      EXPECT_GE(rank.bytes * tensor, whole->bytes) << entry.name << " over " << tensor;
      EXPECT_GE(rank.parameters * tensor, whole->parameters) << entry.name << " over " << tensor;
      before = rank.bytes;
    }
  }
}

TEST(Weights, PartsAddUpAndHaveFormulas) {
  for (const Preset& entry : presets()) {
    const auto weights = estimate_weights(preset(entry.name), {});
    if (!weights) continue;
    std::uint64_t parameters = 0;
    std::uint64_t bytes = 0;
    for (const WeightPart& part : weights->parts) {
      parameters += part.parameters;
      bytes += part.bytes;
      EXPECT_FALSE(part.formula.empty()) << entry.name << " " << part.name;
    }
    EXPECT_EQ(parameters, weights->parameters) << entry.name;
    EXPECT_EQ(bytes, weights->bytes) << entry.name;
    EXPECT_LE(weights->active_parameters, weights->parameters) << entry.name;
    EXPECT_THAT(weights->formula, HasSubstr("estimate from the config")) << entry.name;
  }
  const auto v3 = estimate(preset("deepseek-v3"));
  EXPECT_EQ(part_of(v3, "experts")->formula, "58 x 512 x 2048 x 7168 + 58 x 256 x 7168 x 2048");
  EXPECT_EQ(part_of(v3, "embedding")->formula, "129280 x 7168");
  EXPECT_THAT(v3.formula, HasSubstr("8 bits with a scale of 4 bytes for 128 x 128"));
}

TEST(Weights, WhatCannotBeCountedIsRefused) {
  const auto message = [](const ModelConfig& model) {
    const auto weights = estimate_weights(model, {});
    EXPECT_FALSE(weights);
    if (weights) return std::string();
    EXPECT_EQ(weights.error().code, ErrorCode::Unsupported);
    EXPECT_THAT(weights.error().message, HasSubstr("give --weights"));
    return weights.error().message;
  };
  EXPECT_THAT(message(config(R"("quantization_config": {"quant_method": "hqq"})")),
              HasSubstr("quant_method \"hqq\""));
  const auto without = parse_model_config(
      R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64,
          "num_attention_heads": 4})",
      "test");
  ASSERT_TRUE(without);
  EXPECT_THAT(
      message(*without),
      HasSubstr("shapes of the weights of test cannot be counted: vocab_size is not given"));
  const auto bloom = parse_model_config(
      R"({"model_type": "bloom", "num_hidden_layers": 2, "hidden_size": 64, "vocab_size": 100,
          "num_attention_heads": 4, "intermediate_size": 96})",
      "test");
  ASSERT_TRUE(bloom) << bloom.error().describe();
  EXPECT_THAT(message(*bloom), HasSubstr("model_type 'bloom'"));
}

TEST(Weights, ASplitThatIsNoneIsRefused) {
  const auto message = [](const WeightSplit& split) {
    const auto weights = estimate_weights(config(""), split);
    EXPECT_FALSE(weights);
    if (weights) return std::string();
    EXPECT_EQ(weights.error().code, ErrorCode::Invalid);
    return weights.error().message;
  };
  EXPECT_THAT(message({.tensor = 0}), HasSubstr("tensor is 0; allowed: 1 to 65536"));
  EXPECT_THAT(message({.first_layer = 2}), HasSubstr("first_layer is 2; allowed: 0 to 1"));
  EXPECT_THAT(message({.first_layer = 1, .layers = 2}), HasSubstr("layers is 2; allowed: 0 to 1"));
  EXPECT_THAT(message({.expert_parallel = 0}), HasSubstr("expert_parallel is 0"));
  EXPECT_THAT(message({.tensor = 8, .expert_parallel = 3}),
              HasSubstr("expert_parallel is 3; allowed: a divisor of tensor (8), or more"));
}

// Every field of a config in turn is what it should not be: a number, or one line that says why
// not.
TEST(Weights, AnyBrokenFieldIsANumberOrOneError) {
  const auto values = nlohmann::json::parse(
      R"([null, "x", -1, 0, 1, 1.5, 16777216, 18446744073709551615, [], {}, [0], true])");
  for (const std::string_view name :
       {"deepseek-v3.2", "deepseek-v4-flash", "falcon-h1-34b", "gemma-3n-e4b", "gpt-oss-20b",
        "gemma-4-e2b", "llama-4-scout", "longcat-flash", "nemotron-3-nano-30b-a3b",
        "qwen3-next-80b-a3b", "zamba2-7b"}) {
    const auto found = std::find_if(presets().begin(), presets().end(),
                                    [&](const Preset& entry) { return entry.name == name; });
    ASSERT_NE(found, presets().end()) << name;
    const auto whole = nlohmann::json::parse(found->json);
    for (const auto& field : whole.items()) {
      for (const auto& value : values) {
        nlohmann::json broken = whole;
        broken[field.key()] = value;
        const auto model = parse_model_config(broken.dump(), "broken");
        if (!model) continue;
        const auto weights = estimate_weights(*model, {.tensor = 8, .has_drafts = true});
        if (weights) {
          EXPECT_GT(weights->bytes, 0u) << name << " " << field.key() << " " << value;
        } else {
          EXPECT_EQ(weights.error().message.find('\n'), std::string::npos);
        }
      }
    }
  }
}

TEST(Weights, ASumPast64BitsIsAnError) {
  const auto model = parse_model_config(
      R"({"model_type": "llama", "num_hidden_layers": 65536, "hidden_size": 16777216,
          "num_attention_heads": 65536, "head_dim": 16777216, "vocab_size": 16777216,
          "intermediate_size": 16777216})",
      "test");
  ASSERT_TRUE(model) << model.error().describe();
  const auto weights = estimate_weights(*model, {});
  ASSERT_FALSE(weights);
  EXPECT_EQ(weights.error().code, ErrorCode::Invalid);
}

TEST(Weights, AMeasuredTotalIsDividedAsTheEstimateIs) {
  EXPECT_EQ(*share_of_total(1000, 10, 10), 1000u);
  EXPECT_EQ(*share_of_total(1000, 3, 1), 334u) << "rounded up";
  EXPECT_EQ(*share_of_total(1000, 10, 0), 0u);
  EXPECT_EQ(*share_of_total(UINT64_MAX, UINT64_MAX, UINT64_MAX), UINT64_MAX);
  EXPECT_EQ(*share_of_total(UINT64_MAX, UINT64_MAX - 1, 1), 2u);
  EXPECT_EQ(share_of_total(1000, 0, 0).error().code, ErrorCode::Invalid);
  EXPECT_EQ(share_of_total(1000, 10, 11).error().code, ErrorCode::Invalid);
}

}  // namespace
}  // namespace emblema
