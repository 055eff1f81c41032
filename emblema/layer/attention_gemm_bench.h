// What `emblema bench attention` compares with: attention by matrix products, as somebody with
// paged rows and oneDNN writes it.
//
// Rows are gathered from their pages, 2,048 at a time, into one contiguous matrix (and converted,
// where oneDNN cannot multiply them as they are); then scores = Q K^T, softmax, out += P V, each by
// oneDNN, with the parts joined by their log-sum-exp. Where the processor multiplies bf16, operands
// are bf16 and sums fp32; elsewhere all is fp32. In the expanded form keys and values of a head are
// made from the gathered rows by two more products.
//
// For what the benchmark measures and no more: one span for a sequence, no window, no sink, no
// relocation; grouped rows with one query token. One thread calls; `threads` share the products.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "emblema/contract/result.h"
#include "emblema/kernels/attention.h"

namespace emblema::bench {

class GemmAttention {
 public:
  // `threads` outlives it, or is null: one.
  explicit GemmAttention(ThreadPool* threads);
  ~GemmAttention();

  // Whether operands are bf16: the processor has products of them.
  bool is_bf16() const;

  // Takes the up-projections in the form that products want; they must outlive it.
  [[nodiscard]] Status set_expansion(const LatentExpansion& expansion);

  // As decode_attention; `is_expanded`: as prefill_attention with what was set. Unsupported:
  // oneDNN refused, in its words.
  [[nodiscard]] Status run(const AttentionInputs& inputs, bool is_expanded, std::span<float> out);

 private:
  class Work;
  std::unique_ptr<Work> work_;
};

}  // namespace emblema::bench
