// The points of a plan's curves, against formulas written out here and the planner's own totals.
#include "emblema/plan/curves.h"

#include <algorithm>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/contract/bytes.h"
#include "emblema/plan/capacity_plan.h"

namespace emblema {
namespace {

using namespace literals;
using testing::ElementsAre;
using testing::HasSubstr;

const ModelConfig& preset(const std::string& name) {
  static std::map<std::string, ModelConfig> known;
  const auto found = known.find(name);
  if (found != known.end()) return found->second;
  const auto model = load_model_config(name);
  EXPECT_TRUE(model) << model.error().describe();
  return known.emplace(name, *model).first->second;
}

CapacityPlan planned(const ModelConfig& model, const Deployment& deployment) {
  const auto plan = plan_capacity(model, deployment);
  EXPECT_TRUE(plan) << plan.error().describe();
  return *plan;
}

ByteCurves curves_of(const ModelConfig& model, const Deployment& deployment,
                     const std::vector<std::uint64_t>& tokens) {
  const Stage stage = planned(model, deployment).ranks.front().stage;
  const auto curves = bytes_by_kind(model, deployment, stage, tokens);
  EXPECT_TRUE(curves) << curves.error().describe();
  return *curves;
}

// "MLA 61", "state 30": each kind and how many layers keep it.
std::vector<std::string> kinds_of(const std::string& name, const Deployment& deployment = {}) {
  std::vector<std::string> kinds;
  for (const KindCurve& kind : curves_of(preset(name), deployment, {1}).kinds) {
    kinds.push_back(kind.kind + " " + std::to_string(kind.layers));
  }
  return kinds;
}

TEST(CurveLengths, GrowByEqualRatiosAndEndAtTheLongest) {
  const auto lengths = lengths_for_curves(163'840);  // DeepSeek-V3's positions, 5 x 2^15
  EXPECT_THAT(std::vector(lengths.begin(), lengths.begin() + 7),
              ElementsAre(16, 20, 24, 32, 40, 48, 64));
  EXPECT_EQ(lengths.back(), 163'840u);
  EXPECT_EQ(lengths.size(), 41u);  // 13 octaves of 3, 2^17, 163,840
  EXPECT_EQ(lengths_for_curves(0).back(), 131'072u);
}

TEST(CurveLengths, HoldEveryPowerOfTwoAndIncreaseForAnyModel) {
  for (const std::uint64_t longest :
       {std::uint64_t{1}, std::uint64_t{15}, std::uint64_t{16}, std::uint64_t{17},
        std::uint64_t{4096}, std::uint64_t{4097}, std::uint64_t{10'485'760}, UINT64_MAX}) {
    const auto lengths = lengths_for_curves(longest);
    ASSERT_FALSE(lengths.empty());
    EXPECT_EQ(lengths.back(), std::min(longest, kSequenceTokensMax));
    EXPECT_LE(lengths.size(), 120u);
    for (std::size_t i = 1; i < lengths.size(); ++i) ASSERT_LT(lengths[i - 1], lengths[i]);
    for (std::uint64_t power = 16; power <= lengths.back(); power *= 2) {
      EXPECT_TRUE(std::ranges::binary_search(lengths, power)) << power << " of " << longest;
    }
  }
}

TEST(BytesByKind, AddUpToWhatThePlanSaysForEveryPreset) {
  for (const Preset& one : presets()) {
    const ModelConfig& model = preset(std::string(one.name));
    const auto tokens = lengths_for_curves(model.max_positions);
    Deployment deployment;
    deployment.at_tokens = tokens;
    const CapacityPlan plan = planned(model, deployment);
    const ByteCurves curves = curves_of(model, deployment, tokens);
    ASSERT_EQ(curves.tokens, tokens) << one.name;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      std::uint64_t payload = 0;
      std::uint64_t state = 0;
      for (const KindCurve& kind : curves.kinds) {
        (kind.kind == "state" ? state : payload) += kind.payload_bytes[i];
      }
      const LengthBytes& at = plan.ranks.front().at[i];
      ASSERT_EQ(payload, at.payload_bytes) << one.name << " at " << tokens[i];
      ASSERT_EQ(curves.payload_bytes[i], at.payload_bytes);
      ASSERT_EQ(curves.allocated_bytes[i], at.allocated_bytes);
      ASSERT_EQ(state, plan.ranks.front().state_bytes_per_sequence) << one.name;
    }
  }
}

TEST(BytesByKind, NameWhatLayersKeep) {
  EXPECT_THAT(kinds_of("deepseek-v3"), ElementsAre("MLA 61"));
  EXPECT_THAT(kinds_of("gpt-oss-120b"), ElementsAre("GQA window 128 18", "GQA 18"));
  EXPECT_THAT(kinds_of("deepseek-v3.2"), ElementsAre("MLA 61", "index keys 61"));
  EXPECT_THAT(kinds_of("llama-4-scout"), ElementsAre("GQA chunk 8192 36", "GQA 12"));
  EXPECT_THAT(kinds_of("jamba-1.5-mini"), ElementsAre("GQA 4", "state 28"));
  EXPECT_THAT(kinds_of("falcon-h1-34b"), ElementsAre("GQA 72", "state 72"));
  EXPECT_THAT(kinds_of("deepseek-v4-flash"),
              ElementsAre("window 128 43", "CSA compressed 21", "index keys 21",
                          "HCA compressed 20", "state 41"));
}

TEST(BytesByKind, WindowsStopAtTheirLengthAndLatentsDoNot) {
  // gpt-oss-120b: 18 layers of each kind, 8 KV heads x 64, key and value, 2 bytes.
  const std::uint64_t per_token = std::uint64_t{18} * 8 * 64 * 2 * 2;
  const ByteCurves curves = curves_of(preset("gpt-oss-120b"), {}, {64, 128, 129, 4096});
  EXPECT_THAT(curves.kinds[0].payload_bytes,
              ElementsAre(64 * per_token, 128 * per_token, 128 * per_token, 128 * per_token));
  EXPECT_THAT(curves.kinds[1].payload_bytes,
              ElementsAre(64 * per_token, 128 * per_token, 129 * per_token, 4096 * per_token));
}

TEST(BytesByKind, AreThoseOfOneRankAndOneStage) {
  Deployment deployment;
  deployment.parallel.tensor = 4;
  deployment.parallel.pipeline = 2;
  const ByteCurves curves = curves_of(preset("llama-3-70b"), deployment, {1000});
  EXPECT_EQ(curves.kinds.front().layers, 40u);
  EXPECT_THAT(curves.payload_bytes, ElementsAre(1000u * 327'680 / 2 / 4));
}

TEST(BytesByKind, DealsTokensOutToRanks) {
  Deployment deployment;
  deployment.parallel.tensor = 8;
  deployment.parallel.decode_context = 8;
  // Of 17 tokens, dealt out one by one to eight ranks, the first holds three.
  EXPECT_THAT(curves_of(preset("deepseek-v3"), deployment, {17}).payload_bytes,
              ElementsAre(3u * 70'272));
}

TEST(BytesByKind, RefusesWhatThePlannerRefuses) {
  const std::vector<std::uint64_t> tokens = {UINT64_MAX};
  const auto curves = bytes_by_kind(preset("llama-3-70b"), {}, {0, 80, true}, tokens);
  ASSERT_FALSE(curves);
  EXPECT_EQ(curves.error().code, ErrorCode::Invalid);
}

std::vector<TensorPoint> points_of(const std::string& name, const Deployment& deployment) {
  const auto points = capacity_by_tensor(preset(name), deployment);
  EXPECT_TRUE(points) << points.error().describe();
  return *points;
}

TEST(CapacityByTensor, GroupedHeadsAreSharedOutUntilThereIsOneForEachRank) {
  std::vector<std::uint64_t> bytes;
  std::vector<std::uint32_t> ranks;
  for (const TensorPoint& point : points_of("llama-3-70b", {})) {
    ranks.push_back(point.tensor);
    bytes.push_back(point.growing_bytes_per_token.floor());
    EXPECT_FALSE(point.tokens) << "there is no pool";
  }
  EXPECT_THAT(ranks, ElementsAre(1, 2, 4, 8, 16, 32, 64));
  EXPECT_THAT(bytes, ElementsAre(327'680, 163'840, 81'920, 40'960, 40'960, 40'960, 40'960));
}

TEST(CapacityByTensor, GroupedHeadsOvertakeLatentsInAPoolOfOneSize) {
  Deployment deployment;
  deployment.pool_bytes = 40_GiB;
  deployment.context_tokens = 8192;
  const auto latents = points_of("deepseek-v3", deployment);
  const auto heads = points_of("llama-3-70b", deployment);
  // floor(40 GiB / (61 x 64 x 1152)) x 64, whatever the number of ranks.
  for (const TensorPoint& point : latents) EXPECT_EQ(point.tokens, 611'136u);
  // 40 GiB / (327,680 / ranks): 131,072 tokens for each rank that shares the eight heads.
  EXPECT_EQ(heads[2].tokens, 4u * 131'072);
  EXPECT_EQ(heads[3].tokens, 8u * 131'072);
  EXPECT_LT(*heads[2].tokens, *latents[2].tokens);
  EXPECT_GT(*heads[3].tokens, *latents[3].tokens);
  EXPECT_EQ(heads[3].concurrency, 128u);
}

TEST(CapacityByTensor, KeepsTheReasonWhereAModelCannotBeShared) {
  const auto points = points_of("llama-3.2-1b", {.parallel = {.tensor = 1}});  // 32 query heads
  EXPECT_EQ(points[5].refused, "");
  EXPECT_EQ(points[6].tensor, 64u);
  EXPECT_THAT(points[6].refused, HasSubstr("64"));
}

TEST(CapacityByTensor, AsksForTheDeploymentsOwnNumberToo) {
  const auto points = points_of("falcon-h1-34b", {.parallel = {.tensor = 5}});
  EXPECT_TRUE(std::ranges::any_of(points, [](const auto& point) { return point.tensor == 5; }));
}

TEST(CapacityByTensor, FailsAsThePlanDoesWhereNoNumberOfRanksIsAllowed) {
  Deployment deployment;
  deployment.pool_bytes = 1;
  const auto points = capacity_by_tensor(preset("deepseek-v3"), deployment);
  ASSERT_FALSE(points);
  EXPECT_EQ(points.error().code, ErrorCode::OutOfBlocks);
}

TEST(CapacityByTensor, EqualsThePlanAtEachNumberOfRanks) {
  Deployment deployment;
  deployment.pool_bytes = 20_GiB;
  deployment.context_tokens = 32'768;
  for (const char* name : {"deepseek-v4-flash", "gemma-3-27b", "llama-3-70b"}) {
    for (const TensorPoint& point : points_of(name, deployment)) {
      Deployment one = deployment;
      one.parallel.tensor = point.tensor;
      const auto plan = plan_capacity(preset(name), one);
      ASSERT_EQ(plan.has_value(), point.refused.empty()) << name << " " << point.tensor;
      if (!plan) continue;
      EXPECT_EQ(point.tokens, plan->ranks.front().tokens);
      EXPECT_EQ(point.concurrency, plan->concurrency_total);
    }
  }
}

}  // namespace
}  // namespace emblema
