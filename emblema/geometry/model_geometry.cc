#include "emblema/geometry/model_geometry.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "emblema/contract/bytes.h"
#include "emblema/geometry/fingerprint.h"
#include "emblema/geometry/layer_streams.h"
#include "emblema/geometry/model_check.h"

namespace emblema {
namespace {

// Tokens of a page that the kernels of a stream read at once.
std::uint64_t kernel_page_tokens(StreamRole role) {
  switch (role) {
    case StreamRole::kLatent:
    case StreamRole::kIndexer:
      return 64;  // as FlashMLA's pages
    case StreamRole::kCompressed:
      return 128;  // lcm of V4's two ratios, whichever of them the layers at hand have
    default:
      return 16;
  }
}

Result<std::uint64_t> common_multiple(std::uint64_t a, std::uint64_t b, const std::string& group) {
  return mul_bytes(a / std::gcd(a, b), b, "block tokens of group '" + group + "'");
}

Result<std::uint64_t> derived_block_tokens(const CacheGroup& group,
                                           std::span<const LayerGeometry> layers) {
  std::uint64_t tokens = 1;
  for (const CacheGroup::Member& member : group.members) {
    const Stream& stream = layers[member.layer].streams[member.stream];
    for (const std::uint64_t factor : {stream.stride_tokens, kernel_page_tokens(stream.role)}) {
      const auto next = common_multiple(tokens, factor, group.name);
      if (!next) return next;
      tokens = *next;
    }
  }
  return tokens;
}

Status choose_block_tokens(std::uint64_t asked, std::span<const LayerGeometry> layers,
                           CacheGroup* group) {
  const auto derived = derived_block_tokens(*group, layers);
  if (!derived) return propagate(derived);
  if (asked % *derived != 0) {
    return fail(ErrorCode::Invalid,
                fmt::format("block_tokens is {}; allowed: multiples of {}, the smallest common "
                            "multiple of the strides and the kernel page of group '{}'",
                            asked, *derived, group->name));
  }
  group->block_tokens = asked == 0 ? *derived : asked;
  return {};
}

std::string group_name(Retention retention, std::uint64_t tokens) {
  if (retention == Retention::kGrowing) return "growing";
  return fmt::format("{} {}", to_string(retention), tokens);
}

// Growing first, then windows by length, then chunks.
std::vector<CacheGroup> grouped_streams(std::span<const LayerGeometry> layers) {
  std::map<std::pair<Retention, std::uint64_t>, CacheGroup> by_retention;
  for (std::uint32_t layer = 0; layer < layers.size(); ++layer) {
    const auto& streams = layers[layer].streams;
    for (std::uint32_t stream = 0; stream < streams.size(); ++stream) {
      if (streams[stream].placement != Placement::kPaged) continue;
      const Retention retention = streams[stream].retention;
      const std::uint64_t tokens =
          retention == Retention::kGrowing ? 0 : streams[stream].retention_tokens;
      CacheGroup& group = by_retention[{retention, tokens}];
      group.name = group_name(retention, tokens);
      group.retention = retention;
      group.window_tokens = tokens;
      group.members.push_back({layer, stream});
    }
  }
  std::vector<CacheGroup> groups;
  for (auto& [key, group] : by_retention) groups.push_back(std::move(group));
  return groups;
}

// "GQA window 128", "MLA+DSA", "MQA shared". DeepSeek-V4's kinds all have a window; it goes without
// saying.
std::string words_of(const LayerGeometry& layer) {
  if (layer.kind == "none") return "no attention";
  std::string words = layer.kind;
  std::transform(words.begin(), words.end(), words.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  const bool in_blocks =
      layer.shares_with ||
      (!layer.streams.empty() && layer.streams.front().retention != Retention::kGrowing &&
       layer.streams.front().placement == Placement::kPaged);
  if (in_blocks && layer.window_tokens > 0) words += fmt::format(" window {}", layer.window_tokens);
  if (in_blocks && layer.chunk_tokens > 0) words += fmt::format(" chunk {}", layer.chunk_tokens);
  if (layer.shares_with) words += " shared";
  if (layer.is_draft) words += " draft";
  return words;
}

bool is_capped(const Stream& stream) {
  return stream.retention == Retention::kWindow || stream.retention == Retention::kChunk ||
         stream.retention == Retention::kEncoder;
}

// Adds up `bytes_of(stream)` over all streams.
template <class BytesOf>
Result<std::uint64_t> sum_bytes(std::span<const LayerGeometry> layers, std::string_view what,
                                BytesOf bytes_of) {
  std::uint64_t sum = 0;
  for (const LayerGeometry& layer : layers) {
    for (const Stream& stream : layer.streams) {
      const Result<std::uint64_t> bytes = bytes_of(stream);
      if (!bytes) return bytes;
      const auto next = add_bytes(sum, *bytes, what);
      if (!next) return next;
      sum = *next;
    }
  }
  return sum;
}

}  // namespace

Result<ModelGeometry> ModelGeometry::from(const ModelConfig& model,
                                          const GeometryOptions& options) {
  if (const auto ok = check_model(model); !ok) return propagate(ok);
  auto layers = layers_of(model, options);
  if (!layers) return propagate(layers);
  ModelGeometry geometry;
  geometry.model_ = model;
  geometry.options_ = options;
  geometry.layers_ = std::move(*layers);
  geometry.groups_ = grouped_streams(geometry.layers_);
  for (CacheGroup& group : geometry.groups_) {
    const auto ok = choose_block_tokens(options.block_tokens, geometry.layers_, &group);
    if (!ok) return propagate(ok);
  }
  // Sizes past 64 bits are refused here, once, not at the first use.
  if (const auto growing = geometry.growing_bytes_per_token(); !growing) return propagate(growing);
  if (const auto fixed = geometry.fixed_bytes_per_sequence(); !fixed) return propagate(fixed);
  if (const auto state = geometry.state_bytes_per_sequence(); !state) return propagate(state);
  geometry.fingerprint_ = fingerprint_of(model, options, geometry.layers_, geometry.groups_);
  return geometry;
}

bool ModelGeometry::has_arena() const {
  return std::any_of(layers_.begin(), layers_.end(), [](const LayerGeometry& layer) {
    return std::any_of(layer.streams.begin(), layer.streams.end(),
                       [](const Stream& stream) { return stream.placement == Placement::kArena; });
  });
}

bool ModelGeometry::has_state() const {
  return std::any_of(layers_.begin(), layers_.end(), [](const LayerGeometry& layer) {
    return std::any_of(layer.streams.begin(), layer.streams.end(), [](const Stream& stream) {
      return stream.placement == Placement::kArena && stream.role != StreamRole::kCross;
    });
  });
}

Result<Rational> ModelGeometry::growing_bytes_per_token() const {
  Rational sum;
  for (const LayerGeometry& layer : layers_) {
    for (const Stream& stream : layer.streams) {
      const auto next = add(sum, stream.growing_bytes_per_token(), "growing bytes per token");
      if (!next) return next;
      sum = *next;
    }
  }
  return sum;
}

Result<std::uint64_t> ModelGeometry::bytes_per_sequence(std::uint64_t tokens) const {
  return sum_bytes(layers_, fmt::format("bytes of one sequence of {} tokens", tokens),
                   [tokens](const Stream& stream) -> Result<std::uint64_t> {
                     if (stream.retention == Retention::kFixed) return 0;
                     return stream.payload_bytes(tokens);
                   });
}

Result<std::uint64_t> ModelGeometry::growing_bytes_per_sequence(std::uint64_t tokens) const {
  return sum_bytes(layers_, fmt::format("growing bytes of one sequence of {} tokens", tokens),
                   [tokens](const Stream& stream) -> Result<std::uint64_t> {
                     if (stream.retention != Retention::kGrowing) return 0;
                     return stream.payload_bytes(tokens);
                   });
}

Result<std::uint64_t> ModelGeometry::fixed_bytes_per_sequence() const {
  return sum_bytes(layers_, "window and encoder bytes of one sequence",
                   [](const Stream& stream) -> Result<std::uint64_t> {
                     if (!is_capped(stream)) return 0;
                     return stream.payload_bytes(stream.retention_tokens);
                   });
}

Result<std::uint64_t> ModelGeometry::state_bytes_per_sequence() const {
  return sum_bytes(layers_, "state bytes of one sequence",
                   [](const Stream& stream) -> Result<std::uint64_t> {
                     if (stream.retention != Retention::kFixed) return 0;
                     return stream.payload_bytes(0);
                   });
}

std::string ModelGeometry::attention_in_words() const {
  std::vector<std::pair<std::string, std::uint64_t>> counts;  // in order of first appearance
  for (const LayerGeometry& layer : layers_) {
    const std::string words = words_of(layer);
    const auto known = std::find_if(counts.begin(), counts.end(),
                                    [&words](const auto& count) { return count.first == words; });
    if (known != counts.end()) {
      ++known->second;
    } else {
      counts.emplace_back(words, 1);
    }
  }
  std::string text;
  for (const auto& [words, count] : counts) {
    text += fmt::format("{}{} x {}", text.empty() ? "" : " + ", count, words);
  }
  return text;
}

}  // namespace emblema
