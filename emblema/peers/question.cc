#include "emblema/peers/question.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "emblema/contract/bytes.h"
#include "emblema/geometry/model_check.h"
#include "emblema/geometry/model_geometry.h"
#include "emblema/geometry/tensor_share.h"

namespace emblema {
namespace {

constexpr std::array<std::string_view, 10> kArchitectures = {
    "", "sm80", "sm86", "sm89", "sm90", "sm100", "sm103", "sm120", "gfx942", "gfx950"};
constexpr std::array<std::string_view, 4> kStateTypes = {"auto", "float32", "float16", "bfloat16"};

template <std::size_t N>
bool is_one_of(const std::array<std::string_view, N>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

struct Bound {
  std::string_view name;
  std::uint64_t value;
  std::uint64_t least;
  std::uint64_t most;
};

Status check_bound(const Bound& bound) {
  if (bound.value >= bound.least && bound.value <= bound.most) return {};
  return fail(ErrorCode::Invalid, fmt::format("{} is {}; allowed: {} to {}", bound.name,
                                              bound.value, bound.least, bound.most));
}

// Attention sublayers of one layer of the config: a pipeline is cut between layers.
std::uint32_t sublayers(const ModelConfig& model) {
  return model.model_type.starts_with("longcat_flash") ? 2 : 1;
}

std::vector<std::uint32_t> even_split(PeerEngine engine, std::uint32_t layers,
                                      std::uint32_t stages) {
  std::vector<std::uint32_t> split(stages, layers / stages);
  const std::uint32_t rest = layers % stages;
  const std::uint32_t last = engine == PeerEngine::kVllm ? 2 : 1;  // counted from behind
  for (std::uint32_t i = 0; i < rest; ++i) ++split[stages - last - i];
  return split;
}

// The dtype of ours that stores the same numbers as the engine's word; none: no such one.
std::optional<KvDtype> own_dtype(std::string_view word, const ModelConfig& model) {
  if (word == "auto") return model_element_bytes(model) == 4 ? KvDtype::kFp32 : KvDtype::kBf16;
  if (word == "bfloat16" || word == "bf16") return KvDtype::kBf16;
  if (word == "float16") return KvDtype::kFp16;
  if (word == "fp8" || word == "fp8_e4m3") return KvDtype::kFp8;
  if (word == "fp8_ds_mla") return KvDtype::kFp8DsMla;
  return std::nullopt;
}

// "": the scheme is not one that the engine follows.
std::string_view scheme_dtype(PeerEngine engine, const KvCacheScheme& scheme) {
  const bool is_fp8 = scheme.numbers == "fp8";
  if (scheme.method.starts_with("modelopt")) {
    if (is_fp8) return "fp8_e4m3";
    return engine == PeerEngine::kVllm ? scheme.numbers : std::string_view();
  }
  const bool by_layer = engine == PeerEngine::kVllm && scheme.method == "compressed-tensors";
  return by_layer && is_fp8 ? "fp8" : "";
}

bool is_one_rank(const PeerQuestion& question) {
  return question.tensor == 1 && question.pipeline == 1 && question.decode_context == 1 &&
         question.prefill_context == 1 && question.data_attention == 1 &&
         question.draft_layers == 0;
}

Status check_question(const PeerQuestion& question) {
  const std::array bounds = {
      Bound{"tensor", question.tensor, 1, PeerLimits::kRanksMax},
      Bound{"pipeline", question.pipeline, 1, PeerLimits::kStagesMax},
      Bound{"decode context", question.decode_context, 1, PeerLimits::kRanksMax},
      Bound{"prefill context", question.prefill_context, 1, PeerLimits::kRanksMax},
      Bound{"data attention", question.data_attention, 1, PeerLimits::kRanksMax},
      Bound{"interleave", question.interleave, 1, PeerLimits::kBlockTokensMax},
      Bound{"block tokens", question.block_tokens.value_or(1), 1, PeerLimits::kBlockTokensMax},
      Bound{"max model len", question.max_model_len, 0, PeerLimits::kTokensMax},
      Bound{"batched tokens", question.batched_tokens, 1, PeerLimits::kTokensMax},
      Bound{"draft layers", question.draft_layers, 0, PeerLimits::kDraftLayersMax},
      Bound{"speculative tokens", question.speculative_tokens, 0, PeerLimits::kBlockTokensMax},
      Bound{"mamba chunk tokens", question.mamba_chunk_tokens, 0, PeerLimits::kBlockTokensMax},
      Bound{"max running requests", question.max_running_requests, 0, PeerLimits::kBlockTokensMax},
      Bound{"state slots per request", question.state_slots_per_request, 0,
            PeerLimits::kBlockTokensMax},
  };
  for (const Bound& bound : bounds) {
    if (auto ok = check_bound(bound); !ok) return ok;
  }
  if (!is_one_of(kArchitectures, question.gpu_arch)) {
    return fail(ErrorCode::Invalid,
                fmt::format("gpu arch is '{}'; allowed: {}, or nothing where it is not known",
                            question.gpu_arch,
                            fmt::join(kArchitectures.begin() + 1, kArchitectures.end(), ", ")));
  }
  if (!is_one_of(kStateTypes, question.ssm_dtype)) {
    return fail(ErrorCode::Invalid, fmt::format("ssm dtype is '{}'; allowed: {}",
                                                question.ssm_dtype, fmt::join(kStateTypes, ", ")));
  }
  return {};
}

Status check_peer_model(PeerEngine engine, const ModelConfig& model) {
  if (auto ok = check_model(model); !ok) return ok;
  std::string_view missing;
  for (const LayerFacts& layer : model.layers) {
    if (layer.cache == LayerCache::kCross || layer.has_cross_attention) {
      missing = "rows of an encoder";
    } else if (layer.recurrent.mixer == RecurrentMixer::kKvConv) {
      missing = "a convolution over keys and values";
    } else if (layer.has_indexer && model.family == AttentionFamily::kGrouped) {
      missing = "index keys beside grouped heads";
    }
  }
  if (missing.empty()) return {};
  return fail(ErrorCode::Unsupported,
              fmt::format("{} caches {}, for which the rules of {} are not written down here; "
                          "allowed: models without",
                          model.name, missing, peer_version(engine)));
}

Result<std::uint64_t> resolved_model_len(const ModelConfig& model, const PeerQuestion& question) {
  if (question.max_model_len > 0) return question.max_model_len;
  if (model.max_positions > 0) return model.max_positions;
  return fail(ErrorCode::Invalid,
              fmt::format("max model len is 0 and {} does not say its positions; allowed: 1 to {}",
                          model.name, PeerLimits::kTokensMax));
}

}  // namespace

tl::unexpected<Error> refuse(PeerEngine engine, ErrorCode code, const std::string& what) {
  return fail(code, fmt::format("{} refuses: {}", peer_version(engine), what));
}

Status begin_plan(PeerEngine engine, const ModelConfig& model, const PeerQuestion& question,
                  PeerPlan* plan) {
  plan->engine = engine;
  plan->as_of = peer_version(engine);
  if (auto ok = check_question(question); !ok) return ok;
  if (auto ok = check_peer_model(engine, model); !ok) return ok;
  const auto model_len = resolved_model_len(model, question);
  if (!model_len) return propagate(model_len);
  plan->max_model_len = *model_len;
  return {};
}

Result<std::vector<std::uint32_t>> pipeline_split(PeerEngine engine, const ModelConfig& model,
                                                  const PeerQuestion& question) {
  const std::uint32_t unit = sublayers(model);
  const std::uint32_t layers = model.num_hidden_layers / unit;
  std::vector<std::uint32_t> split = question.pipeline_layers;
  if (split.empty()) {
    if (question.pipeline > layers) {
      return refuse(engine, ErrorCode::Invalid,
                    fmt::format("pipeline is {}; allowed: 1 to {}, the layers of {}",
                                question.pipeline, layers, model.name));
    }
    split = even_split(engine, layers, question.pipeline);
  } else if (split.size() != question.pipeline ||
             std::find(split.begin(), split.end(), 0) != split.end() ||
             std::accumulate(split.begin(), split.end(), std::uint64_t{0}) != layers) {
    return refuse(engine, ErrorCode::Invalid,
                  fmt::format("pipeline layers are {}; allowed: {} numbers above 0 whose sum is {}",
                              fmt::join(split, ","), question.pipeline, layers));
  }
  for (std::uint32_t& stage : split) stage *= unit;
  return split;
}

std::vector<std::uint32_t> stage_of_layers(const std::vector<std::uint32_t>& split,
                                           std::uint32_t draft_layers) {
  std::vector<std::uint32_t> stages;
  for (std::uint32_t stage = 0; stage < split.size(); ++stage) {
    stages.insert(stages.end(), split[stage], stage);
  }
  stages.insert(stages.end(), draft_layers, static_cast<std::uint32_t>(split.size()) - 1);
  return stages;
}

const LayerFacts& draft_like_layer(const ModelConfig& model) {
  const auto full =
      std::find_if(model.layers.rbegin(), model.layers.rend(), [](const LayerFacts& layer) {
        return layer.cache == LayerCache::kOwn && layer.reach == LayerReach::kFull;
      });
  return full == model.layers.rend() ? model.layers.back() : *full;
}

std::string followed_cache_dtype(PeerEngine engine, const ModelConfig& model,
                                 const PeerQuestion& question, PeerPlan* plan) {
  if (question.kv_cache_dtype != "auto" || !model.kv_cache_scheme) return question.kv_cache_dtype;
  const std::string_view word = scheme_dtype(engine, *model.kv_cache_scheme);
  if (word.empty()) return question.kv_cache_dtype;
  plan->notes.push_back(fmt::format(
      "the checkpoint's quantization_config asks for a cache in {}, which 'auto' follows: {}",
      model.kv_cache_scheme->numbers, word));
  return std::string(word);
}

std::uint64_t model_element_bytes(const ModelConfig& model) {
  return model.torch_dtype == "float32" ? 4 : 2;
}

Result<StateBytes> state_bytes(PeerEngine engine, const RecurrentFacts& facts, std::uint64_t tensor,
                               std::uint64_t conv_element, std::uint64_t state_element) {
  LayerFacts alone;  // without heads that attend: engines divide those by rules of their own
  alone.recurrent = facts;
  const auto share = tensor_share(alone, static_cast<std::uint32_t>(tensor));
  if (!share) return refuse(engine, share.error().code, share.error().message);
  const RecurrentFacts& own = share->recurrent;
  const auto product = [](std::uint64_t a, std::uint64_t b) {
    return mul_bytes(a, b, "bytes of recurrent state");
  };
  StateBytes bytes;
  const auto convolution = product(own.conv_channels, own.conv_columns);
  auto state = product(own.state_heads, own.state_rows);
  if (state) state = product(*state, own.state_columns);
  if (state) state = product(*state, state_element);
  if (!convolution) return propagate(convolution);
  if (!state) return propagate(state);
  bytes.convolution = *convolution;
  bytes.state = *state;
  if (bytes.convolution > PeerLimits::kPageBytesMax || bytes.state > PeerLimits::kPageBytesMax) {
    return fail(ErrorCode::Invalid,
                fmt::format("recurrent state is {} bytes; allowed: up to {}",
                            std::max(bytes.convolution, bytes.state), PeerLimits::kPageBytesMax));
  }
  bytes.convolution *= conv_element;
  return bytes;
}

void note_own_figure(const ModelConfig& model, const PeerQuestion& question, PeerPlan* plan) {
  const auto dtype = own_dtype(plan->kv_cache_dtype, model);
  if (!dtype || !is_one_rank(question)) return;
  GeometryOptions options;
  options.kv_dtype = *dtype;
  const auto geometry = ModelGeometry::from(model, options);
  if (!geometry) return;  // a dtype that has no meaning for us there: nothing to lay beside it
  const auto own = geometry->growing_bytes_per_token();
  if (!own || *own == plan->bytes_per_token) return;
  plan->notes.push_back(fmt::format("Emblema's own figure is {} growing bytes per token ({})",
                                    own->exact(), to_string(*dtype)));
  const bool indexed = std::any_of(model.layers.begin(), model.layers.end(),
                                   [](const LayerFacts& layer) { return layer.has_indexer; });
  if (!indexed) return;
  plan->notes.emplace_back(
      "the engine keeps index keys in fp8 with a scale whatever the type of the cache; Emblema "
      "keeps them as --indexer-dtype says");
}

}  // namespace emblema
