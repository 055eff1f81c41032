// plan_sglang: backend and page, the cell of each pipeline stage, then the tokens of each pool and
// the line that SGLang logs about them.
#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "emblema/contract/bytes.h"
#include "emblema/peers/attention_backends.h"
#include "emblema/peers/peer.h"
#include "emblema/peers/question.h"
#include "emblema/peers/sglang_cells.h"

namespace emblema {
namespace {

constexpr PeerEngine kEngine = PeerEngine::kSglang;

using Wide = unsigned __int128;  // memory times a denominator, before it is divided

// What the pools of one stage come to.
struct Pools {
  std::uint64_t tokens = 0;          // the first pool's: max_total_num_tokens
  std::uint64_t sliding_tokens = 0;  // the SWA pool's
  std::uint64_t state_slots = 0;     // recurrent states, one kept aside not counted
  std::uint64_t request_slots = 0;   // DeepSeek-V4: requests with a ring of rows for HCA ...
  std::uint64_t ring_rows = 0;       // ... and its rows in one layer
  std::uint64_t ring_bytes = 0;      // of them in all layers, off the memory first
};

constexpr std::uint64_t kPackedAlign = 576;  // pages of DeepSeek-V4 are rounded up to it

std::uint64_t rounded_down(std::uint64_t tokens, std::uint64_t page) {
  return tokens / page * page;
}

std::uint64_t divided(std::uint64_t memory, const Rational& cell) {
  const Wide tokens = Wide{memory} * cell.denominator() / cell.numerator();
  return tokens > UINT64_MAX ? UINT64_MAX : static_cast<std::uint64_t>(tokens);
}

class SglangPlanner {
 public:
  SglangPlanner(const ModelConfig& model, const PeerQuestion& question)
      : model_(model), question_(question) {}

  Result<PeerPlan> plan() {
    for (const auto step :
         {&SglangPlanner::check, &SglangPlanner::check_ranks, &SglangPlanner::choose_backend,
          &SglangPlanner::fill_cells, &SglangPlanner::size}) {
      if (const auto ok = (this->*step)(); !ok) return propagate(ok);
    }
    describe();
    add_notes();
    return std::move(plan_);
  }

 private:
  Status check() {
    if (auto ok = begin_plan(kEngine, model_, question_, &plan_); !ok) return ok;
    const auto seen = sglang_model(model_);
    if (!seen) return propagate(seen);
    seen_ = *seen;
    const auto word = followed_cache_dtype(kEngine, model_, question_, &plan_);
    auto dtype = parse_sglang_dtype(word, model_);
    if (!dtype) return propagate(dtype);
    options_.dtype = std::move(*dtype);
    plan_.kv_cache_dtype = options_.dtype.name;
    auto split = pipeline_split(kEngine, model_, question_);
    if (!split) return propagate(split);
    plan_.stage_layers = std::move(*split);
    options_.sliding_ratio = question_.swa_full_tokens_ratio.value_or(default_ratio());
    const Rational& ratio = options_.sliding_ratio;
    if (ratio.numerator() == 0 || ratio.numerator() > ratio.denominator()) {
      return refuse(
          kEngine, ErrorCode::Invalid,
          fmt::format("swa full tokens ratio is {}; allowed: above 0, up to 1", ratio.exact()));
    }
    return {};
  }

  Rational default_ratio() const {
    return seen_.pool == SglangPool::kCompressed ? Rational::of(1, 10) : Rational::of(4, 5);
  }

  Status check_ranks() {
    const std::uint64_t tensor = question_.tensor;
    const std::uint64_t parts = std::uint64_t{question_.data_attention} * question_.prefill_context;
    if (tensor % parts != 0) {
      return refuse(kEngine, ErrorCode::Invalid,
                    fmt::format("data attention is {} with prefill context {}; allowed: what "
                                "divides tensor {} (AssertionError)",
                                question_.data_attention, question_.prefill_context, tensor));
    }
    options_.attention_tensor = tensor / parts;
    const std::uint64_t ranks = options_.attention_tensor;
    if (ranks % question_.decode_context != 0) {
      return refuse(kEngine, ErrorCode::Invalid,
                    fmt::format("decode context is {}; allowed: divisors of {} attention ranks",
                                question_.decode_context, ranks));
    }
    if (model_.num_attention_heads % ranks != 0) {
      return refuse(kEngine, ErrorCode::Invalid,
                    fmt::format("tensor is {} on {} attention ranks; allowed: what divides {} "
                                "attention heads (AssertionError)",
                                tensor, ranks, model_.num_attention_heads));
    }
    return {};
  }

