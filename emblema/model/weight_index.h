// The size of a checkpoint, as its own files say it: exact where an estimate is not needed.
//
// model.safetensors.index.json names the tensors of a checkpoint in several files and carries their
// total size; a checkpoint in one file, model.safetensors, is a header and the tensors behind it.
// The header is read and must account for every byte behind it, so that a file of zeros or half a
// download is no checkpoint; no tensor is read. Sources: the format's description in
// huggingface/safetensors (an 8-byte little-endian header length, at most 100 MB, then the header);
// save_pretrained of transformers, which writes metadata.total_size, and in newer releases
// total_parameters. Any thread may call.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "emblema/contract/result.h"

namespace emblema {

struct WeightIndex {
  std::string file;               // what it was read from
  std::uint64_t total_bytes = 0;  // of all tensors, draft layers and towers included; 0: the index
                                  // does not say
  std::optional<std::uint64_t> total_parameters;
};

struct WeightIndexLimits {
  // The largest indices in use are near 20 MB (hundreds of thousands of names).
  static constexpr std::uint64_t kFileBytesMax = std::uint64_t{256} << 20;
  static constexpr std::uint64_t kHeaderBytesMax = 100'000'000;  // as safetensors itself
  static constexpr std::uint64_t kTotalBytesMax = std::uint64_t{1} << 60;
};

// `source` as load_model_config takes it. Of a folder, or of the folder that a file lies in: its
// index, else its model.safetensors. None: a preset, standard input, a folder without either.
// Io; Invalid: a file that is not what its name says, with file, field, value and what is allowed.
Result<std::optional<WeightIndex>> read_weight_index(std::string_view source);

// An index already in memory; `name` goes into WeightIndex::file and messages. total_size may be a
// string of decimal digits and nothing else, which some tools write.
Result<WeightIndex> parse_weight_index(std::string_view json, std::string_view name);

}  // namespace emblema
