// For tests: what an attention call can vary in, as a value, and the call that it stands for.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "emblema/kernels/attention_case_testing.h"
#include "emblema/layout/rope_table.h"

namespace emblema::testing_support {

struct Family {
  RowKind kind = RowKind::kGrouped;
  std::uint32_t key_dim = 0;
  std::uint32_t value_dim = 0;
};

enum class Mask : std::uint8_t { kNone, kWindow, kChunk, kSoftcap, kSinks, kDelta, kAll };

struct AttentionPlan {
  Storage storage = Encoding::kBf16;
  Family family;
  std::uint64_t block_rows = 16;
  std::uint64_t queries = 1;
  std::uint32_t heads = 1;
  std::uint32_t kv_heads = 1;  // of grouped rows
  Mask mask = Mask::kNone;
  std::uint64_t rows = 1;
  std::uint64_t seed = 1;

  std::string name() const {
    return fmt::format("{} {} {}/{} pages of {} queries {} heads {}/{} mask {} rows {} seed {}",
                       storage.name(), family.kind == RowKind::kLatent ? "latent" : "grouped",
                       family.key_dim, family.value_dim, block_rows, queries, heads, kv_heads,
                       static_cast<int>(mask), rows, seed);
  }
  bool has(Mask one) const { return mask == one || mask == Mask::kAll; }
};

// YaRN over `rotary_dim` channels, kept for the whole program; 0: a table that turns nothing.
inline const RopeTable& shared_rope(std::uint32_t rotary_dim, bool interleaved) {
  static std::map<std::pair<std::uint32_t, bool>, RopeTable> tables;
  RopeTable& table = tables[{rotary_dim, interleaved}];
  if (rotary_dim == 0 || table.rotary_dim() > 0) return table;
  RopeFacts facts;
  facts.rotary_dim = rotary_dim;
  facts.interleaved = interleaved;
  facts.scaling = RopeScaling::kYarn;
  facts.factor = 32;
  facts.original_max_positions = 4096;
  table = RopeTable::from(facts, 131072).value();
  return table;
}

// Latent rows turn what is behind their value; grouped keys some of their channels, somewhere.
inline void add_rope(AttentionShape& shape, std::uint64_t seed) {
  std::uint32_t rotary_dim = shape.key_dim - shape.value_dim;
  shape.rotary_offset = shape.value_dim;
  if (shape.kind == RowKind::kGrouped) {
    rotary_dim = shape.key_dim / 4 * 2;
    shape.rotary_offset = seed % 2 == 0 ? 0 : shape.key_dim - rotary_dim;
  }
  shape.rope = &shared_rope(rotary_dim / 2 * 2, seed % 3 == 0);
}

inline AttentionShape shape_of(const AttentionPlan& plan) {
  const Family& family = plan.family;
  AttentionShape shape =
      family.kind == RowKind::kLatent
          ? latent_shape(plan.heads, family.value_dim, family.key_dim - family.value_dim)
          : grouped_shape(plan.heads, plan.kv_heads, family.key_dim, family.value_dim);
  if (plan.has(Mask::kWindow)) shape.window_tokens = 1 + plan.rows / 2;
  if (plan.has(Mask::kChunk)) shape.chunk_tokens = 2 + plan.rows / 3;
  if (plan.has(Mask::kSoftcap)) shape.softcap = 1.5;
  if (plan.has(Mask::kDelta)) add_rope(shape, plan.seed);
  return shape;
}

// Two sequences: one of its own rows, and one of three spans, the middle one over blocks of the
// first in another order, read at another position where the mask says so.
inline AttentionCase case_of(const AttentionPlan& plan) {
  const std::uint64_t own = (plan.rows + plan.block_rows - 1) / plan.block_rows;
  AttentionCase call(shape_of(plan), plan.storage, plan.block_rows, own + 60 / plan.block_rows + 4,
                     plan.seed);
  if (plan.has(Mask::kSinks)) call.add_sinks();
  call.add_plain_sequence(plan.rows, plan.queries);
  const std::span<const std::uint32_t> table = call.sequences[0].spans[0].blocks;
  std::vector<std::uint32_t> shared(table.rbegin(), table.rend());
  const auto before = static_cast<std::int64_t>(1 + plan.seed % 5);
  const auto document = static_cast<std::int64_t>(plan.rows);
  const std::int64_t delta = plan.has(Mask::kDelta) ? 100'000 : 0;
  std::vector<Span> spans;
  spans.push_back(call.make_span({.rows = std::uint64_t(before), .position = delta}));
  spans.push_back(
      call.make_span({.rows = plan.rows, .position = before, .delta = delta}, std::move(shared)));
  spans.push_back(call.make_span(
      {.rows = 19, .position = delta + before + document, .first_row = plan.seed % 4}));
  call.add_sequence(std::move(spans), plan.queries,
                    delta + before + document + 18 - std::int64_t(plan.queries));
  return call;
}

}  // namespace emblema::testing_support
