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

WeightIndex parsed(const std::string& json) {
  const auto index = parse_weight_index(json, "index");
  EXPECT_TRUE(index) << index.error().describe() << "\n" << json;
  return index ? *index : WeightIndex{};
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
    EXPECT_EQ(index.total_bytes, 13'761'264'768u) << total;
    EXPECT_FALSE(index.total_parameters);
    EXPECT_EQ(index.file, "index");
  }
  const auto both =
      parsed(R"({"metadata": {"total_parameters": 8030261248, "total_size": 16060522496}})");
  EXPECT_EQ(both.total_parameters, 8'030'261'248u);
}

TEST(WeightIndex, WithoutATotalTheSizeIsNotKnown) {
  for (const std::string json :
       {"{}", R"({"metadata": {}, "weight_map": {}})", R"({"metadata": null})",
        R"({"metadata": {"total_size": null}})"}) {
    EXPECT_EQ(parsed(json).total_bytes, 0u) << json;
  }
}

TEST(WeightIndex, BadValuesNameFileAndField) {
  const auto total = [](const std::string& value) {
    return refusal("{\"metadata\": {\"total_size\": " + value + "}}");
  };
  for (const std::string value : {"0",
                                  "-1",
                                  "1.5",
                                  "true",
                                  "[]",
                                  "{}",
                                  "\"\"",
                                  "\"12 GB\"",
                                  "\"-1\"",
                                  "1152921504606846977",
                                  "\"99999999999999999999\"",
                                  "\"0\"",
                                  "1e300",
                                  "\"+16\"",
                                  "\" 16\"",
                                  "\"16 \"",
                                  "\"16.0\"",
                                  "\"1e3\"",
                                  "\"0x10\"",
                                  "\"1,000\"",
                                  "\"\xD9\xA1\""}) {
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

// The eight bytes in front of a safetensors header.
std::string length_of(std::uint64_t header_bytes) {
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header_bytes >> (8 * i));
  return length;
}

std::string lone_file(const std::string& header, const std::string& tensors) {
  return length_of(header.size()) + header + tensors;
}

TEST_F(WeightIndexFolder, ALoneFileIsItsSizeWithoutTheHeader) {
  // Writers pad headers with spaces, and tensors need not be named in their order.
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[1],"data_offsets":[6,8]},)"
      R"("a":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]}}   )";
  write("model.safetensors", lone_file(header, std::string(8, 'x')));
  const auto index = read_weight_index(folder_.string());
  ASSERT_TRUE(index) << index.error().describe();
  ASSERT_TRUE(*index);
  EXPECT_EQ((*index)->total_bytes, 8u);
}

TEST_F(WeightIndexFolder, ALoneFileThatIsNoneIsRefused) {
  const auto refused = [this](const std::string& bytes) {
    write("model.safetensors", bytes);
    const auto index = read_weight_index(folder_.string());
    EXPECT_FALSE(index);
    if (index) return std::string();
    EXPECT_EQ(index.error().code, ErrorCode::Invalid);
    EXPECT_THAT(index.error().message, HasSubstr("model.safetensors"));
    EXPECT_EQ(index.error().message.find('\n'), std::string::npos);
    return index.error().message;
  };
  EXPECT_THAT(refused("short"), HasSubstr("has 5 bytes; allowed: a safetensors file"));
  EXPECT_THAT(refused(std::string(8, '\xFF') + "{}"),
              HasSubstr("has 18446744073709551615 bytes; allowed: 2 to 2"));
  EXPECT_THAT(refused(std::string(1'000'000, '\0')), HasSubstr("has 0 bytes; allowed: 2 to 999992"))
      << "a file of zeros is no checkpoint";
  EXPECT_THAT(refused(length_of(20) + std::string(100, '\0')), HasSubstr("is not JSON at line 1"));
  EXPECT_THAT(refused(lone_file("[]", "xx")), HasSubstr("is a list of 0 at its top level"));
  EXPECT_THAT(refused(lone_file(R"({"a":5})", "xx")), HasSubstr("a is 5; allowed: an object with"));
  EXPECT_THAT(refused(lone_file(R"({"a":{"data_offsets":[0]}})", "xx")),
              HasSubstr("a is an object; allowed: an object with data_offsets"));
  EXPECT_THAT(refused(lone_file("{}", "")), HasSubstr("end at 0; allowed: 0, the bytes behind it, "
                                                      "and at least 1"));
}

TEST_F(WeightIndexFolder, HalfADownloadIsNoCheckpoint) {
  const std::string header = R"({"a":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]}})";
  for (const std::size_t bytes : {0u, 7u, 9u}) {
    write("model.safetensors", lone_file(header, std::string(bytes, 'x')));
    const auto index = read_weight_index(folder_.string());
    ASSERT_FALSE(index) << bytes;
    EXPECT_THAT(index.error().message,
                HasSubstr("end at 8; allowed: " + std::to_string(bytes) + ", the bytes behind it"));
  }
}

TEST_F(WeightIndexFolder, AFolderInPlaceOfAFileIsAnError) {
  for (const std::string name : {"model.safetensors", "model.safetensors.index.json"}) {
    fs::create_directories(folder_ / name);
    const auto index = read_weight_index(folder_.string());
    ASSERT_FALSE(index) << name;
    EXPECT_EQ(index.error().code, ErrorCode::Invalid);
    EXPECT_THAT(index.error().message, HasSubstr(name + " is not a regular file; allowed"));
  }
}

TEST_F(WeightIndexFolder, AnIndexWithoutASizeIsStillNamed) {
  write("model.safetensors.index.json", R"({"weight_map": {}})");
  const auto index = read_weight_index(folder_.string());
  ASSERT_TRUE(index) << index.error().describe();
  ASSERT_TRUE(*index);
  EXPECT_EQ((*index)->total_bytes, 0u);
  EXPECT_THAT((*index)->file, HasSubstr("model.safetensors.index.json"));
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
