// How vLLM puts the caches of layers into groups that share a block table. All groups take their
// blocks from one pool of equal blocks, so that layers are padded, and pages stretched, until every
// group's block has the same size.
//
// Source: vLLM 073c510c (2026-08-09), get_kv_cache_groups in vllm/v1/core/kv_cache_utils.py.
// Plain values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emblema/contract/result.h"
#include "emblema/peers/vllm_specs.h"

namespace emblema {

struct SpecGroup {
  std::vector<LayerSpec> layers;  // never empty
  // Pages may differ in size, and each layer has memory of its own; else all are like the first.
  bool uniform_type = false;
};

struct Grouping {
  std::vector<SpecGroup> groups;  // every spec in exactly one
  std::vector<std::string> warnings;
};

// In vLLM's order of cases: one spec for all; one type with pages of several sizes (DeepSeek-V3.2);
// DeepSeek-V4's windows beside compressed entries; else pages made equal and layers dealt out.
// Without the hybrid manager windows and chunks are first rewritten as full attention.
// Unsupported: pages that cannot be made equal (vLLM's NotImplementedError). Invalid: layers that
// cannot be rewritten. REQUIRES: specs is not empty.
Result<Grouping> group_specs(std::vector<LayerSpec> specs, bool hybrid_manager);

// Layer tuples of a group whose pages differ: layers that have the most frequent page size.
std::uint64_t layer_tuples(const std::vector<LayerSpec>& layers);

}  // namespace emblema
