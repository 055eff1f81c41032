#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "apps/cli/layout_output.h"
#include "emblema/contract/bytes.h"
#include "emblema/report/text.h"

namespace emblema {
namespace {

// Pages that are alike but for layer and offset.
struct PageRun {
  std::string shape;
  std::vector<const StreamPage*> pages;  // in order of offset
};

// "layer 3", "layers 0..26", "layers 1..35 step 2", "layers 0, 1, 5"; parts of equal step joined by
// commas.
std::string layers_in_words(const PageRun& run) {
  const auto& pages = run.pages;
  if (pages.size() == 1) return fmt::format("layer {}", pages.front()->layer);
  std::string text;
  for (std::size_t first = 0; first < pages.size();) {
    std::size_t last = first;
    std::uint32_t step = 0;
    if (first + 1 < pages.size()) {
      step = pages[first + 1]->layer - pages[first]->layer;
      while (last + 1 < pages.size() && pages[last + 1]->layer - pages[last]->layer == step) ++last;
    }
    text += text.empty() ? "layers " : ", ";
    const bool is_pair = last == first + 1 && step > 1;
    if (last == first || is_pair) {
      text += fmt::format("{}", pages[first]->layer);
      ++first;
      continue;
    }
    text += fmt::format("{}..{}", pages[first]->layer, pages[last]->layer);
    if (step > 1) text += fmt::format(" step {}", step);
    first = last + 1;
  }
  return text;
}

// "at 0", "at 0 and every 73,728 on", or where the first one is.
std::string offsets_in_words(const PageRun& run) {
  const auto& pages = run.pages;
  std::string text = fmt::format("at {}", format_count(pages.front()->offset_bytes));
  if (pages.size() == 1) return text;
  const std::uint64_t step = pages[1]->offset_bytes - pages[0]->offset_bytes;
  for (std::size_t i = 1; i < pages.size(); ++i) {
    if (pages[i]->offset_bytes - pages[i - 1]->offset_bytes != step) {
      return text + " first (--json has every offset)";
    }
  }
  return text + fmt::format(" and every {} on", format_count(step));
}

// "[0,1024) c_kv 512 x bf16, [1024,1152) k_rope 64 x bf16"; runs: "[2,34) k 32 x int8 and 31 more,
// every 34 B".
std::string regions_in_words(const StreamPage& page, std::size_t segment) {
  std::string text;
  for (const RowRegion& region : page.regions) {
    if (region.segment != segment) continue;
    const std::uint64_t run = region.run_elements == 0 ? region.elements : region.run_elements;
    const std::uint64_t end = region.offset_bytes + run * bits_per_element(region.encoding) / 8;
    text += fmt::format("{}[{},{}) {} {} x {}", text.empty() ? "" : ", ", region.offset_bytes, end,
                        region.name, run, to_string(region.encoding));
    if (run == 0 || region.elements <= run) continue;
    text +=
        fmt::format(" and {} more, every {} B", region.elements / run - 1, region.run_stride_bytes);
  }
  return text;
}

// Planar pages tell each segment on a line of its own: "from 36,864, 8 B a row: [0,7) ...".
std::string segments_in_words(const StreamPage& page) {
  if (page.segments.empty()) return regions_in_words(page, 0);
  std::string text;
  for (std::size_t i = 0; i < page.segments.size(); ++i) {
    text += fmt::format("{}\n      from {}, {} B a row: {}", i == 0 ? "planar" : "",
                        format_count(page.segments[i].offset_bytes), page.segments[i].row_bytes,
                        regions_in_words(page, i));
  }
  return text;
}

// "73,728 B page of 64 rows x 1,152 B: [0,1024) c_kv 512 x bf16, ..."
std::string shape_in_words(const StreamPage& page) {
  const std::uint64_t padding = page.page_bytes - page.rows * page.row_bytes;
  return fmt::format("{} B page of {} row{} x {} B{}: {}", format_count(page.page_bytes), page.rows,
                     page.rows == 1 ? "" : "s", format_count(page.row_bytes),
                     padding == 0 ? "" : fmt::format(" + {} B padding", padding),
                     segments_in_words(page));
}

std::vector<PageRun> runs_of(const BlockLayout& group) {
  std::vector<PageRun> runs;
  std::map<std::pair<StreamRole, std::string>, std::size_t> known;
  for (const StreamPage& page : group.pages) {
    std::string shape = shape_in_words(page);
    const auto [run, is_new] = known.emplace(std::pair(page.role, shape), runs.size());
    if (is_new) runs.push_back({std::move(shape), {}});
    runs[run->second].pages.push_back(&page);
  }
  return runs;
}

std::string group_lines(const BlockLayout& group) {
  std::string text =
      fmt::format("\ngroup '{}': block of {} tokens = {} pages = {} B\n", group.group_name,
                  group.block_tokens, group.pages.size(), format_count(group.block_bytes));
  for (const PageRun& run : runs_of(group)) {
    text += fmt::format("  {}: {} {}\n    {}\n", layers_in_words(run),
                        to_string(run.pages.front()->role), offsets_in_words(run), run.shape);
  }
  return text;
}

std::string arena_lines(const ModelGeometry& geometry, const ArenaLayout& arena) {
  if (arena.slot_bytes == 0) return {};
  std::string text = fmt::format("\narena: a slot of {} B for each sequence, {} B of it state\n",
                                 format_count(arena.slot_bytes), format_count(arena.state_bytes));
  // Rows of one kind and size, over all layers.
  struct Rows {
    const Stream* stream;
    std::uint64_t layers;
  };
  std::vector<Rows> kinds;
  for (const LayerGeometry& layer : geometry.layers()) {
    for (const Stream& stream : layer.streams) {
      if (stream.placement != Placement::kArena) continue;
      const auto same = std::find_if(kinds.begin(), kinds.end(), [&stream](const Rows& rows) {
        return rows.stream->role == stream.role && rows.stream->regions == stream.regions &&
               rows.stream->retention_tokens == stream.retention_tokens;
      });
      if (same == kinds.end()) {
        kinds.push_back({&stream, 1});
      } else {
        ++same->layers;
      }
    }
  }
  for (const Rows& rows : kinds) {
    std::string regions;
    for (const EntryRegion& region : rows.stream->regions) {
      regions += fmt::format("{}{} {} x {}", regions.empty() ? "" : ", ", region.name,
                             region.elements, to_string(region.encoding));
    }
    text +=
        fmt::format("  {} layer{}: {} of {} rows x {} B: {}\n", rows.layers,
                    rows.layers == 1 ? "" : "s", to_string(rows.stream->role),
                    rows.stream->retention_tokens, format_count(rows.stream->entry_bytes), regions);
  }
  return text;
}

}  // namespace

std::vector<PageSegment> segments_of(const StreamPage& page) {
  if (page.segments.empty()) return {{0, page.row_bytes}};
  return page.segments;
}

std::string layout_text(const ModelGeometry& geometry, const ModelLayout& layout) {
  std::string text =
      fmt::format("{}, kv dtype {}, profile {}: {}\n", clean_text(geometry.model().name),
                  to_string(geometry.options().kv_dtype), to_string(layout.profile),
                  geometry.attention_in_words());
  for (const BlockLayout& group : layout.groups) text += group_lines(group);
  text += arena_lines(geometry, layout.arena);
  if (!geometry.model().notes.empty()) text += "\n";
  for (const std::string& note : geometry.model().notes) {
    text += fmt::format("note: {}\n", clean_text(note));
  }
  return text;
}

}  // namespace emblema
