#include "emblema/block/manager_state.h"

#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "emblema/contract/canary.h"
#include "emblema/contract/check.h"

namespace emblema::block_internal {

GroupState::GroupState(BlockLayout group_layout, BlockPool group_pool,
                       std::unique_ptr<EvictionPolicy> order)
    : layout(std::move(group_layout)),
      pool(std::move(group_pool)),
      index(layout.block_tokens, pool.capacity()),
      policy(std::move(order)) {
  meta.resize(pool.capacity());
  counts_[static_cast<std::size_t>(BlockClass::kFree)] = pool.capacity();
}

// Applies a change to a block's holders and keeps the counts of classes right.
template <class Change>
void GroupState::change(std::uint32_t block, Change&& apply) {
  BlockMeta& one = meta[block];
  --counts_[static_cast<std::size_t>(one.classify())];
  holds_ -= one.refs;
  apply(one);
  holds_ += one.refs;
  ++counts_[static_cast<std::size_t>(one.classify())];
}

GroupState::Taken GroupState::take_open(std::uint32_t domain) {
  const auto id = pool.take(domain);
  EMBLEMA_CHECK(id.has_value(), "room was made before");
  const Taken taken{*id, pool.last_domain(id->index)};
  change(id->index, [&](BlockMeta& one) {
    one.is_open = true;
    one.refs = 1;
    one.filled_tokens = 0;
    one.domain = domain;
  });
  return taken;
}

void GroupState::set_sealed(BlockId id, std::uint64_t filled_tokens) {
  change(id.index, [&](BlockMeta& one) {
    one.is_open = false;
    one.filled_tokens = filled_tokens;
  });
}

void GroupState::set_open(BlockId id) {
  BlockMeta& one = meta[id.index];
  EMBLEMA_CHECK(one.refs == 1 && !one.is_shared(), "only a block of one holder is opened again");
  if (one.content) content.erase(*std::exchange(one.content, std::nullopt), id.index);
  change(id.index, [&](BlockMeta& changed) {
    changed.is_open = true;
    changed.forward.reset();
  });
}

void GroupState::add_ref(std::uint32_t block) {
  change(block, [](BlockMeta& one) {
    if (EMBLEMA_CANARY(kLostReference) && one.refs == 2) return;
    EMBLEMA_CHECK(one.refs < UINT32_MAX, "the holds on one block fit 32 bits");
    ++one.refs;
  });
  if (meta[block].refs == 1) refresh_candidates_of(block);
}

void GroupState::drop_ref(std::uint32_t block, std::uint64_t tick) {
  EMBLEMA_CHECK(meta[block].refs > 0, "a hold is given back once");
  change(block, [](BlockMeta& one) {
    one.refs -= EMBLEMA_CANARY(kDoubleRelease) && one.refs == 2 ? 2u : 1u;
  });
  if (meta[block].refs > 0) return;
  for (EntryId entry = meta[block].first_entry; entry != kNoEntry;
       entry = index.at(entry).next_of_block) {
    touch(entry, tick);
  }
  refresh_candidates_of(block);
  free_if_unheld(block);
}

void GroupState::free_if_unheld(std::uint32_t block) {
  BlockMeta& one = meta[block];
  if (one.refs > 0 || one.entries > 0) return;
  if (one.content) content.erase(*std::exchange(one.content, std::nullopt), block);
  one.is_open = false;
  one.forward.reset();
  one.is_forward_target = false;
  one.is_pending = false;
  one.first_entry = kNoEntry;
  pool.release(pool.id_of(block), EMBLEMA_CANARY(kFreedAsClean) ? 0 : one.domain);
}

void GroupState::attach(EntryId entry, std::uint32_t block) {
  Entry& node = index.at(entry);
  EMBLEMA_CHECK(!node.block, "an entry holds one block");
  node.block = block;
  node.next_of_block = meta[block].first_entry;
  change(block, [&](BlockMeta& one) {
    ++one.entries;
    one.first_entry = entry;
  });
  refresh_candidate(entry);
}

void GroupState::detach(EntryId entry) {
  Entry& node = index.at(entry);
  EMBLEMA_CHECK(node.block.has_value(), "an entry that holds a block");
  const std::uint32_t block = *node.block;
  EntryId* link = &meta[block].first_entry;
  while (*link != entry) link = &index.at(*link).next_of_block;
  *link = node.next_of_block;
  node.next_of_block = kNoEntry;
  node.block.reset();
  refresh_candidate(entry);
  change(block, [](BlockMeta& one) { --one.entries; });
  free_if_unheld(block);
}

void GroupState::redirect(std::uint32_t from, std::uint32_t to) {
  while (meta[from].first_entry != kNoEntry) {
    const EntryId entry = meta[from].first_entry;
    // `from` is held by the caller, so that detaching its last entry does not free it here.
    detach(entry);
    attach(entry, to);
  }
  meta[from].forward = pool.id_of(to);
  meta[to].is_forward_target = true;
}

void GroupState::add_tip(EntryId entry) {
  EMBLEMA_CHECK(index.at(entry).tips < UINT32_MAX, "the tips on one entry fit 32 bits");
  ++index.at(entry).tips;
  refresh_candidate(entry);
}

void GroupState::drop_tip(EntryId entry) {
  EMBLEMA_CHECK(index.at(entry).tips > 0, "a tip is given back once");
  --index.at(entry).tips;
  refresh_candidate(entry);
  prune(entry);
}

void GroupState::pin_path(EntryId end) {
  for (EntryId entry = end; entry != kNoEntry; entry = index.at(entry).parent) {
    EMBLEMA_CHECK(index.at(entry).pins < UINT32_MAX, "the pins on one entry fit 32 bits");
    ++index.at(entry).pins;
    refresh_candidate(entry);
  }
}

void GroupState::unpin_path(EntryId end) {
  for (EntryId entry = end; entry != kNoEntry; entry = index.at(entry).parent) {
    EMBLEMA_CHECK(index.at(entry).pins > 0, "a pin is given back once");
    --index.at(entry).pins;
    refresh_candidate(entry);
  }
  prune(end);
}

void GroupState::touch(EntryId entry, std::uint64_t tick) {
  Entry& node = index.at(entry);
  if (node.candidate) policy->remove(entry, node.last_use);
  node.last_use = tick;
  if (node.candidate) policy->add(entry, node.last_use);
}

bool GroupState::may_go(const Entry& entry) const {
  if (!entry.live || !entry.block || meta[*entry.block].refs > 0) return false;
  if (entry.pins > 0 && !EMBLEMA_CANARY(kEvictsPinned)) return false;
  // Growing groups lose leaves only: a later block is useless without the earlier ones. A window
  // needs just its last blocks, so there any block may go and its entry stays as a ghost.
  return !growing() || EMBLEMA_CANARY(kEvictsMiddle) || (entry.children == 0 && entry.tips == 0);
}

void GroupState::refresh_candidate(EntryId entry) {
  if (entry == kNoEntry) return;
  Entry& node = index.at(entry);
  const bool wanted = may_go(node);
  if (wanted == node.candidate) return;
  node.candidate = wanted;
  if (wanted) {
    policy->add(entry, node.last_use);
  } else {
    policy->remove(entry, node.last_use);
  }
}

void GroupState::refresh_candidates_of(std::uint32_t block) {
  for (EntryId entry = meta[block].first_entry; entry != kNoEntry;
       entry = index.at(entry).next_of_block) {
    refresh_candidate(entry);
  }
}

void GroupState::prune(EntryId entry) {
  while (entry != kNoEntry && index.at(entry).is_unused()) {
    entry = index.erase(entry);
    refresh_candidate(entry);
  }
}

void GroupState::evict(EntryId entry) {
  detach(entry);
  prune(entry);
}

}  // namespace emblema::block_internal

