// plan_vllm: backend and block, specs, groups, then what the memory comes to and the line that vLLM
// logs about it.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "emblema/contract/bytes.h"
#include "emblema/peers/attention_backends.h"
#include "emblema/peers/peer.h"
#include "emblema/peers/question.h"
#include "emblema/peers/vllm_capacity.h"
#include "emblema/peers/vllm_groups.h"
#include "emblema/peers/vllm_specs.h"

namespace emblema {
namespace {

constexpr PeerEngine kEngine = PeerEngine::kVllm;

tl::unexpected<Error> refuse_invalid(const std::string& what) {
  return refuse(kEngine, ErrorCode::Invalid, what);
}

// As vLLM's format_gib: round(x, 2), printed as Python prints a float ("16.0", "11.62").
std::string python_gib(std::uint64_t bytes) {
  std::string text = fmt::format("{:.2f}", static_cast<double>(bytes) / static_cast<double>(kGiB));
  if (text.ends_with('0')) text.pop_back();
  return text;
}

class VllmPlanner {
 public:
  VllmPlanner(const ModelConfig& model, const PeerQuestion& question)
      : model_(model), question_(question), shape_(vllm_cache_shape(model)) {}

  Result<PeerPlan> plan() {
    for (const auto step : {&VllmPlanner::check, &VllmPlanner::choose_backend,
                            &VllmPlanner::fit_state, &VllmPlanner::check_interleave,
                            &VllmPlanner::group, &VllmPlanner::describe, &VllmPlanner::size}) {
      if (const auto ok = (this->*step)(); !ok) return propagate(ok);
    }
    add_notes();
    return std::move(plan_);
  }

 private:
  Status check() {
    if (auto ok = begin_plan(kEngine, model_, question_, &plan_); !ok) return ok;
    reach_ = {plan_.max_model_len, in_flight_tokens(question_), question_.decode_context,
              question_.mamba_mode};
    if (model_.num_attention_heads % question_.tensor != 0) {
      return refuse_invalid(
          fmt::format("tensor is {}; allowed: divisors of {} attention heads "
                      "(ValueError)",
                      question_.tensor, model_.num_attention_heads));
    }
    auto split = pipeline_split(kEngine, model_, question_);
    if (!split) return propagate(split);
    plan_.stage_layers = std::move(*split);
    stages_ = stage_of_layers(plan_.stage_layers, question_.draft_layers);
    plan_.stage_layers.back() += question_.draft_layers;
    if (const auto ok = check_prefill_context(); !ok) return ok;
    return question_.decode_context > 1 ? check_decode_context() : Status();
  }

  // It has no effect on sizes by itself: decode context spans it, all of it or not at all.
  Status check_prefill_context() const {
    const std::uint64_t prefill = question_.prefill_context;
    const std::uint64_t decode = question_.decode_context;
    const std::uint64_t tensor = question_.tensor;
    if (prefill == 1) {
      if (tensor % decode == 0) return {};
      return refuse_invalid(
          fmt::format("decode context is {}; allowed: divisors of tensor {}", decode, tensor));
    }
    if (shape_ == CacheShape::kGrouped || !question_.model_runner_v2 ||
        question_.data_attention != 1) {
      return refuse_invalid(
          fmt::format("prefill context is {}; allowed: 1, or more for MLA with "
                      "model runner V2 and one data-parallel rank",
                      prefill));
    }
    if (decode == 1 || decode == prefill || decode == tensor * prefill) return {};
    return refuse_invalid(
        fmt::format("decode context is {}; allowed with prefill context {}: 1, "
                    "{}, {}",
                    decode, prefill, prefill, tensor * prefill));
  }

  // Grouped heads must be replicated as often as tokens are shared out; latents are on every rank.
  Status check_decode_context() const {
    const std::uint64_t ranks = question_.decode_context;
    const std::uint64_t tensor = question_.tensor;
    for (const LayerFacts& layer : model_.layers) {
      if (layer.cache != LayerCache::kOwn) continue;
      if (layer.reach == LayerReach::kWindow) {
        return refuse_invalid(
            fmt::format("decode context is {}; allowed: 1 for {}, which has sliding windows "
                        "(AssertionError: DCP not support sliding window)",
                        ranks, model_.name));
      }
      if (shape_ != CacheShape::kGrouped || layer.num_key_value_heads == 0) continue;
      const std::uint64_t heads = layer.num_key_value_heads;
      const bool fits = tensor > heads && ranks <= tensor / heads &&
                        layer.num_attention_heads / heads % ranks == 0;
      if (!fits) {
        return refuse_invalid(
            fmt::format("decode context is {} with tensor {}; allowed: tensor above {} KV heads, "
                        "at most tensor / {}, and a divisor of {} queries per KV head",
                        ranks, tensor, heads, heads, layer.num_attention_heads / heads));
      }
    }
    return {};
  }

