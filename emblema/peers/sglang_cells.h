// SGLang's "cell": the bytes that one token of its pool takes on a rank. Its pools hold tokens, not
// blocks: tokens = budget / cell, rounded down to a page.
//
// Source: SGLang v0.5.18 (2026-08-20), sglang/srt/model_executor/pool_configurator.py and
// sglang/srt/configs/model_config.py. Plain values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "emblema/contract/rational.h"
#include "emblema/contract/result.h"
#include "emblema/model/model_config.h"
#include "emblema/peers/attention_backends.h"
#include "emblema/peers/peer.h"

namespace emblema {

struct SglangDtype {
  std::string name;        // as asked
  std::string torch_name;  // "torch.bfloat16", as the log spells it
  std::uint64_t element_bytes = 2;
  bool fp4 = false;    // two numbers to a byte, a scale for 16
  bool mxfp8 = false;  // a scale byte for 32
};

// Invalid: a word that --kv-cache-dtype does not have, or one that SGLang raises on.
Result<SglangDtype> parse_sglang_dtype(std::string_view word, const ModelConfig& model);

// How SGLang sees a model.
enum class SglangPool { kTokens, kSliding, kCompressed };  // one pool; full and SWA; DeepSeek-V4

struct SglangModel {
  CacheShape shape = CacheShape::kGrouped;
  SglangPool pool = SglangPool::kTokens;
};

// By lists of architectures, as SGLang does: Gemma-2, Gemma-3, Cohere-2 and Mistral are not among
// the sliding ones, so that every layer keeps everything. Unsupported: latents in a model that is
// not on its list of MLA architectures.
Result<SglangModel> sglang_model(const ModelConfig& model);

// One pipeline stage.
struct SglangCell {
  Rational bytes_per_token;  // of the first pool's tokens
  std::vector<std::uint32_t> full_layers;
  std::vector<std::uint32_t> sliding_layers;  // of the SWA pool; kCompressed: every layer
  std::uint64_t full_bytes = 0;               // of one token in all full layers; kCompressed: 0
  std::uint64_t sliding_bytes = 0;            // of one token in all sliding layers
  std::uint64_t key_bytes = 0;                // of full_bytes, what is keys; latents: all
  std::uint64_t state_bytes = 0;              // of one request's recurrent state
  std::uint64_t csa_layers = 0;               // kCompressed: ratio 4 and ratio 128
  std::uint64_t hca_layers = 0;
  std::uint64_t row_bytes = 0;  // kCompressed: of an entry or a window's token in one layer
  std::uint64_t index_row_bytes = 0;
};

// Slots of recurrent state that SGLang counts for a request by default, with its radix cache: 3,
// and 2 more for the architectures that track states in extra buffers while steps overlap. Source:
// _calculate_mamba_ratio in sglang/srt/mem_cache/kv_cache_configurator.py, and the list of
// architectures in sglang/srt/arg_groups/overrides.py, in a copy of about that version.
std::uint64_t sglang_state_slots(const ModelConfig& model);

// What cells are computed from beside the model.
struct SglangCellOptions {
  SglangDtype dtype;
  std::uint64_t attention_tensor = 1;  // tensor / data_attention / prefill_context
  Rational sliding_ratio;              // SWA tokens to full tokens
};

// The cell of layers `first` ... `first + count - 1`; with `is_last`, of the draft layers too.
// Invalid: sizes that parallelism does not divide. Unsupported: layers of several head counts
// outside the sliding architectures, a dtype without a rule for the pool.
Result<SglangCell> sglang_cell(const ModelConfig& model, const PeerQuestion& question,
                               const SglangCellOptions& options, std::uint32_t first,
                               std::uint32_t count);

}  // namespace emblema
