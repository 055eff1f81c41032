// docs/planning.md and README.md show what `emblema plan` prints: each such command is run again. A
// line "..." stands for any lines.
#include <fstream>

#include "apps/cli/command_testing.h"

namespace emblema {
namespace {

using command_testing::run_command;

struct Shown {
  std::string command;
  std::vector<std::string> lines;
};

std::vector<Shown> shown_commands(const std::string& document) {
  std::vector<Shown> shown;
  std::ifstream file(EMBLEMA_SOURCE_DIR "/" + document);
  bool inside = false;
  bool is_plan = false;  // other commands' outputs are other tests' business
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("```")) {
      inside = line == "```console";
      is_plan = false;
    } else if (inside && line.starts_with("$ ")) {
      is_plan = line.starts_with("$ emblema plan ");
      if (is_plan) shown.push_back({line.substr(10), {}});
    } else if (is_plan) {
      shown.back().lines.push_back(line);
    }
  }
  return shown;
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

std::string without_trailing_spaces(std::string line) {
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

// The shown lines occur in this order; without "..." between them one right behind the other.
void expect_printed(const Shown& shown, const std::vector<std::string>& printed) {
  std::size_t at = 0;
  bool may_skip = false;
  for (const std::string& line : shown.lines) {
    if (line == "...") {
      may_skip = true;
      continue;
    }
    std::size_t found = at;
    while (may_skip && found < printed.size() && without_trailing_spaces(printed[found]) != line) {
      ++found;
    }
    ASSERT_LT(found, printed.size()) << shown.command << "\nprints no line\n" << line;
    ASSERT_EQ(without_trailing_spaces(printed[found]), line) << shown.command;
    at = found + 1;
    may_skip = false;
  }
  EXPECT_TRUE(may_skip || at == printed.size()) << shown.command << " prints more";
}

void expect_shown_is_printed(const std::string& document, std::size_t commands_min) {
  const std::vector<Shown> shown = shown_commands(document);
  ASSERT_GE(shown.size(), commands_min);
  for (const Shown& one : shown) {
    const auto ran = run_command(split(one.command, ' '));
    ASSERT_EQ(ran.exit_code, 0) << one.command << ": " << ran.err;
    expect_printed(one, split(ran.out, '\n'));
  }
}

TEST(PlanningDocument, ShowsWhatTheCommandPrints) {
  expect_shown_is_printed("docs/planning.md", 10);
}

TEST(Readme, ShowsWhatThePlanPrints) {
  expect_shown_is_printed("README.md", 1);
}

}  // namespace
}  // namespace emblema
