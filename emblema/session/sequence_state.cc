#include "emblema/session/sequence_state.h"

#include <algorithm>
#include <utility>

#include "emblema/contract/canary.h"
#include "emblema/contract/check.h"

namespace emblema {

// Opens the sequence's last part with what was found of it.
void Sequence::State::begin_part(std::uint64_t position, ChainMatch found) {
  Part part{false, position, found.tokens, {}};
  tips.clear();
  for (std::uint32_t g = 0; g < group_count(); ++g) {
    ChainMatch::Group& group = found.groups[g];
    part.runs.push_back({.first_block = group.first_block,
                         .sealed = std::move(group.blocks),
                         .open = {},
                         .indexes = {}});
  }
  for (ChainMatch::Group& group : found.groups) tips.push_back(std::move(group.tip));
  parts.push_back(std::move(part));
  part_tokens.assign(expected.begin(),
                     expected.begin() + static_cast<std::ptrdiff_t>(found.tokens));
}

std::vector<ExtraId> Sequence::State::extras_within(std::uint64_t first,
                                                    std::uint64_t count) const {
  std::vector<ExtraId> within;
  for (const ExtraId& extra : extras) {
    if (extra.offset >= first && extra.offset - first < count) {
      within.push_back({extra.offset - first, extra.digest});
    }
  }
  return within;
}

// Ends writing into the partly filled last block of each group. It stays unindexed.
void Sequence::State::seal_tail() {
  for (std::uint32_t g = 0; g < group_count(); ++g) {
    GroupRun& run = tail().runs[g];
    if (run.open.empty()) continue;
    const std::uint64_t filled = tail().tokens % block_tokens(g);
    EMBLEMA_CHECK(run.open.size() == 1 && filled > 0, "nothing is reserved behind the tail");
    run.sealed.push_back(core->blocks->seal(std::move(run.open.front()), filled));
    run.open.clear();
  }
  rebuild_spans();
}

void Sequence::State::seal_full_blocks() {
  for (std::uint32_t g = 0; g < group_count(); ++g) {
    GroupRun& run = tail().runs[g];
    const std::uint64_t size = block_tokens(g);
    std::size_t full = 0;
    for (;; ++full) {
      const std::uint64_t block = run.first_block + run.sealed.size();
      if ((block + 1) * size > tail().tokens) break;
      SealedBlock sealed = core->blocks->seal(std::move(run.open[full]), size);
      auto published =
          core->blocks->publish(std::move(sealed), tips[g],
                                std::span<const TokenId>(part_tokens).subspan(block * size, size),
                                extras_within(block * size, size));
      run.sealed.push_back(std::move(published.block));
      tips[g] = std::move(published.tip);
    }
    run.open.erase(run.open.begin(), run.open.begin() + static_cast<std::ptrdiff_t>(full));
  }
}

// A block whose last row no later query sees is given back; of draft tokens that truncate() may
// take back, what their place would see stays.
void Sequence::State::release_behind_windows() {
  const std::uint64_t kept = committed() - std::min(committed(), core->options.draft_tokens_max);
  for (std::uint32_t g = 0; g < group_count(); ++g) {
    const BlockLayout& layout = core->layout.groups[g];
    if (layout.retention == Retention::kGrowing) continue;
    const std::uint64_t visible_from =
        layout.visible_from(kept) + (EMBLEMA_CANARY(kWindowEdge) ? 1 : 0);
    for (Part& part : parts) {
      GroupRun& run = part.runs[g];
      std::size_t behind = 0;
      while (behind < run.sealed.size() &&
             part.position + (run.first_block + behind + 1) * layout.block_tokens <= visible_from) {
        ++behind;
      }
      run.first_block += behind;
      run.sealed.erase(run.sealed.begin(),
                       run.sealed.begin() + static_cast<std::ptrdiff_t>(behind));
    }
  }
}

std::uint64_t Sequence::State::readable_from(std::uint32_t group, std::uint64_t first,
                                             std::uint64_t queries) const {
  const BlockLayout& layout = core->layout.groups[group];
  if (layout.retention == Retention::kGrowing) return first;
  std::uint64_t from = first;
  for (const Part& part : parts) {
    // Rows [part.position, gone) were released, or never held.
    const std::uint64_t released = part.runs[group].first_block * layout.block_tokens;
    const std::uint64_t gone = part.position + std::min(part.tokens, released);
    const bool before_them = first + queries <= part.position;
    if (gone == part.position || before_them) continue;
    if (layout.retention == Retention::kChunk) {
      if (layout.visible_from(from) < gone) from = round_up(gone, layout.window_tokens);
    } else {
      from = std::max(from, gone + layout.window_tokens - 1);
    }
  }
  return from;
}

// Moves holds from blocks that were replaced by equal ones (deferred sharing). The spans move with
// them at once: the blocks left behind may be somebody else's from now on.
void Sequence::State::follow_forwards() {
  const std::uint64_t epoch = core->blocks->forward_epoch();
  if (epoch == forward_epoch) return;
  forward_epoch = epoch;
  bool moved = false;
  for (Part& part : parts) {
    for (GroupRun& run : part.runs) {
      for (SealedBlock& block : run.sealed) moved = core->blocks->refresh(block) || moved;
    }
  }
  if (moved) rebuild_spans();
}

void Sequence::State::rebuild_spans() {
  charge.settle(held_bytes());
  spans.resize(group_count());
  for (std::uint32_t g = 0; g < group_count(); ++g) {
    spans[g].clear();
    for (Part& part : parts) {
      GroupRun& run = part.runs[g];
      run.indexes.clear();
      for (const SealedBlock& block : run.sealed) run.indexes.push_back(block.id().index);
      for (const OpenBlock& block : run.open) run.indexes.push_back(block.id().index);
    }
    for (const Part& part : parts) {
      const GroupRun& run = part.runs[g];
      const std::uint64_t skipped = run.first_block * block_tokens(g);
      const bool grows = &part == &tail() && replay.count == 0;
      const std::uint64_t rows = part.tokens + (grows ? reserved : 0);
      if (rows <= skipped) continue;
      spans[g].push_back({.blocks = run.indexes,
                          .first_row = 0,
                          .rows = rows - skipped,
                          .position = part.stored_position() + static_cast<std::int64_t>(skipped),
                          .delta = part.delta()});
    }
  }
}

}  // namespace emblema
