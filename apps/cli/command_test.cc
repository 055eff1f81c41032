// The commands besides plan: layout, models, help, version, completion, man.
#include "apps/cli/command_testing.h"

namespace emblema {
namespace {

using command_testing::Folder;
using command_testing::json_of;
using command_testing::run_command;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(Layout, EqualLayersAreToldOnce) {
  const auto ran = run_command({"layout", "deepseek-v2-lite"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.out,
              AllOf(HasSubstr("block of 64 tokens = 27 pages = 1,990,656 B"),
                    HasSubstr("layers 0..26: latent at 0 and every 73,728 on\n"
                              "    73,728 B page of 64 rows x 1,152 B: [0,1024) c_kv 512 x bf16, "
                              "[1024,1152) k_rope 64 x bf16\n")));
}

TEST(Layout, WindowsAreAGroupOfTheirOwn) {
  EXPECT_THAT(run_command({"layout", "gpt-oss-20b"}).out,
              AllOf(HasSubstr("group 'growing'"), HasSubstr("layers 1..23 step 2: kv"),
                    HasSubstr("group 'window 128'"), HasSubstr("layers 0..22 step 2: kv")));
}

TEST(Layout, ArenaOfDeepseekV4IsSaid) {
  EXPECT_THAT(run_command({"layout", "deepseek-v4-flash"}).out,
              AllOf(HasSubstr("arena: a slot of"), HasSubstr("43 layers: window of 128 rows"),
                    HasSubstr("20 layers: compressor of 128 rows")));
  EXPECT_THAT(run_command({"layout", "deepseek-v3"}).out, Not(HasSubstr("arena")));
}

TEST(Layout, PagesFollowOneAnotherWithoutGapOrOverlap) {
  for (const std::string dtype : {"bf16", "fp8_ds_mla"}) {
    const json layout = json_of({"layout", "deepseek-v3.2", "--kv-dtype", dtype});
    EXPECT_EQ(layout.at("fingerprint").get<std::string>().size(), 64u);
    const json& group = layout.at("groups").at(0);
    ASSERT_EQ(group.at("pages").size(), 2u * 61);
    std::uint64_t end = 0;
    for (const json& page : group.at("pages")) {
      EXPECT_EQ(page.at("offset_bytes"), end);
      EXPECT_EQ(end % 64, 0u);
      end += page.at("page_bytes").get<std::uint64_t>();
      EXPECT_EQ(page.at("page_bytes").get<std::uint64_t>(),
                page.at("rows").get<std::uint64_t>() * page.at("row_bytes").get<std::uint64_t>() +
                    page.at("padding_bytes").get<std::uint64_t>());
    }
    EXPECT_EQ(group.at("block_bytes"), end);
  }
  const json regions = json_of({"layout", "deepseek-v3", "--kv-dtype", "fp8_ds_mla"})
                           .at("groups")
                           .at(0)
                           .at("pages")
                           .at(0)
                           .at("regions");
  EXPECT_EQ(regions, json::parse(R"([
      {"name": "c_kv", "offset_bytes": 0, "elements": 512, "encoding": "fp8_e4m3",
       "segment": 0, "run_elements": null, "run_stride_bytes": null},
      {"name": "c_kv_scale", "offset_bytes": 512, "elements": 4, "encoding": "fp32",
       "segment": 0, "run_elements": null, "run_stride_bytes": null},
      {"name": "k_rope", "offset_bytes": 528, "elements": 64, "encoding": "bf16",
       "segment": 0, "run_elements": null, "run_stride_bytes": null}])"));
}

TEST(Layout, PaddingOfAPageIsSaid) {
  // One row of 448 fp8 + 8 scale bytes + 64 bf16 = 584 B, up to the next multiple of 64.
  EXPECT_THAT(run_command({"layout", "deepseek-v4-flash", "--kv-dtype", "fp8_ds_mla"}).out,
              HasSubstr("640 B page of 1 row x 584 B + 56 B padding: "));
}

TEST(Models, EveryPresetHasALineAndItsFigures) {
  const json models = json_of({"models"}).at("models");
  const auto text = run_command({"models"});
  EXPECT_GE(models.size(), 12u);
  for (const json& model : models) {
    EXPECT_THAT(text.out, HasSubstr(model.at("name").get<std::string>() + " "));
    EXPECT_GE(model.at("layers"), 1);
  }
  EXPECT_THAT(text.out, AllOf(HasSubstr("61 x MLA"), HasSubstr("70,272")));
}

TEST(Model, FileFolderAndStandardInputAreOneModel) {
  const Folder folder;
  const std::string config = R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64,
      "num_attention_heads": 4, "num_key_value_heads": 2})";
  const std::string file = folder.write("config.json", config);
  for (const std::string& source : {file, folder.path(), std::string("-")}) {
    const json plan = json_of({"plan", "--model", source}, config);
    EXPECT_EQ(plan.at("ranks").at(0).at("growing_bytes_per_token"), 2 * 2 * 2 * 16 * 2);
  }
  // A file that is called like an option comes after "--".
  EXPECT_EQ(run_command({"plan", "--", file}).exit_code, 0);
}

TEST(Help, EveryCommandShowsExamples) {
  const auto all = run_command({"--help"});
  EXPECT_EQ(all.exit_code, 0);
  EXPECT_EQ(run_command({}).out, all.out);
  for (const std::string command : {"plan", "layout", "models", "completion", "man"}) {
    EXPECT_THAT(all.out, HasSubstr("  " + command + " "));
    const auto help = run_command({command, "--help"});
    EXPECT_EQ(help.exit_code, 0) << command;
    EXPECT_THAT(help.out, AllOf(HasSubstr("Examples:\n"), HasSubstr("emblema " + command)));
    EXPECT_EQ(run_command({"help", command}).out, help.out);
  }
}

TEST(Version, NamesInstructionSetAndLibraries) {
  EXPECT_THAT(run_command({"--version"}).out,
              AllOf(HasSubstr("emblema 0."), HasSubstr("\nisa: "), HasSubstr("\nlibraries: ")));
}

TEST(Completion, BashOffersCommandsOptionsChoicesAndModels) {
  const Folder folder;
  const std::string script = folder.write("emblema.bash", run_command({"completion", "bash"}).out);
  const auto completed = [&](const std::string& words, int current) {
    const std::string file = folder.write(
        "ask.bash", "source " + script + "\nCOMP_WORDS=(" + words +
                        ")\nCOMP_CWORD=" + std::to_string(current) +
                        "\n_emblema\necho \" ${COMPREPLY[*]} \" > " + folder.path() + "/answer\n");
    EXPECT_EQ(std::system(("bash " + file).c_str()), 0);  // NOLINT(cert-env33-c): that is the test
    std::ifstream answer(folder.path() + "/answer");
    std::string line;
    std::getline(answer, line);
    return line;
  };
  EXPECT_EQ(completed("emblema pl", 1), " plan ");
  EXPECT_THAT(completed("emblema plan --kv", 2), HasSubstr(" --kv-dtype "));
  EXPECT_THAT(completed("emblema plan --kv-dtype fp8", 3),
              AllOf(HasSubstr(" fp8_ds_mla "), Not(HasSubstr("bf16"))));
  EXPECT_THAT(completed("emblema plan deepseek-v2", 2), HasSubstr(" deepseek-v2-lite "));
  EXPECT_EQ(completed("emblema completion z", 2), " zsh ");
}

TEST(Completion, ZshAndFishNameEveryOption) {
  for (const std::string shell : {"zsh", "fish"}) {
    const auto ran = run_command({"completion", shell});
    EXPECT_EQ(ran.exit_code, 0);
    for (const char* word : {"kv-dtype", "fp8_ds_mla", "per-layer", "deepseek-v3", "layout"}) {
      EXPECT_THAT(ran.out, HasSubstr(word)) << shell;
    }
  }
}

TEST(Man, HasEveryCommandAndOption) {
  const auto ran = run_command({"man"});
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_TRUE(ran.out.starts_with(".TH EMBLEMA 1")) << ran.out;
  for (const char* part : {".SS emblema plan\n", ".SS emblema layout\n", "\\-\\-kv\\-dtype",
                           ".SH EXIT STATUS\n", "emblema models \\-\\-json"}) {
    EXPECT_THAT(ran.out, HasSubstr(part));
  }
}

}  // namespace
}  // namespace emblema
