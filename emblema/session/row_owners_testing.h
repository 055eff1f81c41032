// Whose row is it: what a test knows of the rows that were ever written, to name the owner of one
// that was read where it must not be. One thread at a time per object, so that keeping the list
// orders no threads and hides no race from ThreadSanitizer; they are searched together afterwards.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emblema/session/session_testing.h"

namespace emblema::session_testing {

class RowOwners {
 public:
  void wrote(std::string_view tenant, std::string_view text, std::span<const RowTruth> rows) {
    runs_.push_back({std::string(tenant), std::string(text), {rows.begin(), rows.end()}});
  }

  // "" where this list does not know the row that begins with `word`.
  std::string name(std::uint64_t word, std::uint32_t layers) const {
    for (const Run& run : runs_) {
      for (const RowTruth& row : run.rows) {
        for (std::uint32_t layer = 0; layer < layers; ++layer) {
          if (row_word(row, layer) == word) return describe(run, row, layer);
        }
      }
    }
    return "";
  }

 private:
  struct Run {
    std::string tenant;
    std::string text;
    std::vector<RowTruth> rows;
  };
  static std::string describe(const Run& run, const RowTruth& row, std::uint32_t layer) {
    return "tenant '" + run.tenant + "', " + run.text + ", context " + std::to_string(row.context) +
           ", stored at position " + std::to_string(row.stored) + ", layer " +
           std::to_string(layer);
  }
  std::vector<Run> runs_;
};

// The same over several lists.
inline std::string name_owner(std::span<const RowOwners* const> lists, std::uint64_t word,
                              std::uint32_t layers) {
  if (word == 0) return "nobody: it is empty";
  for (const RowOwners* list : lists) {
    std::string owner = list->name(word, layers);
    if (!owner.empty()) return owner;
  }
  return "nobody who is known";
}

}  // namespace emblema::session_testing
