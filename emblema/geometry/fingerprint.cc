#include "emblema/geometry/fingerprint.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace emblema {
namespace {

class FieldWriter {
 public:
  void tag(std::string_view text) {
    number(text.size());
    for (const char c : text) bytes_.push_back(static_cast<std::byte>(c));
  }

  void number(std::uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) {
      bytes_.push_back(static_cast<std::byte>((value >> shift) & 0xff));
    }
  }

  void real(double value) {
    number(std::bit_cast<std::uint64_t>(value == 0 ? 0.0 : value));  // -0 and 0 are one number
  }

  void maybe(const std::optional<double>& value) {
    number(value.has_value() ? 1 : 0);
    if (value) real(*value);
  }

  void list(std::span<const double> values) {
    number(values.size());
    for (const double value : values) real(value);
  }

  Fingerprint digest() const { return sha256(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

template <class Enum>
std::uint64_t code(Enum value) {
  return static_cast<std::uint64_t>(value);
}

// Rope scalings are numbered here, because RopeScaling itself may be reordered.
std::uint64_t scaling_code(RopeScaling scaling) {
  switch (scaling) {
    case RopeScaling::kNone:
      return 1;
    case RopeScaling::kLinear:
      return 2;
    case RopeScaling::kDynamic:
      return 3;
    case RopeScaling::kYarn:
      return 4;
    case RopeScaling::kLlama3:
      return 5;
    case RopeScaling::kLongRope:
      return 6;
    case RopeScaling::kProportional:
      return 7;
  }
  return 0;
}

void write_rope(const RopeFacts& rope, std::uint64_t max_positions, FieldWriter* out) {
  out->real(rope.theta);
  out->number(rope.rotary_dim);
  out->number(rope.interleaved);
  out->number(scaling_code(rope.scaling));
  out->real(rope.factor);
  out->number(rope.original_max_positions);
  out->real(rope.beta_fast);
  out->real(rope.beta_slow);
  out->number(rope.truncate);
  out->maybe(rope.mscale);
  out->maybe(rope.mscale_all_dim);
  out->maybe(rope.attention_factor);
  out->real(rope.low_freq_factor);
  out->real(rope.high_freq_factor);
  out->list(rope.short_factor);
  out->list(rope.long_factor);
  out->number(rope.unit_amplitude);
  // Elsewhere the share is in rotary_dim.
  out->real(rope.scaling == RopeScaling::kProportional ? rope.partial_rotary_factor : 0.0);
  // These two scalings read the longest position: LongRope to choose its table and amplitude.
  const bool reads_length =
      rope.scaling == RopeScaling::kLongRope || rope.scaling == RopeScaling::kDynamic;
  out->number(reads_length ? max_positions : 0);
}

void write_stream(const Stream& stream, FieldWriter* out) {
  out->number(code(stream.role));
  out->number(stream.regions.size());
  for (const EntryRegion& region : stream.regions) {
    out->number(region.elements);
    out->number(code(region.encoding));
  }
  out->number(stream.stride_tokens);
  out->number(code(stream.retention));
  out->number(stream.retention_tokens);
  out->number(code(stream.sharding));
  out->number(code(stream.placement));
}

void write_layer(const LayerGeometry& layer, std::uint32_t ranks, FieldWriter* out) {
  out->number(layer.model_layer);
  out->number(layer.is_draft);
  out->tag(layer.kind);  // what a recurrent state means is in its name alone
  out->number(layer.window_tokens);
  out->number(layer.chunk_tokens);
  out->number(layer.shares_with ? 1 : 0);
  out->number(layer.shares_with.value_or(0));
  out->number(std::uint64_t{layer.query_heads} * ranks);  // the model's: latents do not divide
  out->number(layer.kv_heads);
  out->number(layer.key_dim);
  out->number(layer.value_dim);
  out->real(layer.softcap);
  out->number(layer.has_sinks);
  out->number(layer.has_rope);
  if (layer.has_rope) write_rope(layer.rope, layer.max_positions, out);
  out->number(layer.streams.size());
  for (const Stream& stream : layer.streams) write_stream(stream, out);
}

void write_group(const CacheGroup& group, FieldWriter* out) {
  out->number(code(group.retention));
  out->number(group.window_tokens);
  out->number(group.block_tokens);
  out->number(group.members.size());
  for (const CacheGroup::Member& member : group.members) {
    out->number(member.layer);
    out->number(member.stream);
  }
}

// Ranks hold different heads; what has no heads is the same on each of them. Nothing is written
// without tensor parallelism.
void write_rank(const GeometryOptions& options, std::span<const LayerGeometry> layers,
                FieldWriter* out) {
  const auto is_shared_out = [](const LayerGeometry& layer) {
    return std::any_of(layer.streams.begin(), layer.streams.end(),
                       [](const Stream& stream) { return stream.sharding == Sharding::kByHead; });
  };
  if (options.tensor_parallel == 1) return;
  if (std::none_of(layers.begin(), layers.end(), is_shared_out)) return;
  out->tag("tensor rank");
  out->number(options.tensor_parallel);
  out->number(options.tensor_rank);
}

}  // namespace

Fingerprint fingerprint_of(const ModelConfig& model, const GeometryOptions& options,
                           std::span<const LayerGeometry> layers,
                           std::span<const CacheGroup> groups) {
  FieldWriter out;
  out.tag("emblema geometry");
  out.number(kFingerprintVersion);
  out.number(code(options.kv_dtype));
  out.number(model.hidden_size);
  out.number(model.q_lora_rank.has_value() ? 1 : 0);
  out.number(model.q_lora_rank.value_or(0));
  out.number(model.qk_nope_head_dim);
  out.number(model.qk_rope_head_dim);
  out.number(model.v_head_dim);
  out.number(model.index_head_dim);
  out.number(model.index_n_heads);
  out.number(model.index_topk);
  out.real(model.rms_norm_eps);
  out.maybe(model.query_pre_attn_scalar);
  out.number(layers.size());
  for (const LayerGeometry& layer : layers) write_layer(layer, options.tensor_parallel, &out);
  out.number(groups.size());
  for (const CacheGroup& group : groups) write_group(group, &out);
  write_rank(options, layers, &out);
  return out.digest();
}

}  // namespace emblema
