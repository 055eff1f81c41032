// A stream is one kind of thing that a layer must remember. A layer's cache is a set of streams,
// and everything about size, sharing and placement follows from these few values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "emblema/contract/rational.h"
#include "emblema/contract/result.h"
#include "emblema/geometry/encoding.h"

namespace emblema {

// The numbers enter fingerprints: never renumber, only append.
enum class StreamRole : std::uint8_t {
  kKv = 1,          // [K: kv heads x key dim][V: kv heads x value dim]
  kLatent = 2,      // [c_kv][k_rope], one row for all heads; the value is c_kv
  kIndexer = 3,     // a sparse-attention index key
  kCompressed = 4,  // a DeepSeek-V4 entry, one per `stride_tokens`
  kWindow = 5,      // DeepSeek-V4's window rows, per sequence
  kCompressor = 6,  // rows that are not yet compressed, per sequence
  kState = 7,       // recurrent state and its convolution's last columns, per sequence
  kCross = 8,       // keys and values of an encoder's output or an image, per sequence
};

enum class Retention : std::uint8_t {
  kGrowing = 1,  // every entry as long as the sequence lives
  kWindow = 2,   // the last `retention_tokens` tokens
  kFixed = 3,    // a fixed number of rows per sequence, whatever its length
  kChunk = 4,    // since the last multiple of `retention_tokens` tokens; at most so many
  kEncoder = 5,  // `retention_tokens` rows per sequence, one per encoder token
};

enum class Sharding : std::uint8_t { kByHead = 1, kReplicated = 2 };  // under tensor parallelism
enum class Placement : std::uint8_t { kPaged = 1, kArena = 2 };

std::string_view to_string(StreamRole role);
std::string_view to_string(Retention retention);
std::string_view to_string(Sharding sharding);
std::string_view to_string(Placement placement);

struct Stream {
  StreamRole role = StreamRole::kKv;
  std::vector<EntryRegion> regions;  // one entry = these, in this order, packed
  std::uint64_t entry_bytes = 0;     // sum of the regions
  std::uint64_t stride_tokens = 1;   // tokens per entry
  Retention retention = Retention::kGrowing;
  std::uint64_t retention_tokens = 0;  // kWindow: W. kFixed: rows kept. kChunk: C. kEncoder: rows;
                                       // 0 where the request decides and nobody said
  Sharding sharding = Sharding::kReplicated;
  Placement placement = Placement::kPaged;

  // Bytes per token while it grows: entry_bytes / stride for kGrowing, else 0.
  Rational growing_bytes_per_token() const;

  // Payload of one sequence of `tokens` tokens: windows and chunks capped, strides floored, no
  // rounding to blocks. Invalid on overflow.
  Result<std::uint64_t> payload_bytes(std::uint64_t tokens) const;
};

}  // namespace emblema