  Status choose_backend() {
    SglangNeed need;
    need.shape = seen_.shape;
    need.gpu_arch = question_.gpu_arch;
    need.deepseek_v3_arch = std::find(model_.architectures.begin(), model_.architectures.end(),
                                      "DeepseekV3ForCausalLM") != model_.architectures.end();
    need.sinks = model_.has_attention_sinks;
    need.query_heads = model_.num_attention_heads;
    need.unequal_widths =
        model_.family == AttentionFamily::kGrouped &&
        std::any_of(model_.layers.begin(), model_.layers.end(),
                    [](const LayerFacts& layer) { return layer.head_dim != layer.v_head_dim; });
    need.page_tokens = question_.block_tokens;
    const SglangBackend backend = choose_sglang_backend(need);
    plan_.backend = backend.name;
    plan_.page_tokens = backend.page_tokens;
    if (backend.forced && question_.block_tokens) {
      plan_.warnings.push_back(fmt::format("page size {} becomes {}: {} reads no other",
                                           *question_.block_tokens, backend.page_tokens,
                                           backend.name));
    }
    return {};
  }

  Status fill_cells() {
    std::uint32_t first = 0;
    for (const std::uint32_t layers : plan_.stage_layers) {
      auto cell = sglang_cell(model_, question_, options_, first, layers);
      if (!cell) return propagate(cell);
      first += layers;
      cells_.push_back(std::move(*cell));
    }
    for (std::uint32_t stage = 0; stage < cells_.size(); ++stage) {
      if (cells_[stage].bytes_per_token.approximate() >
          cells_[bounding_stage_].bytes_per_token.approximate()) {
        bounding_stage_ = stage;
      }
    }
    plan_.bytes_per_token = cells_[bounding_stage_].bytes_per_token;
    plan_.stage_layers.back() += question_.draft_layers;
    return {};
  }

  // Every stage takes the least tokens that any has room for.
  Status size() {
    if (!question_.kv_memory_bytes) return {};
    bool sized = false;
    if (const auto ok = bound_by_state(); !ok) return ok;
    for (std::uint32_t stage = 0; stage < cells_.size(); ++stage) {
      if (cells_[stage].bytes_per_token.numerator() == 0) continue;  // no attention here
      const auto pools = pools_of(cells_[stage]);
      if (!pools) return propagate(pools);
      if (sized && pools->tokens >= pools_.tokens) continue;
      pools_ = *pools;
      bounding_stage_ = stage;
      sized = true;
    }
    if (!sized) {
      return fail(ErrorCode::Unsupported,
                  fmt::format("{} has no attention: SGLang's tokens follow from its state alone, "
                              "which is not written down here; allowed: no memory given",
                              model_.name));
    }
    PeerCapacity capacity;
    capacity.tokens = pools_.tokens;
    capacity.blocks = pools_.tokens / plan_.page_tokens;
    capacity.max_requests = most_requests(pools_.tokens);
    if (state_requests_) capacity.max_requests = std::min(capacity.max_requests, *state_requests_);
    capacity.concurrency = pools_.tokens / plan_.max_model_len >= capacity.max_requests
                               ? Rational(capacity.max_requests)
                               : Rational::of(pools_.tokens, plan_.max_model_len);
    plan_.capacity = capacity;
    return {};
  }

  Result<Pools> pools_of(const SglangCell& cell) const {
    Pools pools;
    std::uint64_t memory = *question_.kv_memory_bytes;
    if (cell.state_bytes > 0) {
      const auto slots = state_slots(cell, memory);
      if (!slots) return propagate(slots);
      pools.state_slots = *slots;
      memory -= (*slots + 1) * cell.state_bytes;  // one slot more than is given out
    }
    if (seen_.pool == SglangPool::kCompressed) {
      add_rings(cell, divided(memory, cell.bytes_per_token), &pools);
      memory = memory > pools.ring_bytes ? memory - pools.ring_bytes : 0;
    }
    pools.tokens = rounded_down(divided(memory, cell.bytes_per_token), plan_.page_tokens);
    const auto sliding = multiply(options_.sliding_ratio, pools.tokens, "SWA tokens");
    if (!sliding) return propagate(sliding);
    pools.sliding_tokens = rounded_down(sliding->floor(), plan_.page_tokens);
    if (pools.tokens == 0) return no_memory();
    if (seen_.pool == SglangPool::kSliding) {
      if (cell.full_layers.empty()) pools.sliding_tokens = pools.tokens;
      if (const auto ok = check_window(cell, pools); !ok) return propagate(ok);
    }
    return pools;
  }

