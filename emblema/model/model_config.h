// Facts of one model, copied from its config.json and validated. No derived number lives here:
// what must be remembered per token is geometry's business.
//
// The spellings of the world's configs (nesting, aliases, null, per-layer lists) end in this room:
// everything behind it sees one form. Plain values; any thread may read them.
//
// Sources of the aliases: transformers' configuration classes; vLLM 073c510c (2026-08) and SGLang
// v0.5.18, listed in docs/internals/config-aliases.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emblema/contract/result.h"
#include "emblema/model/rope_facts.h"
#include "emblema/model/weight_facts.h"

namespace emblema {

// How a token's past is remembered, as far as a whole model has one way.
enum class AttentionFamily {
  kGrouped,     // keys and values per KV head: MHA, GQA, MQA
  kLatent,      // one compressed row for all heads: MLA (DeepSeek-V2/V3, Kimi-K2, MiniCPM3 ...)
  kCompressed,  // DeepSeek-V4: a window in every layer (all are kWindow), compressed entries too
                // where compress_ratio > 0; one vector is key and value
};

// What one layer attends to. A window of W: query i sees keys i-W+1 ... i. Chunks of C: keys from
// the last multiple of C up to i (Llama 4).
enum class LayerReach { kFull, kWindow, kChunk };

// Where the keys and values that a layer attends over come from.
enum class LayerCache {
  kOwn,     // the layer's own
  kShared,  // of the earlier layer `shares_with` (Gemma-3n, Hunyuan)
  kCross,   // of the encoder's output or the image (Llama-3.2-Vision); no self-attention here
  kNone,    // the layer does not attend: a recurrent mixer, an MLP, nothing
};

// What keeps a state of fixed size per sequence in place of keys and values, or beside them.
enum class RecurrentMixer {
  kNone,
  kMamba1,      // Jamba, Falcon-Mamba
  kMamba2,      // Nemotron-H, Granite-4, Zamba2, Falcon-H1
  kGatedDelta,  // Qwen3-Next and relatives
  kKimiDelta,   // Kimi-Linear
  kLightning,   // MiniMax-01, Ring-linear
  kRgLru,       // RecurrentGemma
  kShortConv,   // LFM2: a convolution and nothing else
  kKvConv,      // Baichuan-M1: a convolution over the layer's own keys and values
};

// One recurrent mixer. Its convolution remembers `conv_columns` = kernel - 1 columns of the
// channels; some engines allot `kernel` columns, the newest of which is never read back.
struct RecurrentFacts {
  RecurrentMixer mixer = RecurrentMixer::kNone;
  std::uint32_t conv_channels = 0;  // 0: no convolution
  std::uint32_t conv_columns = 0;
  // The state: heads matrices of rows x columns; heads 0: none.
  std::uint32_t state_heads = 0;
  std::uint32_t state_rows = 0;
  std::uint32_t state_columns = 0;
};

struct LayerFacts {
  LayerReach reach = LayerReach::kFull;
  std::uint32_t window_tokens = 0;  // kWindow: W; kChunk: C; at least 1. Else 0
  LayerCache cache = LayerCache::kOwn;
  std::uint32_t shares_with = 0;          // kShared: a layer before this one that is kOwn
  bool has_cross_attention = false;       // beside its own cache: a decoder with an encoder
  std::uint32_t num_attention_heads = 0;  // query heads, at least 1; kNone: 0
  std::uint32_t num_key_value_heads = 0;  // kGrouped: 1 ... num_attention_heads
  std::uint32_t head_dim = 0;             // kGrouped: width of a key; kCompressed: of an entry
  std::uint32_t v_head_dim = 0;           // kGrouped: width of a value
  std::uint32_t compress_ratio = 0;       // kCompressed: 0 (window only), 4 (CSA) or 128 (HCA)
  bool has_indexer = false;               // a sparse-attention index key is cached (DSA)
  bool has_sinks = false;                 // a learned logit per head joins the softmax
  bool has_rope = true;                   // false: no positional rotation in this layer (NoPE)
  RopeFacts rope;                         // meaningful where has_rope
  RecurrentFacts recurrent;               // beside or instead of the cache
};

struct ModelConfig {
  std::string name;        // preset name, or the file it came from
  std::string model_type;  // of the language part
  std::vector<std::string> architectures;
  AttentionFamily family = AttentionFamily::kGrouped;

