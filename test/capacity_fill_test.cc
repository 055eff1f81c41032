// The planner's answer against the allocator: sequences are started and run to their length, a step
// at a time, with tokens that no other has, until one is refused. Their number is the plan's.
#include "emblema/contract/bytes.h"
#include "test/capacity_fill_testing.h"

namespace emblema {
namespace {

using capacity_testing::expect_plan_is_what_fits;
using capacity_testing::preset_names;
using capacity_testing::test_name;

// Ragged: no multiple of a block, a step or a window.
constexpr std::uint64_t kTokens = 1237;
constexpr std::uint64_t kStep = 300;

class PlannedAndFilled : public testing::TestWithParam<std::string_view> {};

// What `sequences` sequences take, and then some: step buffers, snapshots, a part of one more.
std::uint64_t pool_for(const ModelConfig& model, std::uint64_t sequences) {
  const auto plan = plan_capacity(model, {.at_tokens = {kTokens + kStep}});
  EXPECT_TRUE(plan) << plan.error().describe();
  const std::uint64_t one = plan->ranks[0].at[0].allocated_bytes;
  return (one * (sequences + 2) + one / 3) * 8 / 7;
}

TEST_P(PlannedAndFilled, AlikeInThreePools) {
  const auto model = load_model_config(GetParam());
  ASSERT_TRUE(model);
  for (const std::uint64_t sequences : {1u, 4u, 19u}) {
    expect_plan_is_what_fits(*model, {.pool_bytes = pool_for(*model, sequences),
                                      .context_tokens = kTokens,
                                      .step_tokens = kStep});
  }
}

// The longest sequence that fits alone does, and a longer one does not.
TEST_P(PlannedAndFilled, TheLongestFitsAlone) {
  const auto model = load_model_config(GetParam());
  ASSERT_TRUE(model);
  expect_plan_is_what_fits(*model, {.pool_bytes = pool_for(*model, 2), .step_tokens = kStep});
}

INSTANTIATE_TEST_SUITE_P(Presets, PlannedAndFilled, testing::ValuesIn(preset_names()), test_name);

}  // namespace
}  // namespace emblema