namespace emblema {

std::uint32_t BlockManager::State::domain_of(std::string_view tenant) {
  const auto found = domains.find(tenant);
  if (found != domains.end()) return found->second;
  const auto number = static_cast<std::uint32_t>(domains.size() + 1);
  domain_names.push_back(&domains.emplace(tenant, number).first->first);
  return number;
}

void BlockManager::State::queue_content(std::uint32_t group, BlockId id) {
  auto& meta = groups[group].meta[id.index];
  if (meta.is_pending || meta.content) return;
  meta.is_pending = true;
  pending.emplace_back(group, id);
  // Names of blocks that came free meanwhile are dropped before they outnumber the blocks.
  std::uint64_t blocks = 0;
  for (const auto& one : groups) blocks += one.pool.capacity();
  if (pending.size() <= 2 * blocks) return;
  std::erase_if(pending, [this](const auto& item) {
    return !groups[item.first].pool.is_current(item.second);
  });
}

std::uint64_t BlockManager::State::boundary_tokens() const {
  std::uint64_t boundary = 1;
  for (const auto& group : groups) boundary = std::lcm(boundary, group.layout.block_tokens);
  return boundary;
}

Result<std::vector<std::vector<EntryId>>> BlockManager::State::plan_room(
    std::span<const std::uint64_t> counts) {
  std::vector<std::vector<EntryId>> victims(counts.size());
  for (std::size_t i = 0; i < counts.size(); ++i) {
    auto& group = groups[i];
    if (EMBLEMA_CANARY(kRefusalEvicts)) {
      for (const EntryId victim : group.all_evictable()) group.evict(victim);
    }
    const std::uint64_t free = group.pool.free_count();
    auto plan = group.plan_eviction(counts[i] > free ? counts[i] - free : 0);
    if (!plan) {
      ++stats.refused_for_blocks;
      return fail(
          ErrorCode::OutOfBlocks,
          fmt::format("group '{}': {} blocks needed, {} free and {} idle of {}; release "
                      "sequences or pins, or open a larger pool",
                      group.layout.group_name, counts[i], free,
                      group.count(block_internal::BlockClass::kIdle), group.pool.capacity()));
    }
    victims[i] = std::move(*plan);
  }
  return victims;
}

Status BlockManager::State::has_room(std::span<const std::uint64_t> counts) {
  const auto victims = plan_room(counts);
  if (!victims) return propagate(victims);
  return {};
}

Status BlockManager::State::make_room(std::span<const std::uint64_t> counts) {
  const auto victims = plan_room(counts);
  if (!victims) return propagate(victims);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    auto& group = groups[i];
    const std::uint64_t free_before = group.pool.free_count();
    group.index.prefetch_erase((*victims)[i]);
    for (const EntryId victim : (*victims)[i]) {
      evict(static_cast<std::uint32_t>(i), victim, EvictionReason::kMemoryWanted);
    }
    stats.evicted_blocks += group.pool.free_count() - free_before;
  }
  return {};
}

}  // namespace emblema