  std::uint32_t hidden_size = 0;  // 0: the config does not say, and no cached width needs it
  std::uint32_t num_hidden_layers = 0;
  std::uint32_t num_attention_heads = 0;  // of the widest layer; 0: no layer attends
  std::uint64_t max_positions = 0;        // 0: the config does not say
  std::uint64_t encoder_positions = 0;    // rows of cross-attention where the class fixes them
                                          // (Whisper); 0: as many as the request's encoder input
  std::uint32_t num_nextn_predict_layers = 0;  // draft (MTP) layers, not in `layers`

  // kLatent: ranks and the three head widths. q_lora_rank absent = queries straight from the
  // hidden state (DeepSeek-V2-Lite).
  std::optional<std::uint32_t> q_lora_rank;
  std::uint32_t kv_lora_rank = 0;
  std::uint32_t qk_nope_head_dim = 0;
  std::uint32_t qk_rope_head_dim = 0;  // also kCompressed
  std::uint32_t v_head_dim = 0;

  // Sparse-attention indexer (DSA; the CSA layers of kCompressed).
  std::uint32_t index_head_dim = 0;
  std::uint32_t index_n_heads = 0;
  std::uint32_t index_topk = 0;

  double rms_norm_eps = 1e-6;
  std::optional<double> query_pre_attn_scalar;  // softmax scale = this^-1/2 (Gemma)
  std::optional<double> attn_logit_softcapping;
  bool has_attention_sinks = false;              // in any layer
  std::string torch_dtype;                       // as spelled, "" when absent
  std::optional<KvCacheScheme> kv_cache_scheme;  // absent: nothing is asked of the cache
  std::string state_dtype;  // of recurrent state: "float32", "bfloat16", "float16"; "" when
                            // the config does not say, or no layer has such a state

  std::vector<LayerFacts> layers;  // num_hidden_layers of them

  std::optional<WeightFacts> weights;  // absent: weights_missing says why
  std::string weights_missing;         // "vocab_size is not given"

  std::vector<std::string> notes;  // what the reader should know: assumptions made, fields ignored
};

// Limits of what is read, and of every count in it (an error names the one that is passed).
struct ConfigLimits {
  static constexpr std::uint64_t kFileBytesMax = std::uint64_t{16} << 20;
  static constexpr int kDepthMax = 32;
  static constexpr std::uint64_t kLayersMax = 65'536;
  static constexpr std::uint64_t kWidthMax = std::uint64_t{1} << 24;  // hidden size, ranks, dims
  static constexpr std::uint64_t kHeadsMax = 65'536;
  static constexpr std::uint64_t kTokensMax = std::uint64_t{1} << 40;  // positions
  static constexpr std::uint64_t kWindowTokensMax = UINT32_MAX;
  static constexpr std::uint64_t kRopePairsMax = 4096;                         // LongRope's tables
  static constexpr std::uint64_t kRopePairsTotalMax = std::uint64_t{1} << 22;  // of all layers
};

// Reads a model by preset name, path of a config.json, directory that holds one, or "-" (standard
// input). A preset name wins over a file of that name in the working directory.
// Errors: NotFound (no such preset or file: lists close preset names), Io, Invalid (field, value,
// what is allowed), Unsupported (an attention that this build does not know: names the field).
Result<ModelConfig> load_model_config(std::string_view source);

// The same for text already in memory; `name` goes into ModelConfig::name and messages.
Result<ModelConfig> parse_model_config(std::string_view json, std::string_view name);

// The models that come with the library, sorted by name.
struct Preset {
  std::string_view name;  // "deepseek-v3"
  std::string_view json;  // the facts of its config.json
};
const std::vector<Preset>& presets();

}  // namespace emblema
