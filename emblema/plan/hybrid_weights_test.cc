// Weights of layers unlike the usual block: Falcon-H1's two mixers side by side, Gemma-3n's
// streams, Zamba2's shared blocks; and what an estimate says that it leaves out.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "emblema/plan/weights.h"

namespace emblema {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

// The members of a preset, changed by `changes`; null takes one away.
ModelConfig preset(std::string_view name, const Json& changes = Json::object()) {
  for (const Preset& entry : presets()) {
    if (entry.name != name) continue;
    Json members = Json::parse(entry.json);
    members.merge_patch(changes);
    auto model = parse_model_config(members.dump(), name);
    EXPECT_TRUE(model) << model.error().describe();
    return model ? *model : ModelConfig{};
  }
  ADD_FAILURE() << name;
  return {};
}

WeightsEstimate estimate(const ModelConfig& model, const WeightSplit& split = {}) {
  const auto weights = estimate_weights(model, split);
  EXPECT_TRUE(weights) << weights.error().describe();
  return weights ? *weights : WeightsEstimate{};
}

std::uint64_t parameters_of(const WeightsEstimate& weights, std::string_view part) {
  for (const WeightPart& entry : weights.parts) {
    if (entry.name == part) return entry.parameters;
  }
  return 0;
}

std::uint64_t millions(std::uint64_t parameters) {
  return (parameters + 500'000) / 1'000'000;
}

// Config: Chimeraforge's copy of tiiuae/Falcon-H1-34B-Instruct. The published index holds 33.643 x
// 10^9 numbers of 2 bytes (BudEcosystem's llm-memory-calculator, its tests of hybrids).
TEST(HybridWeights, FalconH1sLayersAttendAndMixAtOnce) {
  const auto weights = estimate(preset("falcon-h1-34b"));
  EXPECT_EQ(millions(weights.parameters), 33'643u);
  EXPECT_EQ(weights.bytes, 2 * weights.parameters);
  // 32 heads of 128, 2 groups of 256: gate, input, B and C, steps; a convolution of 4 with a bias;
  // A, D and the step's bias; a norm.
  const std::uint64_t channels = 4096 + 2 * 2 * 256;
  const std::uint64_t mixer =
      5120 * (4096 + channels + 32) + 5 * channels + 3 * 32 + 4096 + 4096 * 5120;
  EXPECT_EQ(parameters_of(weights, "mixer"), 72 * mixer);
  EXPECT_EQ(parameters_of(weights, "attention"), 72ull * 5120 * 128 * (20 + 4 + 4 + 20));
  const auto without = estimate(preset("falcon-h1-34b", {{"mamba_rms_norm", false}}));
  EXPECT_EQ(weights.parameters - without.parameters, 72 * 4096u) << "the norm is a field";
}

// The Hub's totals of both sizes hold the same two towers, so that their difference is the language
// part's alone. Without towers Ollama lists 6.87 and 4.46 x 10^9.
TEST(HybridWeights, Gemma3nsSizesDifferAsTheirCheckpointsDo) {
  Json kinds = Json::array();
  for (int layer = 0; layer < 30; ++layer) {
    kinds.push_back(layer % 5 == 4 ? "full_attention" : "sliding_attention");
  }
  const ModelConfig small = preset("gemma-3n-e4b", {{"num_hidden_layers", 30},
                                                    {"intermediate_size", 8192},
                                                    {"num_kv_shared_layers", 10},
                                                    {"layer_types", kinds}});
  const std::uint64_t e4b = estimate(preset("gemma-3n-e4b")).parameters;
  const std::uint64_t e2b = estimate(small).parameters;
  EXPECT_EQ(e4b - e2b, 7'849'978'192u - 5'439'438'272u);
  EXPECT_EQ((e4b + 5'000'000) / 10'000'000, 687u);
  EXPECT_EQ((e2b + 5'000'000) / 10'000'000, 446u);
}

TEST(HybridWeights, Gemma3nsStreamsAreOnEveryRank) {
  const std::uint64_t hidden = 2048;
  const std::uint64_t layer = 4 * 4 + 16 * 4 + 4 * hidden + 2 * hidden + 2 * 64 * hidden + hidden;
  const std::uint64_t ends = 3 * hidden * hidden;  // after the embedding, and before the head
  for (const std::uint32_t tensor : {1u, 2u, 8u}) {
    const auto rank = estimate(preset("gemma-3n-e4b"), {.tensor = tensor});
    EXPECT_EQ(parameters_of(rank, "residuals"), 35 * layer + ends) << tensor;
    EXPECT_EQ(parameters_of(rank, "head"), ends + hidden) << tensor << ": tied";
  }
  const auto last = estimate(preset("gemma-3n-e4b"), {.first_layer = 30, .has_embedding = false});
  EXPECT_EQ(parameters_of(last, "residuals"), 5 * layer);
}

// RWKV-Evals lists 7.357 x 10^9 for Zamba2-7B, its report (arXiv 2411.15242) 7.4.
TEST(HybridWeights, Zamba2sSharedBlocksAreCountedOnce) {
  const auto weights = estimate(preset("zamba2-7b"));
  EXPECT_EQ(millions(weights.parameters), 7'357u);
  const std::uint64_t hidden = 3584;
  const std::uint64_t attention = 3 * 2 * hidden * 2 * hidden + 2 * hidden * hidden;
  EXPECT_EQ(parameters_of(weights, "attention"), 2 * attention + 13 * hidden * hidden)
      << "two blocks, and a projection of each of their 13 uses";
  const std::uint64_t adapter = 128 * (hidden + 2 * 14'336);
  EXPECT_EQ(parameters_of(weights, "dense MLP"), 2 * 3 * hidden * 14'336 + 13 * adapter);
  EXPECT_EQ(parameters_of(weights, "head"), hidden) << "tied";
  const auto more = estimate(preset("zamba2-7b", {{"use_shared_attention_adapter", true}}));
  EXPECT_EQ(more.parameters - weights.parameters, 13 * 3 * 128 * 2 * (2 * hidden));
  const auto one = estimate(preset("zamba2-7b", {{"num_mem_blocks", 1}}));
  EXPECT_EQ(weights.parameters - one.parameters, attention + 3 * hidden * 14'336 + 3 * hidden);
}

TEST(HybridWeights, Zamba2sRanksShareHeadsColumnsAndAdapters) {
  const auto rank = estimate(preset("zamba2-7b"), {.tensor = 8});
  const std::uint64_t hidden = 3584;
  const std::uint64_t attention = (3 * 2 * hidden * 2 * hidden + 2 * hidden * hidden) / 8;
  EXPECT_EQ(parameters_of(rank, "attention"), 2 * attention + 13 * hidden * hidden)
      << "the projection back is on every rank";
  const std::uint64_t adapter = 16 * hidden + 128 * 2 * 1'792;
  EXPECT_EQ(parameters_of(rank, "dense MLP"), 2 * 3 * hidden * 1'792 + 13 * adapter);
}

TEST(HybridWeights, EachStageOfZamba2HoldsTheBlocksItUses) {
  const ModelConfig model = preset("zamba2-7b");
  const std::uint64_t hidden = 3584;
  const std::uint64_t block =
      3 * 2 * hidden * 2 * hidden + 2 * hidden * hidden + 3 * hidden * 14'336 + 3 * hidden;
  const auto without = estimate(model, {.layers = 6, .has_head = false});
  const auto with_one = estimate(model, {.layers = 7, .has_head = false});
  const std::uint64_t use = hidden * hidden + 128 * (hidden + 2 * 14'336);
  const std::uint64_t mixer = (without.parameters - 32'000 * hidden) / 6;
  EXPECT_EQ(with_one.parameters - without.parameters, mixer + use + block);
  const auto first = estimate(model, {.layers = 40, .has_head = false});
  const auto last = estimate(model, {.first_layer = 40, .has_embedding = false});
  EXPECT_EQ(first.parameters + last.parameters,
            estimate(model).parameters + 2 * block + 32'000 * hidden)
      << "both blocks twice, and a copy of the tied head";
}

TEST(HybridWeights, AFieldThatIsMissingIsNamed) {
  const auto why = [](std::string_view name, std::string_view field) {
    return preset(name, {{std::string(field), nullptr}}).weights_missing;
  };
  for (const std::string_view field :
       {"altup_num_inputs", "laurel_rank", "hidden_size_per_layer_input",
        "vocab_size_per_layer_input", "intermediate_size"}) {
    EXPECT_EQ(why("gemma-3n-e4b", field), std::string(field) + " is not given");
  }
  EXPECT_EQ(why("zamba2-7b", "num_mem_blocks"), "num_mem_blocks is not given");
  EXPECT_EQ(why("zamba2-7b", "lora_rank"), "adapter_rank is not given") << "its newer name";
  EXPECT_EQ(why("zamba2-7b", "ffn_hidden_size"), "intermediate_size is not given");
  EXPECT_EQ(estimate(preset("zamba2-7b", {{"lora_rank", nullptr},
                                          {"adapter_rank", 128},
                                          {"ffn_hidden_size", nullptr},
                                          {"intermediate_size", 14'336}}))
                .parameters,
            estimate(preset("zamba2-7b")).parameters);
}

TEST(HybridWeights, DraftsThatAConfigDoesNotDeclareAreRefused) {
  const WeightSplit with_drafts{.has_drafts = true};
  for (const std::string_view name : {"mimo-v2-flash", "qwen3-next-80b-a3b"}) {
    const auto weights = estimate_weights(preset(name), with_drafts);
    ASSERT_FALSE(weights) << name;
    EXPECT_EQ(weights.error().code, ErrorCode::Unsupported);
    EXPECT_THAT(weights.error().message, HasSubstr("num_nextn_predict_layers is not given"));
  }
  // Its published index, which holds one: 81.325 x 10^9 (llm-memory-calculator).
  const auto declared = preset("qwen3-next-80b-a3b", {{"num_nextn_predict_layers", 1}});
  EXPECT_EQ(millions(estimate(declared, with_drafts).parameters), 81'325u);
}

TEST(HybridWeights, TowersAreSaidToBeLeftOut) {
  EXPECT_THAT(estimate(preset("gemma-4-e2b")).notes,
              testing::ElementsAre(testing::AllOf(HasSubstr("Gemma4ForConditionalGeneration"),
                                                  HasSubstr("towers"))));
  EXPECT_THAT(estimate(preset("llama-3-8b")).notes, testing::IsEmpty());
  const auto wrapped = [](const std::string& members) {
    const auto model = parse_model_config(
        R"({"text_config": {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64,
            "num_attention_heads": 4, "vocab_size": 100, "intermediate_size": 96,
            "num_key_value_heads": 4, "max_position_embeddings": 64})" +
            members,
        "test");
    EXPECT_TRUE(model) << model.error().describe();
    return model ? estimate(*model).notes : std::vector<std::string>{"no model"};
  };
  EXPECT_THAT(wrapped(R"(, "vision_config": {"hidden_size": 8}})"),
              testing::ElementsAre(HasSubstr("which vision_config announces")));
  EXPECT_THAT(wrapped(R"(, "vision_config": null})"), testing::IsEmpty());
}

}  // namespace
}  // namespace emblema
