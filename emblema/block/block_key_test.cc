#include "emblema/block/block_key.h"

#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace emblema {
namespace {

CacheIdentity tenant_a() {
  CacheIdentity identity;
  identity.tenant = "a";
  return identity;
}

// The values come from an independent implementation of the documented encoding (Python, hashlib).
TEST(BlockKeyEncoding, IsTheOneThatTheHeaderDescribes) {
  const BlockKeys keys;
  const Digest root = keys.root(tenant_a());
  EXPECT_EQ(root.hex(), "f5663ddb2b0bc40d0aee3a6cf168aefdc765b545ddf4a5f4ee837a90e4efa8cf");
  Digest extra;
  extra.bytes.fill(0x11);
  const std::vector<TokenId> tokens = {1, 2, 3};
  const std::vector<ExtraId> extras = {{2, extra}};
  const Digest block = keys.block(root, tokens, extras);
  EXPECT_EQ(block.hex(), "7d95de235963b1879bb6b1ae72120282e3f9fb980cc2ad6248da9e2869652fd5");
  const std::vector<TokenId> span = {7, 8};
  const Digest segment = keys.segment(tenant_a(), span, {});
  EXPECT_EQ(segment.hex(), "36cbfe0f5339182bbaf3ce1dc9bf88e10c6067ddd571d06f8abd3aad03699eda");
  const std::vector<TokenId> tail = {9};
  EXPECT_EQ(keys.link(block, tail, {}, segment, 2, 5).hex(),
            "392f230b0c0dd815328ab6eac28c2d4d408e331197745ef8988b6d7f522b75b8");
}

TEST(BlockKeyEncoding, EveryFieldOfTheIdentityChangesTheRoot) {
  const BlockKeys keys;
  const CacheIdentity base = tenant_a();
  std::vector<CacheIdentity> others(6, base);
  others[0].geometry.bytes[31] = 1;
  others[1].weights.bytes[0] = 1;
  others[2].adapter.bytes[0] = 1;
  others[3].tenant = "b";
  others[4].salt = "s";
  others[5].tenant = "";  // the same bytes in another field
  others[5].salt = "a";
  for (const CacheIdentity& other : others) EXPECT_NE(keys.root(base), keys.root(other));
}

RC_GTEST_PROP(BlockKeyEncoding, DifferentListsOfTokensNeverShareAKey, ()) {
  const auto a = *rc::gen::container<std::vector<TokenId>>(rc::gen::inRange<TokenId>(0, 3));
  const auto b = *rc::gen::container<std::vector<TokenId>>(rc::gen::inRange<TokenId>(0, 3));
  const BlockKeys keys;
  RC_ASSERT((keys.block({}, a, {}) == keys.block({}, b, {})) == (a == b));
}

TEST(BlockKeyEncoding, CutDigestsCollideOnPurpose) {
  const BlockKeys none(0);
  const std::vector<TokenId> a = {1};
  const std::vector<TokenId> b = {2};
  EXPECT_EQ(none.block({}, a, {}), none.block({}, b, {}));
  const BlockKeys eight(8);
  Digest key = eight.block({}, a, {});
  for (std::size_t i = 1; i < key.bytes.size(); ++i) EXPECT_EQ(key.bytes[i], 0);
}

}  // namespace
}  // namespace emblema
