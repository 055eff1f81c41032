// Which bug this run of the canary program has: EMBLEMA_CANARY=kLostReference, or none.
#include "emblema/contract/canary.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace emblema {
namespace {

constexpr std::pair<std::string_view, Canary> kCanaries[] = {
#define CANARY(name) \
  { #name, Canary::name }
    CANARY(kLostReference),     CANARY(kDoubleRelease),       CANARY(kWindowEdge),
    CANARY(kTokensNotCompared), CANARY(kIdentityNotCompared), CANARY(kTailNotZeroed),
    CANARY(kForeignNotZeroed),  CANARY(kFreedAsClean),        CANARY(kRejectedCommitted),
    CANARY(kEvictsPinned),      CANARY(kEvictsMiddle),        CANARY(kNotCopiedOnWrite),
    CANARY(kCopiedShort),       CANARY(kSharedUncompared),    CANARY(kQuotaNotGivenBack),
    CANARY(kRefusalEvicts),     CANARY(kRingWrittenShared),   CANARY(kSnapshotIgnored),
    CANARY(kChainNotCut),
#undef CANARY
};

Canary from_environment() {
  const char* wanted = std::getenv("EMBLEMA_CANARY");
  if (wanted == nullptr) return Canary::kNone;
  for (const auto& [name, canary] : kCanaries) {
    if (name == wanted) return canary;
  }
  std::fprintf(stderr, "EMBLEMA_CANARY is '%s'; allowed: a name of emblema/contract/canary.h\n",
               wanted);
  std::exit(2);
}

}  // namespace

Canary chosen_canary() {
  static const Canary canary = from_environment();
  return canary;
}

}  // namespace emblema
