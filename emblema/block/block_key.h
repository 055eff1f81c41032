// The keys under which entries are found: SHA-256 over an injective encoding.
//
// Encoding: one role byte, then the fields in order; numbers as 8 bytes little-endian, tokens as 4,
// digests as 32, strings and lists behind their length as 8 bytes. Two different inputs therefore
// never give the same bytes. A key finds candidates; what was asked for is always compared.
//
//   root     (identity)                          where a chain starts
//   block    (parent, tokens, extra ids)         one block of tokens after a parent
//   segment  (identity, tokens, extra ids)       a span encoded alone from position 0
//   link     (parent, tail tokens, tail extras, segment key, segment tokens, delta)
//            a chain that goes on behind an attached segment: it never meets a plain chain
//
// Extra ids carry offsets from the start of the tokens they come with. Values; any thread.
#pragma once

#include <cstdint>
#include <span>

#include "emblema/block/cache_identity.h"
#include "emblema/contract/ids.h"

namespace emblema {

class BlockKeys {
 public:
  // `digest_bits` < 256 keeps only so many bits of each key, for tests that need collisions.
  explicit BlockKeys(unsigned digest_bits = 256) : digest_bits_(digest_bits) {}

  Digest root(const CacheIdentity& identity) const;
  Digest block(const Digest& parent, std::span<const TokenId> tokens,
               std::span<const ExtraId> extras) const;
  Digest segment(const CacheIdentity& identity, std::span<const TokenId> tokens,
                 std::span<const ExtraId> extras) const;
  Digest link(const Digest& parent, std::span<const TokenId> tail, std::span<const ExtraId> extras,
              const Digest& segment, std::uint64_t segment_tokens, std::int64_t delta) const;

 private:
  Digest cut(Digest digest) const;
  unsigned digest_bits_;
};

}  // namespace emblema
