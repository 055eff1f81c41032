// The main job on small models: what it reports is what is there, and a wrong result is seen.
#include "apps/agents/agents.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/agents/outputs.h"
#include "apps/agents/summary.h"
#include "apps/agents/workload.h"
#include "emblema/model/model_config.h"

namespace emblema::agents {
namespace {

ModelGeometry geometry_of(const std::string& json, KvDtype dtype = KvDtype::kBf16) {
  const auto model = parse_model_config(json, "tiny");
  EXPECT_TRUE(model) << (model ? "" : model.error().message);
  GeometryOptions options;
  options.kv_dtype = dtype;
  return ModelGeometry::from(*model, options).value();
}

const char* const kTinyMla = R"({"model_type": "deepseek_v2", "num_hidden_layers": 2,
  "hidden_size": 64, "num_attention_heads": 4, "kv_lora_rank": 32, "qk_rope_head_dim": 16,
  "qk_nope_head_dim": 16, "v_head_dim": 16, "q_lora_rank": null, "rope_theta": 10000,
  "max_position_embeddings": 4096})";

const char* const kTinyLlama = R"({"model_type": "llama", "num_hidden_layers": 2,
  "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
  "rope_theta": 10000, "max_position_embeddings": 4096})";

const char* const kTinyWindows = R"({"model_type": "gpt_oss", "num_hidden_layers": 2,
  "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
  "sliding_window": 40, "layer_types": ["sliding_attention", "full_attention"],
  "rope_theta": 10000, "max_position_embeddings": 4096})";

AgentsOptions small_job() {
  AgentsOptions options;
  options.workload.agents = 6;
  options.workload.document_tokens = 150;
  options.workload.decode_tokens = 3;
  return options;
}

TEST(Workload, PreamblesAreRaggedAndShared) {
  WorkloadOptions options;
  options.agents = 6;
  const auto workload = make_workload(options).value();
  ASSERT_EQ(workload.preambles.size(), 4u);
  for (const auto& preamble : workload.preambles) EXPECT_NE(preamble.size() % 64, 0u);
  EXPECT_EQ(workload.agents[4].preamble, workload.agents[0].preamble);
  EXPECT_NE(workload.agents[0].question, workload.agents[4].question);
  EXPECT_EQ(workload.agents[0].answers.size(), kBranches);
  EXPECT_NE(workload.agents[0].answers[0], workload.agents[0].answers[1]);
  EXPECT_EQ(make_workload(options)->document, workload.document) << "the same seed, the same job";
  options.seed = 2;
  EXPECT_NE(make_workload(options)->document, workload.document);
}

TEST(Workload, FewAgentsHaveAPreambleEach) {
  WorkloadOptions options;
  options.agents = 2;
  EXPECT_EQ(make_workload(options)->preambles.size(), 2u);
}

TEST(Workload, RefusesWhatIsOutOfRangeByName) {
  WorkloadOptions none;
  none.agents = 0;
  EXPECT_EQ(make_workload(none).error().message, "agents is 0; allowed: 1 to 4096");
  WorkloadOptions empty;
  empty.document_tokens = 0;
  EXPECT_THAT(make_workload(empty).error().message, testing::HasSubstr("document is 0"));
  WorkloadOptions silent;
  silent.decode_tokens = 0;
  EXPECT_THAT(make_workload(silent).error().message, testing::HasSubstr("decode is 0"));
}

TEST(OutputsDifference, FindsTheWorstVectorAndWhereItIs) {
  Outputs a(2, 3, 2, 4);
  Outputs b(2, 3, 2, 4);
  const std::vector<float> one = {1, 0, 0, 0};
  const std::vector<float> off = {1, 0.5F, 0, 0};
  a.record(0, 0, 0, one);
  b.record(0, 0, 0, one);
  a.record(1, 2, 1, off);
  b.record(1, 2, 1, one);
  a.record(1, 1, 1, off);  // recorded on one side only
  const auto difference = Outputs::largest(a, b);
  EXPECT_EQ(difference.compared, 2u);
  EXPECT_DOUBLE_EQ(difference.relative, 0.5);
  EXPECT_EQ(difference.answer, 1u);
  EXPECT_EQ(difference.token, 2u);
  EXPECT_EQ(difference.layer, 1u);
}

TEST(OutputsDifference, NothingThatIsNotFiniteIsClose) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> broken = {nan, 1};
  const std::vector<float> good = {1, 1};
  const std::vector<float> zero = {0, 0};
  EXPECT_TRUE(std::isinf(relative_difference(std::span(broken), std::span<const float>(good))));
  EXPECT_TRUE(std::isinf(relative_difference(std::span(good), std::span<const float>(zero))));
  EXPECT_EQ(relative_difference(std::span(zero), std::span<const float>(zero)), 0);
}

struct Geometry {
  const char* name;
  const char* json;
  KvDtype dtype;
};

class MainJob : public testing::TestWithParam<Geometry> {};

