#include "emblema/block/cache_event.h"

#include <fmt/format.h>

namespace emblema {

std::string_view to_string(HitKind kind) {
  return kind == HitKind::kPrefix ? "prefix" : "segment";
}

std::string_view to_string(MissReason reason) {
  switch (reason) {
    case MissReason::kNeverStored:
      return "never stored";
    case MissReason::kEvicted:
      return "evicted";
    case MissReason::kOlderThanRecord:
      return "never stored, or evicted before the record begins";
  }
  return "";
}

std::string_view to_string(EvictionReason reason) {
  switch (reason) {
    case EvictionReason::kMemoryWanted:
      return "memory was wanted";
    case EvictionReason::kSuperseded:
      return "superseded by the next of its turn";
    case EvictionReason::kAsked:
      break;
  }
  return "asked to evict";
}

std::string_view to_string(CollisionKind kind) {
  return kind == CollisionKind::kKey ? "key" : "content";
}

std::string_view to_string(CacheEvent::Kind kind) {
  switch (kind) {
    case CacheEvent::Kind::kStored:
      return "stored";
    case CacheEvent::Kind::kHit:
      return "hit";
    case CacheEvent::Kind::kMiss:
      return "miss";
    case CacheEvent::Kind::kEvicted:
      return "evicted";
    case CacheEvent::Kind::kCollision:
      return "collision";
  }
  return "";
}

std::string describe(const CacheEvent& event) {
  switch (event.kind) {
    case CacheEvent::Kind::kStored:
      return fmt::format("stored {} tokens in group '{}' for tenant '{}'", event.tokens,
                         event.group, event.tenant);
    case CacheEvent::Kind::kHit:
      return fmt::format("{} hit of {} tokens by tenant '{}'", to_string(event.hit), event.tokens,
                         event.tenant);
    case CacheEvent::Kind::kMiss:
      return fmt::format("{} miss of {} tokens by tenant '{}': {}", to_string(event.hit),
                         event.tokens, event.tenant, to_string(event.miss));
    case CacheEvent::Kind::kEvicted:
      return fmt::format("evicted {} tokens of group '{}', unused for {} uses: {}", event.tokens,
                         event.group, event.age_uses, to_string(event.eviction));
    case CacheEvent::Kind::kCollision:
      return fmt::format("{} collision: equal digests of different things; nothing was shared",
                         to_string(event.collision));
  }
  return "";
}

}  // namespace emblema
