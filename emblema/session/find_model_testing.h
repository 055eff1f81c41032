// An independent model of what a cache may find: no tree, no blocks, only sets of words that stand
// for whole contexts. A context's word covers the identity, every token before it, attached
// segments and where they were attached.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "emblema/contract/ids.h"
#include "emblema/session/session_testing.h"

namespace emblema::session_testing {

class FindModel {
 public:
  // Counted in boundaries of a chain: at least `low`, at most `high` must be found.
  struct Bounds {
    std::size_t low = 0;
    std::size_t high = 0;
  };

  // A whole block (or a segment's end) was stored under this context, and is there now.
  void stored(std::uint64_t word) {
    ever_.insert(word);
    present_.insert(word);
  }
  // Eviction may have taken anything but what `still_held` names.
  void evicted(const std::vector<std::uint64_t>& still_held) {
    present_.clear();
    present_.insert(still_held.begin(), still_held.end());
  }
  void seen(std::uint64_t word) { present_.insert(word); }
  bool was_ever_stored(std::uint64_t word) const { return ever_.contains(word); }

  // `boundaries`: the words of a chain's boundaries, in order. What was never stored cannot be
  // found, nor anything behind it; what is there must be found, and all before it with it.
  Bounds bounds(std::span<const std::uint64_t> boundaries) const {
    Bounds bounds;
    while (bounds.high < boundaries.size() && ever_.contains(boundaries[bounds.high])) {
      ++bounds.high;
    }
    for (std::size_t i = 0; i < bounds.high; ++i) {
      if (present_.contains(boundaries[i])) bounds.low = i + 1;
    }
    return bounds;
  }

 private:
  std::unordered_set<std::uint64_t> ever_;
  std::unordered_set<std::uint64_t> present_;
};

// Words of a chain: [i] is the context behind i tokens.
inline std::vector<std::uint64_t> words_of(std::uint64_t start, std::span<const TokenId> tokens) {
  std::vector<std::uint64_t> words = {start};
  for (const TokenId token : tokens) words.push_back(after_token(words.back(), token));
  return words;
}

// Of these, the whole blocks within the first `limit` tokens.
inline std::vector<std::uint64_t> boundaries_of(std::span<const std::uint64_t> words,
                                                std::uint64_t limit) {
  std::vector<std::uint64_t> boundaries;
  for (std::uint64_t at = kBlock; at <= limit; at += kBlock) boundaries.push_back(words[at]);
  return boundaries;
}

}  // namespace emblema::session_testing