  static tl::unexpected<Error> no_memory() {
    return refuse(kEngine, ErrorCode::OutOfBlocks,
                  "not enough memory for one page; allowed: a larger --mem-fraction-static "
                  "(RuntimeError)");
  }

  // States get 9 parts in 19 of the memory (mamba_full_memory_ratio 0.9), one slot kept aside.
  Result<std::uint64_t> state_slots(const SglangCell& cell, std::uint64_t memory) const {
    const auto share = static_cast<std::uint64_t>(Wide{memory} * 9 / 19);
    const std::uint64_t slots = share / cell.state_bytes;
    if (slots < 2) return no_memory();
    return slots - 1;
  }

  // The stage whose slots of state are for the fewest requests: all run on every stage.
  Status bound_by_state() {
    for (const SglangCell& cell : cells_) {
      if (cell.state_bytes == 0) continue;
      const auto slots = state_slots(cell, *question_.kv_memory_bytes);
      if (!slots) return propagate(slots);
      const std::uint64_t requests = *slots / slots_per_request();
      if (requests == 0) {
        return refuse(kEngine, ErrorCode::OutOfBlocks,
                      fmt::format("the state cache has {} slots; allowed: at least {}, which a "
                                  "request takes (RuntimeError)",
                                  *slots, slots_per_request()));
      }
      state_requests_ = std::min(state_requests_.value_or(requests), requests);
    }
    return {};
  }

  std::uint64_t slots_per_request() const {
    return question_.state_slots_per_request > 0 ? question_.state_slots_per_request
                                                 : sglang_state_slots(model_);
  }

  // HCA's rows are kept per request: a ring of 128 each (256 with drafts), in fp32.
  void add_rings(const SglangCell& cell, std::uint64_t tokens, Pools* pools) const {
    if (cell.hca_layers == 0) return;
    const std::uint64_t ring = question_.draft_layers > 0 ? 256 : 128;
    pools->request_slots = most_requests(tokens) + 1;
    pools->ring_rows = round_up(pools->request_slots * ring + ring + 1, 128);
    const Wide bytes =
        Wide{pools->ring_rows} * 2 * model_.layers.front().head_dim * 4 * cell.hca_layers;
    pools->ring_bytes = bytes > UINT64_MAX ? UINT64_MAX : static_cast<std::uint64_t>(bytes);
  }

  // What was asked for, of one data-parallel rank; else 512 requests' worth of full contexts,
  // between 2048 and 4096. At most one per two tokens.
  std::uint64_t most_requests(std::uint64_t tokens) const {
    std::uint64_t requests = question_.max_running_requests / question_.data_attention;
    if (question_.max_running_requests == 0) {
      const auto contexts = static_cast<std::uint64_t>(Wide{tokens} * 512 / plan_.max_model_len);
      requests = std::clamp<std::uint64_t>(contexts, 2048, 4096);
    }
    return std::min(requests, tokens / 2);
  }

  Status check_window(const SglangCell& cell, const Pools& pools) const {
    std::uint64_t window = 0;
    for (const std::uint32_t layer : cell.sliding_layers) {
      window = std::max<std::uint64_t>(window, model_.layers[layer].window_tokens);
    }
    if (cell.full_layers.empty() || window + plan_.page_tokens < pools.sliding_tokens) return {};
    return refuse(kEngine, ErrorCode::OutOfBlocks,
                  fmt::format("the SWA pool has {} tokens; allowed: more than window {} + page {} "
                              "(ValueError)",
                              pools.sliding_tokens, window, plan_.page_tokens));
  }

  PeerGroup make_group(std::string name, const std::vector<std::uint32_t>& layers,
                       std::uint64_t token_bytes) const {
    PeerGroup group;
    group.name = std::move(name);
    group.layers = layers;
    group.pages = layers.size();
    group.block_tokens = plan_.page_tokens;
    group.block_bytes = token_bytes * plan_.page_tokens;
    group.page_bytes = layers.empty() ? 0 : ceil_div(group.block_bytes, layers.size());
    return group;
  }

  // At least 1, as every window is.
  std::uint64_t window_of(const SglangCell& cell) const {
    if (cell.sliding_layers.empty()) return 1;
    return std::max<std::uint64_t>(1, model_.layers[cell.sliding_layers.front()].window_tokens);
  }

