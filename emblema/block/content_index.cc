#include "emblema/block/content_index.h"

#include <algorithm>

// Run-time dispatch to the widest vectors, where this xxHash has it (cmake/Dependencies.cmake).
#ifdef EMBLEMA_XXHASH_DISPATCH
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#include "emblema/contract/check.h"

namespace emblema {

ContentDigest content_digest(ConstByteSpan bytes, std::uint64_t seed, unsigned digest_bits) {
#ifdef EMBLEMA_XXHASH_DISPATCH
  // The first call chooses; made by one thread, since xxHash writes its choice without a lock.
  static const auto kChosen = XXH3_128bits_withSeed_dispatch("", 0, 0);
  static_cast<void>(kChosen);
  const XXH128_hash_t hash = XXH3_128bits_withSeed_dispatch(bytes.data(), bytes.size(), seed);
#else
  const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed);
#endif
  ContentDigest digest{hash.high64, hash.low64};
  const auto keep = [](unsigned bits) {
    return bits >= 64 ? UINT64_MAX : (std::uint64_t{1} << bits) - 1;
  };
  digest.low &= keep(digest_bits);
  digest.high &= keep(digest_bits > 64 ? digest_bits - 64 : 0);
  return digest;
}

std::string_view content_digest_isa() {
#if defined(EMBLEMA_XXHASH_DISPATCH)
  if (__builtin_cpu_supports("avx512f") != 0) return "avx512";
  if (__builtin_cpu_supports("avx2") != 0) return "avx2";
  return "sse2";
#else
  return "as compiled";
#endif
}

void ContentIndex::insert(const Key& key, std::uint32_t block) {
  by_key_.emplace(key, block);
}

void ContentIndex::erase(const Key& key, std::uint32_t block) {
  const auto [first, last] = by_key_.equal_range(key);
  const auto found =
      std::find_if(first, last, [&](const auto& item) { return item.second == block; });
  EMBLEMA_CHECK(found != last, "a block is listed under its digest");
  by_key_.erase(found);
}

std::vector<std::uint32_t> ContentIndex::find(const Key& key) const {
  std::vector<std::uint32_t> blocks;
  const auto [first, last] = by_key_.equal_range(key);
  for (auto it = first; it != last; ++it) blocks.push_back(it->second);
  return blocks;
}

bool ContentIndex::contains(const Key& key, std::uint32_t block) const {
  const auto [first, last] = by_key_.equal_range(key);
  return std::any_of(first, last, [&](const auto& item) { return item.second == block; });
}

}  // namespace emblema
