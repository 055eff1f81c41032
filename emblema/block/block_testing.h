// What the tests of this room share: a small manager of two groups (one growing, one window), and
// short words for storing and looking up.
#pragma once

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "emblema/block/block_manager.h"

namespace emblema::block_testing {

inline constexpr std::uint64_t kRowBytes = 16;

inline BlockLayout group_layout(const std::string& name, std::uint64_t block_tokens,
                                std::uint64_t window_tokens = 0) {
  BlockLayout layout;
  layout.group_name = name;
  layout.retention = window_tokens > 0 ? Retention::kWindow : Retention::kGrowing;
  layout.window_tokens = window_tokens;
  layout.block_tokens = block_tokens;
  StreamPage page;
  page.role = StreamRole::kLatent;
  page.rows = block_tokens;
  page.row_bytes = kRowBytes;
  page.page_bytes = round_up(block_tokens * kRowBytes, kPageAlignmentBytes);
  layout.block_bytes = page.page_bytes;
  layout.pages = {page};
  return layout;
}

// EMBLEMA_TEST_DIGEST_BITS cuts every digest, for runs of the whole suite under collisions.
inline unsigned digest_bits_under_test() {
  const char* text = std::getenv("EMBLEMA_TEST_DIGEST_BITS");
  unsigned bits = 256;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), bits);
  return bits;
}

// Collisions counted by all managers that expect_sound() saw.
inline std::uint64_t& collisions_seen() {
  static std::uint64_t seen = 0;
  return seen;
}

// A manager with `blocks[i]` blocks of group i.
inline std::unique_ptr<BlockManager> manager_of(std::vector<BlockLayout> groups,
                                                const std::vector<std::uint64_t>& blocks,
                                                BlockManagerOptions options = {}) {
  ModelLayout layout;
  PoolPlan plan;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    plan.groups.push_back({blocks[i], groups[i].block_bytes, groups[i].block_tokens});
  }
  layout.groups = std::move(groups);
  if (options.digest_bits_for_test == 256) options.digest_bits_for_test = digest_bits_under_test();
  return BlockManager::open(layout, plan, std::move(options)).value();
}

inline std::unique_ptr<BlockManager> one_group(std::uint64_t block_tokens, std::uint64_t blocks,
                                               BlockManagerOptions options = {}) {
  return manager_of({group_layout("growing", block_tokens)}, {blocks}, std::move(options));
}

inline std::vector<TokenId> tokens_from(TokenId first, std::size_t count) {
  std::vector<TokenId> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

inline std::vector<TokenId> joined(std::vector<TokenId> a, const std::vector<TokenId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline CacheIdentity tenant(const std::string& name) {
  CacheIdentity identity;
  identity.tenant = name;
  return identity;
}

inline OpenBlock take_one(BlockManager& manager, std::uint32_t group = 0,
                          const std::string& who = "a") {
  std::vector<std::uint64_t> counts(manager.group_count(), 0);
  counts[group] = 1;
  auto taken = manager.take(counts, who);
  EXPECT_TRUE(taken) << taken.error().message;
  return std::move((*taken)[group].front());
}

// Writes a byte pattern that depends on `content` into the first `rows` rows.
inline void fill(OpenBlock& block, std::uint32_t content, std::uint64_t rows) {
  const ByteSpan bytes = block.bytes();
  for (std::uint64_t i = 0; i < rows * kRowBytes && i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>((std::uint64_t{content} * 131u + i * 7u) & 0xffu);
  }
}

// Everything that a finished request leaves behind: its whole blocks, in every group.
// `content` decides the bytes; equal content and position give equal bytes.
inline ChainMatch store(BlockManager& manager, const CacheIdentity& identity,
                        const std::vector<TokenId>& tokens, std::uint32_t content = 1) {
  ChainMatch match = manager.match(identity, tokens, {}, tokens.size());
  for (std::uint32_t g = 0; g < manager.group_count(); ++g) {
    const std::uint64_t size = manager.layout(g).block_tokens;
    auto& group = match.groups[g];
    for (std::uint64_t first = match.tokens; first + size <= tokens.size(); first += size) {
      OpenBlock open = take_one(manager, g, identity.tenant);
      fill(open, content + static_cast<std::uint32_t>(first), size);
      auto published = manager.publish(manager.seal(std::move(open), size), group.tip,
                                       std::span<const TokenId>(tokens).subspan(first, size), {});
      group.blocks.push_back(std::move(published.block));
      group.tip = std::move(published.tip);
    }
  }
  return match;
}

// Tokens that a prompt would find: at most all but one.
inline std::uint64_t hit(BlockManager& manager, const CacheIdentity& identity,
                         const std::vector<TokenId>& prompt) {
  const std::uint64_t limit = prompt.empty() ? 0 : prompt.size() - 1;
  return manager.match(identity, prompt, {}, limit).tokens;
}

inline void expect_sound(const BlockManager& manager) {
  const Status ok = manager.check_invariants();
  EXPECT_TRUE(ok) << (ok ? "" : ok.error().message);
  collisions_seen() += manager.stats().content_collisions + manager.stats().key_collisions;
  for (std::uint32_t g = 0; g < manager.group_count(); ++g) {
    const BlockCounts counts = manager.counts(g);
    EXPECT_EQ(counts.free + counts.open + counts.referenced + counts.idle, counts.capacity);
  }
}

}  // namespace emblema::block_testing
