// emblema bench, as a user types it. What it measures is never judged here.
#include <set>

#include "apps/cli/command_testing.h"

namespace emblema::command_testing {
namespace {

using testing::HasSubstr;

std::set<std::string> keys_of(const nlohmann::json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

void expect_documented(const nlohmann::json& json, std::size_t results) {
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(keys_of(json), (std::set<std::string>{"schema", "machine", "results", "notes"}));
  EXPECT_EQ(keys_of(json["machine"]),
            (std::set<std::string>{"isa", "threads", "read_bytes_per_second", "fma_flop_per_second",
                                   "amx_flop_per_second"}));
  EXPECT_FALSE(json["machine"]["isa"].get<std::string>().empty());
  ASSERT_EQ(json["results"].size(), results);
  for (const auto& result : json["results"]) {
    EXPECT_EQ(keys_of(result), (std::set<std::string>{"name",
                                                      "isa",
                                                      "threads",
                                                      "seconds",
                                                      "flop_per_second",
                                                      "bytes_per_second",
                                                      "operations_per_second",
                                                      "fraction_of_bound",
                                                      "bound",
                                                      "versus",
                                                      "blocks",
                                                      "lock_held_p50_seconds",
                                                      "lock_held_p99_seconds",
                                                      "lock_held_max_seconds",
                                                      "context_tokens",
                                                      "query_tokens",
                                                      "cold_bytes",
                                                      "read_bytes_per_second",
                                                      "form",
                                                      "tokens_per_second",
                                                      "other_form_tokens_per_second"}));
    EXPECT_GT(result["seconds"].get<double>(), 0);
  }
}

TEST(BenchCommand, TheManagerAnswersInTheDocumentedJson) {
  const auto json = json_of({"bench", "manager", "--blocks", "1000", "--rounds", "1"});
  expect_documented(json, 1);
  const auto& life = json["results"][0];
  EXPECT_EQ(life["name"], "manager: life of a block");
  EXPECT_EQ(life["blocks"], 1000);
  // Look-up, take, commit, release and evict: five operations in that time.
  EXPECT_NEAR(life["operations_per_second"].get<double>() * life["seconds"].get<double>(), 5, 1e-6);
  EXPECT_GT(life["lock_held_p99_seconds"].get<double>(), 0);
  EXPECT_GE(life["lock_held_max_seconds"], life["lock_held_p99_seconds"]);
}

TEST(BenchCommand, SeveralPoolsAreComparedWithTheSmallest) {
  const auto json =
      json_of({"bench", "manager", "--blocks", "9000,2000", "--rounds", "1", "--threads", "2"});
  expect_documented(json, 3);
  EXPECT_EQ(json["results"][0]["blocks"], 2000);
  EXPECT_EQ(json["results"][0]["threads"], 2);
  EXPECT_GT(json["results"][1]["versus"]["smallest_pool"].get<double>(), 0);
  EXPECT_EQ(json["results"][2]["name"], "manager: look-up of 128k tokens");
}

TEST(BenchCommand, HashingIsComparedWithTheMachine) {
  const auto json = json_of({"bench", "hash", "--blocks", "1", "--rounds", "1"});
  expect_documented(json, 3);
  EXPECT_GT(json["machine"]["read_bytes_per_second"].get<double>(), 0);
  const auto& results = json["results"];
  const double h = results[0]["bytes_per_second"];
  const double m = results[1]["bytes_per_second"];
  const double share = results[2]["bytes_per_second"];
  EXPECT_EQ(results[2]["bound"], "1/(1/h + 1/m)");
  EXPECT_NEAR(results[2]["fraction_of_bound"], share * (1 / h + 1 / m), 1e-6);
}

// Small enough for a test: what is compared is oneDNN's result with ours, not their speed.
std::vector<std::string> small_attention(std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {"bench", "attention", "--context", "128",      "--prefill",
                                        "8",     "--caches",  "1MiB",      "--rounds", "1"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(BenchCommand, AttentionIsComparedWithTheMachineAndWithMatrixProducts) {
  const auto json = json_of(small_attention());
  expect_documented(json, 10);
  EXPECT_GT(json["machine"]["read_bytes_per_second"].get<double>(), 0);
  EXPECT_GT(json["machine"]["fma_flop_per_second"].get<double>(), 0);
  EXPECT_FALSE(json["notes"].empty());
  std::set<std::string> names;
  for (const auto& result : json["results"]) {
    names.insert(result["name"].get<std::string>());
    // What is not finite is null, and no number.
    for (const char* key : {"flop_per_second", "bytes_per_second", "fraction_of_bound",
                            "read_bytes_per_second", "context_tokens", "query_tokens"}) {
      EXPECT_GT(result[key].get<double>(), 0) << result["name"] << " " << key;
    }
    EXPECT_GT(result["versus"]["gemm"].get<double>(), 0);
    EXPECT_FALSE(result["bound"].get<std::string>().empty());
  }
  EXPECT_EQ(names.size(), 10u);
}

// FLOP and bytes by hand: 2 x 128 x (2 x 512 + 64) for each token, in rows of 1,152 bytes.
TEST(BenchCommand, AttentionCountsWhatQueriesSee) {
  const auto json = json_of(small_attention({"--case", "latent128,queries4,shared4,grouped"}));
  expect_documented(json, 4);
  const auto expect_work = [&json](std::size_t index, double flop, double bytes) {
    const auto& result = json["results"][index];
    const double seconds = result["seconds"];
    EXPECT_NEAR(result["flop_per_second"].get<double>() * seconds, flop, 1);
    EXPECT_NEAR(result["bytes_per_second"].get<double>() * seconds, bytes, 1);
  };
  constexpr double kPair = 2.0 * 128 * 1088;
  expect_work(0, 128 * kPair, 128 * 1152);
  expect_work(1, (128 + 127 + 126 + 125) * kPair, 128 * 1152);
  expect_work(2, 4 * 128 * kPair, (64 + 4 * 64) * 1152);  // one page of 64 is shared
  expect_work(3, 512 * 2.0 * 64 * 256, 512 * 4096);
}

TEST(BenchCommand, PrefillIsCountedInTheFormThatTakesFewerOperations) {
  const auto json = json_of(small_attention({"--case", "prefill-cached", "--isa", "scalar"}));
  expect_documented(json, 1);
  const auto& result = json["results"][0];
  EXPECT_EQ(result["isa"], "scalar");
  EXPECT_EQ(result["context_tokens"], 40);
  EXPECT_EQ(result["query_tokens"], 8);
  // 8 tokens over 32: 292 pairs. Absorbed, with queries and results turned: 292 x 128 x 2,176 +
  // 8 x 2 x 128 x 512 x 256 = 350 M; expanded: 292 x 128 x 640 + 40 x 2 x 128 x 512 x 256 = 1.37 G.
  EXPECT_EQ(result["form"], "absorbed");
  EXPECT_NEAR(result["flop_per_second"].get<double>() * result["seconds"].get<double>(),
              292.0 * 128 * 2176, 1);
  EXPECT_NEAR(result["tokens_per_second"].get<double>() * result["seconds"].get<double>(), 8, 1e-6);
  EXPECT_GT(result["other_form_tokens_per_second"].get<double>(), 0);
  EXPECT_GT(result["versus"]["expanded"].get<double>(), 0);
}

TEST(BenchCommand, SeveralThreadsAreComparedWithOne) {
  const auto json = json_of(small_attention({"--case", "latent16", "--threads", "2"}));
  expect_documented(json, 1);
  EXPECT_EQ(json["machine"]["threads"], 2);
  EXPECT_EQ(json["results"][0]["threads"], 2);
  EXPECT_GT(json["results"][0]["versus"]["one_thread"].get<double>(), 0);
}

TEST(BenchCommand, AttentionPrintsATable) {
  const Ran ran = run_command(small_attention({"--case", "latent128,contiguous,fp8"}));
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_EQ(ran.err, "");
  EXPECT_THAT(ran.out, HasSubstr("attention: latent, 16 heads, fp8_ds_mla"));
  EXPECT_THAT(ran.out, HasSubstr(" x contiguous"));
  EXPECT_THAT(ran.out, HasSubstr("This machine: "));
  EXPECT_THAT(ran.out, HasSubstr("oneDNN "));
}

TEST(BenchCommand, PrintsATable) {
  const Ran ran = run_command({"bench", "manager", "--blocks", "1000", "--rounds", "1"});
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_EQ(ran.err, "");
  EXPECT_THAT(ran.out, HasSubstr("M operations/s"));
}

TEST(BenchCommand, RefusesBeforeAnyWork) {
  expect_refused(run_command({"bench", "disc"}),
                 HasSubstr("SUBJECT is 'disc'; allowed: manager, hash, attention"));
  expect_refused(run_command({"bench", "manager", "--rounds", "0"}), HasSubstr("--rounds is 0"));
  expect_refused(run_command({"bench", "manager", "--threads", "65"}),
                 HasSubstr("--threads is 65; allowed: 1 to 64"));
  expect_refused(run_command({"bench", "manager", "--blocks", "511"}),
                 HasSubstr("--blocks is 511; allowed: 512 to 100000000"));
  expect_refused(run_command({"bench", "manager", "--blocks", "1000,x"}),
                 HasSubstr("--blocks is 'x'"));
  expect_refused(run_command({"bench", "hash", "--blocks", "0"}), HasSubstr("--blocks is 0"));
  expect_refused(run_command({"bench", "--blocks", "1000"}), HasSubstr("for one SUBJECT"));
  expect_refused(run_command({"bench", "hash", "--threads", "2"}),
                 HasSubstr("--threads is 2; allowed with hash: 1"));
}

TEST(BenchCommand, RefusesAttentionsOptionsBeforeAnyWork) {
  for (const auto& [option, value] : {std::pair("--isa", "scalar"),
                                      {"--context", "1k"},
                                      {"--prefill", "8"},
                                      {"--caches", "1MiB"},
                                      {"--case", "fp8"}}) {
    expect_refused(run_command({"bench", "hash", option, value}),
                   HasSubstr(std::string(option) + " is for the SUBJECT attention"));
  }
  expect_refused(run_command({"bench", "attention", "--blocks", "1000"}),
                 HasSubstr("--blocks is for one SUBJECT; allowed: manager, or hash"));
  expect_refused(run_command({"bench", "attention", "--isa", "avx"}),
                 HasSubstr("--isa is 'avx'; allowed: scalar, avx2, avx512, amx"));
  expect_refused(run_command({"bench", "attention", "--case", "fp8,fp4"}),
                 HasSubstr("--case is 'fp4'; allowed: latent128, contiguous"));
  expect_refused(run_command({"bench", "attention", "--case", "fp8,"}),
                 HasSubstr("--case ends with a comma"));
  expect_refused(run_command({"bench", "attention", "--context", "63"}),
                 HasSubstr("--context is 63; allowed: 64 to 1048576"));
  expect_refused(run_command({"bench", "attention", "--prefill", "0"}),
                 HasSubstr("--prefill is 0; allowed: 1 to 16384"));
  expect_refused(run_command({"bench", "attention", "--caches", "much"}), HasSubstr("--caches"));
  expect_refused(run_command({"bench", "attention", "--caches", "1000TiB"}),
                 HasSubstr("a smaller --context, --prefill or --caches would fit"));
}

// Whatever this machine lacks is refused with its reason, and what it has runs.
TEST(BenchCommand, AnIsaRunsOrSaysWhyNot) {
  for (const std::string isa : {"scalar", "avx2", "avx512", "amx"}) {
    const Ran ran = run_command(small_attention({"--case", "latent16", "--isa", isa}));
    if (ran.exit_code != 0) {
      expect_refused(ran, HasSubstr("--isa is not for this machine: " + isa + ": "));
      EXPECT_NE(isa, "scalar");
    } else {
      EXPECT_THAT(ran.out, HasSubstr(" " + isa + " "));
    }
  }
}

}  // namespace
}  // namespace emblema::command_testing
