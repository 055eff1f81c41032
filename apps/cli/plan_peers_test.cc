// `emblema plan --engine` and `--compare`: what is asked of another engine, and in whose words.
#include "apps/cli/command_testing.h"

namespace emblema {
namespace {

using namespace command_testing;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

json engine_of(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "plan");
  return json_of(std::move(arguments)).at("engines").at(0);
}

TEST(PlanPeers, AnEngineIsAskedInItsOwnWords) {
  // vLLM 073c510c, run on its own planner: Llama-3.1-8B in 20 GiB, 36,408 blocks of nvfp4.
  const json nvfp4 = engine_of({"llama-3.1-8b", "--engine", "vllm", "--engine-kv-dtype", "nvfp4",
                                "--pool", "20GiB", "--context", "128k"});
  EXPECT_EQ(nvfp4.at("kv_cache_dtype"), "nvfp4");
  EXPECT_EQ(nvfp4.at("blocks"), 36'408);
  EXPECT_EQ(nvfp4.at("log").back(),
            "GPU KV cache size: 582,528 tokens, Maximum concurrency for 131,072 tokens per "
            "request: 4.44x");
  // 8 heads of 128 + 128 e4m3 numbers and a scale byte for 32, 32 layers.
  const json mxfp8 =
      engine_of({"llama-3.1-8b", "--compare", "sglang", "--engine-kv-dtype", "mxfp8"});
  EXPECT_EQ(mxfp8.at("growing_bytes_per_token"), 32 * (8 * 256 + 8 * 256 / 32));
  expect_refused(
      run_command({"plan", "llama-3.1-8b", "--engine", "vllm", "--engine-kv-dtype", "fp7"}),
      AllOf(HasSubstr("vLLM"), HasSubstr("kv cache dtype is 'fp7'; allowed: auto, float16")));
}

TEST(PlanPeers, AWordForNobodyIsRefused) {
  expect_refused(run_command({"plan", "llama-3.1-8b", "--engine-kv-dtype", "nvfp4"}),
                 HasSubstr("--engine-kv-dtype is 'nvfp4' without an engine to read it; allowed"));
}

TEST(PlanPeers, ADtypeThatTheEngineLacksNamesTheOption) {
  expect_refused(
      run_command({"plan", "llama-3.1-8b", "--engine", "vllm", "--kv-dtype", "q8_0"}),
      AllOf(HasSubstr("--kv-dtype is q8_0, for which vLLM"),
            HasSubstr("allowed with it: bf16, fp16, fp8, "), HasSubstr("--engine-kv-dtype")));
  const json row =
      engine_of({"llama-3.1-8b", "--compare", "sglang", "--kv-dtype", "int8_per_token_head"});
  EXPECT_THAT(row.at("refusal").get<std::string>(),
              AllOf(HasSubstr("--kv-dtype is int8_per_token_head, for which SGLang"),
                    Not(HasSubstr("fp8_per_token_head"))));
}

TEST(PlanPeers, TheInterleaveReachesTheEngine) {
  expect_refused(run_command({"plan", "deepseek-v3", "--engine", "vllm", "--tp", "8", "--dcp", "8",
                              "--dcp-interleave", "32"}),
                 HasSubstr("interleave is 32; allowed: divisors of block size 16"));
}

}  // namespace
}  // namespace emblema
