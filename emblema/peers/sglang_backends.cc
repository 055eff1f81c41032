#include <algorithm>
#include <array>

#include "emblema/peers/attention_backends.h"

namespace emblema {
namespace {

std::string_view grouped_backend(const SglangNeed& need) {
  if (need.gpu_arch == "sm90") return "fa3";
  if (need.gpu_arch.starts_with("sm10")) {
    return need.unequal_widths ? "fa4" : "trtllm_mha";
  }
  if (need.gpu_arch.starts_with("gfx")) return "aiter";
  return need.sinks ? "triton" : "flashinfer";
}

std::string_view latent_backend(const SglangNeed& need) {
  if (need.gpu_arch == "sm90") return "fa3";
  if (need.gpu_arch.starts_with("sm10")) {
    return need.deepseek_v3_arch ? "trtllm_mla" : "flashinfer";
  }
  const bool aiter_heads = need.query_heads == 16 || need.query_heads == 128;
  return need.gpu_arch.starts_with("gfx") && aiter_heads ? "aiter" : "triton";
}

// Pages that a backend reads, and what any other page becomes.
struct ForcedPages {
  std::string_view backend;
  std::array<std::uint64_t, 4> allowed;  // 0: none
  std::uint64_t otherwise;
};

constexpr std::array kForced = {
    ForcedPages{"trtllm_mla", {32, 64}, 64}, ForcedPages{"trtllm_mha", {16, 32, 64, 128}, 64},
    ForcedPages{"fa4", {128}, 128},          ForcedPages{"dsa", {64}, 64},
    ForcedPages{"dsv4", {256}, 256},
};

void set_page(const SglangNeed& need, SglangBackend* backend) {
  const std::uint64_t asked = need.page_tokens.value_or(1);
  backend->page_tokens = asked;
  const auto row = std::find_if(kForced.begin(), kForced.end(), [backend](const ForcedPages& r) {
    return r.backend == backend->name;
  });
  if (row == kForced.end()) return;
  if (std::find(row->allowed.begin(), row->allowed.end(), asked) != row->allowed.end()) return;
  backend->page_tokens = row->otherwise;
  backend->forced = true;
}

}  // namespace

SglangBackend choose_sglang_backend(const SglangNeed& need) {
  SglangBackend backend;
  if (need.shape == CacheShape::kSparseLatent) {
    backend.name = "dsa";
  } else if (need.shape == CacheShape::kCompressed) {
    backend.name = "dsv4";
  } else if (!need.gpu_arch.empty()) {
    backend.name =
        need.shape == CacheShape::kGrouped ? grouped_backend(need) : latent_backend(need);
  }
  set_page(need, &backend);
  return backend;
}

}  // namespace emblema
