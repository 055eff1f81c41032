// `--profile`: the byte maps of other engines, in words, as JSON and in plans.
#include <string>

#include "apps/cli/command_testing.h"

namespace emblema {
namespace {

using command_testing::expect_refused;
using command_testing::json_of;
using command_testing::run_command;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

TEST(LayoutProfile, PlanarPagesTellTheirTwoSegments) {
  const auto ran = run_command({"layout", "deepseek-v4-flash", "--profile", "v4"});
  EXPECT_THAT(ran.out, AllOf(HasSubstr("profile v4"), HasSubstr("block of 256 tokens"),
                             HasSubstr("37,440 B page of 64 rows x 584 B + 64 B padding: planar"),
                             HasSubstr("from 0, 576 B a row: [0,448) nope 448 x fp8_e4m3, "
                                       "[448,576) rope 64 x bf16"),
                             HasSubstr("from 36,864, 8 B a row: [0,7) nope_scale 7 x ue8m0"),
                             HasSubstr("4,608 B page of 64 rows x 68 B")));
}

TEST(LayoutProfile, JsonGivesAddressesOfEverySegment) {
  const json layout =
      json_of({"layout", "deepseek-v4-flash", "--profile", "v4", "--indexer-dtype", "fp8"});
  EXPECT_EQ(layout.at("profile"), "v4");
  EXPECT_EQ(layout.at("kv_dtype"), "fp8_ds_mla");
  const json& group = layout.at("groups").at(0);
  EXPECT_EQ(group.at("block_bytes"), 1'002'240);
  const json& page = group.at("pages").at(0);
  EXPECT_EQ(page.at("segments"), json::parse(R"([{"offset_bytes": 0, "row_bytes": 576},
                                                 {"offset_bytes": 36864, "row_bytes": 8}])"));
  EXPECT_EQ(page.at("regions").at(2).at("name"), "nope_scale");
  EXPECT_EQ(page.at("regions").at(2).at("segment"), 1);
  EXPECT_EQ(page.at("regions").at(2).at("offset_bytes"), 0);
  // A page of whole rows is one segment.
  const json native = json_of({"layout", "deepseek-v3"}).at("groups").at(0).at("pages").at(0);
  EXPECT_EQ(native.at("segments"), json::parse(R"([{"offset_bytes": 0, "row_bytes": 1152}])"));
}

TEST(LayoutProfile, RunsBesideTheirScalesAreTold) {
  const auto ran = run_command({"layout", "llama-3-8b", "--profile", "ggml"});
  EXPECT_THAT(ran.out, AllOf(HasSubstr("kv dtype q8_0, profile ggml"),
                             HasSubstr("[2,34) k 32 x int8 and 31 more, every 34 B")));
  const json page = json_of({"layout", "llama-3-8b", "--profile", "token_head"})
                        .at("groups")
                        .at(0)
                        .at("pages")
                        .at(0);
  EXPECT_EQ(page.at("page_bytes"), 33'792);
  EXPECT_EQ(page.at("regions").at(2).at("run_elements"), 128);
  EXPECT_EQ(page.at("regions").at(2).at("run_stride_bytes"), 264);
}

TEST(LayoutProfile, WhatDoesNotFitIsOneLineThatSaysWhatWould) {
  expect_refused(run_command({"layout", "llama-3-8b", "--profile", "flashmla"}),
                 AllOf(HasSubstr("llama-3-8b: profile flashmla has no layout for the kv entries"),
                       HasSubstr("allowed: latents of 512 + 64 in bf16 or fp16")));
  expect_refused(
      run_command({"layout", "deepseek-v3", "--profile", "flashmla", "--block-tokens", "128"}),
      HasSubstr("block_tokens of group 'growing' is 128; allowed with profile flashmla: 64"));
  expect_refused(run_command({"layout", "deepseek-v3", "--profile", "v5"}),
                 HasSubstr("--profile is 'v5'; allowed: native, flashmla, fp8_ds_mla, v4"));
  expect_refused(run_command({"run", "--profile", "flashmla"}),
                 HasSubstr("--profile is 'flashmla'; allowed: native"));
}

TEST(LayoutProfile, PlansSayPayloadAndWhatTheProfileAllocates) {
  // Payload 21 x (584 + 68) / 4 + 20 x 584 / 128 a token; a block of 256 tokens is 917,568 bytes
  // with padding, and the slot holds 43 planar windows and the state of the compressors.
  const json rank =
      json_of({"plan", "deepseek-v4-flash", "--profile", "v4", "--at", "256"}).at("ranks").at(0);
  EXPECT_EQ(rank.at("growing_bytes_per_token"), 3514.25);
  EXPECT_EQ(rank.at("allocated_bytes_per_sequence").at("256"),
            917'568 + 43 * 2 * 37'440 + 12'206'080);
  const auto native = run_command({"plan", "deepseek-v3", "--profile", "flashmla"});
  EXPECT_THAT(native.out, HasSubstr("profile flashmla"));
}

}  // namespace
}  // namespace emblema
