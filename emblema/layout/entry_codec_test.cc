// Golden bytes of every profile. They were worked out by a separate program in NumPy that searches
// the nearest code in double and places bytes by the published offsets; the digest covers the page.
#include "emblema/layout/entry_codec.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/contract/ids.h"
#include "test/model_samples.h"

namespace emblema {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using Bytes = std::vector<std::byte>;

StreamPage page_in(const ModelConfig& model, Profile profile, GeometryOptions options,
                   std::uint32_t layer, StreamRole role) {
  if (options.block_tokens == 0) options.block_tokens = defaults_of(profile).block_tokens;
  const auto geometry = ModelGeometry::from(model, options);
  EXPECT_TRUE(geometry) << geometry.error().describe();
  const auto layout = ModelLayout::with_profile(*geometry, profile);
  EXPECT_TRUE(layout) << layout.error().describe();
  const StreamPage* page = layout->groups.at(0).find(layer, role);
  EXPECT_NE(page, nullptr);
  return *page;
}

StreamPage v4_page(Profile profile, IndexerDtype indexer, StreamRole role) {
  return page_in(samples::deepseek_v4_flash(), profile,
                 {.kv_dtype = KvDtype::kFp8DsMla, .indexer_dtype = indexer}, 2, role);
}

// Two KV heads, keys of 64, values of 32.
StreamPage grouped_page(Profile profile, KvDtype dtype) {
  ModelConfig model = samples::grouped("small", 1, 2, 2, 64);
  model.layers[0].v_head_dim = 32;
  return page_in(model, profile, {.kv_dtype = dtype}, 0, StreamRole::kKv);
}

// Multiples of 1/16 up to 9.375: exact in bf16.
std::vector<float> numbers_of_row(std::uint64_t count, std::uint64_t row) {
  std::vector<float> numbers(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto step = static_cast<float>((i * 37 + row * 11) % 101) - 50.0F;
    numbers[i] = step / 16.0F * static_cast<float>(1 + (i / 32) % 3);
  }
  return numbers;
}

EntryCodec codec_of(const StreamPage& page, const EntryCodecOptions& options = {}) {
  auto codec = EntryCodec::from(page, options);
  EXPECT_TRUE(codec) << codec.error().describe();
  return *codec;
}

Bytes page_with_rows(const StreamPage& page, const std::vector<std::uint64_t>& rows,
                     const EntryCodecOptions& options = {}) {
  const EntryCodec codec = codec_of(page, options);
  Bytes bytes(page.page_bytes, std::byte{0});
  for (const std::uint64_t row : rows) {
    const auto ok = codec.encode(numbers_of_row(codec.row_numbers(), row), row, bytes);
    EXPECT_TRUE(ok) << ok.error().describe();
  }
  return bytes;
}

// `spots`: offset, and the bytes there. They tell where a page went wrong; the digest, whether.
void expect_golden(const Bytes& bytes, const std::string& digest,
                   const std::vector<std::pair<int, std::vector<int>>>& spots) {
  for (const auto& [offset, expected] : spots) {
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const std::size_t at = static_cast<std::size_t>(offset) + i;
      EXPECT_EQ(std::to_integer<int>(bytes.at(at)), expected[i]) << at;
    }
  }
  EXPECT_EQ(sha256(bytes).hex(), digest);
}

TEST(GoldenBytes, FlashMlaBf16) {
  const StreamPage page =
      page_in(samples::deepseek_v3(), Profile::kFlashMla, {}, 0, StreamRole::kLatent);
  expect_golden(page_with_rows(page, {0, 63}),
                "04509e16bf9c75556c83bbbec874f6fd2bedac8c35d5dc61cb2fba05a1f2f313",
                {{0, {0x48, 0xc0, 0x50, 0xbf}}, {63 * 1152 + 1024, {0x60, 0xbf, 0x70, 0x40}}});
}

TEST(GoldenBytes, Fp8DsMlaAsVllmWritesIt) {
  const StreamPage page = page_in(samples::deepseek_v3(), Profile::kFp8DsMla,
                                  {.kv_dtype = KvDtype::kFp8DsMla}, 0, StreamRole::kLatent);
  expect_golden(page_with_rows(page, {0, 5}),
                "0c90757362cd3f99ea6cf83c2eec59ad776dd1345523b7bbb1cfcb1372a881bd",
                {{5 * 656, {0x57, 0x70, 0xe8, 0x63}},
                 {5 * 656 + 512, {0xb7, 0x6d, 0xab, 0x3c}},
                 {5 * 656 + 528, {0x9c, 0xc0, 0x80, 0xbe}}});
}

