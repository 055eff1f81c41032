// What one entry of a stream consists of, for each data type: the table behind `--kv-dtype`.
//
// Regions are packed in the order given. Byte formats that others define keep their order too:
// fp8_ds_mla of a 512 + 64 latent is FlashMLA's 656-byte row (9241ae3e, docs of the FP8 cache).
#pragma once

#include <cstdint>
#include <vector>

#include "emblema/contract/result.h"
#include "emblema/geometry/encoding.h"
#include "emblema/model/model_config.h"

namespace emblema {

// Keys [kv_heads][key_dim], then values [kv_heads][value_dim].
struct GroupedWidths {
  std::uint64_t kv_heads = 0;
  std::uint64_t key_dim = 0;
  std::uint64_t value_dim = 0;
};

// One row for all heads: content (c_kv, or the channels without rotation), then rotary channels.
struct LatentWidths {
  std::uint64_t content = 0;
  std::uint64_t rope = 0;
};

// A recurrent mixer's state: heads x rows x columns in the type asked, then the last columns of its
// convolution, bf16.
Result<std::vector<EntryRegion>> state_regions(const RecurrentFacts& facts, StateDtype dtype);

// All: Unsupported where the type has no meaning for such an entry or the widths do not fit its
// scale blocks; the message names the type, the width and what would be accepted.
Result<std::vector<EntryRegion>> grouped_regions(const GroupedWidths& widths, KvDtype dtype);
Result<std::vector<EntryRegion>> latent_regions(const LatentWidths& widths, KvDtype dtype);
Result<std::vector<EntryRegion>> compressed_regions(const LatentWidths& widths, KvDtype dtype);
Result<std::vector<EntryRegion>> indexer_regions(std::uint64_t width, IndexerDtype dtype);

}  // namespace emblema
