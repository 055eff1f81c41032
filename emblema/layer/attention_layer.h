// One attention layer around the cache: from hidden states to queries and cache rows, and from the
// attention's result back to hidden states. What lies between is a kernel's (kernels/attention.h)
// or prefill.h's.
//
//   Projection p = *layer.project(hidden, positions, AttentionForm::kAbsorbed, scratch);
//   encode_rows(p, 0, p.count, contiguous_rows(row_memory, p.count, stored));  // into the cache
//   decode_attention({.shape = layer.shape(), .q = p.queries.data(), ...}, result, lse);
//   layer.output(result, AttentionForm::kAbsorbed, hidden_out, scratch);
//
// Rows of several sequences may go through one call: each has its own position. Normalising the
// hidden states before, and adding the residual after, is the caller's (rms_norm.h).
//
// A layer is immutable after create(); any thread may call it, each with a scratch of its own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "emblema/contract/result.h"
#include "emblema/kernels/row_places.h"
#include "emblema/layer/layer_dims.h"
#include "emblema/layer/layer_weights.h"
#include "emblema/layout/attention_inputs.h"
#include "emblema/layout/rope_table.h"
#include "emblema/layout/rotation.h"
#include "emblema/os/thread_pool.h"

namespace emblema {

struct LayerOptions {
  std::uint64_t seed = 0;         // of the weights; layers of one stack differ by their index
  ThreadPool* threads = nullptr;  // for its products; none: the calling thread. Outlives the layer
};

// Memory that calls reuse. It grows to the largest call: about
// count * (query_heads * (query_dim + result_dim) + row_elements) floats, so callers that project
// long prompts do it in steps.
struct LayerScratch {
  std::vector<float> low_rank;  // c_q
  std::vector<float> queries;   // expanded
  std::vector<float> absorbed;
  std::vector<float> rows;
  std::vector<float> heads;  // output(): results per head
  Rotation rotation;
};

// What project() gives. Views into the scratch, valid until its next use.
struct Projection {
  std::span<const float> queries;  // [count][query_heads][query_dim], rotated
  std::span<const float> rows;     // [count][row_elements]: new cache rows, keys rotated
  std::uint64_t count = 0;
  std::uint64_t query_dim = 0;
  std::uint64_t row_elements = 0;
  AttentionShape row_shape;  // the layer's: what the rows hold
};

class AttentionLayer {
 public:
  // Errors: those of LayerDims::from, LayerWeights::seeded and RopeTable::from.
  static Result<AttentionLayer> create(const ModelConfig& model, const LayerGeometry& layer,
                                       const LayerOptions& options);

  const LayerDims& dims() const { return dims_; }
  const LayerWeights& weights() const { return weights_; }
  const RopeTable& rope() const { return rope_; }
  ThreadPool* threads() const { return threads_; }
  std::span<const float> sinks() const { return weights_.sinks; }  // empty where it has none

  // What a kernel needs over this layer's rows (absorbed form). Points to rope(): valid while this
  // object stays where it is.
  AttentionShape shape() const;

  // hidden [count][d]   positions [count], >= 0
  // Queries of a latent layer: kAbsorbed [W_UK^T q_content ; q_rope], kExpanded [q_content ;
  // q_rope]. Invalid: sizes that do not fit, a negative position.
  Result<Projection> project(std::span<const float> hidden, std::span<const std::int64_t> positions,
                             AttentionForm form, LayerScratch& scratch) const;

  // result [count][query_heads][result_dim(form)] -> out [count][d], overwritten.
  // Invalid: sizes that do not fit.
  [[nodiscard]] Status output(std::span<const float> result, AttentionForm form,
                              std::span<float> out, LayerScratch& scratch) const;

 private:
  AttentionLayer() = default;
  void project_queries(std::span<const float> hidden, std::uint64_t count,
                       LayerScratch& scratch) const;
  void project_rows(std::span<const float> hidden, std::uint64_t count,
                    LayerScratch& scratch) const;
  void rotate(std::span<const std::int64_t> positions, LayerScratch& scratch) const;
  void absorb_queries(std::uint64_t count, LayerScratch& scratch) const;

  LayerDims dims_;
  LayerWeights weights_;
  RopeTable rope_;
  double scale_ = 0;
  double softcap_ = 0;
  std::uint64_t window_tokens_ = 0;
  std::uint64_t chunk_tokens_ = 0;
  ThreadPool* threads_ = nullptr;
};

// Writes rows first ... first + count - 1 of a projection as the target stores them.
// Invalid: a range outside the projection; Invalid, Unsupported: as append_rows (kernels/append.h).
[[nodiscard]] Status encode_rows(const Projection& projection, std::uint64_t first,
                                 std::uint64_t count, const RowTarget& target,
                                 const RowOptions& options = {});

}  // namespace emblema
