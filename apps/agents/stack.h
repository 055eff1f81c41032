// An attention-only stack: embeddings, then layers of x + attention(rms_norm(x)). The widths,
// heads, ranks and rotary tables are a model's own, the weights are seeded: deeper latents really
// depend on what came before, which is all that a cache can be tested with.
//
// Immutable after create(); the scratch in a Runner is one thread's.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "emblema/contract/result.h"
#include "emblema/geometry/model_geometry.h"
#include "emblema/layer/attention_layer.h"
#include "emblema/layer/prefill.h"
#include "emblema/session/sequence.h"

namespace emblema::agents {

class Stack {
 public:
  // Products and attention use the pool's threads; none: the calling one. It outlives the stack.
  // Attention uses `isa`, or the widest instructions that this machine has.
  // Errors: those of AttentionLayer::create. Invalid: not enough memory for the weights (names the
  // bytes needed and available).
  static Result<Stack> create(const ModelGeometry& geometry, std::uint64_t seed,
                              ThreadPool* threads = nullptr, std::optional<Isa> isa = {});

  std::uint64_t hidden() const { return hidden_; }
  std::span<const AttentionLayer> layers() const { return layers_; }
  StreamRole role(std::size_t layer) const { return roles_[layer]; }
  Encoding encoding(std::size_t layer) const { return encodings_[layer]; }
  double norm_eps() const { return norm_eps_; }
  std::optional<Isa> isa() const { return isa_; }

  // x [tokens][hidden], variance 1, a function of the token id alone.
  void embed(std::span<const TokenId> tokens, std::span<float> x) const;

 private:
  std::vector<AttentionLayer> layers_;
  std::vector<StreamRole> roles_;
  std::vector<Encoding> encodings_;
  std::uint64_t hidden_ = 0;
  double norm_eps_ = 0;
  std::uint64_t seed_ = 0;
  std::optional<Isa> isa_;
};

// What a layer's attention gave for one token: [hidden], after the output projection.
// `index` counts the tokens of the call.
using Observer =
    std::function<void(std::size_t layer, std::uint64_t index, std::span<const float> output)>;

// Runs tokens through the stack over paged sequences.
class Runner {
 public:
  explicit Runner(const Stack& stack) : stack_(&stack) {}

  // All tokens of one sequence, in steps of at most `step_tokens`: reserve, write rows, attend,
  // commit. Rotates keys and queries by `rotate_by` more than their position (a
  // constant does not change attention among them). `observe` may be empty.
  Status prefill(Sequence& sequence, std::span<const TokenId> tokens, std::uint64_t step_tokens,
                 std::int64_t rotate_by = 0, const Observer& observe = {});

  // One token of each sequence, attended straight from the blocks, in one batch, and committed.
  // index = position in `sequences`.
  Status decode(std::span<Sequence* const> sequences, std::span<const TokenId> tokens,
                const Observer& observe = {});

  // The attention inputs of one layer in the last decode() and what it gave, for checks. Valid
  // until the next call; seen by the hook, while the sequences still hold their reserved row.
  using DecodeHook = std::function<void(std::size_t layer, const AttentionInputs& inputs,
                                        std::span<const float> out, std::span<const float> lse)>;
  void set_decode_hook(DecodeHook hook) { decode_hook_ = std::move(hook); }

 private:
  Status prefill_step(Sequence& sequence, std::span<const TokenId> tokens, std::int64_t rotate_by,
                      std::uint64_t first_index, const Observer& observe);
  Status write_rows(const Projection& projection, std::size_t layer, std::uint64_t first_row,
                    const Sequence& sequence, std::uint64_t position, std::uint64_t count);
  // out += the layer's output projection of `result`; observes it.
  Status finish_layer(std::size_t layer, std::span<const float> result, AttentionForm form,
                      std::uint64_t count, std::uint64_t first_index, const Observer& observe);
  std::span<const float> normed(std::uint64_t count);

  AttentionOptions attention_options(std::size_t layer);

  const Stack* stack_;
  DecodeHook decode_hook_;
  LayerScratch layer_scratch_;
  AttentionWorkspace workspace_;
  std::vector<float> x_, norm_, result_, lse_, output_;
};

}  // namespace emblema::agents
