// Checks of RandomRun (random_operations_testing.h) about what tenants are told and charged.
#pragma once

#include "emblema/session/random_operations_testing.h"

namespace emblema::session_testing {

// What was stored under this identity is a hit or was evicted; what was not is neither. With cut
// digests the record of the dead takes one key for another, so only hits are certain.
inline void RandomRun::ask_why(std::size_t identity, std::span<const TokenId> tokens,
                               const std::vector<std::uint64_t>& boundaries) {
  before_ = counts_of(engine_);
  const BlockStats stats = engine_.stats().blocks;
  const auto report = engine_.why(request_of(identity, tokens));
  if (!report) return expect(false, "why: " + report.error().message);
  expect(counts_of(engine_) == before_ && engine_.stats().blocks == stats, "why() changed a count");
  why_hit_ = report->hit_tokens;
  expect(report->blocks.size() == ceil_div(tokens.size(), kBlock), "why() left out blocks");
  for (std::size_t i = 0; i < report->blocks.size() && problem_.empty(); ++i) {
    const Verdict verdict = report->blocks[i].verdict;
    const bool whole = i < boundaries.size();
    expect((verdict == Verdict::kNotWhole) == !whole, "why() offers more than all but one token");
    expect((verdict == Verdict::kHit) == ((i + 1) * kBlock <= report->hit_tokens), "why() hits");
    if (!whole || setup_.digest_bits != 256) continue;
    const bool was_here = verdict == Verdict::kHit || verdict == Verdict::kEvicted;
    expect(was_here == model_.was_ever_stored(boundaries[i]),
           "why() says '" + std::string(to_string(verdict)) + "' of block " + std::to_string(i));
    met_.evicted_named += verdict == Verdict::kEvicted ? 1 : 0;
    met_.others_named += was_here || verdict == Verdict::kNeverStored ? 0 : 1;
  }
}

// What a tenant is charged for is what its sequences hold, each block once for each of them.
inline void RandomRun::recount_tenants() {
  for (const std::string tenant : {"a", "b"}) {
    std::uint64_t held_bytes = 0;
    for (const Live& live : lives_) {
      if (live.tracked.sequence().tenant() != tenant) continue;
      for (std::uint32_t g = 0; g < engine_.layout().groups.size(); ++g) {
        held_bytes +=
            live.tracked.sequence().held_blocks(g).size() * engine_.layout().groups[g].block_bytes;
      }
    }
    expect(engine_.usage(tenant).held_bytes == held_bytes,
           "tenant " + tenant + " holds " + std::to_string(held_bytes) + " bytes, charged are " +
               std::to_string(engine_.usage(tenant).held_bytes));
  }
}

}  // namespace emblema::session_testing