TEST_P(MainJob, ThreeWaysAgreeAndShareAsTheySay) {
  const auto report = run_agents(geometry_of(GetParam().json, GetParam().dtype), small_job());
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_EQ(report->ways.size(), 3u);
  for (const Check& check : report->checks) {
    EXPECT_TRUE(check.passed) << check.name << ": " << check.measured << " of " << check.allowed;
  }
  EXPECT_TRUE(report->ok);
  const WayReport& unshared = report->ways[0];
  const WayReport& prefix = report->ways[1];
  const WayReport& segment = report->ways[2];
  EXPECT_EQ(unshared.holdings.document_copies, 6u);
  EXPECT_EQ(prefix.holdings.document_copies, 4u);
  EXPECT_EQ(segment.holdings.document_copies, 1u);
  EXPECT_EQ(segment.holdings.document_rows, 150u) << "each row of the document once";
  EXPECT_GE(unshared.holdings.document_rows, 6 * 150u) << "and more where a tail was copied";
  EXPECT_EQ(unshared.prefix_hit_tokens + unshared.segment_hit_tokens, 0u);
  EXPECT_EQ(unshared.content_shared_blocks, 0u);
  EXPECT_GT(prefix.content_shared_blocks, 0u) << "two agents came at the same moment";
  EXPECT_EQ(segment.segment_hit_tokens, 5 * 150u) << "built once, found by the other five";
  EXPECT_LT(segment.physical_bytes, prefix.physical_bytes);
  EXPECT_LT(prefix.physical_bytes, unshared.physical_bytes);
  for (const WayReport& way : report->ways) {
    EXPECT_GT(way.compared_vectors, 0u);
    EXPECT_EQ(way.collisions, 0u);
  }
  // Every answer token of every agent, branch and layer.
  EXPECT_EQ(prefix.compared_vectors, 6u * kBranches * 3 * 2);
  EXPECT_EQ(segment.compared_vectors, 6u * kBranches * 3 * 2);
}

INSTANTIATE_TEST_SUITE_P(Models, MainJob,
                         testing::Values(Geometry{"Mla", kTinyMla, KvDtype::kBf16},
                                         Geometry{"MlaFp32", kTinyMla, KvDtype::kFp32},
                                         Geometry{"Llama", kTinyLlama, KvDtype::kBf16},
                                         Geometry{"LlamaFp16", kTinyLlama, KvDtype::kFp16}),
                         [](const auto& tested) { return tested.param.name; });

TEST(MainJobWindows, TwoGroupsAgreeToo) {
  const auto report = run_agents(geometry_of(kTinyWindows), small_job());
  ASSERT_TRUE(report) << report.error().message;
  for (const Check& check : report->checks) {
    EXPECT_TRUE(check.passed) << check.name << ": " << check.measured << " of " << check.allowed;
  }
}

TEST(MainJobSmall, OneAgentHasNothingToShareButItsDocument) {
  AgentsOptions options = small_job();
  options.workload.agents = 1;
  const auto report = run_agents(geometry_of(kTinyMla), options);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->ok);
}

TEST(MainJobSmall, ADocumentShorterThanABlockIsLegal) {
  AgentsOptions options = small_job();
  options.workload.document_tokens = 3;
  const auto report = run_agents(geometry_of(kTinyMla), options);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->ok);
  EXPECT_EQ(report->ways[2].holdings.document_copies, 1u);
}

TEST(MainJobSmall, ADocumentLongerThanOneStepIsLegal) {
  AgentsOptions options = small_job();
  options.workload.agents = 2;
  options.workload.document_tokens = 1300;
  const auto report = run_agents(geometry_of(kTinyLlama), options);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->ok);
}

TEST(MainJobRefusal, APoolThatIsTooSmallNamesWhatIsNeeded) {
  AgentsOptions options = small_job();
  options.pool_bytes = 1000;
  const auto report = run_agents(geometry_of(kTinyMla), options);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::OutOfBlocks);
}

TEST(MainJobRefusal, ThreadsOutOfRange) {
  AgentsOptions options = small_job();
  options.threads = 0;
  EXPECT_EQ(run_agents(geometry_of(kTinyMla), options).error().message,
            "threads is 0; allowed: 1 to 1024");
}

TEST(MainJobRatios, AreTheModelsOwn) {
  const auto model = load_model_config("deepseek-v3").value();
  GeometryOptions two_layers;
  two_layers.layers = 2;
  // 2 x 128 heads x 128 against 576 numbers.
  const auto geometry = ModelGeometry::from(model, two_layers).value();
  AgentsOptions options = small_job();
  options.workload.agents = 0;  // refused before any weight is made
  EXPECT_FALSE(run_agents(geometry, options));
  const SizeRatios ratios = size_ratios(geometry);
  EXPECT_EQ(Rational::of(ratios.mha_bytes.floor(), ratios.bytes.floor()),
            Rational::of(32'768, 576));
  EXPECT_EQ(ratios.gqa8_bytes, Rational(2 * 2 * 8 * 128 * 2));
}

TEST(Summary, SaysWhatWasMeasured) {
  const auto report = run_agents(geometry_of(kTinyMla), small_job()).value();
  const std::string text = text_summary(report, false);
  EXPECT_THAT(text, testing::HasSubstr("6 agents, one document of 150 tokens"));
  EXPECT_THAT(text, testing::HasSubstr("copies of the document"));
  EXPECT_THAT(text, testing::HasSubstr("All 12 checks passed."));
  const auto page = html_page(report, "emblema run --model tiny");
  ASSERT_TRUE(page) << page.error().message;
  EXPECT_THAT(*page, testing::HasSubstr("emblema run --model tiny"));
  EXPECT_THAT(*page, testing::HasSubstr("</html>"));
}

TEST(Summary, AFailedCheckIsLoud) {
  AgentsReport report = run_agents(geometry_of(kTinyMla), small_job()).value();
  report.checks[0].passed = false;
  report.ok = false;
  EXPECT_THAT(text_summary(report, false), testing::HasSubstr("FAILED"));
  EXPECT_THAT(text_summary(report, false), testing::HasSubstr("1 of 12 checks failed."));
}

}  // namespace
}  // namespace emblema::agents
