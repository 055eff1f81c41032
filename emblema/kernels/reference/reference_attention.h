// Attention in plain double precision: what every kernel is held against. Written to be read, not
// to be fast; it stays for ever and shares no arithmetic with the kernels.
//
// The formula, per query and head (position t):
//   z_j = scale * q . k_j, softcap, for attached positions t - window < j <= t in t's chunk (a
//   chunk begins at each multiple of chunk_tokens, before position 0 too) lse = ln(sum of e^z_j)
//   out = sum of e^(z_j - lse) v_j, times 1 / (1 + e^(sink - lse))
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "emblema/contract/result.h"
#include "emblema/layout/attention_inputs.h"

namespace emblema {

// The rows of one sequence as numbers.
struct ReferenceRows {
  struct Place {
    std::int64_t attached = 0;  // position that causality and windows use
    std::int64_t delta = 0;     // attached - stored position
  };
  std::vector<Place> places;
  std::vector<double> keys;    // [rows][kv_heads][key_dim]
  std::vector<double> values;  // [rows][kv_heads][value_dim]
};

// One stored number, by the definition of its encoding, no scale applied. Other encodings than
// kFp32, kFp16, kBf16, kFp8E4m3 are a programmer's error.
double reference_element(const std::byte* from, Encoding encoding);

// Reads all rows of a sequence that passed check_attention_inputs.
ReferenceRows reference_rows(const AttentionInputs& inputs, const SequenceInputs& sequence);

// One query row, all heads, no sinks: q [query_heads][key_dim], out [query_heads][value_dim],
// lse [query_heads]. A key with delta != 0 is read with the query turned by -delta.
// REQUIRES: sizes as stated; a rope table where a delta is not 0.
void reference_query(const AttentionShape& shape, const ReferenceRows& rows,
                     std::span<const double> q, std::int64_t position, std::span<double> out,
                     std::span<double> lse);

// merge_attention and finish_attention in double.
void reference_merge(std::span<double> out, std::span<double> lse, std::span<const double> more_out,
                     std::span<const double> more_lse);
void reference_finish(std::span<double> out, std::span<const double> lse,
                      std::span<const float> sinks);

// decode_attention in double: the same inputs, checks, shapes and errors.
[[nodiscard]] Status reference_attention(const AttentionInputs& inputs, std::span<double> out,
                                         std::span<double> lse);

}  // namespace emblema
