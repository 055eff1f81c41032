// The digest of everything that makes the bytes of two caches interchangeable.
//
// SHA-256 over an injective encoding: a tag with the format version, then fixed-width little-endian
// fields, every list preceded by its count. It hashes facts (rope parameters, head widths), never
// numbers computed from them in floating point, so it is the same on every machine.
//
// In: layer range, kinds of layers and streams, sharing between layers, widths, encodings, strides,
// windows, placement, block tokens, rotary parameters (of LongRope also the table in use), whatever
// changes the numbers that layers compute (heads, softmax scale, softcap, sinks, norm epsilon,
// top-k). Out: names and notes.
#pragma once

#include <span>

#include "emblema/contract/ids.h"
#include "emblema/geometry/model_geometry.h"

namespace emblema {

inline constexpr std::uint64_t kFingerprintVersion = 2;

Fingerprint fingerprint_of(const ModelConfig& model, const GeometryOptions& options,
                           std::span<const LayerGeometry> layers,
                           std::span<const CacheGroup> groups);

}  // namespace emblema
