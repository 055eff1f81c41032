// For tests: the values that attention calls are built from, and which of them go together.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "emblema/kernels/attention_plan_testing.h"

namespace emblema::testing_support {

inline const std::array kStorages = {
    Storage(Encoding::kBf16),    Storage(Encoding::kFp16),      Storage(Encoding::kFp32),
    Storage(Encoding::kFp8E4m3), Storage(RowFormat::kFp8DsMla), Storage(RowFormat::kDeepSeekV4)};
inline constexpr std::array kFamilies = {
    Family{RowKind::kLatent, 576, 512},   // DeepSeek
    Family{RowKind::kLatent, 512, 512},   // DeepSeek-V4
    Family{RowKind::kLatent, 288, 256},   // MiniCPM3
    Family{RowKind::kLatent, 40, 32},     //
    Family{RowKind::kGrouped, 64, 64},    // gpt-oss
    Family{RowKind::kGrouped, 128, 128},  // Llama
    Family{RowKind::kGrouped, 256, 256},  // Gemma
    Family{RowKind::kGrouped, 96, 96},    // Phi
    Family{RowKind::kGrouped, 20, 20},    //
    Family{RowKind::kGrouped, 192, 128},  // expanded MLA
    Family{RowKind::kGrouped, 36, 52},    //
};
inline constexpr std::array<std::uint64_t, 5> kPages = {1, 16, 20, 64, 256};
inline constexpr std::array<std::uint64_t, 3> kQueryCounts = {1, 2, 5};
inline constexpr std::array<std::uint32_t, 7> kHeadCounts = {1, 2, 6, 16, 33, 64, 128};
inline constexpr std::array<std::uint32_t, 4> kKvHeadCounts = {1, 2, 3, 8};
inline constexpr std::array kMasks = {Mask::kNone,  Mask::kWindow, Mask::kChunk, Mask::kSoftcap,
                                      Mask::kSinks, Mask::kDelta,  Mask::kAll};
inline constexpr std::array<std::uint64_t, 6> kLengths = {5, 16, 31, 48, 65, 130};

inline constexpr std::size_t kFactors = 8;
inline const std::array<std::size_t, kFactors> kFactorSizes = {
    kStorages.size(),   kFamilies.size(),     kPages.size(), kQueryCounts.size(),
    kHeadCounts.size(), kKvHeadCounts.size(), kMasks.size(), kLengths.size()};

// One index into each list above, in their order.
inline AttentionPlan plan_of(const std::array<std::size_t, kFactors>& choice, std::uint64_t seed) {
  AttentionPlan plan;
  plan.storage = kStorages[choice[0]];
  plan.family = kFamilies[choice[1]];
  plan.block_rows = kPages[choice[2]];
  plan.queries = kQueryCounts[choice[3]];
  plan.heads = kHeadCounts[choice[4]];
  plan.kv_heads = kKvHeadCounts[choice[5]];
  plan.mask = kMasks[choice[6]];
  plan.rows = kLengths[choice[7]];
  plan.seed = seed;
  return plan;
}

// Formats have one width; latent rows one head; groups are whole.
inline bool is_allowed(const std::array<std::size_t, kFactors>& choice) {
  const AttentionPlan plan = plan_of(choice, 1);
  const Family& family = plan.family;
  const bool is_latent = family.kind == RowKind::kLatent;
  if (is_latent ? plan.kv_heads != 1 : plan.heads % plan.kv_heads != 0) return false;
  if (plan.storage.format == RowFormat::kFp8DsMla) return is_latent && family.key_dim == 576;
  if (plan.storage.format == RowFormat::kDeepSeekV4) return is_latent && family.key_dim == 512;
  return true;
}

}  // namespace emblema::testing_support
