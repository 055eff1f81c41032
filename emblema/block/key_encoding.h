// The bytes that keys are digests of, as block_key.h describes them. Internal to this room: a test
// decodes them again, and so proves that two different inputs never give the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "emblema/block/cache_identity.h"
#include "emblema/contract/ids.h"

namespace emblema::block_internal {

using KeyBytes = std::vector<std::byte>;

KeyBytes encode_root(const CacheIdentity& identity);
KeyBytes encode_block(const Digest& parent, std::span<const TokenId> tokens,
                      std::span<const ExtraId> extras);
KeyBytes encode_segment(const CacheIdentity& identity, std::span<const TokenId> tokens,
                        std::span<const ExtraId> extras);
KeyBytes encode_link(const Digest& parent, std::span<const TokenId> tail,
                     std::span<const ExtraId> extras, const Digest& segment,
                     std::uint64_t segment_tokens, std::int64_t delta);

}  // namespace emblema::block_internal
