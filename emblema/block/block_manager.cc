// Taking, sealing and giving back blocks. Finding them: block_find.cc; sharing: block_share.cc.
#include "emblema/block/block_manager.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "emblema/block/manager_state.h"
#include "emblema/contract/canary.h"
#include "emblema/contract/check.h"

namespace emblema {

using block_internal::BlockClass;
using block_internal::GroupState;
using block_internal::Hold;

namespace {

// Zeroes what lies behind the filled rows of every page, padding included.
void zero_tail(const BlockLayout& layout, ByteSpan bytes, std::uint64_t filled_tokens) {
  for (const StreamPage& page : layout.pages) {
    const std::uint64_t rows = filled_tokens * page.rows / layout.block_tokens;
    const std::uint64_t used_bytes = rows * page.row_bytes;
    std::memset(bytes.data() + page.offset_bytes + used_bytes, 0, page.page_bytes - used_bytes);
  }
}

void copy_rows(const BlockLayout& layout, ConstByteSpan from, ByteSpan to,
               std::uint64_t filled_tokens) {
  for (const StreamPage& page : layout.pages) {
    const std::uint64_t rows = filled_tokens * page.rows / layout.block_tokens;
    std::memcpy(to.data() + page.offset_bytes, from.data() + page.offset_bytes,
                rows * page.row_bytes);
  }
}

// Blocks that one hold of the lock takes, and evicts others for: some twenty microseconds.
constexpr std::uint64_t kBlocksPerHold = 64;

bool is_one_piece(std::span<const std::uint64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}) <= kBlocksPerHold;
}

// Moves at most kBlocksPerHold blocks out of `left`.
std::vector<std::uint64_t> next_piece(std::vector<std::uint64_t>* left) {
  std::vector<std::uint64_t> piece;
  std::uint64_t room = kBlocksPerHold;
  for (std::uint64_t& count : *left) {
    piece.push_back(std::min(count, room));
    room -= piece.back();
    count -= piece.back();
  }
  return piece;
}

}  // namespace

