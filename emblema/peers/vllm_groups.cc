#include "emblema/peers/vllm_groups.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "emblema/contract/bytes.h"
#include "emblema/peers/question.h"

namespace emblema {
namespace {

using Specs = std::vector<LayerSpec>;

bool has_kind(const Specs& specs, SpecKind kind) {
  return std::any_of(specs.begin(), specs.end(),
                     [kind](const LayerSpec& spec) { return spec.kind == kind; });
}

// Specs of full attention may differ in the window, or the chunk, that they had before they were
// rewritten: one such length at most, and not both kinds.
struct Merged {
  LayerSpec spec;
  bool add(const LayerSpec& other) {
    LayerSpec plain = other;
    LayerSpec mine = spec;
    for (LayerSpec* s : {&plain, &mine}) {
      if (s->kind == SpecKind::kFull) s->window_tokens = s->chunk_tokens = 0;
    }
    if (!same_spec(plain, mine)) return false;
    const auto joined = [](std::uint64_t a, std::uint64_t b) -> std::optional<std::uint64_t> {
      if (a != 0 && b != 0 && a != b) return std::nullopt;
      return std::max(a, b);
    };
    const auto window = joined(spec.window_tokens, other.window_tokens);
    const auto chunk = joined(spec.chunk_tokens, other.chunk_tokens);
    if (!window || !chunk || (*window != 0 && *chunk != 0)) return false;
    spec.window_tokens = *window;
    spec.chunk_tokens = *chunk;
    return true;
  }
};

bool is_one_spec(const Specs& specs) {
  Merged merged{specs.front()};
  return std::all_of(specs.begin(), specs.end(),
                     [&merged](const LayerSpec& spec) { return merged.add(spec); });
}

// All need the same number of token slots.
bool is_one_type(const Specs& specs) {
  const LayerSpec& first = specs.front();
  const auto alike = [&first](const LayerSpec& spec) {
    if (spec.block_tokens != first.block_tokens) return false;
    switch (first.kind) {
      case SpecKind::kFull:
      case SpecKind::kLatent:
        return is_full_family(spec);
      case SpecKind::kWindow:
        return (spec.kind == SpecKind::kWindow || spec.kind == SpecKind::kWindowLatent) &&
               spec.window_tokens == first.window_tokens;
      case SpecKind::kWindowLatent:
        return spec.kind == first.kind && spec.window_tokens == first.window_tokens;
      case SpecKind::kChunk:
        return spec.kind == first.kind && spec.chunk_tokens == first.chunk_tokens;
      case SpecKind::kState:
        break;
    }
    return spec.kind == first.kind && spec.speculative_blocks == first.speculative_blocks;
  };
  return std::all_of(specs.begin(), specs.end(), alike);
}

std::optional<std::uint64_t> block_of_full_layers(const Specs& specs) {
  std::optional<std::uint64_t> block;
  for (const LayerSpec& spec : specs) {
    if (!is_full_family(spec)) continue;
    if (block && *block != spec.block_tokens) return std::nullopt;
    block = spec.block_tokens;
  }
  return block;
}

// Windows and chunks allocated like full attention, where full attention is present. False: they
// do not come to one type.
bool promote(Specs* specs) {
  if (is_one_spec(*specs) || is_one_type(*specs)) return true;
  const bool has_full = std::any_of(specs->begin(), specs->end(), is_full_family);
  if (has_full) {
    const auto block = block_of_full_layers(*specs);
    for (LayerSpec& spec : *specs) {
      if (is_full_family(spec) || spec.kind == SpecKind::kState) continue;
      spec.kind = spec.kind == SpecKind::kWindowLatent ? SpecKind::kLatent : SpecKind::kFull;
      spec.block_tokens = block.value_or(spec.block_tokens);
    }
  }
  return is_one_spec(*specs) || is_one_type(*specs);
}

// The largest page stands; smaller ones hold more tokens, and states are padded.
Status make_pages_equal(Specs* specs) {
  std::uint64_t largest = 0;
  for (const LayerSpec& spec : *specs) largest = std::max(largest, page_bytes(spec));
  for (LayerSpec& spec : *specs) {
    const std::uint64_t page = page_bytes(spec);
    if (page == largest) continue;
    if (spec.kind == SpecKind::kState) {
      spec.padded_bytes = largest;
      continue;
    }
    if (largest % page != 0) {
      return refuse(PeerEngine::kVllm, ErrorCode::Unsupported,
                    fmt::format("layer {} has pages of {} bytes, which do not divide the largest, "
                                "{} (NotImplementedError)",
                                spec.layer, page, largest));
    }
    spec.block_tokens *= largest / page;
  }
  return {};
}

// MLA beside plain windows, where pages do not divide: planned as if nothing slid.
std::optional<Grouping> full_allocation(Specs specs) {
  const bool applies = has_kind(specs, SpecKind::kLatent) && has_kind(specs, SpecKind::kWindow) &&
                       !has_kind(specs, SpecKind::kWindowLatent) &&
                       !has_kind(specs, SpecKind::kChunk);
  if (!applies || !promote(&specs) || !is_one_type(specs)) return std::nullopt;
  Grouping grouping;
  grouping.groups.push_back({std::move(specs), true});
  grouping.warnings.emplace_back(
      "KV cache page sizes cannot be unified; treating sliding-window layers as full attention for "
      "cache allocation. Sliding-window attention compute is unchanged.");
  return grouping;
}

// Layers of one spec, in order of first appearance; then specs that merge.
std::vector<Specs> buckets_of(const Specs& specs) {
  std::vector<Specs> distinct;
  for (const LayerSpec& spec : specs) {
    const auto same = std::find_if(distinct.begin(), distinct.end(), [&spec](const Specs& bucket) {
      return same_spec(bucket.front(), spec);
    });
    if (same == distinct.end()) {
      distinct.push_back({spec});
    } else {
      same->push_back(spec);
    }
  }
  std::vector<Specs> buckets;
  std::vector<Merged> merged;
  for (Specs& layers : distinct) {
    std::size_t i = 0;
    while (i < merged.size() && !merged[i].add(layers.front())) ++i;
    if (i < merged.size()) {
      buckets[i].insert(buckets[i].end(), layers.begin(), layers.end());
      continue;
    }
    merged.push_back({layers.front()});
    buckets.push_back(std::move(layers));
  }
  return buckets;
}

// Every `count`-th element from `first` on: a pipeline stage then has a share of each group.
template <class T>
std::vector<T> strided(const std::vector<T>& items, std::size_t first, std::size_t count) {
  std::vector<T> taken;
  for (std::size_t i = first; i < items.size(); i += count) taken.push_back(items[i]);
  return taken;
}

// Equal numbers of layers in every group: the smallest bucket's, or the largest one's where that is
// less than half as large again.
Grouping deal_out(const Specs& specs) {
  const std::vector<Specs> buckets = buckets_of(specs);
  std::size_t least = specs.size();
  std::size_t most = 0;
  for (const Specs& bucket : buckets) {
    least = std::min(least, bucket.size());
    most = std::max(most, bucket.size());
  }
  const std::size_t group_size = std::max<std::size_t>(1, 2 * most < 3 * least ? most : least);
  Grouping grouping;
  for (const Specs& bucket : buckets) {
    const std::size_t rest = bucket.size() % group_size;
    if (rest != 0) {
      const std::size_t padding = group_size - rest;
      const double percent =
          static_cast<double>(padding) / static_cast<double>(bucket.size()) * 100;
      grouping.warnings.push_back(fmt::format(
          "Add {} padding layers, may waste at most {:.2f}% KV cache memory", padding, percent));
    }
    const std::size_t count = ceil_div(bucket.size(), group_size);
    for (std::size_t i = 0; i < count; ++i) {
      grouping.groups.push_back({strided(bucket, i, count), false});
    }
  }
  return grouping;
}

std::map<std::uint64_t, Specs> by_page_size(const Specs& layers) {
  std::map<std::uint64_t, Specs> sizes;
  for (const LayerSpec& spec : layers) sizes[page_bytes(spec)].push_back(spec);
  return sizes;
}

// The number of tuples per group that pads least when each count is rounded up to a multiple of it;
// of equals the largest. Not below the first count.
std::uint64_t tuples_per_group(const std::vector<std::uint64_t>& counts) {
  const std::uint64_t most = *std::max_element(counts.begin(), counts.end());
  std::uint64_t best = counts.front();
  std::uint64_t best_padding = UINT64_MAX;
  for (std::uint64_t tuples = counts.front(); tuples <= most; ++tuples) {
    std::uint64_t padding = 0;
    for (const std::uint64_t count : counts) padding += round_up(count, tuples) - count;
    if (padding <= best_padding) {
      best_padding = padding;
      best = tuples;
    }
  }
  return best;
}

// Rows of one block and window, one of each page size to a tuple, tuples dealt out.
std::vector<SpecGroup> split_windows(const Specs& layers, std::uint64_t tuples) {
  const auto sizes = by_page_size(layers);
  const std::size_t count = sizes.begin()->second.size();
  const std::size_t parts = ceil_div(count, tuples);
  std::vector<SpecGroup> groups(parts);
  for (std::size_t part = 0; part < parts; ++part) {
    groups[part].uniform_type = true;
    for (const auto& [size, specs] : sizes) {
      const Specs share = strided(specs, part, parts);
      groups[part].layers.insert(groups[part].layers.end(), share.begin(), share.end());
    }
  }
  return groups;
}

// DeepSeek-V4: the entries that grow in group 0, then windows by block and length.
Result<Grouping> group_compressed(const Specs& specs) {
  Grouping grouping;
  grouping.groups.push_back({{}, true});
  std::vector<Specs> windows;  // in order of first appearance
  for (const LayerSpec& spec : specs) {
    if (spec.kind == SpecKind::kLatent) {
      grouping.groups.front().layers.push_back(spec);
      continue;
    }
    const auto same = std::find_if(windows.begin(), windows.end(), [&spec](const Specs& group) {
      return group.front().block_tokens == spec.block_tokens &&
             group.front().window_tokens == spec.window_tokens;
    });
    if (same == windows.end()) {
      windows.push_back({spec});
    } else {
      same->push_back(spec);
    }
  }
  if (grouping.groups.front().layers.empty()) {
    return refuse(PeerEngine::kVllm, ErrorCode::Invalid,
                  "no layer keeps compressed entries; allowed: at least one (AssertionError)");
  }
  std::vector<std::uint64_t> counts = {layer_tuples(grouping.groups.front().layers)};
  for (const Specs& group : windows) counts.push_back(layer_tuples(group));
  const std::uint64_t tuples = tuples_per_group(counts);
  for (const Specs& group : windows) {
    for (SpecGroup& part : split_windows(group, tuples)) grouping.groups.push_back(std::move(part));
  }
  return grouping;
}

bool has_several_page_sizes(const Specs& specs) {
  return by_page_size(specs).size() > 1;
}

}  // namespace

std::uint64_t layer_tuples(const std::vector<LayerSpec>& layers) {
  std::uint64_t most = 0;
  for (const auto& [size, specs] : by_page_size(layers)) {
    most = std::max<std::uint64_t>(most, specs.size());
  }
  return most;
}

Result<Grouping> group_specs(std::vector<LayerSpec> specs, bool hybrid_manager) {
  if (!hybrid_manager && !promote(&specs)) {
    return refuse(PeerEngine::kVllm, ErrorCode::Invalid,
                  "the hybrid cache manager is off, and the layers do not come to one type of "
                  "cache; allowed: the manager on");
  }
  Grouping grouping;
  if (is_one_spec(specs) || is_one_type(specs)) {
    const bool several = !is_one_spec(specs);
    grouping.groups.push_back({std::move(specs), several});
    return grouping;
  }
  if (has_kind(specs, SpecKind::kWindowLatent) && has_several_page_sizes(specs)) {
    return group_compressed(specs);
  }
  Specs equal = specs;
  if (const auto ok = make_pages_equal(&equal); !ok) {
    if (auto fallback = full_allocation(std::move(specs))) return std::move(*fallback);
    return propagate(ok);
  }
  return deal_out(equal);
}

}  // namespace emblema
