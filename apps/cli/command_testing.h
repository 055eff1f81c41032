// Runs the built command as a user does: arguments, standard input, and what comes back.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

namespace emblema::command_testing {

struct Ran {
  int exit_code = -1;  // 128 + signal where it was killed
  std::string out;
  std::string err;
};

inline std::string rewound(std::FILE* file) {
  std::string text;
  char chunk[65536];
  std::rewind(file);
  for (std::size_t got = 0; (got = std::fread(chunk, 1, sizeof(chunk), file)) > 0;) {
    text.append(chunk, got);
  }
  return text;
}

// Standard output goes to `out_descriptor` where one is given.
inline Ran run_command(const std::vector<std::string>& arguments, const std::string& input = {},
                       std::optional<int> out_descriptor = std::nullopt) {
  std::FILE* in = std::tmpfile();
  std::FILE* out = std::tmpfile();
  std::FILE* err = std::tmpfile();
  std::fwrite(input.data(), 1, input.size(), in);
  std::rewind(in);
  std::vector<std::string> owned = {EMBLEMA_COMMAND};
  owned.insert(owned.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  argv.reserve(owned.size() + 1);
  for (std::string& argument : owned) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(::fileno(in), STDIN_FILENO);
    ::dup2(out_descriptor.value_or(::fileno(out)), STDOUT_FILENO);
    ::dup2(::fileno(err), STDERR_FILENO);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  Ran ran{WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), rewound(out),
          rewound(err)};
  for (std::FILE* file : {in, out, err}) std::fclose(file);
  return ran;
}

// The JSON of a command that must succeed.
inline nlohmann::json json_of(std::vector<std::string> arguments, const std::string& input = {}) {
  arguments.emplace_back("--json");
  const Ran ran = run_command(arguments, input);
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  auto json = nlohmann::json::parse(ran.out, nullptr, false);
  EXPECT_FALSE(json.is_discarded()) << ran.out;
  return json;
}

// Refused: exit code 2, nothing on standard output, one line on standard error.
inline void expect_refused(const Ran& ran, const testing::Matcher<std::string>& message) {
  EXPECT_EQ(ran.exit_code, 2) << ran.err;
  EXPECT_EQ(ran.out, "");
  ASSERT_FALSE(ran.err.empty());
  EXPECT_EQ(ran.err.find('\n'), ran.err.size() - 1) << ran.err;
  EXPECT_TRUE(ran.err.starts_with("emblema")) << ran.err;
  EXPECT_THAT(ran.err, message);
}

// A folder that goes away with the test.
class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "emblema-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string path() const { return path_.string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

}  // namespace emblema::command_testing
