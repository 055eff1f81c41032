#include "emblema/block/prefix_index.h"

#include <algorithm>

#include "emblema/contract/canary.h"
#include "emblema/contract/check.h"

namespace emblema {

bool Entry::matches(const EntryProof& proof) const {
  if (kind != proof.kind || parent != proof.parent || delta != proof.delta) return false;
  if (EMBLEMA_CANARY(kTokensNotCompared)) return true;
  if (!std::ranges::equal(tokens, proof.tokens)) return false;
  if (!std::ranges::equal(extras, proof.extras)) return false;
  if ((identity == nullptr) != (proof.identity == nullptr)) return false;
  if (identity && !EMBLEMA_CANARY(kIdentityNotCompared) && *identity != *proof.identity)
    return false;
  if ((segment == nullptr) != (proof.segment == nullptr)) return false;
  return segment == proof.segment || *segment == *proof.segment;
}

EntryId PrefixIndex::find(const Digest& key, const EntryProof& proof,
                          std::uint64_t* key_collisions) const {
  const auto [first, last] = by_key_.equal_range(key);
  for (auto it = first; it != last; ++it) {
    if (entries_[it->second].matches(proof)) return it->second;
    ++*key_collisions;
  }
  return kNoEntry;
}

EntryId PrefixIndex::insert(const Digest& key, const EntryProof& proof) {
  EntryId id = 0;
  if (unused_.empty()) {
    id = static_cast<EntryId>(entries_.size());
    entries_.emplace_back();
  } else {
    id = unused_.back();
    unused_.pop_back();
  }
  Entry& entry = entries_[id];
  entry = Entry{};
  entry.kind = proof.kind;
  entry.live = true;
  entry.key = key;
  entry.parent = proof.parent;
  entry.tokens.assign(proof.tokens.begin(), proof.tokens.end());
  entry.extras.assign(proof.extras.begin(), proof.extras.end());
  if (proof.identity != nullptr) entry.identity = std::make_unique<CacheIdentity>(*proof.identity);
  entry.segment = proof.segment;
  entry.delta = proof.delta;
  if (proof.parent != kNoEntry) {
    EMBLEMA_CHECK(entries_[proof.parent].live, "a parent outlives its children");
    ++entries_[proof.parent].children;
  }
  by_key_.emplace(key, id);
  return id;
}

EntryId PrefixIndex::erase(EntryId id) {
  Entry& entry = entries_[id];
  EMBLEMA_CHECK(entry.live && entry.is_unused(), "only an entry that nothing needs is erased");
  const auto [first, last] = by_key_.equal_range(entry.key);
  const auto found = std::find_if(first, last, [&](const auto& item) { return item.second == id; });
  EMBLEMA_CHECK(found != last, "a live entry is listed under its key");
  by_key_.erase(found);
  const EntryId parent = entry.parent;
  if (parent != kNoEntry) --entries_[parent].children;
  entry = Entry{};
  unused_.push_back(id);
  return parent;
}

}  // namespace emblema
