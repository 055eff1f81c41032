#include "emblema/geometry/stream.h"

#include <algorithm>

#include <fmt/format.h>

#include "emblema/contract/bytes.h"
#include "emblema/contract/check.h"

namespace emblema {

std::string_view to_string(StreamRole role) {
  switch (role) {
    case StreamRole::kKv:
      return "kv";
    case StreamRole::kLatent:
      return "latent";
    case StreamRole::kIndexer:
      return "indexer";
    case StreamRole::kCompressed:
      return "compressed";
    case StreamRole::kWindow:
      return "window";
    case StreamRole::kCompressor:
      return "compressor";
    case StreamRole::kState:
      return "state";
    case StreamRole::kCross:
      return "cross";
  }
  return "unknown";
}

std::string_view to_string(Retention retention) {
  switch (retention) {
    case Retention::kGrowing:
      return "growing";
    case Retention::kWindow:
      return "window";
    case Retention::kFixed:
      return "fixed";
    case Retention::kChunk:
      return "chunk";
    case Retention::kEncoder:
      return "encoder";
  }
  return "unknown";
}

std::string_view to_string(Sharding sharding) {
  return sharding == Sharding::kByHead ? "by_head" : "replicated";
}

std::string_view to_string(Placement placement) {
  return placement == Placement::kPaged ? "paged" : "arena";
}

Rational Stream::growing_bytes_per_token() const {
  EMBLEMA_CHECK(stride_tokens > 0, "an entry covers at least one token");
  if (retention != Retention::kGrowing) return Rational();
  return Rational::of(entry_bytes, stride_tokens);
}

Result<std::uint64_t> Stream::payload_bytes(std::uint64_t tokens) const {
  EMBLEMA_CHECK(stride_tokens > 0, "an entry covers at least one token");
  std::uint64_t entries = 0;
  switch (retention) {
    case Retention::kGrowing:
      entries = tokens / stride_tokens;
      break;
    case Retention::kWindow:
    case Retention::kChunk:
      entries = std::min(tokens, retention_tokens) / stride_tokens;
      break;
    case Retention::kFixed:
    case Retention::kEncoder:
      entries = retention_tokens;
      break;
  }
  return mul_bytes(entries, entry_bytes,
                   fmt::format("bytes of stream '{}' at {} tokens", to_string(role), tokens));
}

}  // namespace emblema
