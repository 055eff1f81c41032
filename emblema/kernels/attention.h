// Attention over paged rows: one contract for every kernel.
//
// For each query and head: z = scale * q.k, softcap, mask, softmax, weighted sum of values; then,
// once, the sink: out *= 1 / (1 + exp(sink - lse)). Accumulation is at least fp32.
// Against exact arithmetic over the same stored rows out differs by at most 2e-6 in norm up to 64
// Ki rows (drawn N(0, 1); the sums' rounding grows with the square root of the rows). lse is the
// natural logarithm of the sum of exponentials and never includes the sink. A query with nothing
// visible gives out = 0 and lse = -infinity, never NaN. (FlashMLA 9241ae3e returns +infinity there:
// mind it when merging with its partial results.)
//
// Same inputs, same bits, whatever the thread count and whichever other queries and sequences are
// in the call. No kernel allocates or locks; a call uses at most 256 KiB of stack. Any thread may
// call; the caller keeps the rows unchanged meanwhile.
#pragma once

#include <cstdint>
#include <span>

#include "emblema/contract/result.h"
#include "emblema/layout/attention_inputs.h"

namespace emblema {

// Limits, so that tiles have a fixed size. Anything beyond is Invalid.
struct AttentionLimits {
  static constexpr std::uint32_t kHeadWidthMax = 1024;  // key_dim and value_dim
  static constexpr std::uint32_t kHeadsMax = 65'536;
  static constexpr std::int64_t kPositionMax = std::int64_t{1} << 53;  // and its negative
};

// Decode: a few queries per sequence, straight from the blocks.
//   out [tokens][query_heads][value_dim]   lse [tokens][query_heads]   both owned by the caller
// Sequences come in the order of their queries; a query row that no sequence names gives 0 and
// -infinity. Where a layer does not rotate, delta needs an empty RopeTable: nothing is turned.
// Invalid, before any work, naming the value: sizes of out or lse that do not fit, spans that are
// unsorted or overlap or leave their blocks, shape fields out of range, null memory.
// Unsupported: a delta != 0 without a table of fixed frequencies.
[[nodiscard]] Status decode_attention(const AttentionInputs& inputs, std::span<float> out,
                                      std::span<float> lse);

// What decode_attention checks before it works; shared by every kernel and the reference.
[[nodiscard]] Status check_attention_inputs(const AttentionInputs& inputs, std::uint64_t out_size,
                                            std::uint64_t lse_size);

// Joins a partial result into another over disjoint keys (no sinks in either), per query and head:
//   m = max(la, lb); both -infinity: (0, -infinity); else weights e^(l - m).
//   out, more_out [rows][value_dim]; lse, more_lse [rows]
// The side with lse = -infinity is ignored, whatever its out holds.
// REQUIRES: sizes as stated.
void merge_attention(std::span<float> out, std::span<float> lse, std::span<const float> more_out,
                     std::span<const float> more_lse);

// Applies the sinks, once, after the last merge. out [tokens][heads][value_dim], lse [tokens]
// [heads], sinks [heads] or none. A sink of +infinity gives zeros, of -infinity changes nothing.
// REQUIRES: sizes as stated.
void finish_attention(std::span<float> out, std::span<const float> lse,
                      std::span<const float> sinks);

}  // namespace emblema
