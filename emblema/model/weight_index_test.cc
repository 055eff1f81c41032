// Sizes of checkpoints from their own files.
#include "emblema/model/weight_index.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace emblema {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::optional<WeightIndex> parsed(const std::string& json) {
  const auto index = parse_weight_index(json, "index");
  EXPECT_TRUE(index) << index.error().describe() << "\n" << json;
  return index ? *index : std::nullopt;
}

std::string refusal(const std::string& json) {
  const auto index = parse_weight_index(json, "index");
  EXPECT_FALSE(index) << json;
  if (index) return "";
  EXPECT_EQ(index.error().code, ErrorCode::Invalid);
  EXPECT_EQ(index.error().message.find('\n'), std::string::npos);
  return index.error().message;
}

class WeightIndexFolder : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() /
              ("emblema_weight_index_" +
               std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }

  fs::path folder_;
};

TEST(WeightIndex, TheTotalIsANumberOrDigits) {
  for (const std::string total : {"13761264768", "\"13761264768\"", "13761264768.0"}) {
    const auto index = parsed("{\"metadata\": {\"total_size\": " + total +
                              "}, \"weight_map\": {\"a\": \"b.safetensors\"}}");
    ASSERT_TRUE(index) << total;
    EXPECT_EQ(index->total_bytes, 13'761'264'768u);
    EXPECT_FALSE(index->total_parameters);
    EXPECT_EQ(index->file, "index");
  }
  const auto both =
      parsed(R"({"metadata": {"total_parameters": 8030261248, "total_size": 16060522496}})");
  ASSERT_TRUE(both);
  EXPECT_EQ(both->total_parameters, 8'030'261'248u);
}

TEST(WeightIndex, WithoutATotalThereIsNoAnswer) {
  EXPECT_FALSE(parsed("{}"));
  EXPECT_FALSE(parsed(R"({"metadata": {}, "weight_map": {}})"));
  EXPECT_FALSE(parsed(R"({"metadata": null})"));
  EXPECT_FALSE(parsed(R"({"metadata": {"total_size": null}})"));
}

TEST(WeightIndex, BadValuesNameFileAndField) {
  const auto total = [](const std::string& value) {
    return refusal("{\"metadata\": {\"total_size\": " + value + "}}");
  };
  for (const std::string value :
       {"0", "-1", "1.5", "true", "[]", "{}", "\"\"", "\"12 GB\"", "\"-1\"", "1152921504606846977",
        "\"99999999999999999999\"", "\"0\"", "1e300"}) {
    EXPECT_THAT(total(value), HasSubstr("index: metadata.total_size is ")) << value;
    EXPECT_THAT(total(value), HasSubstr("allowed: a whole number from 1 to 1152921504606846976"))
        << value;
  }
  EXPECT_THAT(refusal(R"({"metadata": []})"), HasSubstr("metadata is a list of 0"));
  EXPECT_THAT(refusal(R"({"metadata": {"total_size": 1, "total_parameters": "x"}})"),
              HasSubstr("metadata.total_parameters is \"x\""));
  EXPECT_THAT(refusal(R"({"metadata")"), HasSubstr("index is not JSON at line 1"));
  EXPECT_THAT(refusal("[]"), HasSubstr("index is a list of 0 at its top level"));
  EXPECT_THAT(refusal(std::string(40, '[')), HasSubstr("nested deeper than 32"));
}

TEST_F(WeightIndexFolder, TheIndexBesideAConfigIsFound) {
  write("config.json", "{}");
  write("model.safetensors.index.json", R"({"metadata": {"total_size": 1000}})");
  for (const fs::path& source : {folder_, folder_ / "config.json"}) {
    const auto index = read_weight_index(source.string());
    ASSERT_TRUE(index) << index.error().describe();
    ASSERT_TRUE(*index);
    EXPECT_EQ((*index)->total_bytes, 1000u);
    EXPECT_THAT((*index)->file, HasSubstr("model.safetensors.index.json"));
  }
}

TEST_F(WeightIndexFolder, ALoneFileIsItsSizeWithoutTheHeader) {
  const std::string header = R"({"a":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]}})";
  std::string length(8, '\0');
  length[0] = static_cast<char>(header.size());
  write("model.safetensors", length + header + std::string(8, 'x'));
  const auto index = read_weight_index(folder_.string());
  ASSERT_TRUE(index) << index.error().describe();
  ASSERT_TRUE(*index);
  EXPECT_EQ((*index)->total_bytes, 8u);
}

TEST_F(WeightIndexFolder, ALoneFileThatIsNoneIsRefused) {
  write("model.safetensors", "short");
  EXPECT_THAT(read_weight_index(folder_.string()).error().message, HasSubstr("has 5 bytes"));
  write("model.safetensors", std::string(8, '\xFF') + "{}");
  const auto long_header = read_weight_index(folder_.string());
  ASSERT_FALSE(long_header);
  EXPECT_EQ(long_header.error().code, ErrorCode::Invalid);
  EXPECT_THAT(long_header.error().message,
              HasSubstr("has 18446744073709551615 bytes; allowed: up to 2"));
}

TEST_F(WeightIndexFolder, ABrokenIndexIsAnErrorAndNotAnEstimate) {
  write("model.safetensors.index.json", "{");
  const auto index = read_weight_index(folder_.string());
  ASSERT_FALSE(index);
  EXPECT_THAT(index.error().message, HasSubstr("model.safetensors.index.json is not JSON"));
  write("model.safetensors.index.json", "");
  EXPECT_THAT(read_weight_index(folder_.string()).error().message, HasSubstr("is empty"));
}

TEST_F(WeightIndexFolder, WhereNoneIsThereIsNoAnswer) {
  for (const std::string& source :
       {folder_.string(), (folder_ / "absent").string(), std::string("deepseek-v3"),
        std::string("-"), std::string(), std::string("a\0b", 3)}) {
    const auto index = read_weight_index(source);
    ASSERT_TRUE(index) << source;
    EXPECT_FALSE(*index) << source;
  }
}

}  // namespace
}  // namespace emblema
