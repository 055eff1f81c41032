// Whatever is wrong: one line on standard error that says what and what is allowed, exit code 2,
// nothing on standard output.
#include "apps/cli/command_testing.h"

namespace emblema {
namespace {

using command_testing::expect_refused;
using command_testing::Folder;
using command_testing::run_command;
using testing::AllOf;
using testing::HasSubstr;

void expect_config_refused(const std::string& config, const std::string& message) {
  for (const char* command : {"plan", "layout"}) {
    expect_refused(run_command({command, "-", "--json"}, config), HasSubstr(message));
    expect_refused(run_command({command, "-"}, config), HasSubstr(message));
  }
}

std::string llama_with(const std::string& fields) {
  return R"({"model_type": "llama", "hidden_size": 64, )" + fields + "}";
}

TEST(BadConfig, SaysWhichFieldAndWhatIsAllowed) {
  expect_config_refused("", "standard input is empty");
  expect_config_refused("{\"model_type\": ", "standard input");
  expect_config_refused("[1, 2]", "object");
  expect_config_refused(std::string(100'000, '[') + std::string(100'000, ']'), "32");
  expect_config_refused(
      llama_with(R"("num_attention_heads": 4, "num_hidden_layers": 1)" + std::string(30, '0')),
      "num_hidden_layers");
  expect_config_refused(llama_with(R"("num_attention_heads": 0, "num_hidden_layers": 2)"),
                        "num_attention_heads");
  expect_config_refused(llama_with(R"("num_attention_heads": -4, "num_hidden_layers": 2)"),
                        "num_attention_heads");
  expect_config_refused(
      llama_with(R"("num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 3)"),
      "num_key_value_heads");
}

TEST(BadModel, MissingFileFolderAndName) {
  const Folder folder;
  expect_refused(run_command({"plan", folder.path() + "/absent.json"}), HasSubstr("absent.json"));
  expect_refused(run_command({"layout", folder.path()}), HasSubstr("without a config.json"));
  expect_refused(run_command({"plan", "deepseek-v33"}),
                 AllOf(HasSubstr("deepseek-v33"), HasSubstr("deepseek-v3")));
  expect_refused(run_command({"plan"}), HasSubstr("no model"));
  expect_refused(run_command({"layout", "a", "b"}), HasSubstr("more than once"));
  expect_refused(run_command({"layout", "a", "--at", "5"}), HasSubstr("unknown option --at"));
  expect_refused(run_command({"plan", "line\nbreak\x1b[31m"}), HasSubstr("neither a preset"));
}

TEST(BadModel, WhatCannotBeReadIsNamed) {
  const Folder folder;
  std::filesystem::create_symlink("loop", folder.path() + "/loop");
  expect_refused(run_command({"plan", folder.path() + "/loop"}), HasSubstr("loop"));
  expect_refused(run_command({"plan", folder.path() + "/" + std::string(300, 'n')}),
                 HasSubstr("too long"));
  std::filesystem::create_directory(folder.path() + "/config.json");
  expect_refused(run_command({"plan", folder.path()}), HasSubstr("not a regular file"));
  if (::geteuid() != 0) {  // root reads everything
    const std::string file = folder.write("closed.json", "{}");
    std::filesystem::permissions(file, std::filesystem::perms::none);
    expect_refused(run_command({"plan", file}), HasSubstr("closed.json"));
  }
}

TEST(BadOption, ValueIsNamedWithWhatIsAllowed) {
  const auto refused = [](std::vector<std::string> options, const std::string& message) {
    options.insert(options.begin(), {"plan", "deepseek-v3"});
    expect_refused(run_command(options), HasSubstr(message));
    options.emplace_back("--json");
    expect_refused(run_command(options), HasSubstr(message));
  };
  refused({"--at", "0"}, "--at is 0; allowed: 1 to 1099511627776");
  refused({"--at", "-1"}, "'-1' is not a number of tokens");
  refused({"--at=-1"}, "'-1' is not a number of tokens");
  refused({"--at", "abc"}, "'abc' is not a number of tokens");
  refused({"--at", ""}, "--at is empty");
  refused({"--at="}, "--at is empty");
  refused({"--at", "1,,2"}, "'' is not a number of tokens");
  refused({"--at", "1" + std::string(30, '0')}, "is not a number of tokens");
  refused({"--at", "1", "--at", "2"}, "--at is given more than once");
  refused({"--context", "0"}, "--context is 0");
  refused({"--sequences", "0"}, "--sequences is 0");
  refused({"--sequences", "1.5"}, "--sequences is '1.5'");
  refused({"--step-tokens", "x"}, "--step-tokens");
  refused({"--block-tokens", "0"}, "--block-tokens is 0");
  refused({"--block-tokens", "65"}, "multiples of 64");
  refused({"--layers", "0"}, "--layers is 0");
  refused({"--layers", "62"}, "1 to 61");
  refused({"--kv-dtype", "fp9"}, "'fp9'; allowed: bf16");
  refused({"--kv-dtype", "int8_per_token_head"}, "int8_per_token_head");
  refused({"--indexer-dtype", "fp8"}, "caches no index keys");
  refused({"--state-dtype", "bf16"}, "keeps no recurrent state");
  refused({"--state-dtype", "int8"}, "state dtype is 'int8'; allowed: fp32, bf16, fp16");
  refused({"--encoder-tokens", "0"}, "--encoder-tokens is 0; allowed: 1 to");
  refused({"--encoder-tokens", "x"}, "'x' is not a number of tokens");
  refused({"--encoder-tokens", "7"}, "has no cross-attention");
  refused({"--speculative", "eagle"}, "--speculative is 'eagle'; allowed: mtp");
  refused({"--profile", "flashmla2"}, "--profile is 'flashmla2'; allowed: native, flashmla");
  refused({"--profile", "v4"}, "profile v4 has no layout for the latent entries of layer 0");
  refused({"--profile", "ggml", "--kv-dtype", "bf16"}, "allowed: keys and values, or latents, in");
  refused({"--pool", "lots"}, "'lots'");
  refused({"--pool", "1B"}, "allowed: at least 4497408");
  refused({"--per-layer=yes"}, "takes no value");
}

TEST(BadOption, NameIsAnsweredWithTheNearest) {
  expect_refused(run_command({"plan", "deepseek-v3", "--kv-dtyp", "bf16"}),
                 HasSubstr("unknown option --kv-dtyp; nearest: --kv-dtype"));
  expect_refused(run_command({"plan", "deepseek-v3", "--zzzzzz"}),
                 HasSubstr("unknown option --zzzzzz; allowed: --help"));
  expect_refused(run_command({"plan", "deepseek-v3", "-x"}), HasSubstr("unknown option -x"));
  expect_refused(run_command({"plan", "deepseek-v3", "--pool"}), HasSubstr("--pool needs a value"));
  expect_refused(run_command({"models", "extra"}), HasSubstr("unexpected argument 'extra'"));
}

TEST(BadOption, OptionsOfLaterReleasesAreRefusedByName) {
  for (const std::string option : {"--persist", "--disk", "--tier-host"}) {
    expect_refused(run_command({"run", option, "8"}),
                   HasSubstr(option + " is not in this release"));
    expect_refused(run_command({"run", option + "=8"}),
                   HasSubstr(option + " is not in this release"));
  }
}

TEST(BadCommand, IsAnsweredWithTheNearest) {
  expect_refused(run_command({"plam"}), HasSubstr("unknown command 'plam'; nearest: plan"));
  expect_refused(run_command({"qqqqqq"}), HasSubstr("allowed: run plan"));
  expect_refused(run_command({"--versoin"}), HasSubstr("nearest: --version"));
  expect_refused(run_command({"help", "nothing"}), HasSubstr("unknown command 'nothing'"));
  expect_refused(run_command({"completion", "csh"}), HasSubstr("allowed: bash, zsh, fish"));
}

TEST(BadOutput, FullDiskAndClosedPipeAreNotSilent) {
  std::FILE* full = std::fopen("/dev/full", "w");
  ASSERT_NE(full, nullptr);
  int ends[2] = {};
  ASSERT_EQ(::pipe(ends), 0);
  ::close(ends[0]);
  for (const int descriptor : {::fileno(full), ends[1]}) {
    for (const auto& arguments :
         std::vector<std::vector<std::string>>{{"models"},
                                               {"plan", "deepseek-v3", "--json"},
                                               {"--version"},
                                               {"plan", "--help"},
                                               {}}) {
      const auto ran = run_command(arguments, {}, descriptor);
      EXPECT_EQ(ran.exit_code, 1);
      EXPECT_THAT(ran.err, HasSubstr("standard output cannot be written"));
      EXPECT_EQ(ran.err.find('\n'), ran.err.size() - 1);
    }
  }
  ::close(ends[1]);
  std::fclose(full);
}

}  // namespace
}  // namespace emblema
