// The planner's answer against the allocator, with the memory and lengths of real GPUs
// (capacity_fill_test.cc has small ones).
#include "emblema/contract/bytes.h"
#include "test/capacity_fill_testing.h"

namespace emblema {
namespace {

using capacity_testing::expect_plan_is_what_fits;
using capacity_testing::preset_names;
using capacity_testing::test_name;

class PlannedAndFilled : public testing::TestWithParam<std::string_view> {};

// Pools and lengths of real deployments, as the planner is asked about them.
TEST_P(PlannedAndFilled, AlikeOnGpus) {
  const auto model = load_model_config(GetParam());
  ASSERT_TRUE(model);
  for (const std::uint64_t pool_bytes : {24 * kGiB, 50 * kGiB, 120 * kGiB}) {
    const std::uint64_t longest = model->max_positions == 0 ? 131'072 : model->max_positions;
    const std::uint64_t context =
        std::min<std::uint64_t>(longest, pool_bytes > 100 * kGiB ? 131'072 : 20'000);
    expect_plan_is_what_fits(*model, {.pool_bytes = pool_bytes, .context_tokens = context});
  }
}

// Every rank of a deployment is filled with what it holds of a sequence.
TEST(PlannedAndFilledDeployments, OnEveryRankOfADeployment) {
  struct Case {
    std::string_view model;
    Parallelism parallel;
  };
  const std::vector<Case> cases = {
      {"llama-3-70b", {.tensor = 8}},
      {"llama-3-70b", {.tensor = 16, .decode_context = 2, .interleave = 16}},
      {"deepseek-v3", {.tensor = 8, .decode_context = 8}},
      {"deepseek-v3", {.tensor = 8, .pipeline = 2, .data_attention = 8}},
      {"gpt-oss-120b", {.tensor = 4, .pipeline = 5}},
      {"qwen3-next-80b-a3b", {.tensor = 2, .pipeline = 2}},
      {"deepseek-v4-pro", {.tensor = 8, .pipeline = 4}},
      {"gemma-3-27b", {.tensor = 2, .pipeline = 2, .pipeline_layers = {20, 42}}},
  };
  for (const Case& one : cases) {
    const auto model = load_model_config(one.model);
    ASSERT_TRUE(model);
    expect_plan_is_what_fits(
        *model, {.pool_bytes = 10 * kGiB, .context_tokens = 8191, .parallel = one.parallel});
  }
}

INSTANTIATE_TEST_SUITE_P(Presets, PlannedAndFilled, testing::ValuesIn(preset_names()), test_name);

}  // namespace
}  // namespace emblema
