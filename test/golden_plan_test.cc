// What `emblema plan --json` said of ten presets when its figures were last checked by hand
// (test/golden/plan/README.md): every key of a golden file, with its value.
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apps/cli/command_line.h"

namespace emblema {
namespace {

using Json = nlohmann::json;

const std::filesystem::path kFolder = EMBLEMA_SOURCE_DIR "/test/golden/plan";

// The first words of the lines are the models.
std::vector<std::vector<std::string>> commands() {
  std::vector<std::vector<std::string>> commands;
  std::ifstream file(kFolder / "commands.txt");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    std::vector<std::string> command = {"plan"};
    for (std::string word; words >> word;) command.push_back(word);
    for (const char* word :
         {"--json", "--pool", "40GiB", "--context", "32k", "--at", "1,8k,128k"}) {
      command.emplace_back(word);
    }
    commands.push_back(command);
  }
  return commands;
}

void expect_contains(const Json& actual, const Json& golden, const std::string& path) {
  if (golden.is_object() && actual.is_object()) {
    for (const auto& [key, value] : golden.items()) {
      ASSERT_TRUE(actual.contains(key)) << path << "/" << key << " is gone";
      expect_contains(actual[key], value, path + "/" + key);
    }
  } else if (golden.is_array() && actual.is_array()) {
    ASSERT_EQ(actual.size(), golden.size()) << path;
    for (std::size_t i = 0; i < golden.size(); ++i) {
      expect_contains(actual[i], golden[i], path + "/" + std::to_string(i));
    }
  } else {
    EXPECT_EQ(actual, golden) << path;
  }
}

TEST(GoldenPlan, EveryFigureIsAsItWasChecked) {
  const auto all = commands();
  ASSERT_EQ(all.size(), 10u);
  for (const std::vector<std::string>& command : all) {
    SCOPED_TRACE(command[1]);
    std::ifstream file(kFolder / (command[1] + ".json"));
    const Json golden = Json::parse(file, nullptr, false);
    ASSERT_FALSE(golden.is_discarded());
    const Reply reply = reply_to(command);
    ASSERT_EQ(reply.exit_code, kExitDone) << reply.complaint;
    expect_contains(Json::parse(reply.output), golden, "");
  }
}

TEST(GoldenPlan, EveryFileIsTheAnswerToACommand) {
  std::set<std::string> models;
  for (const auto& command : commands()) models.insert(command[1]);
  for (const auto& file : std::filesystem::directory_iterator(kFolder)) {
    if (file.path().extension() != ".json") continue;
    EXPECT_EQ(models.erase(file.path().stem().string()), 1u) << file.path();
  }
  EXPECT_TRUE(models.empty());
}

}  // namespace
}  // namespace emblema