  Status choose_backend() {
    auto dtype =
        parse_vllm_cache_dtype(followed_cache_dtype(kEngine, model_, question_, &plan_), model_);
    if (!dtype) return propagate(dtype);
    options_.max_model_len = plan_.max_model_len;
    options_.block_tokens = question_.block_tokens.value_or(default_block());
    if (has_attention(model_) && !question_.gpu_arch.empty()) {
      if (const auto ok = ask_backend(&*dtype); !ok) return ok;
    }
    if (shape_ == CacheShape::kCompressed) {
      if (const auto ok = settle_v4(&*dtype); !ok) return ok;
    }
    options_.dtype = std::move(*dtype);
    plan_.kv_cache_dtype = options_.dtype.name;
    return {};
  }

  // Where the GPU is unknown: vLLM's constant, or the one page that all backends of a kind read.
  std::uint64_t default_block() const {
    if (shape_ == CacheShape::kCompressed) return 256;
    return shape_ == CacheShape::kSparseLatent ? 64 : 16;
  }

  Status ask_backend(VllmCacheDtype* dtype) {
    if (question_.gpu_arch.starts_with("gfx")) {
      plan_.notes.push_back(fmt::format(
          "which backends vLLM has on {} is not known here: none is chosen, and the "
          "block size is {}",
          question_.gpu_arch, question_.block_tokens ? "as asked" : "as on an unknown GPU"));
      return {};
    }
    BackendNeed need = backend_need(model_, shape_);
    need.gpu_arch = question_.gpu_arch;
    need.kv_cache_dtype = dtype->name;
    need.heads_per_rank /= question_.tensor;
    need.block_tokens = question_.block_tokens;
    const auto choice = choose_vllm_backend(need);
    if (!choice) return propagate(choice);
    plan_.backend = choice->name;
    options_.block_tokens = choice->block_tokens;
    if (!question_.block_tokens) {
      plan_.log.push_back(fmt::format("Setting kv cache block size to {} tokens for {} backend.",
                                      choice->block_tokens, choice->name));
    }
    auto resolved = parse_vllm_cache_dtype(choice->kv_cache_dtype, model_);
    if (!resolved) return propagate(resolved);
    *dtype = std::move(*resolved);
    return {};
  }

  // The packed rows are made of any word that begins with fp8; "auto" fails an assertion.
  Status settle_v4(VllmCacheDtype* dtype) {
    if (!dtype->name.starts_with("fp8") || dtype->quant == VllmQuant::kBytePerTokenHead) {
      return refuse_invalid(
          fmt::format("kv cache dtype is {}; allowed for DeepSeek-V4: fp8, fp8_e4m3, fp8_ds_mla "
                      "(AssertionError)",
                      dtype->name));
    }
    if (options_.block_tokens != default_block()) {
      return refuse_invalid(fmt::format("block size is {}; allowed for DeepSeek-V4: {}",
                                        options_.block_tokens, default_block()));
    }
    *dtype = {"fp8_ds_mla", VllmQuant::kDsMla, 1};
    return {};
  }

  // Attention pages grow until they hold a state.
  Status fit_state() {
    if (!has_recurrent_state(model_)) return {};
    if (!has_attention(model_)) {
      options_.block_tokens = plan_.max_model_len;
      return {};
    }
    const auto block = hybrid_block(model_, question_, options_);
    if (!block) return propagate(block);
    if (block->block_tokens > options_.block_tokens) {
      options_.block_tokens = block->block_tokens;
      plan_.log.push_back(
          fmt::format("Setting attention block size to {} tokens to ensure that "
                      "attention page size is >= mamba page size.",
                      block->block_tokens));
    }
    options_.padded_state_bytes = block->padded_bytes;
    if (block->padded_bytes == 0) return {};
    const double percent = 100.0 * static_cast<double>(block->padded_bytes - block->state_bytes) /
                           static_cast<double>(block->state_bytes);
    plan_.log.push_back(
        fmt::format("Padding mamba page size by {:.2f}% to ensure that mamba page "
                    "size and attention page size are exactly equal.",
                    percent));
    return {};
  }

  // A run of tokens on one rank may not end within a block.
  Status check_interleave() {
    const std::uint64_t block = options_.block_tokens;
    if (question_.decode_context == 1 || block % question_.interleave == 0) return {};
    return refuse_invalid(
        fmt::format("interleave is {}; allowed: divisors of block size {} (AssertionError)",
                    question_.interleave, block));
  }

