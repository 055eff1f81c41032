// Sizes and addresses of other engines' pages, against published figures.
#include "emblema/layout/profile.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/layout/block_layout.h"
#include "test/model_samples.h"

namespace emblema {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Result<ModelLayout> try_profile(const ModelConfig& model, Profile profile,
                                GeometryOptions options) {
  const auto geometry = ModelGeometry::from(model, options);
  if (!geometry) return propagate(geometry);
  return ModelLayout::with_profile(*geometry, profile);
}

GeometryOptions options_for(Profile profile) {
  GeometryOptions options;
  options.kv_dtype = defaults_of(profile).kv_dtype;
  options.block_tokens = defaults_of(profile).block_tokens;
  return options;
}

ModelLayout with_indexer(const ModelConfig& model, Profile profile, IndexerDtype indexer) {
  GeometryOptions options = options_for(profile);
  options.indexer_dtype = indexer;
  auto layout = try_profile(model, profile, options);
  EXPECT_TRUE(layout) << layout.error().describe();
  return *layout;
}

ModelLayout profile_layout(const ModelConfig& model, Profile profile) {
  auto layout = try_profile(model, profile, options_for(profile));
  EXPECT_TRUE(layout) << layout.error().describe();
  return *layout;
}

const RowRegion& region(const StreamPage& page, const std::string& name) {
  for (const RowRegion& one : page.regions) {
    if (one.name == name) return one;
  }
  ADD_FAILURE() << "no region " << name;
  return page.regions.front();
}

std::uint64_t offset_of(const StreamPage& page, const std::string& name, std::uint64_t row) {
  return region_offset_bytes(page, region(page, name), row);
}

void expect_refused(const Result<ModelLayout>& layout, const std::string& message) {
  ASSERT_FALSE(layout);
  EXPECT_EQ(layout.error().code, ErrorCode::Unsupported);
  EXPECT_THAT(layout.error().message, AllOf(HasSubstr(message), HasSubstr("allowed")));
  EXPECT_EQ(layout.error().message.find('\n'), std::string::npos);
}

TEST(FlashMlaProfile, PagesAre64RowsOf576) {
  const ModelLayout layout = profile_layout(samples::deepseek_v3(), Profile::kFlashMla);
  const BlockLayout& block = layout.groups.at(0);
  EXPECT_EQ(block.block_tokens, 64u);
  EXPECT_EQ(block.block_bytes, 61u * 73'728);
  const StreamPage& page = block.pages.at(1);
  EXPECT_EQ(page.page_bytes, 64u * 576 * 2);
  EXPECT_EQ(page.offset_bytes, 73'728u);
  EXPECT_EQ(offset_of(page, "c_kv", 63), 63u * 1152);
  EXPECT_EQ(offset_of(page, "k_rope", 63), 63u * 1152 + 1024);
}

TEST(FlashMlaProfile, RefusesOtherPagesTypesAndWidths) {
  GeometryOptions options;
  options.block_tokens = 128;
  expect_refused(try_profile(samples::deepseek_v3(), Profile::kFlashMla, options),
                 "block_tokens of group 'growing' is 128; allowed with profile flashmla: 64");
  expect_refused(
      try_profile(samples::deepseek_v3(), Profile::kFlashMla, {.kv_dtype = KvDtype::kFp32}),
      "512 x fp32 + 64 x fp32; allowed: latents of 512 + 64 in bf16 or fp16");
  ModelConfig narrow = samples::deepseek_v3();
  narrow.kv_lora_rank = 256;
  expect_refused(try_profile(narrow, Profile::kFlashMla, {}), "256 x bf16 + 64 x bf16");
  expect_refused(try_profile(samples::llama_3_70b(), Profile::kFlashMla, {}), "kv entries");
  EXPECT_TRUE(
      try_profile(samples::deepseek_v3(), Profile::kFlashMla, {.kv_dtype = KvDtype::kFp16}));
}

TEST(Fp8DsMlaProfile, RowsOf656InterleavedBytes) {
  const ModelLayout layout = profile_layout(samples::deepseek_v3(), Profile::kFp8DsMla);
  const StreamPage& page = layout.groups.at(0).pages.at(0);
  EXPECT_EQ(page.page_bytes, 41'984u);
  // Token 5 of page 1 where pages lie back to back, as in vLLM's tensor of one layer.
  EXPECT_EQ(page.page_bytes + offset_of(page, "c_kv", 5), 45'264u);
  EXPECT_EQ(offset_of(page, "c_kv_scale", 5) - offset_of(page, "c_kv", 5) + 4, 516u);  // scale 1
  EXPECT_EQ(offset_of(page, "k_rope", 5) - offset_of(page, "c_kv", 5) + 6, 534u);      // element 3
}

TEST(Fp8DsMlaProfile, IndexKeysLieInPlanarPagesOf8448) {
  // vLLM's sum over DeepSeek-V3.2's pages for 64 tokens: 61 x (41,984 + 8,448).
  const ModelLayout layout = profile_layout(samples::deepseek_v3_2(), Profile::kFp8DsMla);
  EXPECT_EQ(layout.groups.at(0).block_bytes, 3'076'352u);
  const StreamPage& page = *layout.groups.at(0).find(0, StreamRole::kIndexer);
  EXPECT_EQ(page.page_bytes, 8448u);
  EXPECT_EQ(offset_of(page, "key", 5) + 7, 647u);
  EXPECT_EQ(offset_of(page, "key_scale", 5), 8212u);
}

TEST(V4Profile, AnEntrysScalesLieBehindAllEntries) {
  const ModelLayout layout = profile_layout(samples::deepseek_v4_flash(), Profile::kV4);
  const StreamPage& page = *layout.groups.at(0).find(2, StreamRole::kCompressed);
  ASSERT_EQ(page.rows, 64u);
  EXPECT_EQ(page.row_bytes, 584u);
  EXPECT_EQ(page.page_bytes, 37'440u);
  EXPECT_EQ(offset_of(page, "nope", 5) + 130, 3010u);
  EXPECT_EQ(offset_of(page, "rope", 5) + 6, 3334u);
  EXPECT_EQ(offset_of(page, "rope", 5), 5u * 576 + 448);
  EXPECT_EQ(offset_of(page, "nope_scale", 0), 36'864u);
  EXPECT_EQ(offset_of(page, "nope_scale", 5) + 2, 36'906u);  // of dimension 130
  EXPECT_EQ(offset_of(page, "pad", 63), 37'375u);            // the last byte before the padding
}

TEST(V4Profile, PageSizesOfVllmAndSglang) {
  const auto page_bytes = [](Profile profile, IndexerDtype indexer, std::uint32_t layer,
                             StreamRole role) {
    const ModelLayout layout = with_indexer(samples::deepseek_v4_flash(), profile, indexer);
    return layout.groups.at(0).find(layer, role)->page_bytes;
  };
  const auto compressed = StreamRole::kCompressed;
  const auto indexer = StreamRole::kIndexer;
  for (const Profile profile : {Profile::kV4, Profile::kV4Sglang}) {
    EXPECT_EQ(page_bytes(profile, IndexerDtype::kFp8, 2, compressed), 37'440u);  // CSA
    EXPECT_EQ(page_bytes(profile, IndexerDtype::kFp8, 3, compressed), 1728u);    // HCA
  }
  EXPECT_EQ(page_bytes(Profile::kV4, IndexerDtype::kFp8, 2, indexer), 8640u);
  EXPECT_EQ(page_bytes(Profile::kV4, IndexerDtype::kMxfp4, 2, indexer), 4608u);
  EXPECT_EQ(page_bytes(Profile::kV4Sglang, IndexerDtype::kFp8, 2, indexer), 8448u);
  EXPECT_EQ(page_bytes(Profile::kV4Sglang, IndexerDtype::kMxfp4, 2, indexer), 4352u);
}

TEST(V4Profile, PageOf256EntriesAsSglangsWindows) {
  GeometryOptions options = options_for(Profile::kV4);
  options.block_tokens = 1024;  // 256 CSA entries
  const auto layout = try_profile(samples::deepseek_v4_flash(), Profile::kV4, options);
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->groups.at(0).find(2, StreamRole::kCompressed)->page_bytes, 149'760u);
}

TEST(V4Profile, BlocksOf256TokensTakeWhatVllmAndSglangPublish) {
  const auto block_bytes = [](const ModelConfig& model, Profile profile, IndexerDtype indexer) {
    const ModelLayout layout = with_indexer(model, profile, indexer);
    EXPECT_EQ(layout.groups.at(0).block_tokens, 256u);
    return layout.groups.at(0).block_bytes;
  };
  const auto flash = samples::deepseek_v4_flash();
  const auto pro = samples::deepseek_v4_pro();
  EXPECT_EQ(block_bytes(flash, Profile::kV4, IndexerDtype::kFp8), 1'002'240u);
  EXPECT_EQ(block_bytes(flash, Profile::kV4, IndexerDtype::kMxfp4), 917'568u);
  EXPECT_EQ(block_bytes(pro, Profile::kV4, IndexerDtype::kFp8), 1'435'968u);
  EXPECT_EQ(block_bytes(pro, Profile::kV4, IndexerDtype::kMxfp4), 1'315'008u);  // vLLM PR 48993
  // A page of SGLang's HiCache without windows and state.
  EXPECT_EQ(block_bytes(flash, Profile::kV4Sglang, IndexerDtype::kFp8), 998'208u);
}

TEST(V4Profile, FlashMlaOnBlackwellCanReadEveryBlock) {
  // It wants block distances, and so page offsets, in multiples of 576 bytes.
  const ModelLayout layout = profile_layout(samples::deepseek_v4_pro(), Profile::kV4);
  EXPECT_EQ(layout.groups.at(0).block_bytes % 576, 0u);
  for (const StreamPage& page : layout.groups.at(0).pages) {
    EXPECT_EQ(page.offset_bytes % 64, 0u);
    EXPECT_EQ(page.page_bytes % 576, 0u);
  }
}

TEST(V4Profile, WindowsArePlanarInTheArena) {
  // 128 rows of 584 bytes, rounded up to 576: two of vLLM's window pages of 64.
  const ModelLayout layout = profile_layout(samples::deepseek_v4_flash(), Profile::kV4);
  EXPECT_EQ(layout.arena.slot_bytes - layout.arena.state_bytes, 43u * 2 * 37'440);
  EXPECT_EQ(layout.arena.state_bytes, 12'206'080u);
  EXPECT_EQ(layout.arena.window_row_bytes, 43u * 584);
}

TEST(V4Profile, RefusesWhatIsNoV4) {
  GeometryOptions options = options_for(Profile::kV4);
  expect_refused(try_profile(samples::deepseek_v3(), Profile::kV4, options),
                 "no layout for the latent entries of layer 0");
  options.kv_dtype = KvDtype::kBf16;
  expect_refused(try_profile(samples::deepseek_v4_flash(), Profile::kV4, options),
                 "compressed entries of layer 2, 448 x bf16 + 64 x bf16");
  options.kv_dtype = KvDtype::kFp8DsMla;
  options.indexer_dtype = IndexerDtype::kBf16;
  expect_refused(try_profile(samples::deepseek_v4_flash(), Profile::kV4, options), "128 x bf16");
}

TEST(GgmlProfile, EveryBlockHasItsScaleInFront) {
  const ModelLayout layout = profile_layout(samples::llama_3_70b(), Profile::kGgml);
  const StreamPage& page = layout.groups.at(0).pages.at(0);
  EXPECT_EQ(page.row_bytes, 2u * 1024 / 32 * 34);
  const RowRegion& v = region(page, "v");
  EXPECT_EQ(v.run_elements, 32u);
  EXPECT_EQ(v.run_stride_bytes, 34u);
  EXPECT_EQ(offset_of(page, "k_scale", 0), 0u);
  EXPECT_EQ(offset_of(page, "k", 0), 2u);
  EXPECT_EQ(offset_of(page, "v_scale", 1), page.row_bytes + 1088);
  auto q4 = try_profile(samples::deepseek_v3(), Profile::kGgml, {.kv_dtype = KvDtype::kQ4_0});
  ASSERT_TRUE(q4);
  EXPECT_EQ(q4->groups.at(0).pages.at(0).row_bytes, 576u / 32 * 18);
  expect_refused(try_profile(samples::llama_3_70b(), Profile::kGgml, {}), "1024 x bf16");
}

TEST(TokenHeadProfile, ScalesFollowEachHeadsKeysAndValues) {
  const ModelLayout layout = profile_layout(samples::llama_3_70b(), Profile::kTokenHead);
  const StreamPage& page = layout.groups.at(0).pages.at(0);
  EXPECT_EQ(page.page_bytes, 33'792u);  // vLLM: 16 tokens, 8 heads of 128
  EXPECT_EQ(offset_of(page, "k", 1), 2112u);
  EXPECT_EQ(offset_of(page, "k_scale", 0), 128u);
  EXPECT_EQ(offset_of(page, "v", 0), 132u);
  EXPECT_EQ(offset_of(page, "v_scale", 0), 260u);
  EXPECT_EQ(region(page, "k").run_stride_bytes, 264u);
  ModelConfig odd = samples::llama_3_70b();
  for (LayerFacts& layer : odd.layers) layer.head_dim = 126;
  expect_refused(try_profile(odd, Profile::kTokenHead, options_for(Profile::kTokenHead)),
                 "multiples of 4");
}

// Every byte of a page belongs to one number or to the padding at its end.
TEST(Profiles, RegionsNeitherOverlapNorLeaveGaps) {
  struct Case {
    ModelConfig model;
    Profile profile;
  };
  const std::vector<Case> cases = {{samples::deepseek_v3(), Profile::kFlashMla},
                                   {samples::deepseek_v3_2(), Profile::kFp8DsMla},
                                   {samples::deepseek_v4_flash(), Profile::kV4},
                                   {samples::deepseek_v4_pro(), Profile::kV4Sglang},
                                   {samples::deepseek_v3(), Profile::kGgml},
                                   {samples::gpt_oss_120b(), Profile::kGgml},
                                   {samples::gpt_oss_120b(), Profile::kTokenHead},
                                   {samples::deepseek_v4_flash(), Profile::kNative}};
  for (const Case& one : cases) {
    const ModelLayout layout = profile_layout(one.model, one.profile);
    for (const BlockLayout& group : layout.groups) {
      for (std::size_t i = 0; i < std::min<std::size_t>(group.pages.size(), 8); ++i) {
        const StreamPage& page = group.pages[i];
        std::vector<int> owners(page.page_bytes, 0);
        for (const RowRegion& part : page.regions) {
          const std::uint64_t run = part.run_elements == 0 ? part.elements : part.run_elements;
          const std::uint64_t run_bytes = run * bits_per_element(part.encoding) / 8;
          for (std::uint64_t row = 0; row < page.rows; ++row) {
            for (std::uint64_t first = 0; first < part.elements; first += run) {
              const std::uint64_t begin =
                  region_offset_bytes(page, part, row) + first / run * part.run_stride_bytes;
              for (std::uint64_t b = 0; b < run_bytes; ++b) ++owners.at(begin + b);
            }
          }
        }
        const std::uint64_t used = page.rows * page.row_bytes;
        for (std::uint64_t b = 0; b < page.page_bytes; ++b) {
          ASSERT_EQ(owners[b], b < used ? 1 : 0)
              << to_string(one.profile) << " " << to_string(page.role) << " byte " << b;
        }
      }
    }
  }
}

TEST(Profiles, HaveNamesThatReadBack) {
  std::set<std::string> names;
  for (int number = 1; number <= 7; ++number) {
    const auto profile = static_cast<Profile>(number);
    names.emplace(to_string(profile));
    EXPECT_EQ(parse_profile(to_string(profile)).value(), profile);
  }
  EXPECT_EQ(names.size(), 7u);
  const auto unknown = parse_profile("flash-mla");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::Invalid);
  EXPECT_EQ(unknown.error().message,
            "profile is 'flash-mla'; allowed: native, flashmla, fp8_ds_mla, v4, v4_sglang, ggml, "
            "token_head");
}

TEST(Profiles, ChangeTheFingerprintOfALayout) {
  const auto geometry = ModelGeometry::from(samples::deepseek_v3());
  const ModelLayout native = ModelLayout::native(*geometry).value();
  const ModelLayout flashmla = ModelLayout::with_profile(*geometry, Profile::kFlashMla).value();
  EXPECT_EQ(native.fingerprint, geometry->fingerprint());
  EXPECT_NE(flashmla.fingerprint, native.fingerprint);
  EXPECT_FALSE(flashmla.fingerprint.is_none());
}

}  // namespace
}  // namespace emblema
