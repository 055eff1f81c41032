// Asking why. The lock is taken for a few entries at a time and nothing is held in between: what
// goes meanwhile is answered as if it had gone before.
#include "emblema/block/why.h"

#include <algorithm>
#include <utility>

#include "emblema/block/block_manager.h"
#include "emblema/block/chain.h"
#include "emblema/block/manager_state.h"
#include "emblema/contract/check.h"

namespace emblema {

using block_internal::chain_of;
using block_internal::ChainLink;
using block_internal::first_needed;
using block_internal::GroupState;
using block_internal::nodes_of;

namespace {

// Entries looked at under one lock, and other identities that are walked.
constexpr std::uint32_t kEntriesPerLock = 1024;
constexpr std::size_t kOthersMax = 1024;

// A chain of the same tokens that starts elsewhere: under another identity, or behind a block with
// other extra ids.
struct OtherChain {
  EntryId start = kNoEntry;
  Digest key;                       // of `start`
  std::uint64_t first_block = 0;    // the chain's block behind `start`
  std::vector<std::string> fields;  // that differ; none: another tenant's
  std::uint64_t end_tokens = 0;     // up to where it is stored
};

std::vector<std::string> differing_fields(const CacheIdentity& a, const CacheIdentity& b) {
  std::vector<std::string> fields;
  if (a.geometry != b.geometry) fields.emplace_back("geometry");
  if (a.weights != b.weights) fields.emplace_back("weights");
  if (a.adapter != b.adapter) fields.emplace_back("adapter");
  if (a.salt != b.salt) fields.emplace_back("salt");
  return fields;
}

}  // namespace

// One question. Lives on the asker's stack.
class BlockManager::Why {
 public:
  Why(const State& state, const CacheIdentity& identity, std::span<const TokenId> tokens,
      std::span<const ExtraId> extras, std::uint64_t limit)
      : state_(state), identity_(identity), limit_(limit) {
    for (const GroupState& group : state.groups) {
      chains_.push_back(chain_of(state.keys, state.keys.root(identity), group.layout.block_tokens,
                                 tokens, extras, false));
    }
    report_.asked_tokens = tokens.size();
    report_.boundary_tokens = state.boundary_tokens();
  }

  WhyReport answer(const BlockManager& manager) {
    {
      const std::lock_guard lock(state_.mutex);
      find_own(manager);
    }
    if (report_.hit_tokens < limit_ / report_.boundary_tokens * report_.boundary_tokens) {
      find_others();
      for (OtherChain& other : others_) follow(&other);
      // What differs least is named first; another tenant only where nothing of one's own is.
      std::ranges::stable_sort(others_, {}, [](const OtherChain& other) {
        return other.fields.empty() ? SIZE_MAX : other.fields.size();
      });
    }
    const std::lock_guard lock(state_.mutex);
    for (std::uint64_t at = 0; at < report_.asked_tokens; at += report_.boundary_tokens) {
      report_.blocks.push_back(answer_at(at));
    }
    return std::move(report_);
  }

 private:
  // REQUIRES: the lock.
  void find_own(const BlockManager& manager) {
    const Digest key = state_.keys.root(identity_);
    const EntryProof proof{.kind = EntryKind::kRoot, .identity = &identity_};
    for (std::uint32_t i = 0; i < state_.groups.size(); ++i) {
      const GroupState& group = state_.groups[i];
      const EntryId root = group.index.find(key, proof, &ignored_);
      std::vector<EntryId> nodes;
      if (root != kNoEntry) nodes = nodes_of(group, root, chains_[i], &ignored_);
      if (i == 0) first_lacking_parent_ = nodes.empty() ? root : nodes.back();
      std::vector<bool> there(chains_[i].size(), false);
      for (std::size_t block = 0; block < nodes.size(); ++block) {
        there[block] = group.index.at(nodes[block]).block.has_value();
      }
      there_.push_back(std::move(there));
      nodes_.push_back(std::move(nodes));
    }
    std::string cut_by;
    report_.hit_tokens = manager.whole_boundary(nodes_, limit_, {}, &cut_by);
  }

  // Looks at every entry of the first group: roots of other identities, and the block that would
  // be found next if its extra ids were the same.
  void find_others() {
    const GroupState& group = state_.groups[0];
    std::uint32_t slots = 0;
    std::uint32_t at = 0;
    do {
      const std::lock_guard lock(state_.mutex);
      slots = group.index.slot_count();
      for (const std::uint32_t end = std::min(slots, at + kEntriesPerLock); at < end; ++at) {
        if (group.index.at(at).live && others_.size() < kOthersMax) consider(at);
      }
    } while (at < slots);
  }

  void consider(EntryId id) {
    const Entry& entry = state_.groups[0].index.at(id);
    if (entry.kind == EntryKind::kRoot) {
      const CacheIdentity& other = *entry.content->identity;
      if (other == identity_) return;
      const bool same_tenant = other.tenant == identity_.tenant;
      if (!same_tenant && (!state_.options.why_across_tenants || !other.salt.empty())) {
        return;
      }
      others_.push_back(
          {.start = id,
           .key = entry.key,
           .first_block = 0,
           .fields = same_tenant ? differing_fields(other, identity_) : std::vector<std::string>{},
           .end_tokens = 0});
      return;
    }
    const std::size_t next = nodes_[0].size();
    if (entry.kind != EntryKind::kBlock || first_lacking_parent_ == kNoEntry ||
        entry.parent != first_lacking_parent_ || next >= chains_[0].size()) {
      return;
    }
    const ChainLink& link = chains_[0][next];
    const std::span<const ExtraId> extras =
        entry.content == nullptr ? std::span<const ExtraId>() : entry.content->extras;
    if (std::ranges::equal(state_.groups[0].index.tokens_of(id), link.tokens) &&
        !std::ranges::equal(extras, link.extras)) {
      others_.push_back({.start = id,
                         .key = entry.key,
                         .first_block = next + 1,
                         .fields = {"extra ids"},
                         .end_tokens = (next + 1) * state_.groups[0].layout.block_tokens});
    }
  }

