#include "emblema/block/prefix_index.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "emblema/contract/canary.h"
#include "emblema/contract/check.h"

namespace emblema {

PrefixIndex::PrefixIndex(std::uint64_t block_tokens, std::uint64_t entries)
    : block_tokens_(block_tokens) {
  resize_table(entries);
}

std::span<const TokenId> PrefixIndex::tokens_of(EntryId id) const {
  const Entry& entry = entries_[id];
  if (entry.token_count > block_tokens_) return entry.content->tokens;
  return {token_room(id), entry.token_count};
}

bool PrefixIndex::matches(EntryId id, const EntryProof& proof) const {
  const Entry& entry = entries_[id];
  if (entry.kind != proof.kind || entry.parent != proof.parent) return false;
  if (EMBLEMA_CANARY(kTokensNotCompared)) return true;
  if (!std::ranges::equal(tokens_of(id), proof.tokens)) return false;
  if (entry.content == nullptr) {
    return proof.extras.empty() && proof.identity == nullptr && proof.segment == nullptr &&
           proof.delta == 0;
  }
  const EntryContent& content = *entry.content;
  if (content.delta != proof.delta || !std::ranges::equal(content.extras, proof.extras)) {
    return false;
  }
  if ((content.identity == nullptr) != (proof.identity == nullptr)) return false;
  const bool other = content.identity && *content.identity != *proof.identity;
  if (other && !EMBLEMA_CANARY(kIdentityNotCompared)) return false;
  if ((content.segment == nullptr) != (proof.segment == nullptr)) return false;
  return content.segment == proof.segment || *content.segment == *proof.segment;
}

EntryId PrefixIndex::find(const Digest& key, const EntryProof& proof,
                          std::uint64_t* key_collisions) const {
  const std::uint32_t hash = hash_of(key);
  for (std::uint64_t at = hash & mask_; slots_[at].entry != kNoEntry; at = (at + 1) & mask_) {
    const Slot slot = slots_[at];
    if (slot.hash != hash || entries_[slot.entry].key != key) continue;
    if (matches(slot.entry, proof)) return slot.entry;
    ++*key_collisions;
  }
  return kNoEntry;
}

void PrefixIndex::prefetch_entry(const Digest& key) const {
  constexpr std::uint64_t kLineBytes = 64;
  const std::uint32_t hash = hash_of(key);
  for (std::uint64_t at = hash & mask_; slots_[at].entry != kNoEntry; at = (at + 1) & mask_) {
    if (slots_[at].hash != hash) continue;
    const EntryId id = slots_[at].entry;
    const auto* entry = reinterpret_cast<const char*>(&entries_[id]);
    __builtin_prefetch(entry);
    __builtin_prefetch(entry + kLineBytes);
    const auto* tokens = reinterpret_cast<const char*>(token_room(id));
    for (std::uint64_t byte = 0; byte < block_tokens_ * sizeof(TokenId); byte += kLineBytes) {
      __builtin_prefetch(tokens + byte);
    }
    return;
  }
}

EntryId PrefixIndex::insert(const Digest& key, const EntryProof& proof) {
  const EntryId id = unused_id();
  Entry& entry = entries_[id];
  entry = Entry{};
  entry.kind = proof.kind;
  entry.live = true;
  entry.key = key;
  entry.parent = proof.parent;
  store_content(id, proof);
  if (proof.parent != kNoEntry) {
    EMBLEMA_CHECK(entries_[proof.parent].live, "a parent outlives its children");
    ++entries_[proof.parent].children;
  }
  ++live_count_;
  if (2 * live_count_ > slots_.size()) resize_table(2 * live_count_);
  list(hash_of(key), id);
  return id;
}

EntryId PrefixIndex::unused_id() {
  if (!unused_.empty()) {
    const EntryId id = unused_.back();
    unused_.pop_back();
    return id;
  }
  const auto id = static_cast<EntryId>(entries_.size());
  entries_.grow_to(entries_.size() + 1);
  if (id / kTokenChunk == tokens_.size()) {
    tokens_.push_back(std::make_unique_for_overwrite<TokenId[]>(kTokenChunk * block_tokens_));
  }
  return id;
}

void PrefixIndex::store_content(EntryId id, const EntryProof& proof) {
  Entry& entry = entries_[id];
  entry.token_count = static_cast<std::uint32_t>(proof.tokens.size());
  const bool fits = proof.tokens.size() <= block_tokens_;
  if (fits) std::ranges::copy(proof.tokens, token_room(id));
  if (fits && proof.extras.empty() && proof.identity == nullptr && proof.segment == nullptr &&
      proof.delta == 0) {
    return;
  }
  entry.content = std::make_unique<EntryContent>();
  entry.content->extras.assign(proof.extras.begin(), proof.extras.end());
  if (proof.identity != nullptr) {
    entry.content->identity = std::make_unique<CacheIdentity>(*proof.identity);
  }
  entry.content->segment = proof.segment;
  entry.content->delta = proof.delta;
  if (!fits) entry.content->tokens.assign(proof.tokens.begin(), proof.tokens.end());
}

EntryId PrefixIndex::erase(EntryId id) {
  Entry& entry = entries_[id];
  EMBLEMA_CHECK(entry.live && entry.is_unused(), "only an entry that nothing needs is erased");
  unlist(hash_of(entry.key), id);
  --live_count_;
  const EntryId parent = entry.parent;
  if (parent != kNoEntry) --entries_[parent].children;
  entry = Entry{};
  unused_.push_back(id);
  return parent;
}

void PrefixIndex::list(std::uint32_t hash, EntryId id) {
  std::uint64_t at = hash & mask_;
  while (slots_[at].entry != kNoEntry) at = (at + 1) & mask_;
  slots_[at] = {hash, id};
}

// What stood behind the slot moves up, unless it would then stand before where probing for it
// begins.
void PrefixIndex::unlist(std::uint32_t hash, EntryId id) {
  std::uint64_t hole = hash & mask_;
  while (slots_[hole].entry != id) {
    EMBLEMA_CHECK(slots_[hole].entry != kNoEntry, "a live entry is listed under its key");
    hole = (hole + 1) & mask_;
  }
  for (std::uint64_t at = (hole + 1) & mask_; slots_[at].entry != kNoEntry; at = (at + 1) & mask_) {
    const std::uint64_t home = slots_[at].hash & mask_;
    if (((at - home) & mask_) < ((at - hole) & mask_)) continue;
    slots_[hole] = slots_[at];
    hole = at;
  }
  slots_[hole] = {};
}

void PrefixIndex::resize_table(std::uint64_t entries) {
  constexpr std::uint64_t kEntriesMin = 8;
  const std::vector<Slot> before =
      std::exchange(slots_, std::vector<Slot>(std::bit_ceil(2 * std::max(entries, kEntriesMin))));
  mask_ = slots_.size() - 1;
  for (const Slot& slot : before) {
    if (slot.entry != kNoEntry) list(slot.hash, slot.entry);
  }
}

}  // namespace emblema
