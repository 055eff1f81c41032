// Byte layouts by name: our own, and those of other engines, reproduced byte for byte inside a page
// so that their kernels can read our blocks and we can read theirs.
//
//   native      rows are entries, regions packed in order; pages padded to 64 bytes
//   flashmla    latents of 512 + 64 in bf16 or fp16, [64 tokens][576]: FlashMLA's dense decode
//               (9241ae3e) takes pages of exactly 64
//   fp8_ds_mla  656-byte rows [512 e4m3][4 fp32 scales][64 bf16]: FlashMLA's fp8 cache of 576-wide
//               latents, vLLM's fp8_ds_mla (073c510c)
//   v4          DeepSeek-V4, planar: n rows of [448 e4m3][64 bf16], 576 bytes each, then n rows of
//               [7 UE8M0][0], 8 bytes each; pages rounded up to 576. FlashMLA's MODEL1 and vLLM,
//               whose blocks are 256 tokens: 64 CSA and 2 HCA entries. Index pages likewise
//   v4_sglang   the same, index pages not rounded (SGLang v0.5.18)
//   ggml        q8_0 or q4_0 blocks of 34 or 18 bytes, each with its scale in front (llama.cpp):
//               a token's keys, then its values
//   token_head  int8 or e4m3 per token and head: [K][fp32 scale][V][fp32 scale] for each head in
//               turn (vLLM's Triton backend)
//
// Index keys (DSA and CSA) are planar wherever they have scales: n rows of keys, then n rows of
// scales: 132 bytes a row with e4m3 (vLLM's indexer cache), 68 with MXFP4. Plain fp8 with one scale
// per tensor has no bytes of its own to place: `native` is its layout. DeepSeek-V4's windows lie in
// the arena as one planar page of 128 rows.
//
// FlashMLA on SM100 also wants the distance of blocks to be a multiple of 576 (v4: it is) or of 656
// (fp8_ds_mla: it is, unless index keys share the block).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "emblema/contract/result.h"
#include "emblema/geometry/encoding.h"

namespace emblema {

// The numbers enter fingerprints: never renumber, only append.
enum class Profile : std::uint8_t {
  kNative = 1,
  kFlashMla = 2,
  kFp8DsMla = 3,
  kV4 = 4,
  kV4Sglang = 5,
  kGgml = 6,
  kTokenHead = 7,
};

std::string_view to_string(Profile profile);
Result<Profile> parse_profile(std::string_view text);  // Invalid: lists what is allowed
std::string profile_names(std::string_view separator);

// What a profile is made for: the options of a geometry where a caller names only the profile.
struct ProfileDefaults {
  KvDtype kv_dtype = KvDtype::kBf16;
  std::uint64_t block_tokens = 0;  // 0: derived from the geometry
};

ProfileDefaults defaults_of(Profile profile);

}  // namespace emblema
