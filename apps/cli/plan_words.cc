#include "apps/cli/plan_words.h"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "emblema/contract/bytes.h"

namespace emblema {

std::string size_in_words(std::uint64_t bytes) {
  if (bytes < kKiB) return format_bytes(bytes);
  return fmt::format("{} ({} bytes)", format_bytes(bytes), format_count(bytes));
}

std::string pages_in_words(const GroupCapacity& group) {
  std::string text;
  for (const PageCapacity& size : group.page_sizes) {
    text += fmt::format("{}{} x {}", text.empty() ? "" : " + ", size.pages,
                        format_count(size.page_bytes));
  }
  return text;
}

std::string stream_in_words(const StreamCapacity& stream) {
  std::string text = fmt::format("{} {}", to_string(stream.role), format_count(stream.entry_bytes));
  if (stream.stride_tokens > 1) text += fmt::format(" / {} tokens", stream.stride_tokens);
  if (stream.retention == Retention::kFixed) {
    text += fmt::format(" x {} rows", format_count(stream.retention_tokens));
  }
  if (stream.placement == Placement::kArena) text += " (arena)";
  return text;
}

std::string streams_in_words(const LayerCapacity& layer) {
  if (layer.shares_with) return fmt::format("those of layer {}", *layer.shares_with);
  std::string text;
  for (const StreamCapacity& stream : layer.streams) {
    text += (text.empty() ? "" : ", ") + stream_in_words(stream);
  }
  return text;
}

Table groups_table(const RankCapacity& rank) {
  std::vector<Column> columns = {{"group"},
                                 {"block tokens", Align::kRight},
                                 {"pages x bytes", Align::kRight},
                                 {"block bytes", Align::kRight}};
  if (rank.pool) columns.push_back({"blocks in pool", Align::kRight});
  Table table(std::move(columns));
  for (std::size_t i = 0; i < rank.groups.size(); ++i) {
    const GroupCapacity& group = rank.groups[i];
    std::vector<Cell> row = {group.name, format_count(group.block_tokens), pages_in_words(group),
                             format_count(group.block_bytes)};
    if (rank.pool) row.emplace_back(format_count(rank.pool->groups[i].blocks));
    table.add_row(std::move(row));
  }
  return table;
}

}  // namespace emblema
