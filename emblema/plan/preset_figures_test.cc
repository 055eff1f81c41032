// Every preset from its config.json to a capacity plan, against the figures that its publishers'
// numbers give: layers, KV heads and widths are written out here, from the papers and model cards.
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "emblema/contract/bytes.h"
#include "emblema/layout/block_layout.h"
#include "emblema/plan/capacity_plan.h"

namespace emblema {
namespace {

constexpr std::uint64_t kBf16 = 2;  // bytes

// Keys and values of `layers` layers: 2 x layers x KV heads x head dim x 2 bytes.
constexpr std::uint64_t kv(std::uint64_t layers, std::uint64_t kv_heads, std::uint64_t head_dim) {
  return 2 * layers * kv_heads * head_dim * kBf16;
}

// One compressed row for all heads: layers x (rank + rotary key) x 2 bytes.
constexpr std::uint64_t mla(std::uint64_t layers, std::uint64_t rank, std::uint64_t rope) {
  return layers * (rank + rope) * kBf16;
}

// DeepSeek-V4: entries of 512 every 4 tokens with an index key of 128 (CSA), or every 128 (HCA).
constexpr std::uint64_t v4(std::uint64_t csa_layers, std::uint64_t hca_layers) {
  return csa_layers * (512 + 128) * kBf16 / 4 + hca_layers * 512 * kBf16 / 128;
}

struct Figures {
  std::uint64_t formula = 0;          // growing bytes per token
  std::uint64_t bytes_per_token = 0;  // the same, as a number that does not follow the code
  std::uint64_t window_bytes = 0;     // what windows and chunks add at most
};

const std::map<std::string, Figures, std::less<>>& published() {
  static const std::map<std::string, Figures, std::less<>> figures = {
      {"deepseek-r1", {mla(61, 512, 64), 70'272}},
      {"deepseek-v2", {mla(60, 512, 64), 69'120}},
      {"deepseek-v2-lite", {mla(27, 512, 64), 31'104}},
      {"deepseek-v3", {mla(61, 512, 64), 70'272}},
      {"deepseek-v3.2", {mla(61, 512, 64) + kBf16 * 61 * 128, 85'888}},
      {"deepseek-v4-flash", {v4(21, 20), 6'880, kBf16 * 43 * 128 * 512}},
      {"deepseek-v4-pro", {v4(30, 31), 9'848, kBf16 * 61 * 128 * 512}},
      {"falcon-h1-34b", {kv(72, 4, 128), 147'456}},
      {"gemma-2-27b", {kv(23, 16, 128), 188'416, kv(23, 16, 128) * 4096}},
      {"gemma-2-2b", {kv(13, 4, 256), 53'248, kv(13, 4, 256) * 4096}},
      {"gemma-3-1b", {kv(4, 1, 256), 4'096, kv(22, 1, 256) * 512}},
      {"gemma-3-27b", {kv(10, 16, 128), 81'920, kv(52, 16, 128) * 1024}},
      {"gemma-3n-e4b", {kv(4, 2, 256), 8'192, kv(16, 2, 256) * 512}},
      {"gemma-4-26b-a4b", {kv(5, 2, 512), 20'480, kv(25, 8, 256) * 1024}},
      {"gemma-4-e2b", {kv(3, 1, 512), 6'144, kv(12, 1, 256) * 512}},
      {"glm-4.5", {kv(92, 8, 128), 376'832}},
      {"glm-5", {mla(78, 512, 64) + kBf16 * 78 * 128, 109'824}},
      {"gpt-oss-120b", {kv(18, 8, 64), 36'864, kv(18, 8, 64) * 128}},
      {"gpt-oss-20b", {kv(12, 8, 64), 24'576, kv(12, 8, 64) * 128}},
      {"jamba-1.5-mini", {kv(4, 8, 128), 16'384}},
      {"kimi-k2", {mla(61, 512, 64), 70'272}},
      {"kimi-linear-48b-a3b", {mla(7, 512, 64), 8'064}},
      {"llama-2-70b", {kv(80, 8, 128), 327'680}},
      {"llama-2-7b", {kv(32, 32, 128), 524'288}},
      {"llama-3-70b", {kv(80, 8, 128), 327'680}},
      {"llama-3-8b", {kv(32, 8, 128), 131'072}},
      {"llama-3.1-405b", {kv(126, 8, 128), 516'096}},
      {"llama-3.1-70b", {kv(80, 8, 128), 327'680}},
      {"llama-3.1-8b", {kv(32, 8, 128), 131'072}},
      {"llama-3.2-11b-vision", {kv(32, 8, 128), 131'072}},
      {"llama-3.2-1b", {kv(16, 8, 64), 32'768}},
      {"llama-4-scout", {kv(12, 8, 128), 49'152, kv(36, 8, 128) * 8192}},
      {"longcat-flash", {mla(56, 512, 64), 64'512}},
      {"mimo-v2-flash", {9 * 4 * (192 + 128) * kBf16, 23'040, 39 * 8 * (192 + 128) * kBf16 * 128}},
      {"minicpm3-4b", {mla(62, 256, 32), 35'712}},
      {"minimax-m1", {kv(10, 8, 128), 40'960}},
      {"minimax-m2.5", {kv(62, 8, 128), 253'952}},
      {"minimax-m3", {kv(60, 4, 128) + 57 * 128 * kBf16, 137'472}},
      {"mistral-7b", {0, 0, kv(32, 8, 128) * 4096}},
      {"mistral-7b-v0.3", {kv(32, 8, 128), 131'072}},
      {"mixtral-8x7b", {kv(32, 8, 128), 131'072}},
      {"nemotron-3-nano-30b-a3b", {kv(6, 2, 128), 6'144}},
      {"nemotron-h-56b", {kv(10, 8, 128), 40'960}},
      {"olmo-3.1-32b", {kv(16, 8, 128), 65'536, kv(48, 8, 128) * 4096}},
      {"phi-4-mini", {kv(32, 8, 128), 131'072}},
      {"qwen2.5-72b", {kv(80, 8, 128), 327'680}},
      {"qwen3-235b-a22b", {kv(94, 4, 128), 192'512}},
      {"qwen3-32b", {kv(64, 8, 128), 262'144}},
      {"qwen3-next-80b-a3b", {kv(12, 2, 256), 24'576}},
      {"qwen3.5-27b", {kv(16, 4, 256), 65'536}},
      {"qwen3.6-35b-a3b", {kv(10, 2, 256), 20'480}},
      {"zamba2-7b", {kv(13, 32, 224), 372'736}},
  };
  return figures;
}

TEST(PresetFigures, EveryPresetHasItsPublishedBytesPerToken) {
  for (const Preset& preset : presets()) {
    SCOPED_TRACE(preset.name);
    const auto known = published().find(preset.name);
    ASSERT_NE(known, published().end()) << "write its figures down here";
    const Figures& figures = known->second;
    EXPECT_EQ(figures.formula, figures.bytes_per_token);
    const auto model = load_model_config(preset.name);
    ASSERT_TRUE(model) << model.error().describe();
    const auto geometry = ModelGeometry::from(*model);
    ASSERT_TRUE(geometry) << geometry.error().describe();
    EXPECT_EQ(geometry->growing_bytes_per_token().value(), Rational(figures.bytes_per_token));
    EXPECT_EQ(geometry->fixed_bytes_per_sequence().value(), figures.window_bytes);
  }
  EXPECT_EQ(presets().size(), published().size());
}

TEST(PresetFigures, EveryPresetIsLaidOutAndPlanned) {
  for (const Preset& preset : presets()) {
    SCOPED_TRACE(preset.name);
    const Figures& figures = published().at(std::string(preset.name));
    const auto model = load_model_config(preset.name);
    ASSERT_TRUE(model) << model.error().describe();
    const auto layout = ModelLayout::native(ModelGeometry::from(*model).value());
    ASSERT_TRUE(layout) << layout.error().describe();
    const auto plan = plan_capacity(*model, {.at_tokens = {1, 4096, 131'072},
                                             .sequences = 2,
                                             .pool_bytes = 64 * kGiB,
                                             .context_tokens = 8192});
    ASSERT_TRUE(plan) << plan.error().describe();
    const RankCapacity& rank = plan->ranks.front();
    EXPECT_EQ(plan->layers.size(), model->num_hidden_layers);
    EXPECT_EQ(rank.growing_bytes_per_token, Rational(figures.bytes_per_token));
    // 131,072 is a multiple of every stride and past every window.
    EXPECT_EQ(rank.at[2].growing_bytes, figures.bytes_per_token * 131'072);
    EXPECT_EQ(rank.at[2].payload_bytes, figures.bytes_per_token * 131'072 + figures.window_bytes);
    EXPECT_GE(rank.at[2].allocated_bytes, rank.at[2].payload_bytes);
    ASSERT_TRUE(rank.pool);
    EXPECT_LE(rank.pool->used_bytes, 64 * kGiB);
    EXPECT_GE(rank.pool->sequences, 2u);
    for (const BlockLayout& group : layout->groups) {
      std::uint64_t pages_bytes = 0;
      for (const StreamPage& page : group.pages) pages_bytes += page.page_bytes;
      EXPECT_EQ(group.block_bytes, pages_bytes);
    }
  }
}

}  // namespace
}  // namespace emblema