  void describe() {
    const SglangCell& cell = cells_[bounding_stage_];
    const bool sized = plan_.capacity.has_value();
    if (seen_.pool == SglangPool::kCompressed) {
      describe_compressed(cell);
      if (sized) log_pools(cell);
      return;
    }
    if (!cell.full_layers.empty()) {
      PeerGroup group = make_group("full", cell.full_layers, cell.full_bytes);
      group.blocks_per_request = ceil_div(plan_.max_model_len, plan_.page_tokens);
      if (sized) group.pool_tokens = pools_.tokens;
      plan_.groups.push_back(std::move(group));
    }
    if (!cell.sliding_layers.empty()) {
      PeerGroup group = make_group(fmt::format("window {}", window_of(cell)), cell.sliding_layers,
                                   cell.sliding_bytes);
      group.blocks_per_request = ceil_div(window_of(cell), plan_.page_tokens) + 1;
      if (sized) group.pool_tokens = pools_.sliding_tokens;
      plan_.groups.push_back(std::move(group));
    }
    if (sized) log_pools(cell);
  }

  // Pages as they are allocated: rounded up to 576 bytes, which the cell leaves out.
  void describe_compressed(const SglangCell& cell) {
    const auto page_of = [&cell](std::uint64_t rows) {
      return round_up(rows * cell.row_bytes, kPackedAlign);
    };
    PeerGroup windows;
    windows.name = fmt::format("window {}", window_of(cell));
    windows.layers = cell.sliding_layers;
    windows.page_bytes = page_of(plan_.page_tokens);
    windows.blocks_per_request = ceil_div(window_of(cell), plan_.page_tokens) + 1;
    push_packed(std::move(windows), pools_.sliding_tokens, 0);
    for (const std::uint64_t ratio : {std::uint64_t{4}, std::uint64_t{128}}) {
      PeerGroup group;
      group.name = fmt::format("entries of {}", ratio);
      for (const std::uint32_t layer : cell.sliding_layers) {
        if (model_.layers[layer].compress_ratio == ratio) group.layers.push_back(layer);
      }
      const std::uint64_t rows = plan_.page_tokens / ratio;
      group.page_bytes = page_of(rows);
      group.blocks_per_request = ceil_div(plan_.max_model_len, plan_.page_tokens);
      push_packed(std::move(group), pools_.tokens / ratio,
                  ratio == 4 ? rows * cell.index_row_bytes : 0);
    }
  }

  // `index_page_bytes`: of the index keys beside each page, in each layer; 0: none.
  void push_packed(PeerGroup group, std::uint64_t tokens, std::uint64_t index_page_bytes) {
    const std::uint64_t layers = group.layers.size();
    group.block_tokens = plan_.page_tokens;
    group.pages = index_page_bytes > 0 ? 2 * layers : layers;
    group.block_bytes = layers * (group.page_bytes + index_page_bytes);
    if (plan_.capacity) group.pool_tokens = tokens;
    plan_.groups.push_back(std::move(group));
  }

  void log_pools(const SglangCell& cell) {
    if (seen_.pool == SglangPool::kCompressed) {
      const std::uint64_t ring = question_.draft_layers > 0 ? 16 : 8;
      const auto gib = [](std::uint64_t bytes) {
        return static_cast<double>(bytes) / static_cast<double>(kGiB);
      };
      plan_.log.push_back(fmt::format(
          "DSV4 memory calculation: bytes_per_full_token={:.2f}, available_bytes={:.2f} "
          "GB, c128_state_fixed={:.2f} GB, full_token={}",
          cell.bytes_per_token.approximate(), gib(*question_.kv_memory_bytes),
          gib(pools_.ring_bytes), pools_.tokens));
      // It counts rows of 128 only later, when requests are: here it logs none of them.
      plan_.log.push_back(
          fmt::format("DSV4 pool sizes: full={}, swa={}, c4={}, c128={}, c4_state={}, c128_state=0",
                      pools_.tokens, pools_.sliding_tokens, pools_.tokens / 4, pools_.tokens / 128,
                      pools_.sliding_tokens / window_of(cell) * ring));
      return;
    }
    if (seen_.pool == SglangPool::kSliding) {
      plan_.log.push_back(
          cell.full_layers.empty()
              ? fmt::format("Use sliding window memory pool (all SWA). swa_layer_tokens={}",
                            pools_.sliding_tokens)
              : fmt::format("Use sliding window memory pool. full_layer_tokens={}, "
                            "swa_layer_tokens={}",
                            pools_.tokens, pools_.sliding_tokens));
      return;
    }
    if (!options_.dtype.fp4 && !options_.dtype.mxfp8) log_allocation(cell);
  }

