// Attention over paged rows: one contract for every kernel.
//
// For each query and head: z = scale * q.k, softcap, mask, softmax, weighted sum of values; then,
// once, the sink: out *= 1 / (1 + exp(sink - lse)). Accumulation is at least fp32.
//
// Against exact arithmetic over the same stored rows, queries and rows drawn N(0, 1) and scale = 1
// / sqrt(key_dim), |error| / |out| in norm is at most (docs/internals/kernels.md has what was
// measured)
//   2e-6   scalar, avx2, avx512, and amx over fp32 and fp16 rows: sums in fp32
//   4e-3   amx over bf16 and e4m3 rows: queries and probabilities are rounded to bf16;
//          6e-3 in the expanded form, where keys and values are, too
// up to 64 Ki rows; the sums' rounding grows with the square root of the rows, and a logit's own
// rounding, 2^-24 |z|, is an error of e^z: twice as large logits, up to twice the error. lse is off
// by at most the same, relative to max(1, |lse|). Logits that fp32 does not hold give NaN. lse is
// the natural logarithm of the sum of exponentials and never includes the sink. A query with
// nothing visible gives out = 0 and lse = -infinity, never NaN. (FlashMLA 9241ae3e returns
// +infinity there: mind it when merging with its partial results.) A row with NaN or infinity
// reaches only queries that see it.
//
// Same inputs and instruction set, same bits, whatever the thread count and whichever other queries
// and sequences are in the call. No kernel locks; nothing is taken from the heap once a workspace
// has grown to its call. Any thread may call, each with a workspace of its own; the caller keeps
// the rows unchanged meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "emblema/contract/result.h"
#include "emblema/kernels/attention_workspace.h"
#include "emblema/kernels/isa.h"
#include "emblema/layout/attention_inputs.h"
#include "emblema/os/thread_pool.h"

namespace emblema {

// Limits, so that sizes fit. Anything beyond is Invalid.
struct AttentionLimits {
  static constexpr std::uint32_t kHeadWidthMax = 1024;  // key_dim and value_dim
  static constexpr std::uint32_t kHeadsMax = 65'536;
  static constexpr std::int64_t kPositionMax = std::int64_t{1} << 53;  // and its negative
};

struct AttentionOptions {
  AttentionWorkspace* workspace = nullptr;  // none: one that lives for the call
  ThreadPool* threads = nullptr;            // none: the calling thread does all
  std::optional<Isa> isa = {};              // none: best_isa()
};

// Decode: a few queries per sequence, straight from the blocks.
//   out [tokens][query_heads][value_dim]   lse [tokens][query_heads]   both owned by the caller
// Sequences come in the order of their queries; a query row that no sequence names gives 0 and
// -infinity. Where a layer does not rotate, delta needs an empty RopeTable: nothing is turned.
// Invalid, before any work, naming the value: sizes of out or lse that do not fit, spans that are
// unsorted or overlap or leave their blocks, shape fields out of range, null memory, lse within
// out. Unsupported: a delta != 0 without a table of fixed frequencies; an isa that this machine
// lacks.
[[nodiscard]] Status decode_attention(const AttentionInputs& inputs, std::span<float> out,
                                      std::span<float> lse, const AttentionOptions& options = {});

// The up-projections of a latent layer (DeepSeek-V2, arXiv 2405.04434, section 2.1.2), for prefill
// in the expanded form: k_i = [W_UK,i c_kv ; k_rope], v_i = W_UV,i c_kv. Owned by the caller.
struct LatentExpansion {
  std::span<const float> key_up;    // W_UK [query_heads][content_dim][latent_dim]
  std::span<const float> value_up;  // W_UV [query_heads][value_dim][latent_dim]
  std::uint32_t content_dim = 0;    // d_n
  std::uint32_t value_dim = 0;      // d_v
};

// Prefill: many queries per sequence, causal, over whatever the spans hold, the queries' own rows
// included. Without `expansion` it is decode_attention. With one, the inputs' shape still describes
// the stored rows (latent_dim = shape.value_dim, d_r = shape.key_dim - shape.value_dim), but keys
// and values are expanded per head, a few rows at a time, into the workspace: never into the cache.
//   inputs.q [tokens][query_heads][content_dim + d_r]   out [tokens][query_heads][d_v]
// Invalid also: an expansion of rows that are not latent, its sizes. Few queries over many rows are
// cheaper without (prefill_cost in layer/prefill.h).
[[nodiscard]] Status prefill_attention(const AttentionInputs& inputs, std::span<float> out,
                                       std::span<float> lse,
                                       const LatentExpansion* expansion = nullptr,
                                       const AttentionOptions& options = {});

// Bytes that a workspace grows to for such a call: so much per thread, and partial results of long
// sequences (64 MiB, or those of one unit if that is more). What counts are shapes, lengths, the
// batch and the threads; nothing is read. Same errors as the call itself, but for out and lse.
Result<std::uint64_t> attention_workspace_bytes(const AttentionInputs& inputs,
                                                const LatentExpansion* expansion = nullptr,
                                                const AttentionOptions& options = {});

// What decode_attention checks before it works; shared by every kernel and the reference.
[[nodiscard]] Status check_attention_inputs(const AttentionInputs& inputs, std::uint64_t out_size,
                                            std::uint64_t lse_size);

// The same for prefill_attention.
[[nodiscard]] Status check_prefill_inputs(const AttentionInputs& inputs,
                                          const LatentExpansion& expansion, std::uint64_t out_size,
                                          std::uint64_t lse_size);

// Joins a partial result into another over disjoint keys (no sinks in either), per query and head:
//   m = max(la, lb); both -infinity: (0, -infinity); else weights e^(l - m).
//   out, more_out [rows][value_dim]; lse, more_lse [rows]
// The side with lse = -infinity is ignored, whatever its out holds.
// REQUIRES: sizes as stated (a mistake of the programmer ends the process: contract/check.h).
void merge_attention(std::span<float> out, std::span<float> lse, std::span<const float> more_out,
                     std::span<const float> more_lse);

// Applies the sinks, once, after the last merge. out [tokens][heads][value_dim], lse [tokens]
// [heads], sinks [heads] or none. A sink of +infinity gives zeros, of -infinity changes nothing.
// REQUIRES: sizes as stated, as above.
void finish_attention(std::span<float> out, std::span<const float> lse,
                      std::span<const float> sinks);

}  // namespace emblema
