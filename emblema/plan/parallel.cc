#include "emblema/plan/parallel.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include <fmt/format.h>

#include "emblema/contract/bytes.h"
#include "emblema/contract/check.h"

namespace emblema {
namespace {

constexpr std::uint32_t kRanksMax = 1u << 16;
constexpr std::uint64_t kGpusMax = 1u << 20;  // of one copy of a model

Status check_size(std::string_view field, std::uint64_t value, std::uint64_t most) {
  if (value >= 1 && value <= most) return {};
  return fail(ErrorCode::Invalid, fmt::format("{} is {}; allowed: 1 to {}", field, value, most));
}

Status check_divides(std::string_view field, std::uint64_t part, std::string_view whole_field,
                     std::uint64_t whole) {
  if (whole % part == 0) return {};
  return fail(ErrorCode::Invalid, fmt::format("{} is {}; allowed: a divisor of {} ({})", field,
                                              part, whole_field, whole));
}

Status check_sizes(const Parallelism& parallel) {
  using Field = std::pair<std::string_view, std::uint64_t>;
  for (const auto& [field, value] :
       {Field{"tensor_parallel", parallel.tensor}, Field{"pipeline_parallel", parallel.pipeline},
        Field{"dp_attention", parallel.data_attention}, Field{"dcp", parallel.decode_context},
        Field{"pcp", parallel.prefill_context}}) {
    if (const auto ok = check_size(field, value, kRanksMax); !ok) return ok;
  }
  if (const auto ok = check_size("interleave", parallel.interleave, kRanksMax); !ok) return ok;
  if (const auto ok =
          check_size("tensor_parallel x pipeline_parallel x pcp", parallel.ranks(), kGpusMax);
      !ok) {
    return ok;
  }
  return check_divides("dp_attention", parallel.data_attention, "tensor_parallel", parallel.tensor);
}

bool is_dealt_out_whole(const Stream& stream) {
  return stream.placement == Placement::kPaged && stream.retention == Retention::kGrowing &&
         stream.stride_tokens == 1;
}

// Tokens can be dealt out where every paged row is one token's, kept as long as the sequence lives.
Status check_dealt_layer(const LayerGeometry& layer, const Parallelism& parallel) {
  for (const Stream& stream : layer.streams) {
    if (is_dealt_out_whole(stream) || stream.retention == Retention::kFixed) continue;
    return fail(
        ErrorCode::Unsupported,
        fmt::format("dcp is {}, but layer {} ({}) keeps a {} stream with retention {} and "
                    "stride {}; allowed: 1, or models whose every cached row is one "
                    "token's and kept",
                    parallel.decode_context, layer.model_layer, layer.kind, to_string(stream.role),
                    to_string(stream.retention), stream.stride_tokens));
  }
  return {};
}

// Grouped heads: the ranks that repeat a head share its tokens, and each of the head's queries must
// be asked on one of them.
Status check_dealt_heads(const LayerGeometry& layer, const Parallelism& parallel) {
  const bool has_heads =
      std::any_of(layer.streams.begin(), layer.streams.end(),
                  [](const Stream& stream) { return stream.role == StreamRole::kKv; });
  if (!has_heads) return {};
  const std::uint32_t ranks = parallel.attention_tensor();
  const std::uint32_t dealt = parallel.decode_context;
  if (ranks <= layer.kv_heads || dealt > ranks / layer.kv_heads) {
    return fail(ErrorCode::Unsupported,
                fmt::format("dcp is {} with {} tensor ranks and {} KV heads in layer {}; allowed: "
                            "up to the ranks that repeat a head, {}",
                            dealt, ranks, layer.kv_heads, layer.model_layer,
                            std::max<std::uint32_t>(1, ranks / layer.kv_heads)));
  }
  return check_divides("dcp", dealt, "query heads of a KV head",
                       layer.query_heads / layer.kv_heads);
}

// Tokens are dealt out to tensor ranks, to the ranks that compute a prompt together, or to all.
Status check_dealt_ranks(const Parallelism& parallel) {
  const std::uint64_t dealt = parallel.decode_context;
  if (parallel.prefill_context == 1) {
    return check_divides("dcp", dealt, "the tensor ranks of a cache", parallel.attention_tensor());
  }
  if (dealt == parallel.prefill_context || dealt == parallel.stage_ranks()) return {};
  return fail(ErrorCode::Invalid,
              fmt::format("dcp is {}; allowed with pcp {} and {} tensor ranks: 1, {}, {}", dealt,
                          parallel.prefill_context, parallel.tensor, parallel.prefill_context,
                          parallel.stage_ranks()));
}

Status check_prefill_context(const ModelGeometry& whole, const Parallelism& parallel) {
  if (parallel.prefill_context == 1) return {};
  if (parallel.data_attention > 1) {
    return fail(ErrorCode::Unsupported,
                fmt::format("pcp is {} beside dp_attention {}; allowed: one of the two",
                            parallel.prefill_context, parallel.data_attention));
  }
  if (whole.model().family == AttentionFamily::kLatent) return {};
  return fail(ErrorCode::Unsupported,
              fmt::format("pcp is {} with {}; allowed: 1, or models of latents (MLA)",
                          parallel.prefill_context, whole.attention_in_words()));
}

Status check_decode_context(const ModelGeometry& whole, const Parallelism& parallel) {
  if (parallel.decode_context == 1) return {};
  if (const auto ok = check_dealt_ranks(parallel); !ok) return ok;
  for (const LayerGeometry& layer : whole.layers()) {
    if (const auto ok = check_dealt_layer(layer, parallel); !ok) return ok;
    if (const auto ok = check_dealt_heads(layer, parallel); !ok) return ok;
  }
  return {};
}

}  // namespace

Result<std::vector<Stage>> pipeline_stages(std::uint32_t layers, const Parallelism& parallel) {
  const std::uint32_t count = parallel.pipeline;
  if (const auto ok = check_size("pipeline_parallel", count, layers); !ok) {
    return fail(ErrorCode::Invalid,
                fmt::format("pipeline_parallel is {}; allowed: 1 to {}, the layers of the model",
                            count, layers));
  }
  std::vector<std::uint32_t> sizes = parallel.pipeline_layers;
  if (sizes.empty()) {
    for (std::uint32_t stage = 0; stage < count; ++stage) {
      sizes.push_back(layers / count + (stage < layers % count ? 1 : 0));
    }
  }
  const std::uint64_t sum = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
  const bool has_empty = std::find(sizes.begin(), sizes.end(), 0u) != sizes.end();
  if (sizes.size() != count || sum != layers || has_empty) {
    return fail(ErrorCode::Invalid,
                fmt::format("pp_layers is {}; allowed: {} numbers of at least 1 that add up to {}",
                            fmt::join(sizes, ","), count, layers));
  }
  std::vector<Stage> stages;
  std::uint32_t first = 0;
  for (const std::uint32_t size : sizes) {
    stages.push_back({first, size, stages.size() + 1 == sizes.size()});
    first += size;
  }
  return stages;
}

Status check_parallelism(const ModelGeometry& whole, const Parallelism& parallel) {
  if (const auto ok = check_sizes(parallel); !ok) return ok;
  if (const auto ok = check_prefill_context(whole, parallel); !ok) return ok;
  return check_decode_context(whole, parallel);
}

std::uint64_t local_tokens(std::uint64_t tokens, std::uint32_t rank, std::uint32_t ranks,
                           std::uint64_t interleave) {
  EMBLEMA_CHECK(ranks > 0 && interleave > 0 && rank < ranks, "a rank of some, runs of some tokens");
  const std::uint64_t round = ranks * interleave;
  const std::uint64_t rest = tokens % round;
  const std::uint64_t before = rank * interleave;
  const std::uint64_t in_round = rest > before ? std::min(rest - before, interleave) : 0;
  return tokens / round * interleave + in_round;
}

std::uint64_t local_row(std::uint64_t token, std::uint32_t ranks, std::uint64_t interleave) {
  EMBLEMA_CHECK(ranks > 0 && interleave > 0, "some ranks, runs of some tokens");
  return token / (ranks * interleave) * interleave + token % interleave;
}

Result<std::uint64_t> logical_block_tokens(std::uint64_t block_tokens, std::uint32_t ranks) {
  return mul_bytes(block_tokens, ranks, "tokens of a block over its ranks");
}

}  // namespace emblema