BlockManager::BlockManager(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<BlockManager>> BlockManager::open(const ModelLayout& layout,
                                                         const PoolPlan& plan,
                                                         BlockManagerOptions options) {
  EMBLEMA_CHECK(plan.groups.size() == layout.groups.size(), "the plan was made for this layout");
  auto state = std::make_unique<State>();
  state->keys = BlockKeys(options.digest_bits_for_test);
  if (options.metadata_only) options.share_content = false;
  for (std::size_t group = 0; group < layout.groups.size(); ++group) {
    auto pool = BlockPool::open({.region = static_cast<std::uint32_t>(group),
                                 .blocks = plan.groups[group].blocks,
                                 .block_bytes = layout.groups[group].block_bytes,
                                 .metadata_only = options.metadata_only});
    if (!pool) return propagate(pool);
    state->groups.emplace_back(layout.groups[group], std::move(*pool), options.make_policy());
  }
  if (layout.snapshot && options.snapshots != SnapshotRule::kNone) {
    auto pool = BlockPool::open({.region = static_cast<std::uint32_t>(layout.groups.size()),
                                 .blocks = plan.snapshots,
                                 .block_bytes = layout.snapshot->block_bytes,
                                 .metadata_only = options.metadata_only});
    if (!pool) return propagate(pool);
    state->snapshot_group = static_cast<std::uint32_t>(state->groups.size());
    state->groups.emplace_back(*layout.snapshot, std::move(*pool), options.make_policy());
  }
  state->mutex.observe(options.lock_holds);
  state->options = std::move(options);
  return std::unique_ptr<BlockManager>(new BlockManager(std::move(state)));
}

BlockManager::~BlockManager() {
  for (const GroupState& group : state_->groups) {
    EMBLEMA_CHECK(group.holds() == 0, "blocks are given back before their manager goes");
  }
}

std::uint32_t BlockManager::group_count() const {
  return static_cast<std::uint32_t>(state_->groups.size());
}

std::optional<std::uint32_t> BlockManager::snapshot_group() const {
  return state_->snapshot_group;
}

std::uint64_t BlockManager::boundary_tokens() const {
  return state_->boundary_tokens();
}

const BlockLayout& BlockManager::layout(std::uint32_t group) const {
  return state_->groups[group].layout;
}

std::byte* BlockManager::region_base(std::uint32_t group) const {
  return state_->groups[group].pool.base();
}

bool BlockManager::huge_pages(std::uint32_t group) const {
  return state_->groups[group].pool.huge_pages();
}

Result<std::vector<std::vector<OpenBlock>>> BlockManager::take(
    std::span<const std::uint64_t> counts, std::string_view tenant) {
  EMBLEMA_CHECK(counts.size() == state_->groups.size(), "one count per group");
  if (!is_one_piece(counts)) {  // said before anything is evicted
    const std::lock_guard lock(state_->mutex);
    const Status room = state_->has_room(counts);
    if (!room) return propagate(room);
  }
  std::vector<std::vector<OpenBlock>> taken(counts.size());
  std::vector<std::uint64_t> left(counts.begin(), counts.end());
  while (true) {
    const std::vector<std::uint64_t> piece = next_piece(&left);
    // What was there at the first look may be gone now: then all that was taken is given back.
    const Status got = take_piece(piece, tenant, &taken);
    if (!got) return propagate(got);
    if (std::ranges::all_of(left, [](std::uint64_t count) { return count == 0; })) break;
  }
  checked();
  return taken;
}

// In one hold of the lock; bytes are zeroed after it.
Status BlockManager::take_piece(std::span<const std::uint64_t> counts, std::string_view tenant,
                                std::vector<std::vector<OpenBlock>>* taken) {
  std::vector<ByteSpan> to_zero;
  {
    const std::lock_guard lock(state_->mutex);
    const Status room = state_->make_room(counts);
    if (!room) return propagate(room);
    const std::uint32_t domain = state_->domain_of(tenant);
    for (std::uint32_t i = 0; i < counts.size(); ++i) {
      GroupState& group = state_->groups[i];
      for (std::uint64_t n = 0; n < counts[i]; ++n) {
        const GroupState::Taken block = group.take_open(domain);
        (*taken)[i].push_back(OpenBlock(Hold(this, i, block.id)));
        const bool foreign = !EMBLEMA_CANARY(kForeignNotZeroed) && block.last_domain != 0 &&
                             block.last_domain != domain;
        if (foreign && !group.pool.metadata_only()) {
          to_zero.push_back(group.pool.bytes(block.id.index));
        }
      }
    }
    state_->stats.zeroed_blocks += to_zero.size();
  }
  for (const ByteSpan bytes : to_zero) std::memset(bytes.data(), 0, bytes.size());
  return {};
}

SealedBlock BlockManager::seal(OpenBlock&& block, std::uint64_t filled_tokens) {
  GroupState& group = state_->groups[block.group()];
  EMBLEMA_CHECK(block.holds() && filled_tokens <= group.layout.block_tokens,
                "an open block with at most all its rows filled");
  const ByteSpan bytes = block.bytes();
  if (!bytes.empty() && !EMBLEMA_CANARY(kTailNotZeroed))
    zero_tail(group.layout, bytes, filled_tokens);
  {
    const std::lock_guard lock(state_->mutex);
    group.set_sealed(block.id(), filled_tokens);
  }
  SealedBlock sealed(std::move(block.hold_));
  checked();
  return sealed;
}

bool BlockManager::needs_copy(const SealedBlock& block) const {
  const std::lock_guard lock(state_->mutex);
  const auto& meta = state_->groups[block.group()].meta[block.id().index];
  return meta.is_shared();
}

// The same memory, where nobody else can be reading it.
std::optional<OpenBlock> BlockManager::reopen_in_place(SealedBlock& block) {
  EMBLEMA_CHECK(block.holds(), "a block to reopen");
  const std::lock_guard lock(state_->mutex);
  GroupState& group = state_->groups[block.group()];
  const auto& meta = group.meta[block.id().index];
  if (meta.is_shared() && !EMBLEMA_CANARY(kNotCopiedOnWrite)) return std::nullopt;
  group.set_open(block.id());
  return OpenBlock(std::move(block.hold_));
}

OpenBlock BlockManager::copy_into(SealedBlock&& block, OpenBlock&& spare) {
  EMBLEMA_CHECK(spare.holds() && spare.group() == block.group(),
                "a shared block is copied into a spare of its group");
  const GroupState& group = state_->groups[block.group()];
  std::uint64_t filled_tokens = 0;
  {
    const std::lock_guard lock(state_->mutex);
    filled_tokens = group.meta[block.id().index].filled_tokens;
    filled_tokens -= EMBLEMA_CANARY(kCopiedShort) ? 1 : 0;
    ++state_->stats.copied_blocks;
  }
  OpenBlock copy = std::move(spare);
  if (!copy.bytes().empty()) copy_rows(group.layout, block.bytes(), copy.bytes(), filled_tokens);
  block.hold_.reset();
  checked();
  return copy;
}

OpenBlock BlockManager::reopen(SealedBlock&& block, OpenBlock* spare) {
  if (auto same = reopen_in_place(block)) return std::move(*same);
  EMBLEMA_CHECK(spare != nullptr, "a shared block is copied into a spare");
  return copy_into(std::move(block), std::move(*spare));
}

Result<OpenBlock> BlockManager::reopen(SealedBlock&& block, std::string_view tenant) {
  if (auto same = reopen_in_place(block)) return std::move(*same);
  std::vector<std::uint64_t> counts(group_count(), 0);
  counts[block.group()] = 1;
  auto taken = take(counts, tenant);
  if (!taken) return propagate(taken);
  return copy_into(std::move(block), std::move((*taken)[block.group()].front()));
}

void BlockManager::release_hold(std::uint32_t group, BlockId id) {
  {
    const std::lock_guard lock(state_->mutex);
    GroupState& state = state_->groups[group];
    EMBLEMA_CHECK(state.pool.is_current(id), "a hold on a block of this life");
    state.drop_ref(id.index, ++state_->tick);
  }
  checked();
}

SealedBlock BlockManager::share(const SealedBlock& block) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->groups[block.group()].add_ref(block.id().index);
  }
  return SealedBlock(Hold(this, block.group(), block.id()));
}

