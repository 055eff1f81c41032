// What kernels read of the layouts that models have: formats by their byte maps, which
// emblema/layout/profile_test.cc holds against the engines they come from.
#include "emblema/layout/paged_rows.h"

#include <gtest/gtest.h>

#include "emblema/layout/block_layout.h"
#include "test/model_samples.h"

namespace emblema {
namespace {

StreamPage page_of(const ModelConfig& model, KvDtype dtype, Profile profile, std::uint32_t layer,
                   StreamRole role) {
  GeometryOptions options;
  options.kv_dtype = dtype;
  options.block_tokens = defaults_of(profile).block_tokens;
  const auto geometry = ModelGeometry::from(model, options).value();
  const auto layout = ModelLayout::with_profile(geometry, profile).value();
  for (const BlockLayout& group : layout.groups) {
    if (const StreamPage* page = group.find(layer, role)) return *page;
  }
  ADD_FAILURE() << "no such page";
  return {};
}

TEST(PagedRows, LatentsInEveryReadableType) {
  const ModelConfig model = samples::deepseek_v3();
  for (const auto& [dtype, encoding, row_bytes] :
       {std::tuple{KvDtype::kBf16, Encoding::kBf16, 1152U},
        std::tuple{KvDtype::kFp16, Encoding::kFp16, 1152U},
        std::tuple{KvDtype::kFp32, Encoding::kFp32, 2304U},
        std::tuple{KvDtype::kFp8, Encoding::kFp8E4m3, 576U}}) {
    const auto rows =
        paged_rows_of(page_of(model, dtype, Profile::kNative, 0, StreamRole::kLatent));
    ASSERT_TRUE(rows) << to_string(dtype);
    EXPECT_EQ(rows->format, RowFormat::kPlain);
    EXPECT_EQ(rows->encoding, encoding);
    EXPECT_EQ(rows->row_bytes, row_bytes);
    EXPECT_EQ(rows->block_rows, 64U);
  }
  for (const Profile profile : {Profile::kNative, Profile::kFp8DsMla}) {
    const auto rows =
        paged_rows_of(page_of(model, KvDtype::kFp8DsMla, profile, 0, StreamRole::kLatent));
    ASSERT_TRUE(rows);
    EXPECT_EQ(rows->format, RowFormat::kFp8DsMla);
    EXPECT_EQ(rows->row_bytes, 656U);
  }
  EXPECT_FALSE(
      paged_rows_of(page_of(model, KvDtype::kFp8Rope16, Profile::kNative, 0, StreamRole::kLatent)))
      << "two encodings without scales are no format that a kernel reads";
}

TEST(PagedRows, DeepSeekV4EntriesHaveTheirScalesBehindTheRows) {
  const auto rows = paged_rows_of(page_of(samples::deepseek_v4_flash(), KvDtype::kFp8DsMla,
                                          Profile::kV4, 2, StreamRole::kCompressed));
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->format, RowFormat::kDeepSeekV4);
  EXPECT_EQ(rows->row_bytes, 576U);
  EXPECT_EQ(rows->block_rows, 64U);
  EXPECT_EQ(rows->scales_offset, 64U * 576U);
}

TEST(PagedRows, GroupedRowsArePlainAndThoseWithScalesBetweenAreNot) {
  const ModelConfig model = samples::llama_3_70b();
  const auto rows =
      paged_rows_of(page_of(model, KvDtype::kFp8, Profile::kNative, 0, StreamRole::kKv));
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->encoding, Encoding::kFp8E4m3);
  EXPECT_EQ(rows->row_bytes, 2048U);
  for (const KvDtype dtype : {KvDtype::kInt8PerTokenHead, KvDtype::kQ8_0, KvDtype::kQ4_0}) {
    EXPECT_FALSE(paged_rows_of(page_of(model, dtype, Profile::kNative, 0, StreamRole::kKv)))
        << to_string(dtype);
  }
}

}  // namespace
}  // namespace emblema
