// Byte offsets beyond 2^31 and 2^32, and slot ids beyond 2^31 / 576 (where an index times a row's
// width leaves 32 bits), in the rows of DeepSeek models. Only the pages that hold rows take memory.
#include <cstring>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "emblema/kernels/attention_truth_testing.h"
#include "emblema/os/memory.h"

namespace emblema {
namespace {

using namespace testing_support;

constexpr std::uint64_t kBlockRows = 64;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

// Blocks on both sides of the borders that 32-bit arithmetic has, the region's last at the end.
std::vector<std::uint32_t> far_blocks(std::uint64_t block_bytes, std::uint64_t region_bytes) {
  const auto block_of_slot = [](std::uint64_t slot) {
    return static_cast<std::uint32_t>(slot / kBlockRows);
  };
  return {block_of_slot(2 * kGiB / 576) + 1, static_cast<std::uint32_t>(2 * kGiB / block_bytes),
          block_of_slot(4 * kGiB / 576) + 1, static_cast<std::uint32_t>(4 * kGiB / block_bytes),
          static_cast<std::uint32_t>(region_bytes / block_bytes) - 1};
}

void expect_read_far_away(const AttentionShape& shape, const Storage& storage) {
  AttentionCase call(shape, storage, kBlockRows, 5);
  call.add_plain_sequence(5 * kBlockRows - 3, 2);
  const Truth truth = truth_of(call);
  PagedRows& rows = call.inputs.rows;
  const std::uint64_t region_bytes = 4 * kGiB / 576 * rows.row_bytes + 100 * rows.block_bytes;
  Result<MemoryRegion> region = MemoryRegion::map(std::max(region_bytes, 5 * kGiB));
  ASSERT_TRUE(region) << region.error().describe();
  const std::vector<std::uint32_t> blocks = far_blocks(rows.block_bytes, region->size_bytes());
  Span span = call.sequences[0].spans[0];
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    std::memcpy(region->data() + blocks[i] * rows.block_bytes,
                rows.base + span.blocks[i] * rows.block_bytes, rows.block_bytes);
  }
  rows.base = region->data();
  rows.block_count = region->size_bytes() / rows.block_bytes;
  span.blocks = blocks;
  call.sequences[0].spans = {&span, 1};
  for (const Isa isa : runnable_isas()) {
    call.options.isa = isa;
    ASSERT_TRUE(call.decode());
    expect_near_truth(call, isa, truth, storage.name() + " far away");
  }
}

TEST(FarRows, OfBf16LatentsAreReadWhereTheyAre) {
  expect_read_far_away(latent_shape(3, 512, 64), Encoding::kBf16);
}

TEST(FarRows, Of656BytesAreReadWhereTheyAre) {
  expect_read_far_away(latent_shape(3, 512, 64), RowFormat::kFp8DsMla);
}

TEST(FarRows, Of584BytesAreReadWhereTheyAre) {
  expect_read_far_away(latent_shape(3, 512, 0), RowFormat::kDeepSeekV4);
}

}  // namespace
}  // namespace emblema
