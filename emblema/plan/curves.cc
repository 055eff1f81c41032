#include "emblema/plan/curves.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "emblema/contract/bytes.h"
#include "emblema/plan/capacity_plan.h"
#include "emblema/plan/rank_capacity.h"

namespace emblema {
namespace {

constexpr std::uint64_t kFirstLength = 16;
constexpr std::uint64_t kUsualLength = 131'072;
constexpr std::uint32_t kTensorMax = 64;
constexpr const char* kState = "state";

// "gqa+mamba2" reads "GQA": what is behind the plus has streams of its own.
std::string attention_of(const LayerGeometry& layer) {
  std::string words = layer.kind.substr(0, layer.kind.find('+'));
  std::transform(words.begin(), words.end(), words.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return words;
}

std::string retention_in_words(const Stream& stream) {
  if (stream.retention == Retention::kWindow || stream.retention == Retention::kChunk) {
    return fmt::format(" {} {}", to_string(stream.retention), stream.retention_tokens);
  }
  return {};
}

std::string kind_of(const LayerGeometry& layer, const Stream& stream) {
  const std::string draft = layer.is_draft ? " draft" : "";
  switch (stream.role) {
    case StreamRole::kIndexer:
      return "index keys" + draft;
    case StreamRole::kCompressed:
      return attention_of(layer) + " compressed" + draft;
    case StreamRole::kWindow:
      return fmt::format("window {}", stream.retention_tokens);
    case StreamRole::kCompressor:
    case StreamRole::kState:
      return kState;
    case StreamRole::kCross:
      return "encoder rows";
    case StreamRole::kKv:
    case StreamRole::kLatent:
      break;
  }
  return attention_of(layer) + retention_in_words(stream) + draft;
}

struct KindStreams {
  std::string kind;
  std::set<std::uint32_t> layers;
  std::vector<const Stream*> streams;
};

// REQUIRES: the geometry outlives the result.
std::vector<KindStreams> streams_by_kind(const ModelGeometry& geometry) {
  std::vector<KindStreams> kinds;
  for (const LayerGeometry& layer : geometry.layers()) {
    for (const Stream& stream : layer.streams) {
      const std::string kind = kind_of(layer, stream);
      auto known = std::ranges::find(kinds, kind, &KindStreams::kind);
      if (known == kinds.end()) known = kinds.insert(kinds.end(), {kind, {}, {}});
      known->layers.insert(layer.index);
      known->streams.push_back(&stream);
    }
  }
  std::stable_partition(kinds.begin(), kinds.end(),
                        [](const KindStreams& one) { return one.kind != kState; });
  return kinds;
}

Result<std::uint64_t> payload_of(const KindStreams& kind, std::uint64_t tokens) {
  std::uint64_t sum = 0;
  for (const Stream* stream : kind.streams) {
    const auto bytes = stream->payload_bytes(tokens);
    if (!bytes) return bytes;
    const auto next = add_bytes(sum, *bytes, fmt::format("bytes of {}", kind.kind));
    if (!next) return next;
    sum = *next;
  }
  return sum;
}

std::set<std::uint32_t> tensor_sizes(std::uint32_t own) {
  std::set<std::uint32_t> sizes = {own};
  for (std::uint32_t size = 1; size <= kTensorMax; size *= 2) sizes.insert(size);
  return sizes;
}

TensorPoint point_of(std::uint32_t tensor, const Result<CapacityPlan>& plan) {
  TensorPoint point{.tensor = tensor};
  if (!plan) {
    point.refused = plan.error().message;
    return point;
  }
  const RankCapacity& rank = plan->ranks.front();
  point.growing_bytes_per_token = rank.growing_bytes_per_token;
  point.fixed_bytes_per_sequence = rank.fixed_bytes_per_sequence;
  point.state_bytes_per_sequence = rank.state_bytes_per_sequence;
  if (!rank.pool) return point;
  point.pool_bytes = rank.pool_bytes;
  point.tokens = rank.tokens;
  point.concurrency = plan->concurrency_total;
  return point;
}

}  // namespace

std::vector<std::uint64_t> lengths_for_curves(std::uint64_t max_positions) {
  const std::uint64_t longest =
      max_positions == 0 ? kUsualLength : std::min(max_positions, kSequenceTokensMax);
  std::vector<std::uint64_t> lengths;
  if (longest <= kFirstLength) {
    for (std::uint64_t tokens = 1; tokens <= longest; ++tokens) lengths.push_back(tokens);
    return lengths;
  }
  for (std::uint64_t power = kFirstLength; power <= longest; power *= 2) {
    for (const std::uint64_t tokens : {power, power / 4 * 5, power / 2 * 3}) {
      if (tokens < longest) lengths.push_back(tokens);
    }
  }
  lengths.push_back(longest);
  return lengths;
}

Result<ByteCurves> bytes_by_kind(const ModelConfig& model, const Deployment& deployment,
                                 const Stage& stage, std::span<const std::uint64_t> tokens) {
  Deployment asked = deployment;
  asked.at_tokens.assign(tokens.begin(), tokens.end());
  asked.sequences = 0;  // of one sequence
  const auto rank = measure_rank(model, asked, stage);
  if (!rank) return propagate(rank);
  ByteCurves curves;
  for (const LengthBytes& at : rank->capacity.at) {
    curves.tokens.push_back(at.tokens);
    curves.payload_bytes.push_back(at.payload_bytes);
    curves.allocated_bytes.push_back(at.allocated_bytes);
  }
  for (const KindStreams& kind : streams_by_kind(rank->geometry)) {
    KindCurve curve{kind.kind, static_cast<std::uint32_t>(kind.layers.size()), {}};
    for (const std::uint64_t length : tokens) {
      const Parallelism& parallel = deployment.parallel;
      const auto bytes =
          payload_of(kind, local_tokens(length, 0, parallel.decode_context, parallel.interleave));
      if (!bytes) return propagate(bytes);
      curve.payload_bytes.push_back(*bytes);
    }
    curves.kinds.push_back(std::move(curve));
  }
  return curves;
}

Result<std::vector<TensorPoint>> capacity_by_tensor(const ModelConfig& model,
                                                    const Deployment& deployment) {
  std::vector<TensorPoint> points;
  std::optional<Error> own;
  for (const std::uint32_t tensor : tensor_sizes(deployment.parallel.tensor)) {
    Deployment asked = deployment;
    asked.parallel.tensor = tensor;
    asked.gpus = 0;  // one copy of the model, whatever its ranks
    asked.at_tokens.clear();
    const auto plan = plan_capacity(model, asked);
    if (!plan && tensor == deployment.parallel.tensor) own = plan.error();
    points.push_back(point_of(tensor, plan));
  }
  const bool all_refused =
      std::ranges::none_of(points, [](const TensorPoint& point) { return point.refused.empty(); });
  if (all_refused) return fail(own->code, own->message);
  return points;
}

}  // namespace emblema