  bool uses_hybrid_manager() const {
    const bool chunked =
        std::any_of(model_.layers.begin(), model_.layers.end(),
                    [](const LayerFacts& layer) { return layer.reach == LayerReach::kChunk; });
    return question_.hybrid_manager.value_or(!chunked);
  }

  Status group() {
    auto specs = vllm_layer_specs(model_, question_, options_, stages_);
    if (!specs) return propagate(specs);
    if (specs->empty()) {
      return refuse_invalid(fmt::format("{} caches nothing; allowed: models that do", model_.name));
    }
    auto grouping = group_specs(std::move(*specs), uses_hybrid_manager());
    if (!grouping) return propagate(grouping);
    grouping_ = std::move(*grouping);
    plan_.warnings.insert(plan_.warnings.end(), grouping_.warnings.begin(),
                          grouping_.warnings.end());
    return {};
  }

  // A stage's blocks are as many as its own layers leave room for, and all take the least: the
  // stage whose block is largest decides, since memory is the same on every rank.
  void find_bounding_stage() {
    std::uint64_t most = 0;
    for (std::uint32_t stage = 0; stage < question_.pipeline; ++stage) {
      const std::uint64_t bytes = block_bytes(grouping_, stage);
      if (bytes > most) {
        most = bytes;
        bounding_stage_ = stage;
      }
    }
  }

  Status describe() {
    find_bounding_stage();
    plan_.page_tokens = options_.block_tokens;
    const auto hits = hit_blocks(grouping_, reach_);
    if (!hits) return propagate(hits);
    plan_.scheduler_block_tokens = hits->scheduler_tokens;
    plan_.hash_block_tokens = hits->hash_tokens;
    plan_.blocks_per_request = blocks_per_request(grouping_, reach_);
    for (const SpecGroup& group : grouping_.groups) plan_.groups.push_back(describe_group(group));
    return sum_token_bytes();
  }

  PeerGroup describe_group(const SpecGroup& group) const {
    PeerGroup out;
    out.name = name_of(group.layers.front());
    out.block_tokens = group.layers.front().block_tokens;
    out.blocks_per_request = blocks_per_request(group, reach_);
    for (const LayerSpec& spec : group.layers) {
      if (spec.stage != bounding_stage_) continue;
      ++out.pages;
      out.layers.push_back(spec.layer);
      out.page_bytes = std::max(out.page_bytes, page_bytes(spec));
      out.block_bytes += page_bytes(spec);
    }
    std::sort(out.layers.begin(), out.layers.end());
    out.layers.erase(std::unique(out.layers.begin(), out.layers.end()), out.layers.end());
    return out;
  }

  static std::string name_of(const LayerSpec& spec) {
    if (spec.kind == SpecKind::kWindow || spec.kind == SpecKind::kWindowLatent) {
      return fmt::format("window {}", spec.window_tokens);
    }
    if (spec.kind == SpecKind::kChunk) return fmt::format("chunk {}", spec.chunk_tokens);
    return spec.kind == SpecKind::kState ? "state" : "full";
  }

  // The stage that holds most of what grows, one token of the sequence over the ranks that share
  // them.
  Status sum_token_bytes() {
    for (std::uint32_t stage = 0; stage < question_.pipeline; ++stage) {
      Rational sum;
      for (const SpecGroup& group : grouping_.groups) {
        for (const LayerSpec& spec : group.layers) {
          if (spec.stage != stage || !is_full_family(spec)) continue;
          const auto next =
              add(sum, Rational::of(page_bytes(spec), spec.block_tokens), "bytes per token");
          if (!next) return propagate(next);
          sum = *next;
        }
      }
      const auto share = divide(sum, question_.decode_context, "bytes per token");
      if (!share) return propagate(share);
      if (share->approximate() > plan_.bytes_per_token.approximate()) {
        plan_.bytes_per_token = *share;
      }
    }
    return {};
  }