TEST(GoldenBytes, Fp8DsMlaAsFlashMlaWritesIt) {
  const StreamPage page = page_in(samples::deepseek_v3(), Profile::kFp8DsMla,
                                  {.kv_dtype = KvDtype::kFp8DsMla}, 0, StreamRole::kLatent);
  expect_golden(
      page_with_rows(page, {0, 5}, {.scale_rule = kFlashMlaLatentScales}),
      "ece2a54a62ff8d0310fc0dc06cc7a835e98a53807ff4c63b1e5f6b0ba5027e79",
      {{5 * 656, {0x52, 0x6a, 0xe3, 0x5f}}, {5 * 656 + 512, {0x00, 0x00, 0x00, 0x3d}}});  // 2^-5
}

TEST(GoldenBytes, V4EntriesWithScalesInTheFooter) {
  const StreamPage page = v4_page(Profile::kV4, IndexerDtype::kFp8, StreamRole::kCompressed);
  expect_golden(page_with_rows(page, {0, 5, 63}),
                "1b3f49264c5fc527986e45bfee07f3a3bc6024a40d94f1ded24234fdad62b268",
                {{5 * 576, {0x5a, 0x72, 0xeb, 0x67}},
                 {5 * 576 + 448, {0x4c, 0x40, 0x0d, 0xc1}},
                 {36'864 + 5 * 8, {0x79, 0x7a, 0x7a, 0x79, 0x7a, 0x7a, 0x79, 0x00}}});
}

TEST(GoldenBytes, IndexKeysInFp8) {
  const std::vector<std::pair<int, std::vector<int>>> spots = {
      {5 * 128, {0x52, 0x6a, 0xe3, 0x5f}}, {8192 + 5 * 4, {0x00, 0x00, 0x00, 0x3d}}};
  const auto vllm = v4_page(Profile::kV4, IndexerDtype::kFp8, StreamRole::kIndexer);
  expect_golden(page_with_rows(vllm, {0, 5}),
                "b0d38ed5f7b9c3202948bf02261de87686cf02858faecaba815d1e2fbfae6ef0", spots);
  const auto sglang = v4_page(Profile::kV4Sglang, IndexerDtype::kFp8, StreamRole::kIndexer);
  expect_golden(page_with_rows(sglang, {0, 5}),
                "7423fecefd14bd9e5782192d179973e050ff9d27cf3ffecfa1c30fea4ff2d2c7", spots);
}

TEST(GoldenBytes, IndexKeysInMxfp4) {
  const std::vector<std::pair<int, std::vector<int>>> spots = {
      {5 * 64, {0x51, 0x2b, 0xad, 0xc3}}, {4096 + 5 * 4, {0x7f, 0x80, 0x80, 0x7f}}};
  const auto vllm = v4_page(Profile::kV4, IndexerDtype::kMxfp4, StreamRole::kIndexer);
  expect_golden(page_with_rows(vllm, {0, 5}),
                "48f16fd8ad5e83f4bc2ca1402424e03b1941513e616f06b3afedaa60d9df69bd", spots);
  const auto sglang = v4_page(Profile::kV4Sglang, IndexerDtype::kMxfp4, StreamRole::kIndexer);
  expect_golden(page_with_rows(sglang, {0, 5}),
                "8f496677d42c40a92d0dfc2eeb3aebeeb4933d13a7b1556d2f4f515bb67341f3", spots);
}

TEST(GoldenBytes, GgmlBlocks) {
  expect_golden(
      page_with_rows(grouped_page(Profile::kGgml, KvDtype::kQ8_0), {0, 15}),
      "f97f1e95d475791a9593273508118dc08192eb8416b615bb2bbd165628ed46b3",
      {{15 * 204, {0x4d, 0x26, 0x24, 0x81, 0xdf}}, {15 * 204 + 136, {0x4d, 0x2a, 0x08, 0x66}}});
  expect_golden(
      page_with_rows(grouped_page(Profile::kGgml, KvDtype::kQ4_0), {0, 15}),
      "d46b3f4d9db936845293fdefd6ae7438ec0013e95ce2bcf658540cf7d35be0a9",
      {{15 * 108, {0x40, 0x36, 0x8a, 0xe0, 0x46}}, {15 * 108 + 72, {0x40, 0xba, 0xa8, 0x42}}});
}

TEST(GoldenBytes, ScalesBehindEachHead) {
  expect_golden(
      page_with_rows(grouped_page(Profile::kTokenHead, KvDtype::kInt8PerTokenHead), {0, 15}),
      "3179a9bbb9f54e7b04273b87e7e75c0bbad94f092b2d55f6b67192dce43e386d",
      {{15 * 208, {0x12, 0xbf, 0xef, 0x1f}},
       {15 * 208 + 64, {0x16, 0x8b, 0x45, 0x3d}},
       {15 * 208 + 104, {0x93, 0xf3, 0x53, 0xad}}});
  expect_golden(
      page_with_rows(grouped_page(Profile::kTokenHead, KvDtype::kFp8PerTokenHead), {0, 15}),
      "9d97798616f15790bddcb3af05f2780a635fea36e24a3bda40886f6c0ba6a852",
      {{15 * 208, {0x68, 0xf6, 0xe7, 0x6e}},
       {15 * 208 + 64, {0x00, 0x00, 0x60, 0x3c}},
       {15 * 208 + 104, {0xfc, 0xe3, 0x79, 0xf9}}});
}

TEST(GoldenBytes, PlainFp8WithOneScalePerTensor) {
  expect_golden(page_with_rows(grouped_page(Profile::kNative, KvDtype::kFp8), {0, 15},
                               {.tensor_scales = {0.25F, 2.0F}}),
                "c655c2b5f22a6e7d370f8a5ca78ae5b32fe377b7a208932b89db064709712120",
                {{15 * 192, {0x46, 0xd4, 0xc5, 0x4c}}, {15 * 192 + 128, {0x24, 0x42, 0xbc, 0x35}}});
}

struct Case {
  std::string name;
  StreamPage page;
};

std::vector<Case> all_layouts() {
  const auto latent = [](Profile profile, KvDtype dtype) {
    return page_in(samples::deepseek_v3_2(), profile, {.kv_dtype = dtype}, 0, StreamRole::kLatent);
  };
  std::vector<Case> cases = {
      {"flashmla", latent(Profile::kFlashMla, KvDtype::kFp16)},
      {"fp8_ds_mla", latent(Profile::kFp8DsMla, KvDtype::kFp8DsMla)},
      {"native fp8_ds_mla", latent(Profile::kNative, KvDtype::kFp8DsMla)},
      {"native fp8_rope16", latent(Profile::kNative, KvDtype::kFp8Rope16)},
      {"native fp32", latent(Profile::kNative, KvDtype::kFp32)},
      {"native q4_0", latent(Profile::kNative, KvDtype::kQ4_0)},
      {"v4", v4_page(Profile::kV4, IndexerDtype::kFp8, StreamRole::kCompressed)},
      {"native v4", v4_page(Profile::kNative, IndexerDtype::kFp8, StreamRole::kCompressed)},
      {"index fp8", v4_page(Profile::kV4, IndexerDtype::kFp8, StreamRole::kIndexer)},
      {"index mxfp4", v4_page(Profile::kV4Sglang, IndexerDtype::kMxfp4, StreamRole::kIndexer)}};
  for (const KvDtype dtype : {KvDtype::kQ8_0, KvDtype::kQ4_0}) {
    cases.push_back({"ggml", grouped_page(Profile::kGgml, dtype)});
  }
  for (const KvDtype dtype : {KvDtype::kInt8PerTokenHead, KvDtype::kFp8PerTokenHead}) {
    cases.push_back({"token_head", grouped_page(Profile::kTokenHead, dtype)});
    cases.push_back({"native per token and head", grouped_page(Profile::kNative, dtype)});
  }
  return cases;
}

std::vector<float> normal_row(std::uint64_t count, std::mt19937* random) {
  std::normal_distribution<float> normal;
  std::vector<float> numbers(count);
  for (float& number : numbers) number = normal(*random);
  return numbers;
}

TEST(EntryCodec, RowsComeBackWithinTheirBoundAndAlone) {
  std::mt19937 random(11);
  for (const Case& one : all_layouts()) {
    const EntryCodec codec = codec_of(one.page);
    Bytes bytes(one.page.page_bytes, std::byte{0xa5});
    std::vector<std::vector<float>> rows;
    for (std::uint64_t row = 0; row < one.page.rows; ++row) {
      rows.push_back(normal_row(codec.row_numbers(), &random));
      ASSERT_TRUE(codec.encode(rows.back(), row, bytes)) << one.name;
    }
    // Padding behind the rows is nobody's.
    for (std::uint64_t b = one.page.rows * one.page.row_bytes; b < bytes.size(); ++b) {
      ASSERT_EQ(bytes[b], std::byte{0xa5}) << one.name;
    }
    double errors = 0;
    double squares = 0;
    for (std::uint64_t row = 0; row < one.page.rows; ++row) {
      std::vector<float> read_back(codec.row_numbers());
      ASSERT_TRUE(codec.decode(bytes, row, read_back)) << one.name;
      for (std::size_t i = 0; i < read_back.size(); ++i) {
        const double error = static_cast<double>(read_back[i]) - rows[row][i];
        errors += error * error;
        squares += static_cast<double>(rows[row][i]) * rows[row][i];
      }
    }
    // The loosest of all is MXFP4; a number in another's place would give about 1.4.
    EXPECT_LT(std::sqrt(errors / squares), 0.13) << one.name;
  }
}

TEST(EntryCodec, ReadersTakeEveryWritersScales) {
  const StreamPage page = page_in(samples::deepseek_v3(), Profile::kFp8DsMla,
                                  {.kv_dtype = KvDtype::kFp8DsMla}, 0, StreamRole::kLatent);
  const EntryCodec reader = codec_of(page);
  std::mt19937 random(12);
  const std::vector<float> row = normal_row(576, &random);
  for (const ScaleRule& rule : {kVllmLatentScales, kFlashMlaLatentScales, kIndexerPlainScales}) {
    Bytes bytes(page.page_bytes);
    ASSERT_TRUE(codec_of(page, {.scale_rule = rule}).encode(row, 7, bytes));
    std::vector<float> read_back(576);
    ASSERT_TRUE(reader.decode(bytes, 7, read_back));
    for (std::size_t i = 0; i < 512; ++i) {
      // No writer's scale is above twice 4 / 448, the tail of N(0, 1) here.
      ASSERT_NEAR(read_back[i], row[i], error_bound(Encoding::kFp8E4m3, row[i], 0.02)) << i;
    }
  }
}

TEST(EntryCodec, NativeAndGgmlHoldTheSameCodesElsewhere) {
  const StreamPage native = grouped_page(Profile::kNative, KvDtype::kQ8_0);
  const StreamPage ggml = grouped_page(Profile::kGgml, KvDtype::kQ8_0);
  const Bytes apart = page_with_rows(native, {3});
  const Bytes beside = page_with_rows(ggml, {3});
  EXPECT_NE(apart, beside);
  std::vector<float> first(192);
  std::vector<float> second(192);
  ASSERT_TRUE(codec_of(native).decode(apart, 3, first));
  ASSERT_TRUE(codec_of(ggml).decode(beside, 3, second));
  EXPECT_EQ(first, second);
}

TEST(EntryCodec, ABrokenNumberSpoilsItsBlockOnly) {
  const StreamPage page = v4_page(Profile::kV4, IndexerDtype::kFp8, StreamRole::kCompressed);
  const EntryCodec codec = codec_of(page);
  std::vector<float> row = numbers_of_row(512, 1);
  row[70] = std::numeric_limits<float>::infinity();
  Bytes bytes(page.page_bytes);
  ASSERT_TRUE(codec.encode(row, 1, bytes));
  EXPECT_EQ(bytes.at(36'864 + 8 + 1), std::byte{0xff});
  std::vector<float> read_back(512);
  ASSERT_TRUE(codec.decode(bytes, 1, read_back));
  const auto begin = read_back.begin();
  EXPECT_THAT(std::vector<float>(begin + 64, begin + 128), Each(testing::IsNan()));
  EXPECT_EQ(std::count_if(begin, read_back.end(), [](float x) { return std::isnan(x); }), 64);
}

void expect_invalid(const Status& status, const std::string& message) {
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::Invalid);
  EXPECT_THAT(status.error().message, AllOf(HasSubstr(message), HasSubstr("allowed")));
}

TEST(EntryCodec, MisuseIsRefusedBeforeAnyByteIsTouched) {
  const StreamPage page = grouped_page(Profile::kNative, KvDtype::kFp8);
  const EntryCodec codec = codec_of(page);
  std::vector<float> row(codec.row_numbers());
  Bytes bytes(page.page_bytes);
  expect_invalid(codec.encode(row, page.rows, bytes), "row is 16");
  expect_invalid(codec.decode(bytes, UINT64_MAX, row), "row is");
  Bytes longer(page.page_bytes + 1);
  expect_invalid(codec.encode(row, 0, longer), "a page of 3073 bytes; allowed: 3072");
  row.pop_back();
  expect_invalid(codec.decode(bytes, 0, row), "a row of 191 numbers; allowed: 192");
  const auto refused = [&](const EntryCodecOptions& options) {
    const auto broken = EntryCodec::from(page, options);
    ASSERT_FALSE(broken);
    EXPECT_EQ(broken.error().code, ErrorCode::Invalid);
  };
  refused({.tensor_scales = {1.0F}});
  refused({.tensor_scales = {1.0F, 0.0F}});
  refused({.tensor_scales = {-1.0F, 1.0F}});
  refused({.tensor_scales = {1.0F, std::numeric_limits<float>::quiet_NaN()}});
}

TEST(EntryCodec, Mxfp4WithoutScalesIsAWayToCountOnly) {
  const StreamPage page =
      v4_page(Profile::kNative, IndexerDtype::kMxfp4NoScale, StreamRole::kIndexer);
  const auto codec = EntryCodec::from(page);
  ASSERT_FALSE(codec);
  EXPECT_EQ(codec.error().code, ErrorCode::Unsupported);
  EXPECT_THAT(codec.error().message, HasSubstr("region 'key'"));
}

}  // namespace
}  // namespace emblema
