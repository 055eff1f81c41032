// emblema run, as a user types it: a small model from a file, so that each run takes a moment.
#include <sys/stat.h>

#include "apps/cli/command_testing.h"

namespace emblema::command_testing {
namespace {

using testing::HasSubstr;

const char* const kTiny = R"({"model_type": "deepseek_v2", "num_hidden_layers": 2,
  "hidden_size": 64, "num_attention_heads": 4, "kv_lora_rank": 32, "qk_rope_head_dim": 16,
  "qk_nope_head_dim": 16, "v_head_dim": 16, "q_lora_rank": null, "rope_theta": 10000,
  "max_position_embeddings": 4096, "rms_norm_eps": 1e-6})";

class RunCommand : public testing::Test {
 protected:
  std::vector<std::string> command(std::vector<std::string> more) const {
    std::vector<std::string> all = {"run", model_,     "--html", page_,       "--agents",
                                    "3",   "--decode", "2",      "--threads", "1"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::string page() const {
    std::ifstream file(page_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  Folder folder_;
  std::string model_ = folder_.write("config.json", kTiny);
  std::string page_ = folder_.path() + "/page.html";
};

TEST_F(RunCommand, PrintsATableAndWritesOnePage) {
  const Ran ran = run_command(command({"--document", "200"}));
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  EXPECT_THAT(ran.out, HasSubstr("copies of the document"));
  EXPECT_THAT(ran.out, HasSubstr("checks passed."));
  EXPECT_THAT(page(), HasSubstr("</html>"));
  EXPECT_THAT(page(), HasSubstr("<svg"));
  const std::string html = page();
  for (std::size_t at = html.find("://"); at != std::string::npos; at = html.find("://", at + 1)) {
    EXPECT_EQ(html.substr(at, 14), "://www.w3.org/") << "nothing is fetched";
  }
}

TEST_F(RunCommand, AnswersInTheDocumentedJson) {
  const auto json = json_of(command({"--document", "200"}));
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["ok"], true);
  // 2 x 4 heads x 16 against 32 + 16 numbers a token.
  EXPECT_DOUBLE_EQ(json["ratio_to_mha"].get<double>(), 128.0 / 48.0);
  EXPECT_DOUBLE_EQ(json["ratio_to_gqa8"].get<double>(), 256.0 / 48.0);
  ASSERT_EQ(json["ways"].size(), 3u);
  const std::vector<std::string> names = {"unshared", "prefix", "segment"};
  const std::vector<int> copies = {3, 3, 1};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto& way = json["ways"][i];
    EXPECT_EQ(way["name"], names[i]);
    EXPECT_EQ(way["document_copies"], copies[i]);
    EXPECT_EQ(way["collisions"], 0);
    EXPECT_GT(way["logical_bytes"].get<std::uint64_t>(),
              way["physical_bytes"].get<std::uint64_t>());
    EXPECT_GT(way["tokens_per_second"].get<double>(), 0);
    EXPECT_LT(way["max_relative_difference"].get<double>(), 0.016);
    EXPECT_TRUE(way["hit_tokens"].contains("prefix"));
    EXPECT_TRUE(way["shared_blocks"].contains("content"));
  }
  EXPECT_EQ(json["ways"][2]["hit_tokens"]["segment"], 2 * 200);
}

TEST_F(RunCommand, ReadsADocumentFromAFile) {
  const std::string document = folder_.write("document.txt", std::string(180, 'x'));
  const auto json = json_of(command({"--document", document}));
  EXPECT_EQ(json["document_tokens"], 180) << "its bytes are its tokens";
}

TEST_F(RunCommand, RefusesBeforeAnyWork) {
  expect_refused(run_command(command({"--document", "0"})), HasSubstr("--document is 0"));
  expect_refused(run_command(command({"--document", folder_.path()})),
                 HasSubstr("is a folder or a device"));
  expect_refused(run_command(command({"--document", folder_.write("empty", "")})),
                 HasSubstr("has 0 bytes; allowed: 1 to 1048576"));
  expect_refused(run_command(command({"--document", "/no/such/file"})),
                 HasSubstr("/no/such/file: No such file"));
  expect_refused(run_command(command({"--layers", "3"})), HasSubstr("layers is 3"));
  expect_refused(run_command(command({"--kv-dtype", "fp8"})), HasSubstr("fp8"));
  expect_refused(run_command(command({"--seed", "-1"})), HasSubstr("--seed is '-1'"));
  expect_refused(run_command(command({"--pool", "1KiB"})), HasSubstr("bytes"));
  expect_refused(run_command({"run", model_, "--agents", "0"}), HasSubstr("--agents is 0"));
  expect_refused(run_command({"run", "deepseek-v4-pro"}), HasSubstr("not yet run"));
}

TEST_F(RunCommand, APageThatCannotBeWrittenIsSaidAtOnce) {
  expect_refused(run_command({"run", model_, "--html", "/no/such/folder/page.html"}),
                 HasSubstr("--html /no/such/folder/page.html cannot be written"));
  expect_refused(run_command({"run", model_, "--html", folder_.path()}),
                 HasSubstr("is a folder or a device"));
}

TEST_F(RunCommand, APipeThatNobodyServesIsRefusedAtOnce) {
  const std::string pipe = folder_.path() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_refused(run_command(command({"--document", pipe})), HasSubstr("or a device"));
  expect_refused(run_command({"run", model_, "--html", pipe}), HasSubstr("or a device"));
}

TEST_F(RunCommand, AFullDiskLeavesTheOldPageAsItWas) {
  folder_.write("page.html", "kept");
  std::filesystem::create_symlink("/dev/full", page_ + ".partial");
  const Ran ran = run_command(command({"--document", "100"}));
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_THAT(ran.err, HasSubstr("cannot be written: No space left on device"));
  EXPECT_EQ(page(), "kept");
}

TEST_F(RunCommand, ASmallPoolIsAnsweredWithWhatWouldDo) {
  expect_refused(run_command(command({"--document", "500", "--pool", "64KiB"})),
                 testing::AllOf(HasSubstr("pool of 65536 bytes"), HasSubstr("are enough")));
}

TEST_F(RunCommand, ARefusedRunLeavesNoPageAndKeepsAnOldOne) {
  expect_refused(run_command(command({"--pool", "1KiB"})), HasSubstr("bytes"));
  EXPECT_FALSE(std::filesystem::exists(page_));
  folder_.write("page.html", "kept");
  expect_refused(run_command(command({"--pool", "1KiB"})), HasSubstr("bytes"));
  EXPECT_EQ(page(), "kept");
}

}  // namespace
}  // namespace emblema::command_testing
