#include "emblema/plan/crossover.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "emblema/contract/bytes.h"
#include "test/model_samples.h"

namespace emblema {
namespace {

using namespace literals;
using testing::ElementsAre;
using testing::HasSubstr;

ModelGeometry geometry_of(const ModelConfig& model) {
  auto geometry = ModelGeometry::from(model);
  EXPECT_TRUE(geometry) << geometry.error().describe();
  return *geometry;
}

TensorCrossover crossover_of(const ModelConfig& grouped, const ModelConfig& latent) {
  const auto crossover = tensor_crossover(geometry_of(grouped), geometry_of(latent), 40_GiB);
  EXPECT_TRUE(crossover) << crossover.error().describe();
  return crossover.value_or(TensorCrossover{});
}

// 320 KiB against 70,272 B: 4.66; the divisors of 64 heads skip from 4 to 8.
TEST(Crossover, LlamaHoldsMoreThanDeepseekFromEightRanksOn) {
  const TensorCrossover crossover = crossover_of(samples::llama_3_70b(), samples::deepseek_v3());
  EXPECT_EQ(crossover.real_degree, Rational::of(327'680, 70'272));
  ASSERT_TRUE(crossover.first_degree);
  EXPECT_EQ(*crossover.first_degree, 8u);
  std::vector<std::uint32_t> degrees;
  for (const TensorDegree& at : crossover.degrees) degrees.push_back(at.degree);
  EXPECT_THAT(degrees, ElementsAre(1, 2, 4, 8, 16, 32, 64));
  const TensorDegree& four = crossover.degrees[2];
  EXPECT_EQ(four.grouped_bytes_per_token, Rational(81'920));
  EXPECT_EQ(four.latent_bytes_per_token, Rational(70'272));
  const TensorDegree& eight = crossover.degrees[3];
  EXPECT_EQ(eight.grouped_tokens, 40_GiB / 40'960);
  EXPECT_EQ(eight.latent_tokens, 611'191u);                              // 40 GiB / 70,272
  EXPECT_EQ(crossover.degrees[4].grouped_tokens, eight.grouped_tokens);  // heads are repeated
}

TEST(Crossover, FewKvHeadsSaturateBelowIt) {
  ModelConfig few = samples::grouped("four heads", 80, 64, 4, 256);  // 320 KiB, in four heads
  const TensorCrossover crossover = crossover_of(few, samples::deepseek_v3());
  EXPECT_EQ(crossover.real_degree, Rational::of(327'680, 70'272));
  EXPECT_FALSE(crossover.first_degree);
  EXPECT_EQ(crossover.degrees.back().grouped_bytes_per_token, Rational(81'920));
}

TEST(Crossover, ASmallGroupedCacheHoldsMoreAtOnce) {
  const TensorCrossover crossover =
      crossover_of(samples::grouped("small", 8, 16, 2, 64), samples::deepseek_v3());
  EXPECT_EQ(crossover.first_degree, 1u);
}

TEST(Crossover, EqualBytesAreNotMore) {
  // 61 layers of 576 numbers, as the latents have: 2 heads of 144, keys and values.
  const ModelConfig equal = samples::grouped("equal", 61, 128, 2, 144);
  const TensorCrossover crossover = crossover_of(equal, samples::deepseek_v3());
  EXPECT_EQ(crossover.real_degree, Rational(1));
  EXPECT_EQ(crossover.first_degree, 2u);
}

TEST(Crossover, DegreesThatDivideNoHeadsAreRefusedByName) {
  const ModelGeometry llama = geometry_of(samples::llama_3_70b());
  EXPECT_THAT(rank_bytes_per_token(llama, 5).error().message,
              HasSubstr("tensor_parallel is 5; allowed: a divisor of 64, the query heads"));
  EXPECT_THAT(rank_bytes_per_token(llama, 0).error().message, HasSubstr("tensor_parallel is 0"));
  EXPECT_FALSE(rank_bytes_per_token(llama, 1025));
  const ModelGeometry odd = geometry_of(samples::grouped("odd", 1, 12, 6, 64));
  EXPECT_THAT(rank_bytes_per_token(odd, 4).error().message,
              HasSubstr("a multiple of 6, the KV heads"));
  EXPECT_EQ(*rank_bytes_per_token(odd, 12), Rational(256));
}

TEST(Crossover, CachesThatDoNotGrowHaveNone) {
  ModelConfig window = samples::grouped("window", 1, 8, 8, 64);
  window.max_positions = 4096;
  samples::set_window(&window.layers[0], 128);
  const auto none =
      tensor_crossover(geometry_of(window), geometry_of(samples::deepseek_v3()), 1_GiB);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::Invalid);
  EXPECT_THAT(none.error().message, HasSubstr("window"));
}

RC_GTEST_PROP(CrossoverProperty, TensorParallelismNeverRaisesARanksBytes, ()) {
  const auto kv_heads = *rc::gen::elementOf(std::vector<std::uint32_t>{1, 2, 4, 8, 16});
  const auto group = *rc::gen::elementOf(std::vector<std::uint32_t>{1, 2, 3, 8});
  const ModelGeometry whole =
      geometry_of(samples::grouped("any", 3, kv_heads * group, kv_heads, 64));
  const Rational all = *rank_bytes_per_token(whole, 1);
  RC_ASSERT(all == *whole.growing_bytes_per_token());
  for (std::uint32_t degree = 1; degree <= 64; ++degree) {
    const auto rank = rank_bytes_per_token(whole, degree);
    if (!rank) continue;
    RC_ASSERT(rank->numerator() <= all.numerator());
    RC_ASSERT(rank->numerator() * degree >= all.numerator());  // the ranks' sum holds everything
  }
}

// 2 x 8192 x (64 - 8) x 128 x 80: 9.4 billion, 17.5 GiB of bf16.
TEST(Crossover, GroupingSavesWeightsOfKeysAndValues) {
  ModelConfig llama = samples::llama_3_70b();
  const auto weights = key_value_weights(llama);
  ASSERT_TRUE(weights);
  EXPECT_EQ(weights->ungrouped, UINT64_C(80) * 134'217'728);
  EXPECT_EQ(weights->parameters, 80u * 16'777'216u);
  EXPECT_EQ(weights->saved(), 9'395'240'960u);
  EXPECT_EQ(weights->saved() * 2, 35_GiB / 2);
  llama.layers[0].cache = LayerCache::kNone;
  EXPECT_EQ(key_value_weights(llama)->parameters, 79u * 16'777'216u);
  llama.hidden_size = 0;
  EXPECT_FALSE(key_value_weights(llama));
  EXPECT_EQ(key_value_weights(samples::deepseek_v3()).error().code, ErrorCode::Unsupported);
}

}  // namespace
}  // namespace emblema
