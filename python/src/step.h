// One forward pass of a batch over one engine: where the new rows of each sequence go, and which
// tokens ask. What the attention function of emblema.transformers calls once or twice a layer.
//
//   begin(rows)                     the sequences and the columns of the batch that are theirs
//   write(layer, keys, values)      stores new rows
//   attend(layer, query, out, ...)  attention over what is stored, new rows included
//
// A batch is a rectangle of columns, [sequence][column]; a sequence's own are consecutive, the rest
// is padding and touches nothing. Some of a sequence's columns may be rows already (a hit): they
// are not written again, but may ask.
//
// One thread at a time. The caller keeps the sequences, and changes none, until the next begin().
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "emblema/kernels/attention.h"
#include "emblema/session/engine.h"
#include "python/src/head_tensor.h"

namespace emblema::python {

struct StepRow {
  Sequence* sequence = nullptr;
  std::vector<std::uint32_t> columns = {};  // of its tokens, ascending; none: all padding
  std::uint64_t position = 0;               // of the first of them in the sequence

  std::uint64_t tokens() const { return columns.size(); }
};

// What the model says of one layer's attention at each call.
struct AttendOptions {
  double scale = 1;
  double softcap = 0;              // 0: none
  std::uint64_t window = 0;        // 0: sees everything before it
  std::span<const float> sinks{};  // [query_heads], or none
  const LatentExpansion* expansion = nullptr;
};

class Step {
 public:
  Step(const Engine& engine, ThreadPool* threads);

  // Invalid: columns that are not ascending or pass the batch, tokens past what is reserved.
  [[nodiscard]] Status begin(std::vector<StepRow> rows, std::uint64_t columns);

  std::span<const StepRow> rows() const { return rows_; }

  // keys [sequences][kv_heads][columns][key_dim], values [...][value_dim]; latent layers: the
  // latent and the rotary key, one head each. Encoded as the engine stores them. Invalid: shapes
  // that are not the layer's.
  [[nodiscard]] Status write(std::uint32_t layer, const HeadTensor& keys, const HeadTensor& values);

  // query [sequences][query_heads][columns][key_dim], rotated; out [same][value_dim], overwritten:
  // zeros in columns of padding. Latent layers without expansion: absorbed queries, and results as
  // wide as the latent. Invalid: shapes that are not the layer's, a window that is not.
  [[nodiscard]] Status attend(std::uint32_t layer, const HeadTensor& query, const HeadTensor& out,
                              const AttendOptions& options);

 private:
  struct Piece {  // queries of one row that go into one kernel call
    std::uint64_t row = 0;
    std::uint64_t first = 0;  // among the row's tokens
    std::uint64_t tokens = 0;
  };
  Result<const LayerGeometry*> layer_of(std::uint32_t layer) const;
  Status write_row(const LayerGeometry& layer, std::uint64_t row, const HeadTensor& keys,
                   const HeadTensor& values);
  Status attend_pieces(const LayerGeometry& layer, std::span<const Piece> pieces,
                       const HeadTensor& query, const HeadTensor& out,
                       const AttendOptions& options);
  double multiplications(const LayerGeometry& layer, std::span<const Piece> pieces) const;
  bool window_fits(const LayerGeometry& layer, std::uint64_t window) const;
  void clear_padding(const HeadTensor& out) const;

  std::span<const LayerGeometry> layers_;
  ThreadPool* threads_;
  std::vector<StepRow> rows_;
  std::uint64_t columns_ = 0;
  AttentionWorkspace workspace_;
  std::vector<float> numbers_;  // rows to store, or queries
  std::vector<float> results_;
  std::vector<float> lse_;
  std::vector<SequenceInputs> asking_;
};

}  // namespace emblema::python
