// Who may see whose cache. Compared field by field on every hit, never by hash alone.
#pragma once

#include <cstdint>
#include <string>

#include "emblema/contract/ids.h"

namespace emblema {

struct CacheIdentity {
  Fingerprint geometry;  // ModelGeometry::fingerprint()
  Digest weights;        // digest of the weights; none is legal for a memory-only engine
  Digest adapter;        // digest of the adapter's content, never its name; none = base model
  std::string tenant;    // hits and, unless asked for, memory are never shared across tenants
  std::string salt;      // anything else that must keep two callers apart

  friend bool operator==(const CacheIdentity&, const CacheIdentity&) = default;
};

// What is not a token but decides the cache: an image, audio, embeddings. `offset` is the token
// position where it enters, `digest` stands for its content.
struct ExtraId {
  std::uint64_t offset = 0;
  Digest digest;

  friend bool operator==(const ExtraId&, const ExtraId&) = default;
};

}  // namespace emblema
