// Looking without touching: what a match would find, before it is decided whether it may.
#include <algorithm>

#include "emblema/block/block_manager.h"
#include "emblema/block/chain.h"
#include "emblema/block/manager_state.h"
#include "emblema/contract/check.h"

namespace emblema {

using block_internal::chain_of;
using block_internal::ChainLink;
using block_internal::first_needed;
using block_internal::nodes_of;

// Keys are hashed before the lock is taken, like a match does.
std::uint64_t BlockManager::peek(const std::vector<PeekStart>& from,
                                 std::span<const TokenId> tokens, std::span<const ExtraId> extras,
                                 MatchEnd end) const {
  std::vector<std::vector<ChainLink>> chains;
  for (std::uint32_t i = 0; i < group_count(); ++i) {
    chains.push_back(
        chain_of(state_->keys, from[i].key, layout(i).block_tokens, tokens, extras, end.partial));
  }
  std::uint64_t ignored = 0;  // collisions met by looking are not counted
  std::vector<std::vector<EntryId>> nodes(group_count());
  const std::lock_guard lock(state_->mutex);
  for (std::uint32_t i = 0; i < group_count(); ++i) {
    const auto& group = state_->groups[i];
    EntryId start = from[i].entry;
    if (start == kNoEntry) start = group.index.find(from[i].key, from[i].proof, &ignored);
    if (start != kNoEntry) nodes[i] = nodes_of(group, start, chains[i], &ignored);
  }
  std::string cut_by;
  return whole_boundary(nodes, tokens.size(), end, &cut_by);
}

std::uint64_t BlockManager::bytes_of_match(std::uint64_t tokens) const {
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < group_count(); ++i) {
    if (i == state_->snapshot_group) continue;  // a sequence copies it and lets go
    const std::uint64_t blocks = ceil_div(tokens, layout(i).block_tokens);
    bytes += (blocks - std::min(first_needed(layout(i), tokens), blocks)) * layout(i).block_bytes;
  }
  return bytes;
}

std::uint64_t BlockManager::peek_bytes(const CacheIdentity& identity,
                                       std::span<const TokenId> tokens,
                                       std::span<const ExtraId> extras, std::uint64_t limit) const {
  EMBLEMA_CHECK(limit <= tokens.size(), "a limit within the tokens");
  const PeekStart root{.key = state_->keys.root(identity),
                       .proof = {.kind = EntryKind::kRoot, .identity = &identity}};
  return bytes_of_match(peek(std::vector(group_count(), root), tokens.first(limit), extras, {}));
}

std::uint64_t BlockManager::peek_bytes_behind(const std::vector<Tip>& from,
                                              std::span<const TokenId> tokens,
                                              std::span<const ExtraId> extras,
                                              std::uint64_t limit) const {
  EMBLEMA_CHECK(limit <= tokens.size(), "a limit within the tokens");
  std::vector<PeekStart> starts;
  for (const Tip& tip : from) starts.push_back({.key = key_of(tip), .entry = tip.entry_});
  return bytes_of_match(peek(starts, tokens.first(limit), extras, {}));
}

// All tokens, or 0 where the segment is not there whole.
std::uint64_t BlockManager::peek_segment_tokens(
    const std::shared_ptr<const SegmentContent>& segment) const {
  const PeekStart root{
      .key = state_->keys.segment(segment->identity, segment->tokens, segment->extras),
      .proof = {.kind = EntryKind::kSegmentRoot, .segment = segment}};
  const std::uint64_t found =
      peek(std::vector(group_count(), root), segment->tokens, segment->extras, {.partial = true});
  return found == segment->tokens.size() ? found : 0;
}

}  // namespace emblema
