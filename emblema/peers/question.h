// What both engines ask of a question before they compute anything, and how each cuts a model into
// pipeline stages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "emblema/contract/result.h"
#include "emblema/model/model_config.h"
#include "emblema/peers/peer.h"

namespace emblema {

// Bounds that keep every product of sizes within 64 bits.
struct PeerLimits {
  static constexpr std::uint64_t kRanksMax = 65'536;
  static constexpr std::uint64_t kStagesMax = 1024;
  static constexpr std::uint64_t kBlockTokensMax = std::uint64_t{1} << 20;
  static constexpr std::uint64_t kTokensMax = std::uint64_t{1} << 40;
  static constexpr std::uint64_t kPageBytesMax = std::uint64_t{1} << 40;
  static constexpr std::uint64_t kDraftLayersMax = 1024;
};

// "VERSION refuses: WHAT": a refusal in the engine's name.
tl::unexpected<Error> refuse(PeerEngine engine, ErrorCode code, const std::string& what);

// What both engines' plans begin with: their names and max_model_len, or the model's positions.
// Invalid: a number out of range, a GPU or a state dtype that is not in the lists of PeerQuestion,
// no length at all, a config filled by hand that geometry's check_model refuses. Unsupported: a
// cache that this room has no rule for: rows of an encoder, index keys beside grouped heads
// (MiniMax-M3), a convolution over keys and values (Baichuan-M1).
[[nodiscard]] Status begin_plan(PeerEngine engine, const ModelConfig& model,
                                const PeerQuestion& question, PeerPlan* plan);

// Layers of each pipeline stage, without draft layers. An uneven rest goes, in vLLM, to the stages
// before the last one, from behind; in SGLang to the last ones. A model whose layers attend twice
// (LongCat-Flash) is cut between layers. Invalid: an explicit split of another length or sum.
Result<std::vector<std::uint32_t>> pipeline_split(PeerEngine engine, const ModelConfig& model,
                                                  const PeerQuestion& question);

// The stage of every layer, draft layers last (in the last stage).
std::vector<std::uint32_t> stage_of_layers(const std::vector<std::uint32_t>& split,
                                           std::uint32_t draft_layers);

// The layer that EAGLE and MTP drafts are taken to look like: the last one that sees everything and
// has a cache of its own, else the last one. REQUIRES: the model has layers.
const LayerFacts& draft_like_layer(const ModelConfig& model);

// What the question's dtype comes to. A checkpoint's quantization_config decides "auto": in vLLM
// ModelOpt's fp8 and nvfp4 and compressed-tensors' fp8, in SGLang ModelOpt's fp8. A note says so.
// Source: vLLM 073c510c, vllm/utils/torch_utils.py and compressed_tensors.py; SGLang v0.5.18,
// configure_kv_cache_dtype. ModelOpt's file beside the config, hf_quant_config.json, is not read.
std::string followed_cache_dtype(PeerEngine engine, const ModelConfig& model,
                                 const PeerQuestion& question, PeerPlan* plan);

// 4 for "float32", else 2: the model's own numbers are bf16 where the config does not say.
std::uint64_t model_element_bytes(const ModelConfig& model);

// Bytes of one matrix of recurrent state with `columns` of convolution, on one rank.
struct StateBytes {
  std::uint64_t convolution = 0;
  std::uint64_t state = 0;
  std::uint64_t total() const { return convolution + state; }
};

// Divided as geometry's tensor_share has it: by heads, or by channels where there is one head.
// Invalid: heads or channels that `tensor` does not divide, a state past PeerLimits.
Result<StateBytes> state_bytes(PeerEngine engine, const RecurrentFacts& facts, std::uint64_t tensor,
                               std::uint64_t conv_element, std::uint64_t state_element);

// Appends how this differs from Emblema's own growing bytes per token, where both can be computed
// for the same numbers: one rank of one, and a dtype that both know.
void note_own_figure(const ModelConfig& model, const PeerQuestion& question, PeerPlan* plan);

}  // namespace emblema
