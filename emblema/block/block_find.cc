// Finding blocks: prefix chains, segments, links, pins.
#include <algorithm>
#include <utility>

#include "emblema/block/block_manager.h"
#include "emblema/block/chain.h"
#include "emblema/block/manager_state.h"
#include "emblema/contract/canary.h"
#include "emblema/contract/check.h"

namespace emblema {

using block_internal::GroupState;
using block_internal::Hold;

namespace block_internal {

std::vector<ExtraId> extras_within(std::span<const ExtraId> extras, std::uint64_t first,
                                   std::uint64_t count) {
  std::vector<ExtraId> within;
  for (const ExtraId& extra : extras) {
    if (extra.offset >= first && extra.offset - first < count) {
      within.push_back({extra.offset - first, extra.digest});
    }
  }
  return within;
}

std::vector<ChainLink> chain_of(const BlockKeys& keys, Digest key, std::uint64_t block_tokens,
                                std::span<const TokenId> tokens, std::span<const ExtraId> extras,
                                bool partial_end) {
  std::vector<ChainLink> chain;
  chain.reserve(tokens.size() / block_tokens + 1);
  for (std::uint64_t first = 0; first < tokens.size(); first += block_tokens) {
    const std::uint64_t count = std::min<std::uint64_t>(block_tokens, tokens.size() - first);
    if (count < block_tokens && !partial_end) break;
    ChainLink link{{}, tokens.subspan(first, count), extras_within(extras, first, count)};
    key = keys.block(key, link.tokens, link.extras);
    link.key = key;
    chain.push_back(std::move(link));
  }
  return chain;
}

std::vector<EntryId> nodes_of(const GroupState& group, EntryId from,
                              std::span<const ChainLink> chain, std::uint64_t* key_collisions) {
  std::vector<EntryId> nodes;
  EntryId parent = from;
  group.index.prefetch(chain);
  for (const ChainLink& link : chain) {
    const EntryProof proof{
        .kind = EntryKind::kBlock, .parent = parent, .tokens = link.tokens, .extras = link.extras};
    const EntryId node = group.index.find(link.key, proof, key_collisions);
    if (node == kNoEntry || (group.growing() && !group.index.at(node).block)) break;
    nodes.push_back(node);
    parent = node;
  }
  return nodes;
}

std::uint64_t first_needed(const BlockLayout& layout, std::uint64_t boundary) {
  if (layout.retention != Retention::kFixed) return layout.released_at(boundary);
  const std::uint64_t blocks = boundary / layout.block_tokens;
  return blocks - std::min<std::uint64_t>(blocks, 1);
}

}  // namespace block_internal

using block_internal::chain_of;
using block_internal::ChainLink;
using block_internal::first_needed;
using block_internal::nodes_of;

namespace {

// Blocks of a chain that one hold of the lock looks at: a few microseconds, however long the chain.
constexpr std::size_t kLinksPerHold = 64;

// `boundary` where everything that it needs is there, else the most tokens that may be whole.
// In growing groups whoever holds the last node keeps all before it, with their blocks.
std::uint64_t whole_within(const GroupState& group, const std::vector<EntryId>& nodes,
                           std::uint64_t boundary) {
  const std::uint64_t blocks = ceil_div(boundary, group.layout.block_tokens);
  if (nodes.size() < blocks) return nodes.size() * group.layout.block_tokens;
  if (group.growing()) return boundary;
  for (std::uint64_t i = blocks; i > first_needed(group.layout, boundary); --i) {
    if (!group.index.at(nodes[i - 1]).block) return (i - 1) * group.layout.block_tokens;
  }
  return boundary;
}

// The same for a hit that ends `dropped` tokens before the boundary: it must be whole by itself,
// and the blocks that are dropped must be there. Snapshots are needed at the hit's end only.
std::uint64_t whole_before(const GroupState& group, const std::vector<EntryId>& nodes,
                           std::uint64_t boundary, std::uint64_t dropped) {
  const std::uint64_t kept = boundary - dropped;
  const std::uint64_t reach = whole_within(group, nodes, kept);
  if (reach < kept) return reach + dropped;
  if (group.layout.retention == Retention::kFixed) return boundary;
  const std::uint64_t size = group.layout.block_tokens;
  for (std::uint64_t i = boundary / size; i > kept / size; --i) {
    if (nodes.size() < i || !group.index.at(nodes[i - 1]).block) return (i - 1) * size;
  }
  return boundary;
}

// The last node with a block; their number where none has one.
std::uint64_t newest_block(const GroupState& group, std::span<const EntryId> nodes) {
  for (std::uint64_t i = nodes.size(); i > 0; --i) {
    if (group.index.at(nodes[i - 1]).block) return i - 1;
  }
  return nodes.size();
}

}  // namespace

// The node where chains of this kind start, made if it is not there.
std::vector<Tip> BlockManager::roots(const Digest& key, const EntryProof& proof) {
  std::vector<Tip> roots;
  const std::lock_guard lock(state_->mutex);
  for (std::uint32_t i = 0; i < group_count(); ++i) {
    GroupState& group = state_->groups[i];
    EntryId root = group.index.find(key, proof, &state_->stats.key_collisions);
    if (root == kNoEntry) root = group.index.insert(key, proof);
    group.add_tip(root);
    roots.push_back(Tip(this, i, root));
  }
  return roots;
}

ChainMatch BlockManager::match(const CacheIdentity& identity, std::span<const TokenId> tokens,
                               std::span<const ExtraId> extras, std::uint64_t limit,
                               bool recompute_last) {
  EMBLEMA_CHECK(limit <= tokens.size(), "a limit within the tokens");
  const std::vector<Tip> from =
      roots(state_->keys.root(identity), {.kind = EntryKind::kRoot, .identity = &identity});
  return counted(from, limit,
                 match_from(from, tokens.first(limit), extras, {.recompute_last = recompute_last}));
}

ChainMatch BlockManager::match_behind(const std::vector<Tip>& from, std::span<const TokenId> tokens,
                                      std::span<const ExtraId> extras, std::uint64_t limit) {
  return counted(from, limit, match_from(from, tokens.first(limit), extras, {}));
}

// Counts and tells what was found of `limit` tokens.
ChainMatch BlockManager::counted(const std::vector<Tip>& from, std::uint64_t limit,
                                 ChainMatch match) {
  {
    const std::lock_guard lock(state_->mutex);
    const std::uint64_t step = state_->boundary_tokens();
    state_->note_found(HitKind::kPrefix, state_->tenant_of_start(0, from[0].entry_),
                       limit / step * step, match);
  }
  checked();
  return match;
}

ChainMatch BlockManager::match_segment(const std::shared_ptr<const SegmentContent>& segment) {
  const Digest key = state_->keys.segment(segment->identity, segment->tokens, segment->extras);
  const std::vector<Tip> from = roots(key, {.kind = EntryKind::kSegmentRoot, .segment = segment});
  ChainMatch match = match_from(from, segment->tokens, segment->extras, {.partial = true});
  {
    const std::lock_guard lock(state_->mutex);
    state_->note_found(HitKind::kSegment, segment->identity.tenant, segment->tokens.size(), match);
  }
  checked();
  return match;
}

ChainMatch BlockManager::match_from(const std::vector<Tip>& from, std::span<const TokenId> tokens,
                                    std::span<const ExtraId> extras, MatchEnd end) {
  // Keys are hashed before the lock is taken; the tips keep their entries, and so their keys,
  // alive.
  std::vector<std::vector<ChainLink>> chains;
  for (std::uint32_t i = 0; i < group_count(); ++i) {
    const Digest start = key_of(from[i]);
    chains.push_back(
        chain_of(state_->keys, start, layout(i).block_tokens, tokens, extras, end.partial));
  }
  // The lock is held for a piece of a chain at a time. What was found stays meanwhile: a tip on its
  // last node keeps the nodes, and in growing groups their blocks too.
  std::vector<std::vector<EntryId>> nodes;
  std::vector<Tip> deepest;
  for (std::uint32_t i = 0; i < group_count(); ++i) {
    nodes.push_back(walk(from[i], chains[i], &deepest.emplace_back()));
  }
  ChainMatch match;
  match.groups.resize(group_count());
  std::uint64_t tick = 0;
  const auto blocks_of = [&](std::uint32_t i) {
    const std::uint64_t whole = ceil_div(match.tokens, layout(i).block_tokens);
    return std::span(nodes[i]).first(std::min<std::uint64_t>(whole, nodes[i].size()));
  };
  {
    const std::lock_guard lock(state_->mutex);
    match.tokens = whole_boundary(nodes, tokens.size(), end, &match.cut_by);
    match.miss = state_->miss_reason(
        chains, nodes, std::min(match.tokens + state_->boundary_tokens(), tokens.size()));
    tick = ++state_->tick;
    // Blocks of windows and snapshots may go at any time: they are held in the same breath.
    for (std::uint32_t i = 0; i < group_count(); ++i) {
      const GroupState& group = state_->groups[i];
      if (group.growing()) continue;
      const auto chain = blocks_of(i);
      ChainMatch::Group& found = match.groups[i];
      const bool is_snapshots = i == state_->snapshot_group;
      found.first_block = is_snapshots ? newest_block(group, chain)
                                       : std::min<std::uint64_t>(
                                             first_needed(layout(i), match.tokens), chain.size());
      const auto needed = chain.subspan(found.first_block);
      hold_blocks(i, is_snapshots ? needed.first(std::min<std::size_t>(needed.size(), 1)) : needed,
                  &found);
    }
  }
  for (std::uint32_t i = 0; i < group_count(); ++i) {
    take_up(from[i], blocks_of(i), tick, &match.groups[i]);
  }
  return match;
}

// The nodes of a chain that are there, and a tip on the last of them.
std::vector<EntryId> BlockManager::walk(const Tip& from, const std::vector<ChainLink>& chain,
                                        Tip* deepest) {
  std::vector<EntryId> nodes;
  for (std::size_t first = 0; first < chain.size(); first += kLinksPerHold) {
    const auto piece =
        std::span(chain).subspan(first, std::min(kLinksPerHold, chain.size() - first));
    Tip reached;
    {
      const std::lock_guard lock(state_->mutex);
      GroupState& group = state_->groups[from.group_];
      const std::vector<EntryId> found = nodes_of(group, nodes.empty() ? from.entry_ : nodes.back(),
                                                  piece, &state_->stats.key_collisions);
      if (!found.empty()) {
        group.add_tip(found.back());
        reached = Tip(this, from.group_, found.back());
      }
      nodes.insert(nodes.end(), found.begin(), found.end());
    }
    if (!reached.holds()) break;
    std::swap(*deepest, reached);
    if (nodes.size() < first + piece.size()) break;
  }
  return nodes;
}

// Touches the nodes of a match, holds their blocks where that was not done, and ends it in a tip.
void BlockManager::take_up(const Tip& from, std::span<const EntryId> nodes, std::uint64_t tick,
                           ChainMatch::Group* found) {
  GroupState& group = state_->groups[from.group_];
  found->entries = nodes.size();
  // Of windows and snapshots only what is needed was used.
  const std::size_t skipped = group.growing() ? 0 : found->first_block;
  for (std::size_t first = skipped; first < nodes.size(); first += kLinksPerHold) {
    const auto piece = nodes.subspan(first, std::min(kLinksPerHold, nodes.size() - first));
    const std::lock_guard lock(state_->mutex);
    for (const EntryId node : piece) group.touch(node, tick);
    if (group.growing()) hold_blocks(from.group_, piece, found);
  }
  const EntryId end = nodes.empty() ? from.entry_ : nodes.back();
  const std::lock_guard lock(state_->mutex);
  group.add_tip(end);
  found->tip = Tip(this, from.group_, end);
}

// Under the lock. REQUIRES: each of these nodes has its block.
void BlockManager::hold_blocks(std::uint32_t group_number, std::span<const EntryId> nodes,
                               ChainMatch::Group* found) {
  GroupState& group = state_->groups[group_number];
  for (const EntryId node : nodes) __builtin_prefetch(&group.meta[*group.index.at(node).block]);
  for (const EntryId node : nodes) {
    const std::uint32_t index = *group.index.at(node).block;
    group.add_ref(index);
    found->blocks.push_back(SealedBlock(Hold(this, group_number, group.pool.id_of(index))));
  }
}

// The longest boundary that is whole in every group, and the group that cut it.
std::uint64_t BlockManager::whole_boundary(const std::vector<std::vector<EntryId>>& nodes,
                                           std::uint64_t limit, MatchEnd end,
                                           std::string* cut_by) const {
  const std::uint64_t step = state_->boundary_tokens();
  const std::uint64_t dropped = end.recompute_last ? step : 0;
  std::uint64_t boundary = limit / step * step;
  if (end.partial && boundary < limit) boundary = limit;
  const auto reach_of = [&](std::uint32_t i, const std::vector<EntryId>& chain) {
    const bool any =
        state_->options.snapshots == SnapshotRule::kNewest || EMBLEMA_CANARY(kSnapshotIgnored);
    if (any && i == state_->snapshot_group) return boundary;
    const GroupState& group = state_->groups[i];
    return dropped > 0 ? whole_before(group, chain, boundary, dropped)
                       : whole_within(group, chain, boundary);
  };
  while (boundary > 0) {
    std::uint32_t first = 0;
    std::uint64_t reach = boundary;
    while (first < group_count()) {
      reach = reach_of(first, nodes[first]);
      if (reach < boundary) break;
      ++first;
    }
    if (first == group_count()) break;
    *cut_by = state_->groups[first].layout.group_name;
    // Skip at once to what this group's chain reaches.
    const std::uint64_t below = (boundary - 1) / step * step;
    boundary = std::min(below, reach / step * step);
  }
  return boundary - std::min(boundary, dropped);
}

std::vector<Tip> BlockManager::link(const std::vector<Tip>& from, const LinkRequest& request) {
  const SegmentContent& segment = *request.segment;
  const Digest segment_key = state_->keys.segment(segment.identity, segment.tokens, segment.extras);
  std::vector<Tip> tips;
  for (std::uint32_t i = 0; i < group_count(); ++i) {
    const Digest key = state_->keys.link(key_of(from[i]), request.tail[i], request.tail_extras[i],
                                         segment_key, segment.tokens.size(), request.delta);
    const std::lock_guard lock(state_->mutex);
    GroupState& group = state_->groups[i];
    const EntryProof proof{.kind = EntryKind::kLink,
                           .parent = from[i].entry_,
                           .tokens = request.tail[i],
                           .extras = request.tail_extras[i],
                           .segment = request.segment,
                           .delta = request.delta};
    EntryId node = group.index.find(key, proof, &state_->stats.key_collisions);
    if (node == kNoEntry) {
      node = group.index.insert(key, proof);
      group.refresh_candidate(from[i].entry_);
    }
    group.add_tip(node);
    tips.push_back(Tip(this, i, node));
  }
  checked();
  return tips;
}

Tip BlockManager::extend(const Tip& parent, std::span<const TokenId> tokens,
                         std::span<const ExtraId> extras) {
  EMBLEMA_CHECK(parent.holds() && parent.group_ == state_->snapshot_group,
                "a chain of snapshots goes on");
  const Digest key = state_->keys.block(key_of(parent), tokens, extras);
  const EntryProof proof{
      .kind = EntryKind::kBlock, .parent = parent.entry_, .tokens = tokens, .extras = extras};
  const std::lock_guard lock(state_->mutex);
  GroupState& group = state_->groups[parent.group_];
  EntryId entry = group.index.find(key, proof, &state_->stats.key_collisions);
  if (entry == kNoEntry) entry = group.index.insert(key, proof);
  group.add_tip(entry);
  return {this, parent.group_, entry};
}

Tip BlockManager::ancestor(const Tip& tip, std::uint64_t steps) {
  EMBLEMA_CHECK(tip.holds(), "a tip");
  const std::lock_guard lock(state_->mutex);
  GroupState& group = state_->groups[tip.group_];
  EntryId entry = tip.entry_;
  for (; steps > 0; --steps) {
    entry = group.index.at(entry).parent;
    EMBLEMA_CHECK(entry != kNoEntry, "a chain of so many entries");
  }
  group.add_tip(entry);
  return {this, tip.group_, entry};
}

bool BlockManager::drop_idle(const Tip& tip) {
  bool dropped = false;
  {
    const std::lock_guard lock(state_->mutex);
    GroupState& group = state_->groups[tip.group_];
    dropped = group.may_go(group.index.at(tip.entry_));
    if (dropped) state_->evict(tip.group_, tip.entry_, EvictionReason::kSuperseded);
  }
  checked();
  return dropped;
}

Pin BlockManager::pin(const CacheIdentity& identity, std::span<const TokenId> tokens,
                      std::span<const ExtraId> extras) {
  const std::vector<Tip> from =
      roots(state_->keys.root(identity), {.kind = EntryKind::kRoot, .identity = &identity});
  const ChainMatch found = match_from(from, tokens, extras, {});
  Pin pin;
  pin.tokens_ = found.tokens;
  {
    const std::lock_guard lock(state_->mutex);
    if (found.tokens > 0) {
      pin.manager_ = this;
      for (std::uint32_t i = 0; i < group_count(); ++i) {
        pin.ends_.push_back(found.groups[i].tip.entry_);
        state_->groups[i].pin_path(pin.ends_.back());
      }
    }
  }
  checked();
  return pin;
}

void BlockManager::release_pin(Pin& pin) {
  {
    const std::lock_guard lock(state_->mutex);
    for (std::uint32_t i = 0; i < pin.ends_.size(); ++i) {
      state_->groups[i].unpin_path(pin.ends_[i]);
    }
  }
  pin.ends_.clear();
  checked();
}

void BlockManager::release_tip(std::uint32_t group, EntryId entry) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->groups[group].drop_tip(entry);
  }
  checked();
}

