#include "emblema/block/block_key.h"

#include "emblema/block/key_encoding.h"

namespace emblema {

Digest BlockKeys::root(const CacheIdentity& identity) const {
  Sha256 hash;
  block_internal::encode_root(identity, &hash);
  return cut(hash.finish());
}

Digest BlockKeys::block(const Digest& parent, std::span<const TokenId> tokens,
                        std::span<const ExtraId> extras) const {
  Sha256 hash;
  block_internal::encode_block(parent, tokens, extras, &hash);
  return cut(hash.finish());
}

Digest BlockKeys::segment(const CacheIdentity& identity, std::span<const TokenId> tokens,
                          std::span<const ExtraId> extras) const {
  Sha256 hash;
  block_internal::encode_segment(identity, tokens, extras, &hash);
  return cut(hash.finish());
}

Digest BlockKeys::link(const Digest& parent, std::span<const TokenId> tail,
                       std::span<const ExtraId> extras, const Digest& segment,
                       std::uint64_t segment_tokens, std::int64_t delta) const {
  Sha256 hash;
  block_internal::encode_link(parent, tail, extras, segment, segment_tokens, delta, &hash);
  return cut(hash.finish());
}

Digest BlockKeys::cut(Digest digest) const {
  for (unsigned bit = digest_bits_; bit < 256; ++bit) {
    auto& byte = digest.bytes[bit / 8];
    byte = static_cast<std::uint8_t>(byte & ~(1u << (bit % 8)));
  }
  return digest;
}

}  // namespace emblema