  Status size() {
    if (!question_.kv_memory_bytes) return {};
    const std::uint64_t memory = *question_.kv_memory_bytes;
    if (memory == 0) {
      return refuse(kEngine, ErrorCode::OutOfBlocks,
                    "no memory is available for cache blocks (ValueError)");
    }
    PeerCapacity capacity;
    for (std::uint32_t stage = 0; stage < question_.pipeline; ++stage) {
      const auto needed = admission_bytes(grouping_, stage, reach_);
      if (!needed) return propagate(needed);
      if (*needed > memory) return too_small(stage, *needed);
      capacity.admission_bytes = std::max(capacity.admission_bytes, *needed);
    }
    const std::uint64_t bytes = block_bytes(grouping_, bounding_stage_);
    capacity.blocks = memory / bytes;
    capacity.concurrency = Rational::of(capacity.blocks, plan_.blocks_per_request);
    const auto tokens = multiply(capacity.concurrency, plan_.max_model_len, "tokens of the cache");
    if (!tokens) return propagate(tokens);
    capacity.tokens = tokens->floor();
    log_size(capacity);
    plan_.capacity = capacity;
    return {};
  }

  tl::unexpected<Error> too_small(std::uint32_t stage, std::uint64_t needed) const {
    const std::uint64_t memory = *question_.kv_memory_bytes;
    const std::uint64_t longest = longest_that_fits(grouping_, stage, memory, reach_);
    return refuse(
        kEngine, ErrorCode::OutOfBlocks,
        fmt::format("one request of max model len {} needs {} GiB of cache, and {} GiB are "
                    "available; allowed: an estimated maximum model length of {} (ValueError)",
                    plan_.max_model_len, python_gib(needed), python_gib(memory), longest));
  }

  // As Python computes it: a float quotient, whose product with the length is cut.
  void log_size(const PeerCapacity& capacity) {
    const double concurrency =
        static_cast<double>(capacity.blocks) / static_cast<double>(plan_.blocks_per_request);
    const double tokens = concurrency * static_cast<double>(plan_.max_model_len);
    const auto logged = static_cast<std::uint64_t>(tokens);
    plan_.log.push_back(
        fmt::format("GPU KV cache size: {} tokens, Maximum concurrency for {} "
                    "tokens per request: {:.2f}x",
                    format_count(logged), format_count(plan_.max_model_len), concurrency));
    if (logged != capacity.tokens) {
      plan_.notes.push_back(fmt::format("exactly {} tokens: vLLM logs a rounded product",
                                        format_count(capacity.tokens)));
    }
  }

  bool groups_have(SpecKind kind) const {
    return std::any_of(grouping_.groups.begin(), grouping_.groups.end(), [kind](const auto& group) {
      return std::any_of(group.layers.begin(), group.layers.end(),
                         [kind](const LayerSpec& spec) { return spec.kind == kind; });
    });
  }

  void add_notes() {
    auto& notes = plan_.notes;
    notes.emplace_back("block 0 is never given out, and the logged size counts it");
    if (groups_have(SpecKind::kWindow) || groups_have(SpecKind::kWindowLatent) ||
        groups_have(SpecKind::kChunk)) {
      notes.push_back(fmt::format(
          "a request reserves {} tokens in flight beside every window or chunk; Emblema reserves "
          "the window and one step",
          format_count(reach_.in_flight_tokens)));
    }
    if (!uses_hybrid_manager()) {
      notes.emplace_back(
          "the hybrid cache manager is off: windows and chunks are allocated at full length");
    }
    if (shape_ == CacheShape::kCompressed) {
      notes.emplace_back(
          "rows that are not compressed yet are paged in blocks of 4 and 8 tokens "
          "and reserve block ids like the entries; Emblema keeps them per sequence");
    }
    if (model_.family == AttentionFamily::kLatent && shape_ == CacheShape::kGrouped) {
      notes.push_back(
          fmt::format("vLLM does not know model type '{}' as MLA: it caches {} expanded "
                      "heads",
                      model_.model_type, model_.num_attention_heads));
    }
    if (has_recurrent_state(model_) && question_.ssm_dtype == "auto") {
      notes.emplace_back(
          "state in vLLM's default type for this model's class, as far as it is known here");
    }
    if (question_.data_attention > 1) {
      notes.emplace_back(
          "vLLM runs one engine for each data-parallel rank: tensor is one engine's");
    }
    if (question_.gpu_arch.empty() && !question_.block_tokens) {
      notes.push_back(
          fmt::format("the GPU is unknown: block size {} without a backend to choose it",
                      options_.block_tokens));
    }
    note_own_figure(model_, question_, &plan_);
  }

  const ModelConfig& model_;
  const PeerQuestion& question_;
  const CacheShape shape_;
  PeerPlan plan_;
  VllmSpecOptions options_;
  RequestReach reach_;
  Grouping grouping_;
  std::vector<std::uint32_t> stages_;
  std::uint32_t bounding_stage_ = 0;
};

}  // namespace

Result<PeerPlan> plan_vllm(const ModelConfig& model, const PeerQuestion& question) {
  return VllmPlanner(model, question).plan();
}

}  // namespace emblema
