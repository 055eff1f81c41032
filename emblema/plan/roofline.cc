#include "emblema/plan/roofline.h"

#include <algorithm>

#include <fmt/format.h>

#include "emblema/contract/bytes.h"
#include "emblema/plan/printed_number.h"

namespace emblema {
namespace {

using Wide = unsigned __int128;  // products of two 64-bit figures

constexpr std::uint64_t kContextMax = std::uint64_t{1} << 40;

// Rows of a stream with retention of its own that a new token sees, itself included.
std::uint64_t visible_rows(const Stream& stream, std::uint64_t tokens) {
  const std::uint64_t entries = tokens / stream.stride_tokens;
  switch (stream.retention) {
    case Retention::kWindow:
      return std::min(entries, stream.retention_tokens);
    case Retention::kChunk:
      return (tokens - 1) % stream.retention_tokens + 1;
    case Retention::kEncoder:
      return stream.retention_tokens;
    case Retention::kGrowing:
      return entries;
    case Retention::kFixed:
      break;
  }
  return 0;
}

// What attention reads row by row, of all that a layer remembers.
bool is_attended(StreamRole role) {
  return role == StreamRole::kKv || role == StreamRole::kLatent || role == StreamRole::kCross ||
         role == StreamRole::kCompressed || role == StreamRole::kWindow;
}

class StepCounter {
 public:
  StepCounter(const ModelGeometry& rank, std::uint64_t tokens) : rank_(rank), tokens_(tokens) {
    step_.context_tokens = tokens;
    const ModelConfig& model = rank.model();
    // MiniMax-M3's top k are blocks of keys; see the header.
    if (model.family != AttentionFamily::kGrouped) topk_ = model.index_topk;
  }

  Status add(const LayerGeometry& layer) {
    const bool shares = layer.shares_with && *layer.shares_with < rank_.layers().size();
    const LayerGeometry& source = shares ? rank_.layers()[*layer.shares_with] : layer;
    for (const Stream& stream : source.streams) {
      if (const Status ok = add_stream(layer, stream, shares); !ok) return ok;
    }
    return {};
  }

  const AttentionStep& step() const { return step_; }

 private:
  Status add_stream(const LayerGeometry& layer, const Stream& stream, bool shares) {
    const std::uint64_t rows = visible_rows(stream, tokens_);
    if (stream.role == StreamRole::kIndexer) {
      if (shares) return {};  // the other layer's choice, not made again
      const ModelConfig& model = rank_.model();
      const std::uint64_t flop_per_row =
          std::uint64_t{2} * model.index_n_heads * model.index_head_dim;
      if (const Status ok = add_rows(rows, flop_per_row, stream.entry_bytes); !ok) return ok;
      step_.indexer_flop += rows * flop_per_row;  // both are parts of sums that fit
      step_.indexer_bytes += rows * stream.entry_bytes;
      return {};
    }
    if (!is_attended(stream.role)) return {};
    const std::uint64_t width = std::uint64_t{layer.key_dim} + layer.value_dim;
    return add_rows(is_selected(layer, stream) ? std::min(rows, topk_) : rows,
                    2 * width * layer.query_heads, stream.entry_bytes);
  }

  // Rows that an indexer chooses from. In layers without index keys of their own the choice is that
  // of a layer before.
  bool is_selected(const LayerGeometry& layer, const Stream& stream) const {
    if (topk_ == 0) return false;
    if (stream.role == StreamRole::kLatent) return true;
    return stream.role == StreamRole::kCompressed && layer.kind == "csa";
  }

  Status add_rows(std::uint64_t rows, std::uint64_t flop_per_row, std::uint64_t bytes_per_row) {
    const auto flop = mul_bytes(rows, flop_per_row, "FLOP of a decode step");
    if (!flop) return propagate(flop);
    const auto bytes = mul_bytes(rows, bytes_per_row, "bytes of a decode step");
    if (!bytes) return propagate(bytes);
    const auto flop_sum = add_bytes(step_.flop, *flop, "FLOP of a decode step");
    if (!flop_sum) return propagate(flop_sum);
    const auto bytes_sum = add_bytes(step_.bytes, *bytes, "bytes of a decode step");
    if (!bytes_sum) return propagate(bytes_sum);
    step_.flop = *flop_sum;
    step_.bytes = *bytes_sum;
    return {};
  }

  const ModelGeometry& rank_;
  std::uint64_t tokens_;
  std::uint64_t topk_ = 0;  // 0: nothing is selected
  AttentionStep step_;
};

Status check_hardware(const Hardware& hardware) {
  if (hardware.bandwidth_bytes_per_second.value_or(0) == 0) {
    return fail(
        ErrorCode::Invalid,
        fmt::format("bandwidth of {} is not given; allowed: at least 1 byte per second, or a "
                    "GPU that has one",
                    hardware.name));
  }
  if (hardware.bf16_flops.value_or(0) == 0) {
    return fail(
        ErrorCode::Invalid,
        fmt::format("flops of {} is not given; allowed: at least 1 FLOP per second, or a GPU "
                    "that has some",
                    hardware.name));
  }
  return {};
}

}  // namespace

Result<AttentionStep> attention_step(const ModelGeometry& rank, std::uint64_t context_tokens) {
  if (context_tokens == 0 || context_tokens > kContextMax) {
    return fail(ErrorCode::Invalid,
                fmt::format("context is {}; allowed: 1 to {}", context_tokens, kContextMax));
  }
  StepCounter counter(rank, context_tokens);
  for (const LayerGeometry& layer : rank.layers()) {
    if (const Status ok = counter.add(layer); !ok) return propagate(ok);
  }
  return counter.step();
}

std::string_view to_string(Bound bound) {
  switch (bound) {
    case Bound::kNothing:
      return "nothing";
    case Bound::kBandwidth:
      return "memory bandwidth";
    case Bound::kCompute:
      return "compute";
  }
  return "unknown";
}

Result<Rational> ridge_of(const Hardware& hardware) {
  if (const Status ok = check_hardware(hardware); !ok) return propagate(ok);
  return Rational::of(*hardware.bf16_flops, *hardware.bandwidth_bytes_per_second);
}

Result<Rational> intensity_of(const AttentionStep& step) {
  if (step.bytes == 0) return Rational();
  return Rational::of(step.flop, step.bytes);
}

Result<RooflinePoint> place_on_roofline(const AttentionStep& step, const Hardware& hardware) {
  const auto ridge = ridge_of(hardware);
  if (!ridge) return propagate(ridge);
  RooflinePoint point;
  point.ridge = *ridge;
  if (step.bytes == 0) return point;
  const std::uint64_t peak = *hardware.bf16_flops;
  const std::uint64_t bandwidth = *hardware.bandwidth_bytes_per_second;
  point.intensity = Rational::of(step.flop, step.bytes);
  if (at_most(point.ridge, point.intensity)) {
    point.bound = Bound::kCompute;
    point.attainable_flops = peak;
    point.least_seconds = Rational::of(step.flop, peak);
  } else {
    point.bound = Bound::kBandwidth;
    // Below the peak, which fits 64 bits.
    point.attainable_flops = static_cast<std::uint64_t>(Wide{step.flop} * bandwidth / step.bytes);
    point.least_seconds = Rational::of(step.bytes, bandwidth);
  }
  return point;
}

}  // namespace emblema
