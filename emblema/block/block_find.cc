// Finding blocks: prefix chains, segments, links, pins.
#include <algorithm>
#include <utility>

#include "emblema/block/block_manager.h"
#include "emblema/block/chain.h"
#include "emblema/block/manager_state.h"
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
                              const std::vector<ChainLink>& chain, std::uint64_t* key_collisions) {
  std::vector<EntryId> nodes;
  EntryId parent = from;
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
  if (layout.retention != Retention::kWindow || boundary < layout.window_tokens) return 0;
  return (boundary - layout.window_tokens + 1) / layout.block_tokens;
}

}  // namespace block_internal

using block_internal::chain_of;
using block_internal::ChainLink;
using block_internal::first_needed;
using block_internal::nodes_of;

namespace {

bool is_whole(const GroupState& group, const std::vector<EntryId>& nodes, std::uint64_t boundary) {
  const std::uint64_t blocks = ceil_div(boundary, group.layout.block_tokens);
  if (nodes.size() < blocks) return false;
  for (std::uint64_t i = first_needed(group.layout, boundary); i < blocks; ++i) {
    if (!group.index.at(nodes[i]).block) return false;
  }
  return true;
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
                               std::span<const ExtraId> extras, std::uint64_t limit) {
  EMBLEMA_CHECK(limit <= tokens.size(), "a limit within the tokens");
  std::vector<Tip> from =
      roots(state_->keys.root(identity), {.kind = EntryKind::kRoot, .identity = &identity});
  return match_behind(from, tokens, extras, limit);
}

ChainMatch BlockManager::match_behind(const std::vector<Tip>& from, std::span<const TokenId> tokens,
                                      std::span<const ExtraId> extras, std::uint64_t limit) {
  ChainMatch match = match_from(from, tokens.first(limit), extras, false);
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
  ChainMatch match = match_from(from, segment->tokens, segment->extras, true);
  {
    const std::lock_guard lock(state_->mutex);
    state_->note_found(HitKind::kSegment, segment->identity.tenant, segment->tokens.size(), match);
  }
  checked();
  return match;
}

ChainMatch BlockManager::match_from(const std::vector<Tip>& from, std::span<const TokenId> tokens,
                                    std::span<const ExtraId> extras, bool partial_end) {
  // Keys are hashed before the lock is taken; the tips keep their entries, and so their keys,
  // alive.
  std::vector<std::vector<ChainLink>> chains;
  for (std::uint32_t i = 0; i < group_count(); ++i) {
    const Digest start = key_of(from[i]);
    chains.push_back(
        chain_of(state_->keys, start, layout(i).block_tokens, tokens, extras, partial_end));
  }
  ChainMatch match;
  match.groups.resize(group_count());
  const std::lock_guard lock(state_->mutex);
  std::vector<std::vector<EntryId>> nodes;
  for (std::uint32_t i = 0; i < group_count(); ++i) {
    nodes.push_back(
        nodes_of(state_->groups[i], from[i].entry_, chains[i], &state_->stats.key_collisions));
  }
  match.tokens = whole_boundary(nodes, tokens.size(), partial_end, &match.cut_by);
  match.miss = state_->miss_reason(
      chains, nodes, std::min(match.tokens + state_->boundary_tokens(), tokens.size()));
  ++state_->tick;
  for (std::uint32_t i = 0; i < group_count(); ++i) {
    GroupState& group = state_->groups[i];
    ChainMatch::Group& found = match.groups[i];
    const std::uint64_t blocks = ceil_div(match.tokens, group.layout.block_tokens);
    found.first_block = std::min(first_needed(group.layout, match.tokens), blocks);
    for (std::uint64_t block = 0; block < blocks; ++block) {
      const EntryId node = nodes[i][block];
      group.touch(node, state_->tick);
      if (block < found.first_block) continue;
      const std::uint32_t index = *group.index.at(node).block;
      group.add_ref(index);
      found.blocks.push_back(SealedBlock(Hold(this, i, group.pool.id_of(index))));
    }
    const EntryId end = blocks == 0 ? from[i].entry_ : nodes[i][blocks - 1];
    group.add_tip(end);
    found.tip = Tip(this, i, end);
  }
  return match;
}

// The longest boundary that is whole in every group, and the group that cut it.
std::uint64_t BlockManager::whole_boundary(const std::vector<std::vector<EntryId>>& nodes,
                                           std::uint64_t limit, bool partial_end,
                                           std::string* cut_by) const {
  const std::uint64_t step = state_->boundary_tokens();
  std::uint64_t boundary = limit / step * step;
  if (partial_end && boundary < limit) boundary = limit;
  while (boundary > 0) {
    const auto lacking = [&](std::uint32_t i) {
      return !is_whole(state_->groups[i], nodes[i], boundary);
    };
    std::uint32_t first = 0;
    while (first < group_count() && !lacking(first)) ++first;
    if (first == group_count()) break;
    *cut_by = state_->groups[first].layout.group_name;
    // Skip at once to what this group's chain reaches.
    const std::uint64_t reach = nodes[first].size() * layout(first).block_tokens;
    const std::uint64_t below = (boundary - 1) / step * step;
    boundary = std::min(below, reach / step * step);
  }
  return boundary;
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

Pin BlockManager::pin(const CacheIdentity& identity, std::span<const TokenId> tokens,
                      std::span<const ExtraId> extras) {
  const std::vector<Tip> from =
      roots(state_->keys.root(identity), {.kind = EntryKind::kRoot, .identity = &identity});
  const ChainMatch found = match_from(from, tokens, extras, false);
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
