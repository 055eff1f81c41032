// What a model's class fixes that its config.json does not say: which layers slide by default, how
// rotary pairs are laid out, and so on. One row per model_type.
//
// This and weight_class.h, which says what weights the same types have, are the tables by which the
// library knows models by name. A model_type without a row here is read from its fields alone, and
// the reader is told. Sources: the configuration and modelling classes of transformers;
// docs/internals/config-aliases.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emblema/model/model_config.h"

namespace emblema {

// kNone: attention without any (Jamba, Nemotron-H).
enum class Positions { kRotary, kAlibi, kLearned, kNone };

// Which layers slide when `layer_types` does not list them.
enum class WindowRule {
  kUnknown,         // no row for this model_type
  kNever,           // the class does not read sliding_window
  kEvery,           // all layers, when a window is given (Mistral)
  kEvenLayers,      // 0, 2, 4 ... (Gemma-2, gpt-oss)
  kAllButEveryNth,  // layer i is full where (i + 1) is a multiple of N (Gemma-3: 6)
  kFromLayer,       // layers >= max_window_layers, when use_sliding_window is true (Qwen2)
  kChunks,          // attention_chunk_size where rotation is on (Llama 4)
};

struct ModelFamily {
  std::string_view model_type;  // "" for an unknown one
  WindowRule windows = WindowRule::kUnknown;
  std::uint32_t full_every = 0;  // kAllButEveryNth: N when the config does not say
  Positions positions = Positions::kRotary;
  bool interleaved = false;     // rotary pairs (2i, 2i + 1)
  double rotary_share = 1.0;    // of the head, when the config does not say
  double rope_theta = 10000.0;  // when the config does not say
  bool rope_on_windows_only =
      false;                      // full layers of a model with windows do not rotate (Cohere-2)
  bool windows_optional = false;  // without sliding_window all layers are full (EXAONE-4)
  bool sinks = false;
  std::uint32_t head_dim = 0;  // class default where it differs from hidden / heads
  bool unit_scale = false;     // logits are not divided by anything (T5, Gemma-4)
  // What the layers that keep a recurrent state have; kNone: the fields alone say.
  RecurrentMixer mixer = RecurrentMixer::kNone;
  // A decoder that attends to an encoder. Its own sizes are the decoder_ ones.
  bool cross_attends = false;
  bool latent = false;  // attends to latents: kv_lora_rank is needed, unless use_mla is false
};

// The row of `model_type`; else of one of the `architectures` ("DeepseekV3ForCausalLM" is
// "deepseek_v3"); else the unknown row. Never null; the rows live as long as the program.
const ModelFamily& find_model_family(std::string_view model_type,
                                     const std::vector<std::string>& architectures);

std::span<const ModelFamily> model_families();

}  // namespace emblema
