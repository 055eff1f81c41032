// Grouping as vLLM 073c510c does it (get_kv_cache_groups): what each case gives, and what holds
// for every model.
#include "emblema/peers/vllm_groups.h"

#include <map>
#include <set>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "emblema/peers/vllm_capacity.h"

namespace emblema {
namespace {

LayerSpec make_spec(std::uint32_t layer, SpecKind kind, std::uint64_t row_bytes = 4096) {
  LayerSpec spec;
  spec.layer = layer;
  spec.name = std::to_string(layer) + ".attn";
  spec.kind = kind;
  spec.block_tokens = 16;
  spec.row_bytes = row_bytes;
  spec.shape = std::to_string(row_bytes);
  if (kind == SpecKind::kWindow || kind == SpecKind::kWindowLatent) spec.window_tokens = 1024;
  if (kind == SpecKind::kChunk) spec.chunk_tokens = 8192;
  return spec;
}

// `full` full layers, then `windows` sliding ones.
std::vector<LayerSpec> mixed(std::uint32_t full, std::uint32_t windows) {
  std::vector<LayerSpec> specs;
  for (std::uint32_t i = 0; i < full + windows; ++i) {
    specs.push_back(make_spec(i, i < full ? SpecKind::kFull : SpecKind::kWindow));
  }
  return specs;
}

Grouping grouped(std::vector<LayerSpec> specs, bool hybrid_manager = true) {
  const auto grouping = group_specs(std::move(specs), hybrid_manager);
  EXPECT_TRUE(grouping) << grouping.error().describe();
  return grouping ? *grouping : Grouping{};
}

std::vector<std::uint32_t> layers_of(const SpecGroup& group) {
  std::vector<std::uint32_t> layers;
  for (const LayerSpec& spec : group.layers) layers.push_back(spec.layer);
  return layers;
}

TEST(VllmGroups, LayersAreDealtOutInTurn) {
  const Grouping grouping = grouped(mixed(2, 4));
  ASSERT_EQ(grouping.groups.size(), 3u);
  EXPECT_EQ(layers_of(grouping.groups[0]), (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(layers_of(grouping.groups[1]), (std::vector<std::uint32_t>{2, 4}));
  EXPECT_EQ(layers_of(grouping.groups[2]), (std::vector<std::uint32_t>{3, 5}));
  EXPECT_TRUE(grouping.warnings.empty());
}

TEST(VllmGroups, TheLargerBucketDecidesBelowOneAndAHalfTimes) {
  EXPECT_EQ(grouped(mixed(10, 14)).groups.size(), 2u);
  EXPECT_EQ(grouped(mixed(10, 15)).groups.size(), 3u) << "15 is one and a half times 10";
}

TEST(VllmGroups, FullLayersOfSeveralSizesAreOneGroup) {
  std::vector<LayerSpec> specs = mixed(2, 0);
  specs.push_back(make_spec(2, SpecKind::kLatent, 132));
  const Grouping grouping = grouped(specs);
  ASSERT_EQ(grouping.groups.size(), 1u);
  EXPECT_TRUE(grouping.groups[0].uniform_type);
  EXPECT_EQ(block_bytes(grouping, 0), 16u * (2 * 4096 + 132));
}

TEST(VllmGroups, PagesAreStretchedToTheLargest) {
  std::vector<LayerSpec> specs = mixed(2, 2);
  for (std::size_t i = 2; i < 4; ++i) specs[i].row_bytes = 1024;
  const Grouping grouping = grouped(specs);
  EXPECT_EQ(grouping.groups.at(1).layers.at(0).block_tokens, 64u);
  EXPECT_EQ(page_bytes(grouping.groups[1].layers[0]), 16u * 4096);
}

TEST(VllmGroups, PagesThatDoNotDivideAreRefused) {
  std::vector<LayerSpec> specs = mixed(2, 2);
  specs[2].row_bytes = specs[3].row_bytes = 3072;
  const auto grouping = group_specs(specs, true);
  ASSERT_FALSE(grouping);
  EXPECT_EQ(grouping.error().code, ErrorCode::Unsupported);
  EXPECT_NE(grouping.error().message.find("NotImplementedError"), std::string::npos);
}

TEST(VllmGroups, LatentsBesideWindowsThatDoNotDivideAreAllAllocatedWhole) {
  std::vector<LayerSpec> specs = {make_spec(0, SpecKind::kLatent, 1152),
                                  make_spec(1, SpecKind::kWindow, 4096)};
  const Grouping grouping = grouped(specs);
  ASSERT_EQ(grouping.groups.size(), 1u);
  EXPECT_TRUE(grouping.groups[0].uniform_type);
  EXPECT_EQ(grouping.groups[0].layers[1].kind, SpecKind::kFull);
  ASSERT_EQ(grouping.warnings.size(), 1u);
}

TEST(VllmGroups, WithoutTheHybridManagerAllIsFull) {
  const Grouping grouping = grouped(mixed(2, 4), false);
  ASSERT_EQ(grouping.groups.size(), 1u);
  EXPECT_FALSE(grouping.groups[0].uniform_type);
  RequestReach reach;
  reach.model_len = 1 << 20;
  reach.in_flight_tokens = 16'384;
  EXPECT_EQ(blocks_per_request(grouping, reach), (1u << 20) / 16);
}

TEST(VllmGroups, StateCannotBecomeFullAttention) {
  std::vector<LayerSpec> specs = {make_spec(0, SpecKind::kFull), make_spec(1, SpecKind::kState)};
  EXPECT_FALSE(group_specs(specs, false));
  const Grouping grouping = grouped(specs);
  EXPECT_EQ(page_bytes(grouping.groups.at(1).layers.at(0)), 16u * 4096) << "padded";
}

// Draws a model of full, sliding, chunked and recurrent layers whose pages divide one another.
std::vector<LayerSpec> random_specs() {
  const auto count = *rc::gen::inRange<std::uint32_t>(1, 98);
  std::vector<LayerSpec> specs;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto kind =
        *rc::gen::element(SpecKind::kFull, SpecKind::kWindow, SpecKind::kChunk, SpecKind::kState);
    specs.push_back(make_spec(i, kind, *rc::gen::element(1024u, 2048u, 4096u)));
    specs.back().stage = i * 4 / count;
  }
  return specs;
}

RC_GTEST_PROP(VllmGroupsProperty, EveryCacheIsInExactlyOneGroup, ()) {
  const std::vector<LayerSpec> specs = random_specs();
  const auto grouping = group_specs(specs, true);
  RC_ASSERT(grouping.has_value());
  std::multiset<std::string> grouped_names;
  for (const SpecGroup& group : grouping->groups) {
    RC_ASSERT(!group.layers.empty());
    for (const LayerSpec& spec : group.layers) grouped_names.insert(spec.name);
  }
  std::multiset<std::string> names;
  for (const LayerSpec& spec : specs) names.insert(spec.name);
  RC_ASSERT(grouped_names == names);
}

RC_GTEST_PROP(VllmGroupsProperty, PagesAreEqualUnlessAGroupHasMemoryOfItsOwn, ()) {
  const auto grouping = group_specs(random_specs(), true);
  RC_ASSERT(grouping.has_value());
  if (grouping->groups.front().uniform_type) return;
  const std::uint64_t page = page_bytes(grouping->groups.front().layers.front());
  for (const SpecGroup& group : grouping->groups) {
    for (const LayerSpec& spec : group.layers) RC_ASSERT(page_bytes(spec) == page);
  }
}

RC_GTEST_PROP(VllmGroupsProperty, TheLongestThatFitsFitsAndOneMoreDoesNot, ()) {
  const auto grouping = group_specs(random_specs(), true);
  RC_ASSERT(grouping.has_value());
  RequestReach reach;
  reach.model_len = *rc::gen::inRange<std::uint64_t>(1, 1 << 20);
  reach.in_flight_tokens = *rc::gen::inRange<std::uint64_t>(1, 20'000);
  const auto memory = *rc::gen::inRange<std::uint64_t>(1, std::uint64_t{1} << 36);
  const std::uint64_t most = reach.model_len;
  const std::uint64_t longest = longest_that_fits(*grouping, 0, memory, reach);
  RC_ASSERT(longest <= most);
  if (longest > 0) {
    reach.model_len = longest;
    RC_ASSERT(admission_bytes(*grouping, 0, reach).value() <= memory);
  }
  if (longest < most) {
    reach.model_len = longest + 1;
    RC_ASSERT(admission_bytes(*grouping, 0, reach).value() > memory);
  }
}

RC_GTEST_PROP(VllmGroupsProperty, NoStageHoldsMoreThanTheWhole, ()) {
  std::vector<LayerSpec> specs = random_specs();
  const auto grouping = group_specs(specs, true);
  for (LayerSpec& spec : specs) spec.stage = 0;
  const auto whole = group_specs(specs, true);
  RC_ASSERT(grouping.has_value() && whole.has_value());
  for (std::uint32_t stage = 0; stage < 4; ++stage) {
    RC_ASSERT(block_bytes(*grouping, stage) <= block_bytes(*whole, 0));
  }
}

}  // namespace
}  // namespace emblema
