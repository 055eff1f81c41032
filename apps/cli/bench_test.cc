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
  EXPECT_EQ(keys_of(json), (std::set<std::string>{"schema", "machine", "results"}));
  EXPECT_EQ(keys_of(json["machine"]),
            (std::set<std::string>{"isa", "threads", "read_bytes_per_second", "fma_flop_per_second",
                                   "amx_flop_per_second"}));
  EXPECT_FALSE(json["machine"]["isa"].get<std::string>().empty());
  ASSERT_EQ(json["results"].size(), results);
  for (const auto& result : json["results"]) {
    EXPECT_EQ(keys_of(result),
              (std::set<std::string>{
                  "name", "isa", "threads", "seconds", "flop_per_second", "bytes_per_second",
                  "operations_per_second", "fraction_of_bound", "bound", "versus", "blocks",
                  "lock_held_p50_seconds", "lock_held_p99_seconds", "lock_held_max_seconds"}));
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

TEST(BenchCommand, PrintsATable) {
  const Ran ran = run_command({"bench", "manager", "--blocks", "1000", "--rounds", "1"});
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_EQ(ran.err, "");
  EXPECT_THAT(ran.out, HasSubstr("M operations/s"));
}

TEST(BenchCommand, RefusesBeforeAnyWork) {
  expect_refused(run_command({"bench", "disc"}),
                 HasSubstr("SUBJECT is 'disc'; allowed: manager, hash"));
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

}  // namespace
}  // namespace emblema::command_testing
