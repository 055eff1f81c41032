// What a tenant's memory may hold when it is handed out: zeros, or what this tenant left there.
#include <random>

#include <gtest/gtest.h>

#include "emblema/block/block_testing.h"

namespace emblema {
namespace {

using namespace block_testing;

constexpr std::uint32_t kTenants = 5;

std::byte mark_of(std::uint32_t tenant) {
  return static_cast<std::byte>(0x11 * (tenant + 1));
}

std::string name_of(std::uint32_t tenant) {
  return {static_cast<char>('a' + tenant)};
}

// 10^5 blocks given out and back, every byte of each written by its tenant. `foreign` counts bytes
// that are neither zero nor the tenant's own.
struct Recycled {
  std::uint64_t blocks = 0;
  std::uint64_t foreign = 0;
  std::uint64_t own = 0;  // bytes found again by the tenant who left them
};

Recycled recycle(BlockManager& manager, std::uint64_t blocks) {
  std::mt19937 random(7);
  Recycled seen;
  std::vector<SealedBlock> held;
  while (seen.blocks < blocks) {
    const auto tenant = static_cast<std::uint32_t>(random() % kTenants);
    for (std::uint64_t n = 1 + random() % 3; n > 0; --n, ++seen.blocks) {
      OpenBlock open = take_one(manager, 0, name_of(tenant));
      for (std::byte& byte : open.bytes()) {
        seen.foreign += byte != std::byte{0} && byte != mark_of(tenant) ? 1 : 0;
        seen.own += byte == mark_of(tenant) ? 1 : 0;
        byte = mark_of(tenant);
      }
      // Abandoned open, sealed with rows behind its tail, or held for a while.
      const std::uint64_t fate = random() % 3;
      if (fate == 0) continue;
      SealedBlock sealed = manager.seal(std::move(open), random() % 5);
      if (fate == 2) held.push_back(std::move(sealed));
    }
    while (held.size() > 12) held.erase(held.begin());
  }
  return seen;
}

TEST(BlockZeroing, NoTenantEverSeesAByteOfAnother) {
  auto manager = one_group(4, 70);  // too many blocks for the walkers: 10^5 rounds must be quick
  const Recycled seen = recycle(*manager, 100'000);
  EXPECT_GE(seen.blocks, 100'000u);
  EXPECT_EQ(seen.foreign, 0u);
  EXPECT_GT(seen.own, 0u) << "and blocks do come back to who had them";
  expect_sound(*manager);
}

TEST(BlockZeroing, NorWhereBlocksAreScarce) {
  auto manager = one_group(4, 65);
  std::vector<OpenBlock> away;
  for (int i = 0; i < 49; ++i) away.push_back(take_one(*manager, 0, "z"));
  const Recycled seen = recycle(*manager, 100'000);
  EXPECT_EQ(seen.foreign, 0u);
  EXPECT_GT(manager->stats().zeroed_blocks, 1'000u) << "memory did change hands";
}

// A tenant who comes and goes alone has its memory cleared for nobody.
TEST(BlockZeroing, ATenantGetsItsOwnBlocksBackUncleared) {
  auto manager = one_group(4, 4);
  for (int round = 0; round < 50; ++round) {
    for (const char* name : {"a", "b"}) {
      const OpenBlock first = take_one(*manager, 0, name);
      const OpenBlock second = take_one(*manager, 0, name);
    }
  }
  EXPECT_EQ(manager->stats().zeroed_blocks, 0u);
}

}  // namespace
}  // namespace emblema
