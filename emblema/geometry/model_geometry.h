// What a model must remember, per layer, per token or per sequence: the one place where sizes come
// from. Nothing behind this room knows a model's name.
//
// Glossary
//   stream  one kind of remembered thing of one layer (stream.h)
//   group   the streams of all layers that live and die together: one block = all of a group's
//           pages for the same tokens. Growing streams form one group; each length of a window and
//           of a chunk another.
//   block tokens  tokens per block of a group: the smallest common multiple of its strides and of
//           the page its kernels read (64 latent, 16 K/V, 128 for DeepSeek-V4)
//
// Immutable after from(); any thread may read.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "emblema/contract/ids.h"
#include "emblema/contract/rational.h"
#include "emblema/contract/result.h"
#include "emblema/geometry/encoding.h"
#include "emblema/geometry/stream.h"
#include "emblema/model/model_config.h"

namespace emblema {

struct GeometryOptions {
  KvDtype kv_dtype = KvDtype::kBf16;
  std::optional<IndexerDtype> indexer_dtype{};  // none: default_indexer_dtype
  bool speculative_mtp = false;                 // count the draft layers too
  std::uint64_t block_tokens = 0;               // 0: derived; else a multiple of the derived number
  std::uint32_t layers = 0;                     // 0: all; else only the first so many
  std::optional<StateDtype> state_dtype{};      // of recurrent state; none: as the config says,
                                                // fp32 where it does not
  std::uint64_t encoder_tokens = 0;  // rows of cross-attention; 0: what the model fixes, else none

  // One rank's part of the model: a stage of a pipeline, and a share of its heads.
  std::uint32_t first_layer = 0;      // layers [first_layer, first_layer + layers)
  std::uint32_t tensor_parallel = 1;  // ranks that share the heads (tensor_share.h)
  std::uint32_t tensor_rank = 0;      // which of them; no size depends on it
};

// How one layer computes attention over its streams: what kernels and layers need to know.
struct LayerGeometry {
  std::uint32_t index = 0;        // in ModelGeometry::layers()
  std::uint32_t model_layer = 0;  // in the model: not `index` behind a pipeline's first stage
  // "mha" "gqa" "mqa" "mla" "mla+dsa" "csa" "hca" "swa" "cross"; with a recurrent mixer "mamba2"
  // "gdn" ... or "gqa+mamba2"; "none" where nothing is remembered.
  std::string kind;
  std::uint64_t window_tokens = 0;           // 0: sees everything before it
  std::uint64_t chunk_tokens = 0;            // sees from the last multiple on; 0: no chunks
  std::optional<std::uint32_t> shares_with;  // index of the layer whose rows it reads; then it has
                                             // no streams of its own
  bool is_draft = false;                     // an MTP layer
  std::uint32_t query_heads = 0;             // of this rank
  std::uint32_t kv_heads = 0;                // of this rank; 1 for latents
  std::uint32_t key_dim = 0;    // width of a cached key: head_dim, or kv_lora_rank + rope dim
  std::uint32_t value_dim = 0;  // width of a cached value: v_head_dim, or kv_lora_rank
  double scale = 0;             // softmax scale
  double softcap = 0;           // 0: none
  bool has_sinks = false;
  bool has_rope = true;
  RopeFacts rope;
  std::uint64_t max_positions = 0;
  std::vector<Stream> streams;
};

struct CacheGroup {
  struct Member {
    std::uint32_t layer = 0;   // index into ModelGeometry::layers()
    std::uint32_t stream = 0;  // index into its streams
  };
  std::string name;  // "growing", "window 128", "chunk 8192"
  Retention retention = Retention::kGrowing;
  std::uint64_t window_tokens = 0;  // of a window or a chunk
  std::uint64_t block_tokens = 0;
  std::vector<Member> members;  // in layer order
};

class ModelGeometry {
 public:
  // Invalid: an option that breaks a rule (names the rule and the derived number), heads that do
  // not divide among ranks, or sizes past 64 bits. Unsupported: a dtype that has no meaning for
  // this attention.
  static Result<ModelGeometry> from(const ModelConfig& model, const GeometryOptions& options = {});

  const ModelConfig& model() const { return model_; }
  const GeometryOptions& options() const { return options_; }
  std::span<const LayerGeometry> layers() const { return layers_; }
  std::span<const CacheGroup> groups() const { return groups_; }  // paged streams only
  bool has_arena() const;                                         // any stream placed there
  // Something per sequence that only running its tokens again can make: a hit needs a copy of it.
  bool has_state() const;

  // Exact accounting, one sequence, one rank, payload: no rounding to blocks, no padding.
  Result<Rational> growing_bytes_per_token() const;
  Result<std::uint64_t> bytes_per_sequence(std::uint64_t tokens) const;  // growing, windows,
                                                                         // encoder rows
  Result<std::uint64_t> growing_bytes_per_sequence(std::uint64_t tokens) const;
  Result<std::uint64_t> fixed_bytes_per_sequence() const;  // the cap that windows and chunks reach,
                                                           // and encoder rows
  Result<std::uint64_t> state_bytes_per_sequence() const;  // compressor and recurrent state

  // "61 x MLA", "18 x GQA window 128 + 18 x GQA".
  std::string attention_in_words() const;

  // Covers every number that makes bytes interchangeable: widths, encodings, strides, windows,
  // layer range, rotary frequencies, block tokens, format version; and the rank where heads are
  // shared out.
  const Fingerprint& fingerprint() const { return fingerprint_; }

 private:
  ModelGeometry() = default;
  ModelConfig model_;
  GeometryOptions options_;
  std::vector<LayerGeometry> layers_;
  std::vector<CacheGroup> groups_;
  Fingerprint fingerprint_;
};

}  // namespace emblema
