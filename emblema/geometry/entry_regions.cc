#include "emblema/geometry/entry_regions.h"

#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "emblema/contract/bytes.h"

namespace emblema {
namespace {

using Regions = std::vector<EntryRegion>;

constexpr std::uint64_t kGgmlBlock = 32;          // numbers behind one scale of q8_0 and q4_0
constexpr std::uint64_t kLatentScaleBlock = 128;  // of fp8_ds_mla on a latent (fp32 scales)
constexpr std::uint64_t kEntryScaleBlock = 64;    // of fp8_ds_mla on a V4 entry (UE8M0 scales)
constexpr std::uint64_t kEntryScaleAlign = 8;     // V4 reads an entry's scales as one 8-byte word
constexpr std::uint64_t kIndexerFp8Block = 128;
constexpr std::uint64_t kMxfp4Block = 32;

// Types that store every number of an entry alike.
std::optional<Encoding> uniform_encoding(KvDtype dtype) {
  switch (dtype) {
    case KvDtype::kBf16:
      return Encoding::kBf16;
    case KvDtype::kFp16:
      return Encoding::kFp16;
    case KvDtype::kFp32:
      return Encoding::kFp32;
    case KvDtype::kFp8:
      return Encoding::kFp8E4m3;
    default:
      return std::nullopt;
  }
}

std::optional<Encoding> ggml_encoding(KvDtype dtype) {
  if (dtype == KvDtype::kQ8_0) return Encoding::kInt8;
  if (dtype == KvDtype::kQ4_0) return Encoding::kInt4;
  return std::nullopt;
}

template <class Dtype>
tl::unexpected<Error> misfit(Dtype dtype, std::string_view width_name, std::uint64_t width,
                             std::uint64_t block) {
  return fail(ErrorCode::Unsupported,
              fmt::format("{} has one scale per {} numbers, but {} is {}; allowed: multiples of {}",
                          to_string(dtype), block, width_name, width, block));
}

tl::unexpected<Error> no_meaning(KvDtype dtype, std::string_view entry, std::string_view allowed) {
  return fail(ErrorCode::Unsupported, fmt::format("kv dtype {} is not defined for {}; allowed: {}",
                                                  to_string(dtype), entry, allowed));
}

void push_ggml(Regions* regions, const std::string& name, std::uint64_t elements,
               Encoding encoding) {
  regions->push_back({name, elements, encoding});
  regions->push_back({name + "_scale", elements / kGgmlBlock, Encoding::kFp16});
}

}  // namespace

Result<Regions> grouped_regions(const GroupedWidths& widths, KvDtype dtype) {
  const std::uint64_t keys = widths.kv_heads * widths.key_dim;
  const std::uint64_t values = widths.kv_heads * widths.value_dim;
  if (const auto encoding = uniform_encoding(dtype)) {
    return Regions{{"k", keys, *encoding}, {"v", values, *encoding}};
  }
  if (const auto encoding = ggml_encoding(dtype)) {
    // Per head, as llama.cpp demands it: no scale block straddles two heads.
    if (widths.key_dim % kGgmlBlock != 0) {
      return misfit(dtype, "head_dim", widths.key_dim, kGgmlBlock);
    }
    if (widths.value_dim % kGgmlBlock != 0) {
      return misfit(dtype, "v_head_dim", widths.value_dim, kGgmlBlock);
    }
    Regions regions;
    push_ggml(&regions, "k", keys, *encoding);
    push_ggml(&regions, "v", values, *encoding);
    return regions;
  }
  if (dtype == KvDtype::kInt8PerTokenHead || dtype == KvDtype::kFp8PerTokenHead) {
    const Encoding encoding =
        dtype == KvDtype::kInt8PerTokenHead ? Encoding::kInt8 : Encoding::kFp8E4m3;
    return Regions{{"k", keys, encoding},
                   {"k_scale", widths.kv_heads, Encoding::kFp32},
                   {"v", values, encoding},
                   {"v_scale", widths.kv_heads, Encoding::kFp32}};
  }
  return no_meaning(dtype, "separate keys and values",
                    "bf16, fp16, fp32, fp8, int8_per_token_head, fp8_per_token_head, q8_0, q4_0");
}

Result<Regions> latent_regions(const LatentWidths& widths, KvDtype dtype) {
  if (const auto encoding = uniform_encoding(dtype)) {
    return Regions{{"c_kv", widths.content, *encoding}, {"k_rope", widths.rope, *encoding}};
  }
  if (const auto encoding = ggml_encoding(dtype)) {
    if (widths.content % kGgmlBlock != 0) {
      return misfit(dtype, "kv_lora_rank", widths.content, kGgmlBlock);
    }
    if (widths.rope % kGgmlBlock != 0) {
      return misfit(dtype, "qk_rope_head_dim", widths.rope, kGgmlBlock);
    }
    Regions regions;
    push_ggml(&regions, "c_kv", widths.content, *encoding);
    push_ggml(&regions, "k_rope", widths.rope, *encoding);
    return regions;
  }
  if (dtype == KvDtype::kFp8Rope16) {
    return Regions{{"c_kv", widths.content, Encoding::kFp8E4m3},
                   {"k_rope", widths.rope, Encoding::kBf16}};
  }
  if (dtype == KvDtype::kFp8DsMla) {
    if (widths.content % kLatentScaleBlock != 0) {
      return misfit(dtype, "kv_lora_rank", widths.content, kLatentScaleBlock);
    }
    return Regions{{"c_kv", widths.content, Encoding::kFp8E4m3},
                   {"c_kv_scale", widths.content / kLatentScaleBlock, Encoding::kFp32},
                   {"k_rope", widths.rope, Encoding::kBf16}};
  }
  // One scale per KV head of K and of V: a latent has neither.
  return no_meaning(dtype, "a latent (MLA)",
                    "bf16, fp16, fp32, fp8, fp8_rope16, fp8_ds_mla, q8_0, q4_0");
}

Result<Regions> compressed_regions(const LatentWidths& widths, KvDtype dtype) {
  if (const auto encoding = uniform_encoding(dtype)) {
    return Regions{{"nope", widths.content, *encoding}, {"rope", widths.rope, *encoding}};
  }
  if (dtype == KvDtype::kFp8Rope16) {
    return Regions{{"nope", widths.content, Encoding::kFp8E4m3},
                   {"rope", widths.rope, Encoding::kBf16}};
  }
  if (dtype == KvDtype::kFp8DsMla) {
    if (widths.content % kEntryScaleBlock != 0) {
      return misfit(dtype, "head_dim - qk_rope_head_dim", widths.content, kEntryScaleBlock);
    }
    const std::uint64_t scales = widths.content / kEntryScaleBlock;
    Regions regions{{"nope", widths.content, Encoding::kFp8E4m3},
                    {"rope", widths.rope, Encoding::kBf16},
                    {"nope_scale", scales, Encoding::kUe8m0}};
    if (scales % kEntryScaleAlign != 0) {
      regions.push_back({"pad", kEntryScaleAlign - scales % kEntryScaleAlign, Encoding::kPad8});
    }
    return regions;
  }
  return no_meaning(dtype, "DeepSeek-V4 entries", "bf16, fp16, fp32, fp8, fp8_rope16, fp8_ds_mla");
}

Result<Regions> indexer_regions(std::uint64_t width, IndexerDtype dtype) {
  switch (dtype) {
    case IndexerDtype::kBf16:
      return Regions{{"key", width, Encoding::kBf16}};
    case IndexerDtype::kFp8:
      if (width % kIndexerFp8Block != 0) {
        return misfit(dtype, "index_head_dim", width, kIndexerFp8Block);
      }
      return Regions{{"key", width, Encoding::kFp8E4m3},
                     {"key_scale", width / kIndexerFp8Block, Encoding::kFp32}};
    case IndexerDtype::kMxfp4:
    case IndexerDtype::kMxfp4NoScale:
      break;
  }
  if (width % kMxfp4Block != 0) return misfit(dtype, "index_head_dim", width, kMxfp4Block);
  Regions regions{{"key", width, Encoding::kE2m1}};
  if (dtype == IndexerDtype::kMxfp4) {
    regions.push_back({"key_scale", width / kMxfp4Block, Encoding::kUe8m0});
  }
  return regions;
}

Result<Regions> state_regions(const RecurrentFacts& facts, StateDtype dtype) {
  constexpr std::string_view kWhat = "numbers of a recurrent state";
  const auto square = mul_bytes(facts.state_rows, facts.state_columns, kWhat);
  if (!square) return propagate(square);
  const auto state = mul_bytes(facts.state_heads, *square, kWhat);
  if (!state) return propagate(state);
  const Encoding encoding = dtype == StateDtype::kFp32   ? Encoding::kFp32
                            : dtype == StateDtype::kBf16 ? Encoding::kBf16
                                                         : Encoding::kFp16;
  Regions regions;
  if (*state > 0) regions.push_back({"recurrent", *state, encoding});
  const auto conv = mul_bytes(facts.conv_channels, facts.conv_columns, "numbers of a convolution");
  if (!conv) return propagate(conv);
  if (*conv > 0) regions.push_back({"conv", *conv, Encoding::kBf16});
  return regions;
}

}  // namespace emblema
