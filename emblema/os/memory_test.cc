#include "emblema/os/memory.h"

#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace emblema {
namespace {

using namespace literals;

TEST(MemoryRegionMap, GivesZeroedPageAlignedBytes) {
  auto region = MemoryRegion::map(3_MiB);
  ASSERT_TRUE(region) << region.error().message;
  EXPECT_EQ(region->size_bytes(), 3_MiB);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(region->data()) % 4096, 0u);
  EXPECT_EQ(region->data()[0], std::byte{0});
  EXPECT_EQ(region->data()[3_MiB - 1], std::byte{0});
  region->data()[3_MiB - 1] = std::byte{7};
}

TEST(MemoryRegionMap, MovesLeaveNothingBehind) {
  auto region = MemoryRegion::map(4096).value();
  std::byte* data = region.data();
  MemoryRegion other = std::move(region);
  EXPECT_EQ(other.data(), data);
  EXPECT_EQ(region.data(), nullptr);  // NOLINT(bugprone-use-after-move): that is the point
  EXPECT_TRUE(MemoryRegion::map(0)->data() == nullptr);
}

TEST(MemoryRegionMap, ARefusedMappingNamesItsSize) {
  const auto region = MemoryRegion::map(UINT64_C(1) << 62);
  ASSERT_FALSE(region);
  EXPECT_EQ(region.error().code, ErrorCode::Io);
  EXPECT_THAT(region.error().message, testing::HasSubstr("4611686018427387904"));
}

TEST(AvailableMemory, IsKnownOnLinux) {
  EXPECT_GT(available_memory_bytes(), 1_MiB);
}

}  // namespace
}  // namespace emblema