  // One page more than is given out: the first is where padded tokens are written.
  void log_allocation(const SglangCell& cell) {
    const auto gib = [this](std::uint64_t token_bytes) {
      const double tokens = static_cast<double>(pools_.tokens + plan_.page_tokens);
      return tokens * static_cast<double>(token_bytes) / static_cast<double>(kGiB);
    };
    std::string line = fmt::format("KV Cache is allocated. dtype: {}, #tokens: {}, ",
                                   options_.dtype.torch_name, pools_.tokens);
    if (seen_.shape == CacheShape::kGrouped) {
      line += fmt::format("K size: {:.2f} GB, V size: {:.2f} GB", gib(cell.key_bytes),
                          gib(cell.full_bytes - cell.key_bytes));
    } else {
      line += fmt::format("KV size: {:.2f} GB", gib(cell.full_bytes));
    }
    plan_.log.push_back(std::move(line));
  }

  void add_notes() {
    auto& notes = plan_.notes;
    const bool slides =
        std::any_of(model_.layers.begin(), model_.layers.end(),
                    [](const LayerFacts& layer) { return layer.reach != LayerReach::kFull; });
    if (slides && seen_.pool == SglangPool::kTokens) {
      notes.emplace_back(
          "SGLang does not list this architecture as sliding: windows are allocated "
          "at full length, which Emblema caps");
    }
    if (slides && seen_.pool != SglangPool::kTokens) {
      notes.push_back(
          fmt::format("a token counts windows at the ratio of the pools, {}; Emblema "
                      "counts them per sequence",
                      options_.sliding_ratio.exact()));
    }
    if (seen_.pool == SglangPool::kCompressed) {
      notes.emplace_back(
          "SGLang's estimate leaves out that pages are rounded up to multiples of "
          "576 bytes: what it allocates is slightly larger");
    }
    if (pools_.ring_bytes > 0) note_rings();
    if (cells_[bounding_stage_].state_bytes > 0) {
      notes.emplace_back(
          "recurrent state (float32 where no type is asked for) takes its share of the memory "
          "first, and bounds requests by its slots");
    }
    if (state_requests_) note_slots();
    if (std::any_of(model_.layers.begin(), model_.layers.end(),
                    [](const LayerFacts& layer) { return layer.cache == LayerCache::kShared; })) {
      notes.emplace_back("layers that read another layer's rows are not counted");
    }
    if (question_.decode_context > 1) {
      notes.push_back(fmt::format("a page is {} tokens of a sequence: {} on each of {} ranks",
                                  plan_.page_tokens * question_.decode_context, plan_.page_tokens,
                                  question_.decode_context));
    }
    note_own_figure(model_, question_, &plan_);
  }

  void note_rings() {
    const std::uint64_t memory = *question_.kv_memory_bytes;
    plan_.notes.push_back(fmt::format(
        "{} request slots keep {} fp32 rows in each of {} layers until 128 of them are an entry: "
        "{} of {}, taken first, which leaves {} for {} tokens; a smaller --max-running-requests "
        "takes less (log: c128_state is counted later, and is 0 there)",
        format_count(pools_.request_slots), format_count(pools_.ring_rows),
        cells_[bounding_stage_].hca_layers, format_bytes(pools_.ring_bytes), format_bytes(memory),
        format_bytes(memory - pools_.ring_bytes), format_count(pools_.tokens)));
  }

  void note_slots() {
    const SglangCell& cell = cells_[bounding_stage_];
    plan_.notes.push_back(fmt::format(
        "{} slots of state of {} bytes, {} to a request{}: at most {} requests at once",
        format_count(pools_.state_slots), format_count(cell.state_bytes), slots_per_request(),
        question_.state_slots_per_request > 0 ? "" : " as its radix cache wants by default",
        format_count(*state_requests_)));
  }

  const ModelConfig& model_;
  const PeerQuestion& question_;
  PeerPlan plan_;
  SglangModel seen_;
  SglangCellOptions options_;
  std::vector<SglangCell> cells_;
  Pools pools_;
  std::optional<std::uint64_t> state_requests_;
  std::uint32_t bounding_stage_ = 0;
};

}  // namespace

Result<PeerPlan> plan_sglang(const ModelConfig& model, const PeerQuestion& question) {
  return SglangPlanner(model, question).plan();
}

}  // namespace emblema
