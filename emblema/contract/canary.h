// Deliberate bugs, to prove that the tests would see them: EMBLEMA_CANARY(kLostReference) is false,
// and nothing of it is compiled, everywhere but in the test program that is built to fail
// (test/canary). There, one bug is chosen for each run.
//
// A bug is one expression in the line that it breaks, and is listed in test/canary/canary.cmake
// with the tests that must catch it.
#pragma once

#ifdef EMBLEMA_CANARY_BUILD

namespace emblema {

enum class Canary {
  kNone,
  kLostReference,        // a hold is not counted
  kDoubleRelease,        // a hold is given back twice
  kWindowEdge,           // the window ends a token too late: a row that is still read is released
  kTokensNotCompared,    // an entry is found by its key alone
  kIdentityNotCompared,  // a root is found by its key alone
  kTailNotZeroed,        // sealing leaves bytes behind the filled rows
  kForeignNotZeroed,     // memory changes hands with what was in it
  kFreedAsClean,         // the pool forgets whose bytes a free block holds
  kRejectedCommitted,    // tokens are committed that are not the prompt's
  kEvictsPinned,         // eviction ignores pins
  kEvictsMiddle,         // eviction takes a block that others stand on
  kNotCopiedOnWrite,     // a shared block is written in place
  kCopiedShort,          // copy on write leaves out the last row
  kSharedUncompared,     // equal digests count as equal bytes
  kQuotaNotGivenBack,    // a sequence that ends keeps its bytes charged
  kRefusalEvicts,        // a request that is refused has evicted already
  kRingWrittenShared,    // a fork writes into the ring that it shares
  kSnapshotIgnored,      // a hit ends where blocks are, state or not
  kChainNotCut,          // tokens taken back stay part of the chain
};

Canary chosen_canary();  // test/canary/canary.cc: EMBLEMA_CANARY=kLostReference in the environment

}  // namespace emblema

#define EMBLEMA_CANARY(name) (::emblema::chosen_canary() == ::emblema::Canary::name)

#else

#define EMBLEMA_CANARY(name) false

#endif
