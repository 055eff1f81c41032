// How one number of a cached entry is stored, and the data types a user can ask for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emblema/contract/result.h"

namespace emblema {

// The numbers enter fingerprints (and later files): never renumber, only append.
enum class Encoding : std::uint8_t {
  kFp32 = 1,
  kFp16 = 2,
  kBf16 = 3,
  kFp8E4m3 = 4,
  kUe8m0 = 5,  // a power-of-two scale in one byte
  kE2m1 = 6,   // 4 bits; two numbers per byte, even index in the low nibble
  kInt8 = 7,
  kInt4 = 8,
  kPad8 = 9,  // a byte that is written 0 and never read
};

std::string_view to_string(Encoding encoding);
std::uint32_t bits_per_element(Encoding encoding);

// --kv-dtype. Each says how every region of an entry is stored; payload includes scales, never
// padding. Figures for MLA rows of 512 + 64 and V4 entries of 448 + 64.
enum class KvDtype : std::uint8_t {
  kBf16 = 1,
  kFp16 = 2,
  kFp32 = 3,
  kFp8 = 4,               // e4m3, one scale per tensor (kept apart): MLA 576 B, V4 512 B
  kFp8Rope16 = 5,         // e4m3 content, bf16 rope, no scales: MLA 640 B, V4 576 B
  kFp8DsMla = 6,          // with scales: MLA 656 B, V4 584 B (vLLM's name)
  kInt8PerTokenHead = 7,  // int8 and one fp32 scale per token, KV head and K/V
  kFp8PerTokenHead = 8,   // e4m3, likewise
  kQ8_0 = 9,              // 32 x int8 + one fp16 scale: 34 B (ggml)
  kQ4_0 = 10,             // 32 x int4 + one fp16 scale: 18 B (ggml)
};

// --indexer-dtype, for models that cache sparse-attention index keys of width 128.
enum class IndexerDtype : std::uint8_t {
  kBf16 = 1,          // 256 B
  kFp8 = 2,           // 128 e4m3 + one fp32 scale: 132 B
  kMxfp4 = 3,         // 64 B + 4 UE8M0 scales: 68 B
  kMxfp4NoScale = 4,  // 64 B: the accounting form that goes with fp8_rope16
};

// How recurrent state is kept. Its convolution's columns are bf16 always.
enum class StateDtype : std::uint8_t { kFp32 = 1, kBf16 = 2, kFp16 = 3 };

std::string_view to_string(KvDtype dtype);
std::string_view to_string(StateDtype dtype);
std::string_view to_string(IndexerDtype dtype);
Result<KvDtype> parse_kv_dtype(std::string_view text);  // Invalid: lists what is allowed
Result<StateDtype> parse_state_dtype(std::string_view text);
Result<IndexerDtype> parse_indexer_dtype(std::string_view text);

// What INTERFACES calls the default: bf16 with 16- and 32-bit types; for DeepSeek-V4 mxfp4 with the
// fp8 types (without scales for fp8_rope16); fp8 elsewhere.
IndexerDtype default_indexer_dtype(KvDtype dtype, bool is_compressed_family);

// One run of equal numbers inside an entry: "k" 8 x 128 bf16.
struct EntryRegion {
  std::string name;
  std::uint64_t elements = 0;
  Encoding encoding = Encoding::kBf16;

  friend bool operator==(const EntryRegion&, const EntryRegion&) = default;
};

// Whole bytes of one region; Invalid on overflow or a fraction of a byte.
Result<std::uint64_t> region_bytes(const EntryRegion& region);

}  // namespace emblema
