#include "apps/cli/nearest_name.h"

#include <algorithm>
#include <vector>

namespace emblema {
namespace {

constexpr std::size_t kLongestName = 64;  // the work is the product of two lengths

// Insertions, deletions, replacements and swaps of neighbours, each one edit.
std::size_t edit_count(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> edits(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) edits[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) edits[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = edits[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      edits[i][j] = std::min({replaced, edits[i - 1][j] + 1, edits[i][j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        edits[i][j] = std::min(edits[i][j], edits[i - 2][j - 2] + 1);
      }
    }
  }
  return edits[a.size()][b.size()];
}

}  // namespace

std::string nearest_name(std::string_view typed, std::span<const std::string> known) {
  if (typed.size() > kLongestName) return {};
  std::size_t fewest = typed.size() / 3 + 1;  // more than that is another word
  std::string nearest;
  for (const std::string& name : known) {
    const std::size_t edits = edit_count(typed, name);
    if (edits > fewest || (edits == fewest && !nearest.empty())) continue;
    fewest = edits;
    nearest = name;
  }
  return nearest;
}

}  // namespace emblema
