#include "emblema/block/content_index.h"

#include <algorithm>

#include <xxhash.h>

#include "emblema/contract/check.h"

namespace emblema {

ContentDigest content_digest(ConstByteSpan bytes, std::uint64_t seed, unsigned digest_bits) {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed);
  ContentDigest digest{hash.high64, hash.low64};
  const auto keep = [](unsigned bits) {
    return bits >= 64 ? UINT64_MAX : (std::uint64_t{1} << bits) - 1;
  };
  digest.low &= keep(digest_bits);
  digest.high &= keep(digest_bits > 64 ? digest_bits - 64 : 0);
  return digest;
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
