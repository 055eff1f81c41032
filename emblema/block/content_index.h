// Which sealed blocks have which bytes: finds candidates for sharing by a keyed 128-bit hash. What
// it finds is always compared byte by byte before it is shared.
//
// XXH3-128 with a seed of this manager's own, by the widest vectors that the processor has: the
// same digest on every machine. It defends against accidents, not against someone who
// can choose contents: that is what the comparison is for. Not synchronised (BlockManager's lock);
// content_digest() is a pure function.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "emblema/contract/bytes.h"

namespace emblema {

struct ContentDigest {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  // clang-tidy 14 takes the 0 that `<` is rewritten with for a pointer.
  // NOLINTNEXTLINE(modernize-use-nullptr)
  friend auto operator<=>(const ContentDigest&, const ContentDigest&) = default;
};

// `digest_bits` < 128 keeps only so many bits, for tests that need collisions.
ContentDigest content_digest(ConstByteSpan bytes, std::uint64_t seed, unsigned digest_bits = 128);

// The vectors that it uses on this processor: "avx512", "avx2", "sse2"; "as compiled" where xxHash
// offers no choice at run time. For reports.
std::string_view content_digest_isa();

class ContentIndex {
 public:
  struct Key {
    std::uint32_t domain =
        0;  // the tenant, or one number for all where sharing across is asked for
    ContentDigest digest;

    // NOLINTNEXTLINE(modernize-use-nullptr)
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  void insert(const Key& key, std::uint32_t block);
  void erase(const Key& key, std::uint32_t block);

  // Blocks listed under the key, in the order in which they came.
  std::vector<std::uint32_t> find(const Key& key) const;
  bool contains(const Key& key, std::uint32_t block) const;
  std::uint64_t size() const { return by_key_.size(); }

 private:
  std::multimap<Key, std::uint32_t> by_key_;
};

}  // namespace emblema
