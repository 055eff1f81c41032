// A formula tells of the computation whose value it stands beside.
#include "emblema/plan/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/contract/bytes.h"
#include "test/model_samples.h"

namespace emblema {
namespace {

using namespace literals;
using testing::HasSubstr;

std::vector<ExplainedFigure> explained(const ModelConfig& model, const Deployment& deployment) {
  const auto plan = plan_capacity(model, deployment);
  EXPECT_TRUE(plan) << plan.error().describe();
  return explain(*plan, deployment);
}

ExplainedFigure figure(const std::vector<ExplainedFigure>& figures, std::string_view name) {
  for (const ExplainedFigure& one : figures) {
    if (one.figure == name) return one;
  }
  ADD_FAILURE() << "no figure " << name;
  return {};
}

TEST(Explain, LatentBytesTokensAndConcurrency) {
  const auto figures =
      explained(samples::deepseek_v3(),
                {.at_tokens = {131'072}, .pool_bytes = 40_GiB, .context_tokens = 131'072});
  const ExplainedFigure growing = figure(figures, "growing_bytes_per_token");
  EXPECT_EQ(growing.value, "70272");
  EXPECT_EQ(growing.formula, "61 x (512 c_kv bf16 + 64 k_rope bf16 = 1152)");
  EXPECT_EQ(growing.rank, "tp0");
  EXPECT_EQ(figure(figures, "bytes_per_sequence[131072]").formula, "61 x 1152 x 131072");
  EXPECT_EQ(figure(figures, "blocks[growing]").value, "9549");
  EXPECT_EQ(figure(figures, "concurrency").formula, "min(floor(9549 / ceil(131072 / 64)))");
  EXPECT_EQ(figure(figures, "concurrency_total").value, "4");
  EXPECT_EQ(figure(figures, "concurrency_total").rank, "");
}

TEST(Explain, WindowsAreCappedAndCompressedEntriesDivided) {
  const auto gpt_oss = explained(samples::gpt_oss_120b(), {.at_tokens = {8192}});
  EXPECT_EQ(figure(gpt_oss, "bytes_per_sequence[8192]").formula,
            "18 x 2048 x min(8192, 128) + 18 x 2048 x 8192");
  EXPECT_EQ(figure(gpt_oss, "fixed_bytes_per_sequence").formula,
            "18 x (512 k bf16 + 512 v bf16 = 2048) x 128 tokens");
  const auto v4 = explained(samples::deepseek_v4_pro(), {.at_tokens = {1000}});
  EXPECT_THAT(figure(v4, "growing_bytes_per_token").formula,
              testing::AllOf(HasSubstr("/ 128"), HasSubstr("/ 4")));
  EXPECT_THAT(figure(v4, "bytes_per_sequence[1000]").formula, HasSubstr("x 7 "))
      << "floor(1000 / 128) entries";
}

TEST(Explain, APoolBesideWeightsIsASubtraction) {
  Hardware gpu;
  gpu.memory_bytes = 100'000'000'000;
  const auto figures = explained(
      samples::deepseek_v3(), {.hardware = gpu, .reserve_bytes = 5, .weight_bytes = 1'000'000'000});
  const ExplainedFigure pool = figure(figures, "pool_bytes");
  EXPECT_EQ(pool.formula, "floor(100000000000 x 0.92) - 1000000000 weights - 5 reserve");
  EXPECT_EQ(pool.value, "90999999995");
}

TEST(Explain, AStageTellsOfItsOwnLayers) {
  const auto figures = explained(samples::deepseek_v3(), {.parallel = {.pipeline = 2}});
  EXPECT_THAT(figures[0].formula, testing::StartsWith("31 x "));
  EXPECT_THAT(figure(figures, "growing_bytes_per_token").rank, "pp0 tp0");
}

}  // namespace
}  // namespace emblema
