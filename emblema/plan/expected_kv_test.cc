// The configs of 106 public models (test/configs), each from its own spelling to the bytes that one
// sequence takes, against test/golden/expected_kv.tsv, whose head says what the columns mean.
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "emblema/geometry/model_geometry.h"
#include "emblema/plan/capacity_plan.h"

namespace emblema {
namespace {

struct Row {
  std::string config;
  std::uint64_t growing = 0;
  std::uint64_t fixed = 0;
  std::uint64_t conv_numbers = 0;
  std::uint64_t recurrent_numbers = 0;
  std::uint64_t state = 0;
  std::uint64_t at_8192 = 0;
  std::uint64_t at_131072 = 0;
  std::string growing_tp8;  // "-": 8 ranks cannot share its heads out
};

std::vector<Row> expected_rows() {
  std::vector<Row> rows;
  std::ifstream file(EMBLEMA_SOURCE_DIR "/test/golden/expected_kv.tsv");
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#' || line.starts_with("config\t")) continue;
    std::istringstream fields(line);
    Row row;
    fields >> row.config >> row.growing >> row.fixed >> row.conv_numbers >> row.recurrent_numbers >>
        row.state >> row.at_8192 >> row.at_131072 >> row.growing_tp8;
    EXPECT_TRUE(fields) << line;
    rows.push_back(row);
  }
  return rows;
}

struct StateNumbers {
  std::uint64_t conv = 0;
  std::uint64_t recurrent = 0;  // DeepSeek-V4's compressor rows too
};

StateNumbers state_numbers(const ModelGeometry& geometry) {
  StateNumbers numbers;
  for (const LayerGeometry& layer : geometry.layers()) {
    for (const Stream& stream : layer.streams) {
      if (stream.retention != Retention::kFixed) continue;
      for (const EntryRegion& region : stream.regions) {
        std::uint64_t& sum = region.name == "conv" ? numbers.conv : numbers.recurrent;
        sum += region.elements * stream.retention_tokens;
      }
    }
  }
  return numbers;
}

void check_row(const Row& row) {
  const auto model = load_model_config(EMBLEMA_SOURCE_DIR "/test/configs/" + row.config + ".json");
  ASSERT_TRUE(model) << model.error().describe();
  const auto plan = plan_capacity(*model, {.at_tokens = {8192, 131'072}});
  ASSERT_TRUE(plan) << plan.error().describe();
  const RankCapacity& rank = plan->ranks.front();
  EXPECT_EQ(rank.growing_bytes_per_token, Rational(row.growing));
  EXPECT_EQ(rank.fixed_bytes_per_sequence, row.fixed);
  EXPECT_EQ(rank.state_bytes_per_sequence, row.state);
  EXPECT_EQ(rank.at[0].payload_bytes, row.at_8192);
  EXPECT_EQ(rank.at[1].payload_bytes, row.at_131072);
  EXPECT_GE(rank.at[1].allocated_bytes, row.at_131072 + row.state);
  const StateNumbers numbers = state_numbers(ModelGeometry::from(*model).value());
  EXPECT_EQ(numbers.conv, row.conv_numbers);
  EXPECT_EQ(numbers.recurrent, row.recurrent_numbers);
}

TEST(ExpectedKv, EveryPublicConfigGivesItsBytes) {
  const std::vector<Row> rows = expected_rows();
  ASSERT_EQ(rows.size(), 106u);
  for (const Row& row : rows) {
    SCOPED_TRACE(row.config);
    check_row(row);
  }
}

void check_row_of_8_ranks(const Row& row) {
  const auto model = load_model_config(EMBLEMA_SOURCE_DIR "/test/configs/" + row.config + ".json");
  ASSERT_TRUE(model) << model.error().describe();
  const auto plan = plan_capacity(*model, {.parallel = {.tensor = 8}});
  if (row.growing_tp8 == "-") {
    ASSERT_FALSE(plan) << "8 ranks cannot share out these heads";
    EXPECT_EQ(plan.error().code, ErrorCode::Invalid);
    EXPECT_NE(plan.error().message.find("tensor_parallel is 8; allowed: "), std::string::npos)
        << plan.error().message;
    return;
  }
  ASSERT_TRUE(plan) << plan.error().describe();
  EXPECT_EQ(plan->ranks.front().growing_bytes_per_token.exact(), row.growing_tp8);
}

TEST(ExpectedKv, EachOf8TensorRanksHoldsItsShareOrTheirNumberIsRefused) {
  for (const Row& row : expected_rows()) {
    SCOPED_TRACE(row.config);
    check_row_of_8_ranks(row);
  }
}

TEST(ExpectedKv, EveryConfigOfTheFolderHasARow) {
  std::size_t configs = 0;
  for (const auto& file : std::filesystem::directory_iterator(EMBLEMA_SOURCE_DIR "/test/configs")) {
    configs += file.path().extension() == ".json";
  }
  EXPECT_EQ(configs, expected_rows().size());
}

}  // namespace
}  // namespace emblema