Tip BlockManager::share_tip(const Tip& tip) {
  const std::lock_guard lock(state_->mutex);
  state_->groups[tip.group_].add_tip(tip.entry_);
  return {this, tip.group_, tip.entry_};
}

Digest BlockManager::key_of(const Tip& tip) const {
  const std::lock_guard lock(state_->mutex);
  return state_->groups[tip.group_].index.at(tip.entry_).key;
}

Tip& Tip::operator=(Tip&& other) noexcept {
  std::swap(manager_, other.manager_);
  std::swap(group_, other.group_);
  std::swap(entry_, other.entry_);
  return *this;
}

Tip::~Tip() {
  if (manager_ != nullptr) manager_->release_tip(group_, entry_);
}

Tip Tip::share() const {
  EMBLEMA_CHECK(holds(), "a tip");
  return manager_->share_tip(*this);
}

Pin Pin::keeping(std::shared_ptr<const void> owner) && {
  owner_ = std::move(owner);
  return std::move(*this);
}

Pin& Pin::operator=(Pin&& other) noexcept {
  std::swap(owner_, other.owner_);
  std::swap(manager_, other.manager_);
  std::swap(ends_, other.ends_);
  std::swap(tokens_, other.tokens_);
  return *this;
}

Pin::~Pin() {
  if (manager_ != nullptr) manager_->release_pin(*this);
}

}  // namespace emblema
