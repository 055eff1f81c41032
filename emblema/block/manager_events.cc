// What a BlockManager remembers and tells about what happened: the dead, the reasons of misses, the
// events.
#include <algorithm>
#include <utility>

#include "emblema/block/block_manager.h"
#include "emblema/block/chain.h"
#include "emblema/block/manager_state.h"

namespace emblema {

using block_internal::ChainLink;
using block_internal::first_needed;

// Callers ask first whether there is a sink, so that without one no event is even made.
void BlockManager::State::emit(CacheEvent event) {
  event.number = ++events_emitted;
  events_waiting.push_back(std::move(event));
}

std::string BlockManager::State::tenant_of(std::uint32_t group, std::uint32_t block) const {
  if (options.share_content_across_tenants) return {};
  const std::uint32_t domain = groups[group].meta[block].domain;
  return domain == 0 ? std::string() : *domain_names[domain - 1];
}

void BlockManager::State::note_stored(std::uint32_t group, EntryId entry, std::uint32_t block) {
  ++stats.stored_blocks;
  if (!options.event_sink) return;
  const Entry& node = groups[group].index.at(entry);
  emit({.kind = CacheEvent::Kind::kStored,
        .tokens = node.token_count,
        .group = groups[group].layout.group_name,
        .tenant = tenant_of(group, block),
        .key = node.key});
}

void BlockManager::State::note_content_collision(std::uint32_t group) {
  ++stats.content_collisions;
  if (!options.event_sink) return;
  emit({.kind = CacheEvent::Kind::kCollision,
        .group = groups[group].layout.group_name,
        .collision = CollisionKind::kContent});
}

void BlockManager::State::evict(std::uint32_t group, EntryId entry, EvictionReason reason) {
  const Entry& node = groups[group].index.at(entry);
  dead.add(group, node.key, {reason, tick});
  ++stats.evicted_entries;
  switch (reason) {
    case EvictionReason::kMemoryWanted:
      ++stats.evicted_for_memory;
      break;
    case EvictionReason::kAsked:
      ++stats.evicted_when_asked;
      break;
    case EvictionReason::kSuperseded:
      ++stats.evicted_superseded;
      break;
  }
  if (options.event_sink) {
    emit({.kind = CacheEvent::Kind::kEvicted,
          .tokens = node.token_count,
          .age_uses = tick - node.last_use,
          .group = groups[group].layout.group_name,
          .tenant = tenant_of(group, *node.block),
          .key = node.key,
          .eviction = reason});
  }
  groups[group].evict(entry);
}

// Of what a hit up to `boundary` would need: evicted, if any group lost the first that it lacks.
MissReason BlockManager::State::miss_reason(const std::vector<std::vector<ChainLink>>& chains,
                                            const std::vector<std::vector<EntryId>>& nodes,
                                            std::uint64_t boundary) const {
  for (std::uint32_t i = 0; i < groups.size(); ++i) {
    const std::uint64_t end = ceil_div(boundary, groups[i].layout.block_tokens);
    std::uint64_t lacking = std::min(first_needed(groups[i].layout, boundary), nodes[i].size());
    while (lacking < std::min(end, nodes[i].size()) &&
           groups[i].index.at(nodes[i][lacking]).block) {
      ++lacking;
    }
    if (lacking < std::min(end, chains[i].size()) && dead.find(i, chains[i][lacking].key)) {
      return MissReason::kEvicted;
    }
  }
  return dead.forgotten() > 0 ? MissReason::kOlderThanRecord : MissReason::kNeverStored;
}

void BlockManager::State::note_found(HitKind kind, std::string_view tenant, std::uint64_t asked,
                                     const ChainMatch& match) {
  const bool prefix = kind == HitKind::kPrefix;
  if (prefix ? match.tokens > 0 : match.tokens == asked) {
    ++(prefix ? stats.prefix_hits : stats.segment_hits);
    (prefix ? stats.prefix_hit_tokens : stats.segment_hit_tokens) += match.tokens;
    if (options.event_sink) {
      emit({.kind = CacheEvent::Kind::kHit,
            .tokens = match.tokens,
            .tenant = std::string(tenant),
            .hit = kind});
    }
  }
  if (match.tokens >= asked) return;
  const std::uint64_t missed = asked - match.tokens;
  switch (match.miss) {
    case MissReason::kNeverStored:
      stats.missed_tokens_never_stored += missed;
      break;
    case MissReason::kEvicted:
      stats.missed_tokens_evicted += missed;
      break;
    case MissReason::kOlderThanRecord:
      stats.missed_tokens_unknown += missed;
      break;
  }
  if (!options.event_sink) return;
  emit({.kind = CacheEvent::Kind::kMiss,
        .tokens = missed,
        .tenant = std::string(tenant),
        .hit = kind,
        .miss = match.miss});
}

std::string_view BlockManager::State::tenant_of_start(std::uint32_t group, EntryId start) const {
  const Entry& node = groups[group].index.at(start);
  if (node.content == nullptr) return {};
  if (node.content->identity != nullptr) return node.content->identity->tenant;
  if (node.content->segment != nullptr) return node.content->segment->identity.tenant;
  return {};
}

// Key collisions are counted where entries are compared; here they become events.
void BlockManager::deliver_events() const {
  if (!state_->options.event_sink) return;
  std::vector<CacheEvent> events;
  {
    const std::lock_guard lock(state_->mutex);
    for (; state_->key_collisions_told < state_->stats.key_collisions;
         ++state_->key_collisions_told) {
      state_->emit({.kind = CacheEvent::Kind::kCollision, .collision = CollisionKind::kKey});
    }
    events.swap(state_->events_waiting);
  }
  for (const CacheEvent& event : events) state_->options.event_sink(event);
}

}  // namespace emblema
