// Append: new rows, from fp32 numbers to the bytes that a cache stores, keys rotated on the way.
//
//   latent rows   [c_kv : value_dim][k_rope : key_dim - value_dim]
//   grouped rows  [kv_heads][key_dim] keys, then [kv_heads][value_dim] values
//
// Same bytes from every instruction set: the bytes of layout/entry_codec.h, for every number, NaN
// and infinity included, in every storage that attention reads. (Sharing compares bytes: what a row
// holds must not depend on the machine that wrote it.) Rotated numbers are those of
// layout/rotation.h, products and sums rounded one by one; what becomes NaN there is one quiet NaN
// (0x7fc00000). Angles come from the C library's sine and cosine in double: a library that differs
// in their last bit gives another fp32 number about once in 10^8. All of it in the default
// floating-point environment: rounding to nearest, subnormals kept.
//
// A row owns its row_bytes: those behind its numbers are written 0, and so is the byte beside the 7
// scales of kDeepSeekV4. No other byte is touched. Nothing is allocated, nothing locked. Any thread
// may call; calls that write different rows may run at once.
#pragma once

#include <cstdint>
#include <span>

#include "emblema/contract/result.h"
#include "emblema/kernels/row_places.h"

namespace emblema {

struct AppendInputs {
  // kind, kv_heads, key_dim, value_dim and rotary_offset; the rest plays no part.
  AttentionShape shape;
  std::span<const float> numbers = {};  // [count][numbers of a row]; left as they are

  // Rotates channels rotary_offset ... + rotary_dim of each key at its row's position, the table's
  // amplitude applied. Null: keys are rotated already, or never.
  const RopeTable* rotate = nullptr;
  std::span<const std::int64_t> positions = {};  // [count], read only where `rotate` needs them
  // [count][rotary_dim / 2] what fill_rotation gives for each row: a step with many layers computes
  // them once, which costs more than all the rest. Empty: computed here from the positions.
  std::span<const float> cosines = {};
  std::span<const float> sines = {};
};

// Writes numbers.size() / (numbers of a row) rows. REQUIRES: the target's blocks differ.
// Invalid, before any byte is written, naming the field: shape and layout fields out of range,
// numbers that are no whole rows, positions or angles of another count, angles without their table,
// a position beyond AttentionLimits, rows that leave the blocks, null memory, a scale rule that
// could divide by 0. Unsupported: an isa that this machine lacks.
[[nodiscard]] Status append_rows(const AppendInputs& inputs, const RowTarget& target,
                                 const RowOptions& options = {});

}  // namespace emblema
