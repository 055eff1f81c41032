// The setups under which random operations run, and running one of them.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "emblema/session/random_operations_testing.h"

namespace emblema::session_testing {

inline std::vector<RandomSetup> every_setup() {
  std::vector<RandomSetup> setups;
  for (const unsigned bits : {256u, 8u, 1u, 0u}) {
    for (const bool two_groups : {false, true}) {
      for (const SealMode seal : {SealMode::kInline, SealMode::kDeferred}) {
        setups.push_back({.digest_bits = bits, .seal = seal, .two_groups = two_groups});
      }
      setups.push_back({.digest_bits = bits, .two_groups = two_groups, .share_content = false});
      setups.push_back({.digest_bits = bits,
                        .seal = SealMode::kDeferred,
                        .two_groups = two_groups,
                        .across_tenants = true});
    }
  }
  return setups;
}

inline std::string name_of(const RandomSetup& setup) {
  std::string name = "Bits" + std::to_string(setup.digest_bits);
  name += setup.two_groups ? "TwoGroups" : "OneGroup";
  name += setup.seal == SealMode::kDeferred ? "Deferred" : "Inline";
  if (!setup.share_content) name += "Unshared";
  if (setup.across_tenants) name += "AcrossTenants";
  return name;
}

// As ctest names the case; without it, bytes that change with every run.
inline void PrintTo(const RandomSetup& setup, std::ostream* out) {
  *out << name_of(setup);
}

inline void add(const BlockStats& more, BlockStats* sum) {
  sum->key_collisions += more.key_collisions;
  sum->content_collisions += more.content_collisions;
  sum->prefix_hit_tokens += more.prefix_hit_tokens;
  sum->evicted_entries += more.evicted_entries;
  sum->content_shared_blocks += more.content_shared_blocks;
  sum->duplicate_unequal += more.duplicate_unequal;
  sum->copied_blocks += more.copied_blocks;
  sum->zeroed_blocks += more.zeroed_blocks;
}

inline void add(const RandomMet& more, RandomMet* sum) {
  sum->refusals += more.refusals;
  sum->forks += more.forks;
  sum->attaches += more.attaches;
  sum->truncations += more.truncations;
  sum->tokens_hit_behind_segments += more.tokens_hit_behind_segments;
  sum->segments_found += more.segments_found;
  sum->segments_built += more.segments_built;
  sum->evicted_named += more.evicted_named;
  sum->others_named += more.others_named;
}

inline void expect_met(const BlockStats& sum, const RandomMet& met, const RandomSetup& setup) {
  EXPECT_GT(sum.prefix_hit_tokens, 0u);
  EXPECT_GT(sum.evicted_entries, 0u);
  EXPECT_GT(sum.copied_blocks, 0u);
  EXPECT_GT(sum.zeroed_blocks, 0u);
  if (setup.share_content) {
    EXPECT_GT(sum.content_shared_blocks, 0u);
  }
  EXPECT_GT(met.refusals, 0u);
  EXPECT_GT(met.forks, 0u);
  EXPECT_GT(met.attaches, 0u);
  EXPECT_GT(met.truncations, 0u);
  EXPECT_GT(met.segments_built, 0u);
  EXPECT_GT(met.segments_found, 0u);
  EXPECT_GT(met.tokens_hit_behind_segments, 0u);
  if (setup.digest_bits == 256) {
    EXPECT_GT(met.evicted_named, 0u);
    EXPECT_GT(met.others_named, 0u);
  }
}

// `runs` seeds in a row from a fixed one, or the one run of EMBLEMA_SEED. The seed is printed
// before, so that a run that ends in a failed check can be replayed too.
inline void run_setup(RandomSetup setup, std::uint64_t runs, std::uint64_t steps) {
  setup.digest_bits = std::min(setup.digest_bits, digest_bits_under_test());
  const Seeds seeds(20'260'801, runs);
  BlockStats sum;
  RandomMet met;
  for (std::uint64_t i = 0; i < seeds.runs; ++i) {
    setup.seed = seeds.announced(i);
    RandomRun run(setup);
    ASSERT_EQ(run.run(steps), "");
    add(run.stats(), &sum);
    add(run.met(), &met);
  }
  if (seeds.runs > 1) expect_met(sum, met, setup);
  if (setup.digest_bits == 256) {
    EXPECT_EQ(sum.key_collisions, 0u);
    EXPECT_EQ(sum.content_collisions, 0u);
  } else if (setup.digest_bits == 0) {
    EXPECT_GT(sum.key_collisions, 0u);
    EXPECT_EQ(sum.content_collisions > 0, setup.share_content);
  }
}

}  // namespace emblema::session_testing
