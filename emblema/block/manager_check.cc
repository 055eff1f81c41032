// The walker: recomputes every count and link from scratch.
#include <vector>

#include <fmt/format.h>

#include "emblema/block/manager_state.h"
#include "emblema/contract/check.h"

namespace emblema::block_internal {
namespace {

tl::unexpected<Error> broken(const GroupState& group, const std::string& what) {
  return fail(ErrorCode::Corrupt, fmt::format("group '{}': {}", group.layout.group_name, what));
}

struct Recount {
  explicit Recount(const GroupState& group)
      : entries_of_block(group.pool.capacity(), 0), children_of(group.index.slot_count(), 0) {}
  std::vector<std::uint32_t> entries_of_block;
  std::vector<std::uint32_t> children_of;
  std::uint64_t live = 0;
  std::uint64_t candidates = 0;
};

Status check_entry(const GroupState& group, EntryId id, Recount* recount) {
  const Entry& entry = group.index.at(id);
  if (!entry.live) return {};
  ++recount->live;
  recount->candidates += entry.candidate ? 1 : 0;
  if (entry.candidate != group.may_go(entry)) {
    return broken(group, fmt::format("entry {} is listed for eviction: {}, may go: {}", id,
                                     entry.candidate, group.may_go(entry)));
  }
  if (entry.parent != kNoEntry) {
    const Entry& parent = group.index.at(entry.parent);
    if (!parent.live) return broken(group, fmt::format("entry {} lost its parent (I12)", id));
    if (group.growing() && parent.kind == EntryKind::kBlock && !parent.block) {
      return broken(group, fmt::format("entry {} has a parent without block (I12)", id));
    }
    if (entry.pins > parent.pins) {
      return broken(group, fmt::format("entry {} is pinned, its parent less", id));
    }
    ++recount->children_of[entry.parent];
  }
  if (entry.is_unused()) return broken(group, fmt::format("entry {} serves nobody", id));
  if (entry.block) {
    if (*entry.block >= group.meta.size() || group.meta[*entry.block].is_open ||
        !group.pool.is_current(group.pool.id_of(*entry.block))) {
      return broken(group, fmt::format("entry {} finds a block that is not sealed", id));
    }
    ++recount->entries_of_block[*entry.block];
  }
  return {};
}

Status check_block(const GroupState& group, std::uint32_t block, const Recount& recount,
                   std::uint64_t seed, unsigned digest_bits) {
  const BlockMeta& meta = group.meta[block];
  if (meta.entries != recount.entries_of_block[block]) {
    return broken(group, fmt::format("block {} counts {} entries, {} hold it (I2)", block,
                                     meta.entries, recount.entries_of_block[block]));
  }
  std::uint32_t listed = 0;
  for (EntryId entry = meta.first_entry; entry != kNoEntry && listed <= meta.entries;
       entry = group.index.at(entry).next_of_block) {
    ++listed;
  }
  if (listed != meta.entries) {
    return broken(group,
                  fmt::format("block {} lists {} of its {} entries", block, listed, meta.entries));
  }
  const bool taken = group.pool.is_current(group.pool.id_of(block));
  if (taken == (meta.classify() == BlockClass::kFree)) {
    return broken(group, fmt::format("block {} is {} but has {} refs and {} entries (I3)", block,
                                     taken ? "taken" : "free", meta.refs, meta.entries));
  }
  if (meta.content) {
    if (meta.is_open || !taken || !group.content.contains(*meta.content, block)) {
      return broken(group, fmt::format("block {} is wrongly listed by content", block));
    }
    if (content_digest(group.pool.bytes(block), seed, digest_bits) != meta.content->digest) {
      return broken(group, fmt::format("block {} was written after it was sealed (I5)", block));
    }
  }
  return {};
}

}  // namespace

Status check_group(const GroupState& group, std::uint64_t seed, unsigned digest_bits) {
  Recount recount(group);
  for (EntryId id = 0; id < group.index.slot_count(); ++id) {
    if (Status ok = check_entry(group, id, &recount); !ok) return ok;
  }
  for (EntryId id = 0; id < group.index.slot_count(); ++id) {
    const Entry& entry = group.index.at(id);
    if (entry.live && entry.children != recount.children_of[id]) {
      return broken(group, fmt::format("entry {} counts {} children, has {}", id, entry.children,
                                       recount.children_of[id]));
    }
  }
  if (recount.live != group.index.live_count() || recount.candidates != group.policy->size()) {
    return broken(group, fmt::format("{} entries of {} listed, {} candidates of {} listed",
                                     group.index.live_count(), recount.live, group.policy->size(),
                                     recount.candidates));
  }
  std::uint64_t classes[4] = {0, 0, 0, 0};
  std::uint64_t holds = 0;
  std::uint64_t with_content = 0;
  for (std::uint32_t block = 0; block < group.meta.size(); ++block) {
    if (Status ok = check_block(group, block, recount, seed, digest_bits); !ok) return ok;
    ++classes[static_cast<std::size_t>(group.meta[block].classify())];
    holds += group.meta[block].refs;
    with_content += group.meta[block].content ? 1 : 0;
  }
  for (const BlockClass which :
       {BlockClass::kFree, BlockClass::kOpen, BlockClass::kReferenced, BlockClass::kIdle}) {
    const std::uint64_t recounted = classes[static_cast<std::size_t>(which)];
    if (recounted != group.count(which)) {
      return broken(group, fmt::format("class {} counts {} blocks, has {} (I9)",
                                       static_cast<int>(which), group.count(which), recounted));
    }
  }
  if (group.count(BlockClass::kFree) != group.pool.free_count() || holds != group.holds() ||
      with_content != group.content.size()) {
    return broken(group, fmt::format("{} free blocks against {} in the pool, {} holds against {}, "
                                     "{} contents against {} (I9)",
                                     group.count(BlockClass::kFree), group.pool.free_count(),
                                     group.holds(), holds, group.content.size(), with_content));
  }
  return {};
}

}  // namespace emblema::block_internal

namespace emblema {

Status BlockManager::check_invariants() const {
  const std::lock_guard lock(state_->mutex);
  const unsigned digest_bits = std::min(state_->options.digest_bits_for_test, 128u);
  for (const auto& group : state_->groups) {
    if (Status ok = check_group(group, state_->options.content_seed, digest_bits); !ok) return ok;
  }
  const BlockStats& stats = state_->stats;
  const std::uint64_t remembered = state_->dead.size() + state_->dead.forgotten();
  const std::uint64_t by_reason =
      stats.evicted_for_memory + stats.evicted_when_asked + stats.evicted_superseded;
  if (stats.evicted_entries != by_reason || stats.evicted_entries != remembered) {
    return fail(ErrorCode::Corrupt,
                fmt::format("{} evictions counted, {} by their reasons, {} remembered",
                            stats.evicted_entries, by_reason, remembered));
  }
  return {};
}

void BlockManager::checked() const {
#ifdef EMBLEMA_CHECKED
  std::uint64_t blocks = 0;
  for (const auto& group : state_->groups) blocks += group.pool.capacity();
  if (blocks <= kCheckedBlocksMax) {
    const Status ok = check_invariants();
    EMBLEMA_CHECK(ok, ok ? "" : ok.error().message.c_str());
  }
#endif
  deliver_events();
}

}  // namespace emblema
