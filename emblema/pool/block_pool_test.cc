#include "emblema/pool/block_pool.h"

#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace emblema {
namespace {

BlockPool pool_of(std::uint64_t blocks, std::uint64_t block_bytes = 256) {
  return BlockPool::open({.region = 3, .blocks = blocks, .block_bytes = block_bytes}).value();
}

TEST(BlockPoolTake, GivesEveryBlockOnceThenNothing) {
  BlockPool pool = pool_of(5);
  std::set<std::uint32_t> seen;
  for (int i = 0; i < 5; ++i) seen.insert(pool.take()->index);
  EXPECT_EQ(seen.size(), 5u);
  EXPECT_EQ(pool.free_count(), 0u);
  EXPECT_EQ(pool.take(), std::nullopt);
}

TEST(BlockPoolTake, AReleasedBlockComesBackUnderANewGeneration) {
  BlockPool pool = pool_of(2);
  const BlockId first = pool.take().value();
  pool.release(first);
  EXPECT_FALSE(pool.is_current(first));
  const BlockId again = pool.take().value();
  EXPECT_EQ(again.index, first.index);
  EXPECT_NE(again.generation, first.generation);
  EXPECT_FALSE(pool.is_current(first));
  EXPECT_TRUE(pool.is_current(again));
}

TEST(BlockPoolDeathTest, ABlockCannotBeGivenBackTwice) {
  BlockPool pool = pool_of(2);
  const BlockId id = pool.take().value();
  pool.release(id);
  EXPECT_DEATH(pool.release(id), "given back once");
}

TEST(BlockPoolHandle, NamesExactlyTheBlocksBytes) {
  BlockPool pool = pool_of(4);
  const BlockId a = pool.take().value();
  const BlockId b = pool.take().value();
  const Handle handle = pool.handle(b);
  EXPECT_EQ(handle, (Handle{3, b.index * 256u, 256u}));
  EXPECT_EQ(pool.resolve(handle)->data(), pool.bytes(b.index).data());
  pool.bytes(a.index)[255] = std::byte{9};
  EXPECT_EQ(pool.bytes(b.index)[0], std::byte{0});
}

TEST(BlockPoolHandle, AHandleOutsideTheRegionIsRefusedByName) {
  const BlockPool pool = pool_of(4);
  for (const Handle& bad : {Handle{2, 0, 256}, Handle{3, 900, 256}, Handle{3, UINT64_MAX, 2}}) {
    const auto bytes = pool.resolve(bad);
    ASSERT_FALSE(bytes);
    EXPECT_EQ(bytes.error().code, ErrorCode::Invalid);
    EXPECT_THAT(bytes.error().message, testing::HasSubstr(describe(bad)));
  }
}

TEST(BlockPoolOpen, MetadataOnlyAccountsWithoutMemory) {
  auto pool = BlockPool::open(
      {.blocks = 1'000'000, .block_bytes = UINT64_C(1) << 40, .metadata_only = true});
  ASSERT_TRUE(pool) << pool.error().message;
  EXPECT_EQ(pool->take()->index, 0u);
  EXPECT_TRUE(pool->bytes(0).empty());
}

TEST(BlockPoolOpen, SizesThatWrapAreRefused) {
  EXPECT_FALSE(BlockPool::open({.blocks = 1 << 30, .block_bytes = UINT64_C(1) << 40}));
  EXPECT_FALSE(BlockPool::open({.blocks = UINT64_C(1) << 33, .block_bytes = 1}));
}

TEST(BlockPoolOpen, AnEmptyPoolIsLegalAndGivesNothing) {
  BlockPool pool = pool_of(0);
  EXPECT_EQ(pool.take(), std::nullopt);
  EXPECT_FALSE(pool.is_current({0, 0}));
}

}  // namespace
}  // namespace emblema
