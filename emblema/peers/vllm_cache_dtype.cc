#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "emblema/peers/question.h"
#include "emblema/peers/vllm_specs.h"

namespace emblema {
namespace {

struct DtypeRow {
  std::string_view word;
  VllmQuant quant;
  std::uint64_t element_bytes;  // 0: the model's own numbers
};

constexpr std::array kDtypes = {
    DtypeRow{"auto", VllmQuant::kPlain, 0},
    DtypeRow{"float16", VllmQuant::kPlain, 2},
    DtypeRow{"bfloat16", VllmQuant::kPlain, 2},
    DtypeRow{"fp8", VllmQuant::kPlain, 1},
    DtypeRow{"fp8_e4m3", VllmQuant::kPlain, 1},
    DtypeRow{"fp8_e5m2", VllmQuant::kPlain, 1},
    DtypeRow{"fp8_inc", VllmQuant::kPlain, 1},
    DtypeRow{"fp8_ds_mla", VllmQuant::kDsMla, 1},
    DtypeRow{"int4_per_token_head", VllmQuant::kInt4PerTokenHead, 1},
    DtypeRow{"int8_per_token_head", VllmQuant::kBytePerTokenHead, 1},
    DtypeRow{"fp8_per_token_head", VllmQuant::kBytePerTokenHead, 1},
    DtypeRow{"nvfp4", VllmQuant::kNvfp4, 1},
    DtypeRow{"nvfp4_4over6", VllmQuant::kNvfp4, 1},
};

}  // namespace

Result<VllmCacheDtype> parse_vllm_cache_dtype(std::string_view word, const ModelConfig& model) {
  if (word.starts_with("turboquant_")) {
    return fail(ErrorCode::Unsupported,
                fmt::format("kv cache dtype is {}, whose slot size is not written down here; "
                            "allowed: the other dtypes of vLLM",
                            word));
  }
  for (const DtypeRow& row : kDtypes) {
    if (row.word != word) continue;
    const std::uint64_t bytes =
        row.element_bytes == 0 ? model_element_bytes(model) : row.element_bytes;
    return VllmCacheDtype{std::string(word), row.quant, bytes};
  }
  std::vector<std::string_view> allowed;
  for (const DtypeRow& row : kDtypes) allowed.push_back(row.word);
  return refuse(PeerEngine::kVllm, ErrorCode::Invalid,
                fmt::format("kv cache dtype is '{}'; allowed: {}", word, fmt::join(allowed, ", ")));
}

}  // namespace emblema