std::uint64_t BlockManager::evict_all() {
  std::uint64_t freed = 0;
  {
    const std::lock_guard lock(state_->mutex);
    for (std::uint32_t i = 0; i < state_->groups.size(); ++i) {
      const GroupState& group = state_->groups[i];
      const std::uint64_t free_before = group.pool.free_count();
      for (const EntryId victim : group.all_evictable()) {
        state_->evict(i, victim, EvictionReason::kAsked);
      }
      freed += group.pool.free_count() - free_before;
    }
    state_->stats.evicted_blocks += freed;
  }
  checked();
  return freed;
}

BlockStats BlockManager::stats() const {
  const std::lock_guard lock(state_->mutex);
  BlockStats stats = state_->stats;
  stats.dead_keys = state_->dead.size();
  stats.dead_keys_forgotten = state_->dead.forgotten();
  return stats;
}

BlockCounts BlockManager::counts(std::uint32_t group) const {
  const std::lock_guard lock(state_->mutex);
  const GroupState& state = state_->groups[group];
  BlockCounts counts;
  counts.capacity = state.pool.capacity();
  counts.free = state.count(BlockClass::kFree);
  counts.open = state.count(BlockClass::kOpen);
  counts.referenced = state.count(BlockClass::kReferenced);
  counts.idle = state.count(BlockClass::kIdle);
  counts.holds = state.holds();
  counts.entries = state.index.live_count();
  const auto logical_bytes = checked_mul(counts.holds, state.layout.block_bytes);
  EMBLEMA_CHECK(logical_bytes, "what is held fits 64 bits of bytes");
  counts.logical_bytes = *logical_bytes;
  counts.physical_bytes = (counts.open + counts.referenced) * state.layout.block_bytes;
  return counts;
}

void Hold::reset() {
  if (manager_ == nullptr) return;
  std::exchange(manager_, nullptr)->release_hold(group_, id_);
}

ByteSpan OpenBlock::bytes() const {
  EMBLEMA_CHECK(holds(), "an open block");
  return hold_.manager()->state_->groups[group()].pool.bytes(id().index);
}

ConstByteSpan SealedBlock::bytes() const {
  EMBLEMA_CHECK(holds(), "a sealed block");
  return hold_.manager()->state_->groups[group()].pool.bytes(id().index);
}

SealedBlock SealedBlock::share() const {
  EMBLEMA_CHECK(holds(), "a sealed block");
  return hold_.manager()->share(*this);
}

Handle SealedBlock::handle() const {
  EMBLEMA_CHECK(holds(), "a sealed block");
  const auto& state = *hold_.manager()->state_;
  const std::lock_guard lock(state.mutex);
  return state.groups[group()].pool.handle(id());
}

}  // namespace emblema
