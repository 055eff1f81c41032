// Making blocks findable, and making equal bytes one block.
//
// No lock is held while hashing or comparing: hash (nobody writes sealed bytes) -> lock, hold each
// candidate -> unlock, compare -> lock, share or list, looking again for candidates that appeared
// meanwhile.
#include <algorithm>
#include <cstring>
#include <utility>

#include "emblema/block/block_manager.h"
#include "emblema/block/manager_state.h"
#include "emblema/contract/canary.h"
#include "emblema/contract/check.h"

namespace emblema {

using block_internal::BlockMeta;
using block_internal::GroupState;
using block_internal::Hold;

bool BlockManager::holds_equal_bytes(const SealedBlock& a, const SealedBlock& b) const {
  const ConstByteSpan left = a.bytes();
  const ConstByteSpan right = b.bytes();
  return EMBLEMA_CANARY(kSharedUncompared) ||
         std::memcmp(left.data(), right.data(), left.size()) == 0;
}

BlockManager::Published BlockManager::publish(SealedBlock&& block, const Tip& parent,
                                              std::span<const TokenId> tokens,
                                              std::span<const ExtraId> extras) {
  EMBLEMA_CHECK(block.holds() && parent.holds() && block.group() == parent.group_,
                "a sealed block and a tip of its group");
  const std::uint32_t group_number = block.group();
  const Digest key = state_->keys.block(key_of(parent), tokens, extras);
  const EntryProof proof{
      .kind = EntryKind::kBlock, .parent = parent.entry_, .tokens = tokens, .extras = extras};
  SealedBlock present;  // what the key already finds
  Tip tip;
  {
    const std::lock_guard lock(state_->mutex);
    GroupState& group = state_->groups[group_number];
    EntryId entry = group.index.find(key, proof, &state_->stats.key_collisions);
    if (entry == kNoEntry) {
      entry = group.index.insert(key, proof);
      group.refresh_candidate(parent.entry_);
    }
    group.touch(entry, ++state_->tick);
    group.add_tip(entry);
    tip = Tip(this, group_number, entry);
    if (const auto holder = group.index.at(entry).block) {
      group.add_ref(*holder);
      present = SealedBlock(Hold(this, group_number, group.pool.id_of(*holder)));
    } else {
      group.attach(entry, block.id().index);
      state_->note_stored(group_number, entry, block.id().index);
    }
  }
  if (present.holds() && present.id() != block.id()) {
    const bool metadata_only = state_->options.metadata_only;
    const bool equal = metadata_only || holds_equal_bytes(present, block);
    {
      const std::lock_guard lock(state_->mutex);
      if (!equal) ++state_->stats.duplicate_unequal;
      if (equal && !metadata_only) ++state_->stats.content_shared_blocks;
    }
    if (equal) std::swap(block, present);
  }
  present = SealedBlock();
  SealedBlock settled = std::move(block);
  if (state_->options.share_content) {
    if (state_->options.seal == SealMode::kInline) {
      settled = share_content(std::move(settled));
    } else {
      const std::lock_guard lock(state_->mutex);
      state_->queue_content(group_number, settled.id());
    }
  }
  checked();
  return {std::move(settled), std::move(tip)};
}

SealedBlock BlockManager::share_content(SealedBlock&& block) {
  GroupState& group = state_->groups[block.group()];
  const std::uint32_t index = block.id().index;
  ContentIndex::Key key;
  key.digest = content_digest(block.bytes(), state_->options.content_seed,
                              std::min(state_->options.digest_bits_for_test, 128u));
  std::vector<BlockId> compared;
  while (true) {
    std::vector<SealedBlock> candidates;
    {
      const std::lock_guard lock(state_->mutex);
      BlockMeta& meta = group.meta[index];
      if (meta.content) return std::move(block);  // listed already
      key.domain = state_->options.share_content_across_tenants ? 0 : meta.domain;
      for (const std::uint32_t other : group.content.find(key)) {
        const BlockId id = group.pool.id_of(other);
        const bool known = std::ranges::find(compared, id) != compared.end();
        if (known || group.meta[other].filled_tokens != meta.filled_tokens) continue;
        group.add_ref(other);
        candidates.push_back(SealedBlock(Hold(this, block.group(), id)));
      }
      if (candidates.empty()) {
        group.content.insert(key, index);
        meta.content = key;
        return std::move(block);
      }
    }
    for (SealedBlock& candidate : candidates) {
      compared.push_back(candidate.id());
      const bool equal = holds_equal_bytes(candidate, block);
      const std::lock_guard lock(state_->mutex);
      if (!equal) {
        state_->note_content_collision(block.group());
        continue;
      }
      group.redirect(index, candidate.id().index);
      ++state_->stats.content_shared_blocks;
      ++state_->epoch;
      std::swap(block, candidate);
      break;
    }
    if (block.id().index != index) return std::move(block);
  }
}

std::uint64_t BlockManager::seal_pending(std::uint64_t budget_blocks) {
  std::uint64_t done = 0;
  for (; done < budget_blocks; ++done) {
    SealedBlock block;
    {
      const std::lock_guard lock(state_->mutex);
      if (state_->pending.empty()) break;
      const auto [group_number, id] = state_->pending.front();
      state_->pending.pop_front();
      GroupState& group = state_->groups[group_number];
      // Its holders may have gone meanwhile, or opened it again.
      if (!group.pool.is_current(id)) continue;
      group.meta[id.index].is_pending = false;
      if (group.meta[id.index].is_open) continue;
      group.add_ref(id.index);
      block = SealedBlock(Hold(this, group_number, id));
    }
    block = share_content(std::move(block));
  }
  checked();
  return done;
}

std::uint64_t BlockManager::forward_epoch() const {
  return state_->epoch.load();
}

bool BlockManager::refresh(SealedBlock& block) {
  SealedBlock moved;
  {
    const std::lock_guard lock(state_->mutex);
    GroupState& group = state_->groups[block.group()];
    const auto& forward = group.meta[block.id().index].forward;
    if (!forward || !group.pool.is_current(*forward)) return false;
    group.add_ref(forward->index);
    moved = SealedBlock(Hold(this, block.group(), *forward));
  }
  std::swap(block, moved);
  return true;
}

}  // namespace emblema
