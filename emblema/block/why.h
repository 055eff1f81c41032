// Why a prompt is found, or not: an answer for people, block by block.
//
// "Evicted" comes from a record of the last 65,536 evictions (dead_record.h), so what is not in it
// may also be older. Ages are counted in uses of the cache, not in seconds.
//
// What it says of others: that an identity differs, and in which field, is said within the asker's
// own tenant only. Of other tenants it says at most that one of them has the same tokens and extra
// ids: whatever salt or adapter is asked with makes no difference there, and what they stored under
// a salt of their own is not spoken of at all. Even so the answer is a word about somebody else:
// it is made for operators. BlockManagerOptions::why_across_tenants switches it off.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "emblema/block/cache_event.h"

namespace emblema {

enum class Verdict : std::uint8_t {
  kHit,              // served
  kNotWhole,         // never served: at most all but one token, in whole blocks
  kNeverStored,      // under this identity, or any other that may be named
  kEvicted,          // was there
  kOlderThanRecord,  // never stored, or evicted before the record of the dead begins
  kIdentityDiffers,  // this tenant has it under another salt, adapter or extra id
  kAnotherTenant,    // somebody else has it; that is all there is to say
};

std::string_view to_string(Verdict verdict);  // "hit"

// One boundary's worth of the prompt: blocks of every group.
struct BlockAnswer {
  std::uint64_t first_token = 0;
  std::uint64_t tokens = 0;
  Verdict verdict = Verdict::kNeverStored;

  // Of what was not hit: the group that lacks its part, "" where that is all of them.
  std::string group = {};

  // kEvicted only.
  EvictionReason reason = EvictionReason::kMemoryWanted;
  std::uint64_t evicted_tick = 0;  // the cache's count of uses then
  std::uint64_t age_uses = 0;      // uses since

  std::vector<std::string> fields = {};  // kIdentityDiffers: "salt", "adapter", "extra ids"

  friend bool operator==(const BlockAnswer&, const BlockAnswer&) = default;
};

struct WhyReport {
  std::uint64_t asked_tokens = 0;
  std::uint64_t hit_tokens = 0;       // prefix hit: what start() would find
  std::uint64_t segment_tokens = 0;   // segment hit: all tokens, where segment() would find them
  std::uint64_t boundary_tokens = 0;  // a hit ends at a multiple of it
  std::vector<BlockAnswer> blocks;    // in token order; together they cover the prompt

  // For people: a line of the whole, then one for each run of equal answers.
  std::vector<std::string> describe() const;
};

}  // namespace emblema
