// `emblema plan` about GPUs, ranks, sweeps and other engines, as typed and as printed.
#include "apps/cli/command_testing.h"

namespace emblema {
namespace {

using command_testing::expect_refused;
using command_testing::Folder;
using command_testing::json_of;
using command_testing::run_command;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

json plan_of(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "plan");
  return json_of(std::move(arguments));
}

TEST(PlanDeployment, LatentsDoNotDivideButTokensCan) {
  // vLLM pull request 46145, TensorRT-LLM issue 2738.
  const std::vector<std::string> base = {"deepseek-v3", "--pool", "40GiB", "--context", "128k"};
  for (const std::string ranks : {"1", "8"}) {
    std::vector<std::string> arguments = base;
    arguments.insert(arguments.end(), {"--tp", ranks});
    const json rank = plan_of(arguments).at("ranks").at(0);
    EXPECT_EQ(rank.at("growing_bytes_per_token"), 70'272);
    EXPECT_EQ(rank.at("tokens"), 611'136);
    EXPECT_EQ(rank.at("concurrency"), 4);
  }
  std::vector<std::string> arguments = base;
  arguments.insert(arguments.end(), {"--tp", "8", "--dcp", "8"});
  const json plan = plan_of(arguments);
  EXPECT_EQ(plan.at("ranks").at(0).at("name"), "tp0..7");
  EXPECT_EQ(plan.at("ranks").at(0).at("tokens"), 4'889'088);
  EXPECT_EQ(plan.at("concurrency_total"), 37);
}

constexpr const char* kTenLayers = R"({"model_type": "llama", "num_hidden_layers": 10,
    "hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64})";

TEST(PlanDeployment, StagesAreListedAndNoLayerIsLost) {
  // mlx-lm issue 1688, SGLang pull request 13282.
  const json plan = json_of({"plan", "-", "--pp", "3"}, kTenLayers);
  std::vector<int> layers;
  for (const json& rank : plan.at("ranks")) layers.push_back(rank.at("layers"));
  EXPECT_THAT(layers, testing::ElementsAre(4, 3, 3));
  EXPECT_EQ(plan.at("ranks").at(0).at("growing_bytes_per_token"), 2048);
  EXPECT_EQ(plan.at("layers").size(), 10u);
  expect_refused(run_command({"plan", "-", "--pp", "11"}, kTenLayers),
                 AllOf(HasSubstr("pipeline_parallel is 11"), HasSubstr("1 to 10")));
  const json given = json_of({"plan", "-", "--pp-layers", "2,8"}, kTenLayers);
  EXPECT_EQ(given.at("ranks").at(0).at("layers"), 8) << "the larger bounds";
  expect_refused(run_command({"plan", "-", "--pp-layers", "2,9"}, kTenLayers),
                 HasSubstr("pp_layers is 2,9; allowed: 2 numbers"));
  expect_refused(run_command({"plan", "-", "--pp-layers", "2,,8"}, kTenLayers),
                 HasSubstr("--pp-layers is ''"));
}

TEST(PlanDeployment, WhatDoesNotDivideIsOneLine) {
  expect_refused(run_command({"plan", "llama-3-70b", "--tp", "3"}),
                 AllOf(HasSubstr("tensor_parallel is 3"), HasSubstr("64, the query heads")));
  expect_refused(run_command({"plan", "llama-3-70b", "--tp", "0"}), HasSubstr("--tp is 0"));
  expect_refused(run_command({"plan", "llama-3-70b", "--tp", "8", "--dcp", "2"}),
                 AllOf(HasSubstr("dcp is 2"), HasSubstr("8 KV heads")));
  expect_refused(run_command({"plan", "gpt-oss-120b", "--tp", "16", "--dcp", "2"}),
                 HasSubstr("retention window"));
  expect_refused(run_command({"plan", "deepseek-v3", "--tp", "8", "--dp-attention", "3"}),
                 HasSubstr("a divisor of tensor_parallel (8)"));
  expect_refused(run_command({"plan", "deepseek-v3", "--tp", "8", "--gpus", "12"}),
                 HasSubstr("gpus is 12"));
}

TEST(PlanDeployment, AGpuGivesPoolAndRoofline) {
  const json plan = plan_of({"llama-3-8b", "--gpu", "H100", "--utilisation", "0.9", "--reserve",
                             "1GiB", "--context", "8k"});
  const json& rank = plan.at("ranks").at(0);
  const std::uint64_t memory = plan.at("hardware").at("memory_bytes");
  EXPECT_TRUE(plan.at("weights_estimated"));
  EXPECT_EQ(plan.at("weights_bytes"), 16'060'522'496) << "8,030,261,248 parameters";
  EXPECT_EQ(rank.at("pool_bytes"), memory * 9 / 10 - 16'060'522'496 - (1 << 30));
  EXPECT_EQ(rank.at("bound_by"), "memory bandwidth");
  EXPECT_EQ(rank.at("flop_per_byte"), 4.0) << "2 x 4 query heads a KV head / 2 bytes";
  EXPECT_FALSE(plan.at("hardware").at("source").get<std::string>().empty());
  const json custom = plan_of({"llama-3-8b", "--hbm", "40GB", "--bandwidth", "1.5TB/s", "--flops",
                               "3T", "--weights", "10GB", "--utilisation", "1"});
  EXPECT_EQ(custom.at("ranks").at(0).at("pool_bytes"), 30'000'000'000);
  EXPECT_EQ(custom.at("ranks").at(0).at("bound_by"), "compute") << "a ridge of 2 FLOP per byte";
  EXPECT_FALSE(custom.at("weights_estimated"));
}

TEST(PlanDeployment, HardwareThatMakesNoSenseIsOneLine) {
  expect_refused(run_command({"plan", "llama-3-8b", "--gpu", "h1000"}),
                 AllOf(HasSubstr("h1000"), HasSubstr("h100")));
  for (const std::string share : {"0", "1.01", "-1", "x", "0.9.1", "1e-3", "nan", ""}) {
    if (share.empty()) continue;
    expect_refused(run_command({"plan", "llama-3-8b", "--utilisation", share}),
                   HasSubstr("--utilisation is '" + share + "'"));
  }
  expect_refused(run_command({"plan", "llama-3-8b", "--bandwidth", "fast"}),
                 HasSubstr("--bandwidth is 'fast'"));
  expect_refused(run_command({"plan", "llama-3-8b", "--weights", "heavy"}),
                 HasSubstr("--weights is 'heavy'"));
  expect_refused(run_command({"plan", "llama-3-8b", "--hbm", "16GB"}),
                 AllOf(HasSubstr("weights are 14.96 GiB"), HasSubstr("allowed: together less")));
}

TEST(PlanDeployment, WeightsComeFromTheIndexBesideTheConfig) {
  const Folder folder;
  folder.write("config.json", kTenLayers);
  folder.write("model.safetensors.index.json",
               R"({"metadata": {"total_size": 1000000}, "weight_map": {"a": "b.safetensors"}})");
  const json plan = plan_of({folder.path(), "--hbm", "1GB", "--utilisation", "1"});
  EXPECT_EQ(plan.at("weights_bytes"), 1'000'000);
  EXPECT_FALSE(plan.at("weights_estimated"));
  EXPECT_EQ(plan.at("ranks").at(0).at("pool_bytes"), 999'000'000);
  folder.write("model.safetensors.index.json", R"({"metadata": {"total_size": -5}})");
  expect_refused(run_command({"plan", folder.path()}), HasSubstr("total_size"));
  expect_refused(run_command({"plan", "llama-3-8b", "--weights", "0"}),
                 HasSubstr("--weights is '0'; allowed: auto, or a size of at least 1 byte"));
}

TEST(PlanDeployment, AnIndexWithoutASizeIsSaidAndTheEstimateTaken) {
  const Folder folder;
  folder.write("config.json", R"({"model_type": "llama", "num_hidden_layers": 2,
      "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 1000})");
  folder.write("model.safetensors.index.json", R"({"metadata": {}, "weight_map": {}})");
  const json plan = plan_of({folder.path()});
  EXPECT_TRUE(plan.at("weights_estimated"));
  EXPECT_THAT(plan.at("notes").dump(),
              HasSubstr("index.json gives no metadata.total_size: the weights are an estimate"));
}

TEST(PlanDeployment, AWeightFileOfZerosIsNoCheckpoint) {
  const Folder folder;
  folder.write("config.json", kTenLayers);
  folder.write("model.safetensors", std::string(1'000'000, '\0'));
  expect_refused(run_command({"plan", folder.path(), "--gpu", "h100"}),
                 AllOf(HasSubstr("the header of"), HasSubstr("has 0 bytes; allowed: 2 to")));
}

TEST(PlanDeployment, SweepsDoubleAndEndWhereAsked) {
  const json contexts =
      plan_of({"deepseek-v3", "--pool", "40GiB", "--sweep", "context=8k..100000"}).at("sweep");
  ASSERT_EQ(contexts.size(), 5u);
  EXPECT_EQ(contexts.at(0).at("context_tokens"), 8192);
  EXPECT_EQ(contexts.at(0).at("concurrency"), 9549 / 128);
  EXPECT_EQ(contexts.at(4).at("context_tokens"), 100'000);
  EXPECT_EQ(contexts.at(4).at("concurrency"), 9549 / 1563);
  // Grouped heads divide and keep their intensity; a latent does neither.
  const json ranks =
      plan_of({"llama-3-70b", "deepseek-v3", "--pool", "40GiB", "--sweep", "tp=1..16"});
  const json& grouped = ranks.at(0).at("sweep");
  const json& latent = ranks.at(1).at("sweep");
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(grouped.at(i).at("flop_per_byte"), 8.0);
  EXPECT_EQ(grouped.at(3).at("growing_bytes_per_token"), 40'960);
  EXPECT_EQ(grouped.at(4).at("growing_bytes_per_token"), 40'960) << "one head is left";
  EXPECT_EQ(latent.at(4).at("growing_bytes_per_token"), 70'272);
  EXPECT_NEAR(latent.at(0).at("flop_per_byte"), 241.78, 0.01);
  EXPECT_NEAR(latent.at(4).at("flop_per_byte"), 241.78 / 16, 0.01);
  const json& crossover = ranks.at(0).at("crossovers").at(0);
  EXPECT_EQ(crossover.at("with"), "deepseek-v3");
  EXPECT_NEAR(crossover.at("real_tensor_parallel"), 4.663, 0.001);
  EXPECT_EQ(crossover.at("first_tensor_parallel"), 8);
  EXPECT_EQ(ranks.at(0).at("kv_projection_parameters_saved"), 9'395'240'960);
  for (const std::string sweep : {"context", "context=8k", "heads=1..2", "context=9..8", "tp=0..2",
                                  "=..", "context=..", "context=1..2..3"}) {
    expect_refused(run_command({"plan", "deepseek-v3", "--sweep", sweep}), HasSubstr("--sweep"));
  }
}

TEST(PlanDeployment, ASweepOverRanksNeedsNoPlanOfOneGpu) {
  const auto ran = run_command({"plan", "llama-3-70b", "--gpu", "h100", "--sweep", "tp=1..8"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.out,
              AllOf(HasSubstr("rank tp0..1\n"), HasSubstr("TP 1: llama-3-70b: tp0: weights")));
  expect_refused(run_command({"plan", "deepseek-v3", "--gpu", "l4", "--sweep", "tp=1..2"}),
                 HasSubstr("tp0: weights are"));
}

TEST(PlanDeployment, GpusWithoutRanksAreAStagesShareOfThem) {
  const json plan = plan_of({"deepseek-v3", "--gpu", "h200", "--gpus", "16", "--pp", "2"});
  EXPECT_EQ(plan.at("ranks").at(0).at("ranks"), 8);
  EXPECT_EQ(plan.at("copies"), 1);
  expect_refused(run_command({"plan", "deepseek-v3", "--gpus", "7", "--pp", "2"}),
                 HasSubstr("gpus is 7; allowed: multiples of 2"));
}

TEST(PlanDeployment, DealtOutTokensNeverPassTheModelsPositions) {
  const json plan = plan_of(
      {"deepseek-v3", "--tp", "8", "--dcp", "8", "--dcp-interleave", "48", "--pool", "40GiB"});
  EXPECT_EQ(plan.at("context_tokens"), 163'840);
  expect_refused(run_command({"plan", "deepseek-v3", "--dcp-interleave", "4"}),
                 HasSubstr("--dcp-interleave is '4' without --dcp"));
}

TEST(PlanDeployment, WhereAllLayersHaveAWindowTokensAreThoseOfAllAtOnce) {
  const json rank = plan_of({"mistral-7b", "--pool", "40GiB", "--context", "8k"}).at("ranks").at(0);
  const std::uint64_t at_once = rank.at("concurrency");
  EXPECT_GT(at_once, 10u);
  EXPECT_EQ(rank.at("tokens"), at_once * 8192);
}

TEST(PlanDeployment, ADecodeStepPast64BitsLeavesTheBytes) {
  const json plan = plan_of({"deepseek-v3", "--at", "1099511627776"});
  EXPECT_EQ(plan.at("ranks").at(0).at("bytes_per_sequence").at("1099511627776"),
            70'272u * (std::uint64_t{1} << 40));
  EXPECT_THAT(plan.at("notes").dump(), HasSubstr("do not fit 64 bits"));
}

TEST(PlanDeployment, WhatChangesNothingIsSaid) {
  EXPECT_THAT(plan_of({"llama-3-8b", "--pool", "4GiB", "--reserve", "1GiB"}).at("notes").dump(),
              HasSubstr("the pool is given"));
  EXPECT_THAT(plan_of({"llama-3-8b", "--weights", "9GB"}).at("notes").dump(),
              HasSubstr("where a GPU's memory is known"));
  EXPECT_THAT(plan_of({"llama-3-8b", "--bandwidth", "1TB/s"}).at("notes").dump(),
              HasSubstr("a roofline needs both"));
  expect_refused(run_command({"plan", "llama-3-8b", "--engine", "vllm", "--explain"}),
                 HasSubstr("--engine is 'vllm' with --explain"));
}

TEST(PlanDeployment, ARankThatASweepCannotHaveIsARowWithItsReason) {
  const json rows = plan_of({"gemma-3-1b", "--sweep", "tp=4..8"}).at("sweep");
  EXPECT_TRUE(rows.at(0).contains("growing_bytes_per_token"));
  EXPECT_THAT(rows.at(1).at("refusal").get<std::string>(), HasSubstr("tensor_parallel is 8"));
  EXPECT_THAT(run_command({"plan", "gemma-3-1b", "--sweep", "tp=4..8"}).out,
              HasSubstr("TP 8: gemma-3-1b: layer 0: tensor_parallel is 8"));
}

TEST(PlanDeployment, FormulasStandBesideTheirFigures) {
  const auto ran =
      run_command({"plan", "deepseek-v3", "--pool", "40GiB", "--context", "128k", "--explain"});
  EXPECT_THAT(ran.out, AllOf(HasSubstr("growing_bytes_per_token = 70272\n      "
                                       "61 x (512 c_kv bf16 + 64 k_rope bf16 = 1152)\n"),
                             HasSubstr("min(floor(9549 / ceil(131072 / 64)))")));
  const json plan = plan_of({"deepseek-v3", "--explain"});
  EXPECT_EQ(plan.at("explanations").at(0).at("figure"), "growing_bytes_per_token");
  EXPECT_FALSE(plan_of({"deepseek-v3"}).contains("explanations"));
}

TEST(PlanDeployment, OtherEnginesLogWhatTheyWouldLog) {
  // vLLM 073c510c, its own planner in 60 GiB: 14,324 blocks of 64.
  const auto ran = run_command(
      {"plan", "deepseek-v3", "--engine", "vllm", "--pool", "60GiB", "--block-tokens", "64"});
  EXPECT_TRUE(
      ran.out.starts_with("vLLM 073c510c (2026-08-09): 916,736 tokens; 5.60 requests of "
                          "160k tokens at once\n"))
      << ran.out;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("GPU KV cache size: 916,736 tokens, Maximum concurrency for "
                                       "163,840 tokens per request: 5.60x"),
                             HasSubstr("Emblema, in the same memory: 61 x MLA: 916,736 tokens")));
  const json both = plan_of({"deepseek-v3", "--compare", "vllm,sglang,vllm,emblema", "--pool",
                             "60GiB", "--gpu", "h200"})
                        .at("engines");
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both.at(0).at("engine"), "vllm");
  EXPECT_EQ(both.at(1).at("growing_bytes_per_token"), 70'272);
  EXPECT_THAT(both.at(1).at("as_of").get<std::string>(), HasSubstr("2026-08-20"));
  expect_refused(run_command({"plan", "deepseek-v3", "--engine", "trtllm"}),
                 HasSubstr("--engine is 'trtllm'; allowed: emblema, vllm, sglang"));
  expect_refused(run_command({"plan", "deepseek-v3", "--compare", "vllm,"}),
                 HasSubstr("--compare is ''"));
}

TEST(PlanDeployment, ARefusalOfAnotherEngineIsItsOwn) {
  expect_refused(run_command({"plan", "gemma-3-27b", "--engine", "vllm", "--pool", "1GiB",
                              "--context", "128k"}),
                 AllOf(HasSubstr("vLLM 073c510c"), HasSubstr("refuses")));
  const auto ran = run_command(
      {"plan", "gemma-3-27b", "--compare", "vllm,sglang", "--pool", "8GiB", "--context", "64k"});
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_THAT(ran.out, AllOf(HasSubstr("\nemblema "), HasSubstr("refuses")));
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(PlanDeployment, APageAndAPictureAreWritten) {
  const Folder folder;
  const std::string page = folder.path() + "/plan.html";
  const std::string picture = folder.path() + "/plan.svg";
  const auto ran = run_command({"plan", "gpt-oss-120b", "--gpu", "h100", "--context", "32k",
                                "--html", page, "--svg", picture, "--chart", "roofline"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(
      content_of(page),
      AllOf(HasSubstr("requests of 32k at once"),
            HasSubstr("emblema plan gpt-oss-120b --context 32k --gpu h100"), HasSubstr("</html>")));
  EXPECT_THAT(content_of(picture),
              AllOf(HasSubstr("<svg"), HasSubstr("ridge"), HasSubstr("TP 16")));
  EXPECT_FALSE(std::filesystem::exists(page + ".partial"));
}

TEST(PlanDeployment, APageTellsOfTheEnginesAskedFor) {
  const Folder folder;
  const std::string page = folder.path() + "/plan.html";
  ASSERT_EQ(run_command({"plan", "deepseek-v3", "--pool", "60GiB", "--block-tokens", "64",
                         "--compare", "vllm,sglang", "--html", page})
                .exit_code,
            0);
  EXPECT_THAT(content_of(page), AllOf(HasSubstr("Other engines"), HasSubstr("as of SGLang v0.5.18"),
                                      HasSubstr("vllm logs: GPU KV cache size: 916,736 tokens")));
}

TEST(PlanDeployment, TheRooflineShowsThePlanWhereItsDegreeIsElsewhere) {
  const Folder folder;
  const std::string picture = folder.path() + "/plan.svg";
  const std::vector<std::string> base = {"plan", "deepseek-v3", "--gpu", "h200",    "--gpus",
                                         "8",    "--svg",       picture, "--chart", "roofline"};
  ASSERT_EQ(run_command(base).exit_code, 0);
  EXPECT_THAT(content_of(picture), testing::Not(HasSubstr("this plan")));
  std::vector<std::string> dealt = base;
  dealt.insert(dealt.end(), {"--dcp", "8"});
  ASSERT_EQ(run_command(dealt).exit_code, 0);
  EXPECT_THAT(content_of(picture), HasSubstr("this plan"));
}

TEST(PlanDeployment, APictureThatCannotBeDrawnLeavesNoFile) {
  const Folder folder;
  const std::string picture = folder.path() + "/plan.svg";
  expect_refused(run_command({"plan", "deepseek-v3", "--svg", picture, "--chart", "roofline"}),
                 HasSubstr("roofline"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  expect_refused(run_command({"plan", "deepseek-v3", "--svg", picture, "--chart", "pie"}),
                 HasSubstr("--chart is 'pie'; allowed: bytes, capacity, roofline"));
  expect_refused(run_command({"plan", "deepseek-v3", "--chart", "bytes"}), HasSubstr("--svg"));
  expect_refused(run_command({"plan", "deepseek-v3", "--svg", folder.path()}),
                 HasSubstr("--svg " + folder.path() + " is a folder"));
  expect_refused(run_command({"plan", "deepseek-v3", "--svg", picture, "--html", picture}),
                 HasSubstr("which is --html's file"));
  expect_refused(run_command({"plan", "deepseek-v3", "--html", "/nowhere/x.html"}),
                 HasSubstr("/nowhere"));
  expect_refused(run_command({"plan", "no-such-model", "--html", folder.path() + "/x.html"}),
                 HasSubstr("no-such-model"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(PlanDeployment, ThreeArticlesAreRecomputed) {
  const json figures = json_of({"plan", "--reproduce"});
  EXPECT_EQ(figures.at("schema"), 1);
  EXPECT_THAT(run_command({"plan", "--reproduce"}).out,
              AllOf(HasSubstr("DIFFERS"), HasSubstr("56.889"), HasSubstr("295.3")));
  expect_refused(run_command({"plan", "deepseek-v3", "--reproduce"}),
                 HasSubstr("--reproduce is given with --model deepseek-v3; allowed: alone"));
  for (const std::string option : {"--html", "--svg", "--gpu", "--engine", "--tp"}) {
    expect_refused(run_command({"plan", "--reproduce", option, "x"}),
                   HasSubstr("--reproduce is given with " + option + " x"));
  }
}

}  // namespace
}  // namespace emblema