  // Hashes and looks up one block after the other, as far as it is stored.
  void follow(OtherChain* other) {
    const GroupState& group = state_.groups[0];
    EntryId parent = other->start;
    Digest key = other->key;
    for (std::uint64_t block = other->first_block; block < chains_[0].size(); ++block) {
      const ChainLink& link = chains_[0][block];
      key = state_.keys.block(key, link.tokens, link.extras);
      const EntryProof proof{.kind = EntryKind::kBlock,
                             .parent = parent,
                             .tokens = link.tokens,
                             .extras = link.extras};
      const std::lock_guard lock(state_.mutex);
      parent = group.index.find(key, proof, &ignored_);
      if (parent == kNoEntry) return;
      other->end_tokens = (block + 1) * group.layout.block_tokens;
    }
  }

  // REQUIRES: the lock.
  BlockAnswer answer_at(std::uint64_t first) const {
    const std::uint64_t end = first + report_.boundary_tokens;
    BlockAnswer answer{.first_token = first, .tokens = std::min(end, report_.asked_tokens) - first};
    if (end > limit_) {
      answer.verdict = Verdict::kNotWhole;
    } else if (end <= report_.hit_tokens) {
      answer.verdict = Verdict::kHit;
    } else {
      explain(first, end, &answer);
    }
    return answer;
  }

  void explain(std::uint64_t first, std::uint64_t end, BlockAnswer* answer) const {
    std::size_t groups_lacking = 0;
    bool named = false;  // a group that lost it is named before one that never had it
    for (std::uint32_t i = 0; i < state_.groups.size(); ++i) {
      const bool decides =
          i != state_.snapshot_group || state_.options.snapshots != SnapshotRule::kNewest;
      const auto lacking = decides ? first_lacking(i, first, end) : std::nullopt;
      if (!lacking) continue;
      if (groups_lacking++ == 0) answer->group = state_.groups[i].layout.group_name;
      const auto death = state_.dead.find(i, chains_[i][*lacking].key);
      if (!death || named) continue;
      named = true;
      answer->verdict = Verdict::kEvicted;
      answer->group = state_.groups[i].layout.group_name;
      answer->reason = death->reason;
      answer->evicted_tick = death->tick;
      answer->age_uses = state_.tick - death->tick;
    }
    if (groups_lacking == state_.groups.size() && groups_lacking > 1) answer->group.clear();
    if (named) return;
    answer->verdict =
        state_.dead.forgotten() > 0 ? Verdict::kOlderThanRecord : Verdict::kNeverStored;
    for (const OtherChain& other : others_) {
      if (other.end_tokens < end) continue;
      answer->verdict = other.fields.empty() ? Verdict::kAnotherTenant : Verdict::kIdentityDiffers;
      answer->fields = other.fields;
      answer->group.clear();
      return;
    }
  }

  // The first block that this group lacks of [first, end), or else of what a window before `end`
  // needs.
  std::optional<std::uint64_t> first_lacking(std::uint32_t group, std::uint64_t first,
                                             std::uint64_t end) const {
    const BlockLayout& layout = state_.groups[group].layout;
    const std::vector<bool>& there = there_[group];
    const std::uint64_t last = end / layout.block_tokens;
    const std::uint64_t needed = first_needed(layout, end);
    for (std::uint64_t b = std::max(first / layout.block_tokens, needed); b < last; ++b) {
      if (!there[b]) return b;
    }
    for (std::uint64_t b = needed; b < last; ++b) {
      if (!there[b]) return b;
    }
    return std::nullopt;
  }

  const State& state_;
  const CacheIdentity& identity_;
  std::uint64_t limit_;
  std::vector<std::vector<ChainLink>> chains_;  // per group
  std::vector<std::vector<EntryId>> nodes_;     // per group, as they were when asked
  std::vector<std::vector<bool>> there_;        // per group and block
  EntryId first_lacking_parent_ = kNoEntry;     // in the first group
  std::vector<OtherChain> others_;
  std::uint64_t ignored_ = 0;  // collisions met by asking are not counted
  WhyReport report_;
};

WhyReport BlockManager::why(const CacheIdentity& identity, std::span<const TokenId> tokens,
                            std::span<const ExtraId> extras, std::uint64_t limit) const {
  EMBLEMA_CHECK(limit <= tokens.size(), "a limit within the tokens");
  WhyReport report = Why(*state_, identity, tokens, extras, limit).answer(*this);
  report.segment_tokens = peek_segment_tokens(std::make_shared<const SegmentContent>(
      SegmentContent{identity, {tokens.begin(), tokens.end()}, {extras.begin(), extras.end()}}));
  return report;
}

}  // namespace emblema
