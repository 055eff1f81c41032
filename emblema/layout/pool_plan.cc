#include "emblema/layout/pool_plan.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "emblema/contract/bytes.h"

namespace emblema {
namespace {

using Wide = unsigned __int128;  // products of two sizes that are compared or divided

// The largest value in [low, high] for which `holds` is true, or nullopt. REQUIRES: `holds` is true
// up to some value and false from there on.
template <class Predicate>
std::optional<std::uint64_t> last_that_holds(std::uint64_t low, std::uint64_t high,
                                             Predicate holds) {
  if (!holds(low)) return std::nullopt;
  while (low < high) {
    const std::uint64_t middle = low + (high - low + 1) / 2;
    if (holds(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

class Division {
 public:
  Division(const ModelLayout& layout, std::uint64_t pool_bytes, const PoolPlanOptions& options)
      : layout_(layout), pool_bytes_(pool_bytes), options_(options) {}

  Result<PoolPlan> run() {
    if (const auto ok = check_options(); !ok) return propagate(ok);
    auto arena = layout_.arena.with_drafts(options_.draft_tokens_max);
    if (!arena) return propagate(arena);
    arena_ = std::move(*arena);
    if (const auto ok = take_fixed_parts(); !ok) return propagate(ok);
    if (const auto ok = choose_sequence_tokens(); !ok) return propagate(ok);
    divide();
    count_what_fits();
    return plan_;
  }

 private:
  Status check_options() const {
    if (options_.max_sequences == 0) {
      return fail(ErrorCode::Invalid, "max_sequences is 0; allowed: at least 1");
    }
    if (options_.step_tokens == 0) {
      return fail(ErrorCode::Invalid, "step_tokens is 0; allowed: at least 1");
    }
    if (options_.steps_max == 0) {
      return fail(ErrorCode::Invalid, "steps_max is 0; allowed: at least 1");
    }
    if (options_.sequence_tokens > kSequenceTokensMax) {
      return fail(ErrorCode::Invalid, fmt::format("sequence_tokens is {}; allowed: at most {}",
                                                  options_.sequence_tokens, kSequenceTokensMax));
    }
    return {};
  }

  // Snapshots, step buffers and slots; what remains is the groups', one block each at least.
  Status take_fixed_parts() {
    const bool has_arena = arena_.slot_bytes > 0;
    constexpr std::string_view kWhat = "bytes of the smallest pool";
    std::uint64_t step_buffers = 0;
    if (has_arena) {
      const auto bytes =
          mul_bytes(options_.steps_max, arena_.step_bytes(options_.step_tokens), kWhat);
      if (!bytes) return propagate(bytes);
      step_buffers = *bytes;
    }
    std::uint64_t needed = options_.snapshot_bytes;
    for (const std::uint64_t part : {step_buffers, arena_.slot_bytes}) {
      const auto sum = add_bytes(needed, part, kWhat);
      if (!sum) return propagate(sum);
      needed = *sum;
    }
    for (const BlockLayout& group : layout_.groups) {
      const auto sum = add_bytes(needed, group.block_bytes, kWhat);
      if (!sum) return propagate(sum);
      needed = *sum;
    }
    if (needed > pool_bytes_) return too_small(needed, has_arena);
    if (has_arena) {
      const std::uint64_t more = (pool_bytes_ - needed) / arena_.slot_bytes;
      plan_.arena_slots = 1 + std::min(options_.max_sequences - 1, more);
      plan_.arena_bytes = step_buffers + plan_.arena_slots * arena_.slot_bytes;
    }
    plan_.snapshot_bytes = options_.snapshot_bytes;
    if (layout_.snapshot && layout_.snapshot->block_bytes > 0) {
      plan_.snapshots = options_.snapshot_bytes / layout_.snapshot->block_bytes;
    }
    for_groups_ = pool_bytes_ - plan_.arena_bytes - plan_.snapshot_bytes;
    return {};
  }

  Status too_small(std::uint64_t needed, bool has_arena) const {
    std::string parts = "one block per group";
    if (has_arena) parts += ", one slot and the step buffers";
    if (options_.snapshot_bytes > 0) {
      parts += fmt::format(" and {} B of snapshots", options_.snapshot_bytes);
    }
    return fail(ErrorCode::OutOfBlocks,
                fmt::format("pool_bytes is {}; allowed: at least {}, which holds {}", pool_bytes_,
                            needed, parts));
  }

  // Bytes of the blocks that one sequence takes at its peak.
  std::optional<std::uint64_t> peak_bytes(std::uint64_t tokens) const {
    std::uint64_t sum = 0;
    for (const BlockLayout& group : layout_.groups) {
      const auto bytes = checked_mul(peak_blocks(group, tokens), group.block_bytes);
      const auto next = bytes ? checked_add(sum, *bytes) : std::nullopt;
      if (!next) return std::nullopt;
      sum = *next;
    }
    return sum;
  }

  std::uint64_t longest_allowed() const {
    if (options_.max_positions == 0) return kSequenceTokensMax;
    return std::min(options_.max_positions, kSequenceTokensMax);
  }

  Status choose_sequence_tokens() {
    plan_.sequence_tokens = options_.sequence_tokens;
    if (plan_.sequence_tokens == 0) {
      const auto fits = [this](std::uint64_t tokens) {
        const auto bytes = peak_bytes(tokens);
        return bytes && *bytes <= for_groups_;
      };
      // One token fits: it needs one block per group.
      plan_.sequence_tokens = last_that_holds(1, longest_allowed(), fits).value_or(1);
    }
    const auto bytes = peak_bytes(plan_.sequence_tokens);
    if (!bytes) {
      return fail(ErrorCode::Invalid,
                  fmt::format("sequence_tokens is {}; its blocks do not fit 64 bits of bytes",
                              plan_.sequence_tokens));
    }
    for (const BlockLayout& group : layout_.groups) {
      needs_.push_back(need_of(group, plan_.sequence_tokens));
      plan_.groups.push_back({0, group.block_bytes, group.block_tokens});
    }
    return {};
  }

  // Sequences of `sequence_tokens` that the bytes hold, `steps_max` of them in a step of
  // `step_tokens`, the others at rest or adding a token.
  std::uint64_t whole_sequences() const {
    const Wide stepping = Wide{options_.steps_max} * bytes_of(&Need::peak);
    const std::uint64_t bytes = for_groups_;
    if (stepping >= bytes) return static_cast<std::uint64_t>(bytes / bytes_of(&Need::peak));
    const Wide more = (bytes - stepping) / bytes_of(&Need::rest);
    return static_cast<std::uint64_t>(options_.steps_max + more);
  }

  // As many whole sequences as fit. Then, of what is left: windows for further, shorter sequences,
  // up to max_sequences; and growing blocks, short of one more sequence's where windows bound it
  // too, so that neither is scarce before the other.
  void divide() {
    const std::uint64_t sequences = plan_.groups.empty() ? 0 : whole_sequences();
    if (sequences == 0) {
      divide_by_need();
      give_leftover();
      return;
    }
    const std::uint64_t stepping = std::min(sequences, options_.steps_max);
    std::uint64_t left = for_groups_;
    for (std::size_t i = 0; i < plan_.groups.size(); ++i) {
      const Need& need = needs_[i];
      plan_.groups[i].blocks = (sequences - stepping) * need.rest + stepping * need.peak;
      left -= plan_.groups[i].blocks * plan_.groups[i].block_bytes;
    }
    const std::uint64_t further =
        options_.max_sequences > sequences ? options_.max_sequences - sequences : 0;
    left = give_windows(further, left);
    left = give_growing(left);
    left = share_among_windows(left);
    plan_.used_bytes = pool_bytes_ - left;
  }

  bool is_growing(std::size_t group) const {
    return layout_.groups[group].retention == Retention::kGrowing;
  }

  // One more sequence's window and chunk blocks at rest, in bytes.
  Wide window_bytes() const {
    Wide sum = 0;
    for (std::size_t i = 0; i < needs_.size(); ++i) {
      if (!is_growing(i)) sum += Wide{needs_[i].rest} * plan_.groups[i].block_bytes;
    }
    return sum;
  }

  std::uint64_t give_windows(std::uint64_t sequences, std::uint64_t left) {
    const Wide bytes = window_bytes();
    if (bytes == 0) return left;
    const auto fit = static_cast<std::uint64_t>(std::min<Wide>(sequences, left / bytes));
    for (std::size_t i = 0; i < needs_.size(); ++i) {
      if (!is_growing(i)) plan_.groups[i].blocks += fit * needs_[i].rest;
    }
    return left - static_cast<std::uint64_t>(fit * bytes);
  }

  std::uint64_t give_growing(std::uint64_t left) {
    const bool alone = window_bytes() == 0;
    for (std::size_t i = 0; i < needs_.size(); ++i) {
      if (!is_growing(i)) continue;
      PoolPlan::Group& group = plan_.groups[i];
      const std::uint64_t fit = left / group.block_bytes;
      const std::uint64_t more = alone ? fit : std::min(fit, needs_[i].rest - 1);
      group.blocks += more;
      left -= more * group.block_bytes;
    }
    return left;
  }

  std::uint64_t share_among_windows(std::uint64_t left) {
    const Wide bytes = window_bytes();
    if (bytes == 0) return left;
    const std::uint64_t whole = left;
    for (std::size_t i = 0; i < needs_.size(); ++i) {
      if (is_growing(i)) continue;
      PoolPlan::Group& group = plan_.groups[i];
      const auto share = static_cast<std::uint64_t>(Wide{whole} * needs_[i].rest / bytes);
      group.blocks += share;
      left -= share * group.block_bytes;
    }
    for (std::size_t i = 0; i < needs_.size(); ++i) {  // rounding left less than a block of each
      if (is_growing(i) || plan_.groups[i].block_bytes > left) continue;
      ++plan_.groups[i].blocks;
      left -= plan_.groups[i].block_bytes;
    }
    return left;
  }

  // Not one whole sequence fits: in proportion to its need. A group whose share is less than a
  // block gets one block, and the others share the rest, until no group is short.
  void divide_by_need() {
    std::vector<bool> has_minimum(plan_.groups.size(), false);
    for (bool again = true; again;) {
      again = false;
      std::uint64_t rest_bytes = for_groups_;
      Wide need_bytes = 0;
      for (std::size_t i = 0; i < plan_.groups.size(); ++i) {
        if (has_minimum[i]) {
          rest_bytes -= plan_.groups[i].block_bytes;
        } else {
          need_bytes += Wide{needs_[i].peak} * plan_.groups[i].block_bytes;
        }
      }
      for (std::size_t i = 0; i < plan_.groups.size(); ++i) {
        if (has_minimum[i]) continue;
        plan_.groups[i].blocks =
            static_cast<std::uint64_t>(Wide{rest_bytes} * needs_[i].peak / need_bytes);
        if (plan_.groups[i].blocks > 0) continue;
        plan_.groups[i].blocks = 1;
        has_minimum[i] = true;
        again = true;
      }
    }
  }

  // Rounding down took less than a block from each group. The scarcest has not more than its
  // share, so this ends after one block per group at the latest.
  void give_leftover() {
    std::uint64_t left_bytes = for_groups_;
    for (const PoolPlan::Group& group : plan_.groups)
      left_bytes -= group.blocks * group.block_bytes;
    while (!plan_.groups.empty()) {
      std::size_t scarcest = 0;
      for (std::size_t i = 1; i < plan_.groups.size(); ++i) {
        const Wide here = Wide{plan_.groups[i].blocks} * needs_[scarcest].peak;
        const Wide there = Wide{plan_.groups[scarcest].blocks} * needs_[i].peak;
        if (here < there) scarcest = i;
      }
      if (plan_.groups[scarcest].block_bytes > left_bytes) break;
      left_bytes -= plan_.groups[scarcest].block_bytes;
      ++plan_.groups[scarcest].blocks;
    }
    plan_.used_bytes = pool_bytes_ - left_bytes;
  }

  void count_what_fits() {
    const std::uint64_t slots = arena_.slot_bytes > 0 ? plan_.arena_slots : UINT64_MAX;
    plan_.sequences = slots;
    plan_.tokens = UINT64_MAX;
    for (std::size_t i = 0; i < plan_.groups.size(); ++i) {
      plan_.sequences = std::min(plan_.sequences, sequences_in(i));
      plan_.tokens = std::min(plan_.tokens, tokens_in(layout_.groups[i], plan_.groups[i].blocks));
    }
    if (plan_.tokens == UINT64_MAX) plan_.tokens = longest_allowed();
  }

  // Sequences that run to their end in steps, `steps_max` at a time, and then stay.
  std::uint64_t sequences_in(std::size_t group) const {
    const std::uint64_t blocks = plan_.groups[group].blocks;
    const Need& need = needs_[group];
    if (blocks / options_.steps_max < need.on_the_way) return blocks / need.on_the_way;
    // Behind the end of a chunk nothing is left: such a group refuses nobody, others do. Where no
    // group is left with anything, count what each sequence needs for one more token.
    if (need.behind == 0 && !leaves_nothing()) return UINT64_MAX;
    const std::uint64_t behind = need.behind > 0 ? need.behind : need.rest;
    return options_.steps_max + (blocks - options_.steps_max * need.on_the_way) / behind;
  }

  bool leaves_nothing() const {
    return std::ranges::all_of(needs_, [](const Need& need) { return need.behind == 0; });
  }

  // Longest sequence that `blocks` blocks of a group hold; UINT64_MAX for a window or chunk that is
  // whole.
  std::uint64_t tokens_in(const BlockLayout& group, std::uint64_t blocks) const {
    const auto fits = [&](std::uint64_t tokens) { return peak_blocks(group, tokens) <= blocks; };
    if (group.retention != Retention::kGrowing) {
      if (fits(kSequenceTokensMax)) return UINT64_MAX;
      return last_that_holds(0, kSequenceTokensMax, fits).value_or(0);
    }
    return checked_mul(blocks, group.block_tokens).value_or(UINT64_MAX - 1);
  }

  // A window keeps the rows of draft tokens that may yet be taken back: as if steps were longer.
  std::uint64_t blocks_with(const BlockLayout& group, std::uint64_t tokens,
                            std::uint64_t step) const {
    const std::uint64_t drafts = options_.draft_tokens_max;
    return group.blocks_peak(tokens, checked_add(step, drafts).value_or(UINT64_MAX));
  }

  std::uint64_t peak_blocks(const BlockLayout& group, std::uint64_t tokens) const {
    return blocks_with(group, tokens, options_.step_tokens);
  }

  // Blocks of one sequence in a group.
  struct Need {
    std::uint64_t peak = 0;  // at most, in a step of step_tokens
    std::uint64_t rest = 0;  // at most, while a token is added
    // Of a sequence that runs from its first token to its last in steps of step_tokens.
    std::uint64_t on_the_way = 0;  // at most
    std::uint64_t behind = 0;      // once it is there
  };

  Need need_of(const BlockLayout& group, std::uint64_t tokens) const {
    const BlockLayout::Steps steps{options_.step_tokens, options_.draft_tokens_max};
    return {peak_blocks(group, tokens), blocks_with(group, tokens, 1),
            group.blocks_on_the_way(tokens, steps), group.blocks_behind(tokens, steps)};
  }

  // Over all groups.
  Wide bytes_of(std::uint64_t Need::*part) const {
    Wide sum = 0;
    for (std::size_t i = 0; i < needs_.size(); ++i) {
      sum += Wide{needs_[i].*part} * plan_.groups[i].block_bytes;
    }
    return sum;
  }

  const ModelLayout& layout_;
  const std::uint64_t pool_bytes_;
  const PoolPlanOptions& options_;
  ArenaLayout arena_;
  std::uint64_t for_groups_ = 0;
  std::vector<Need> needs_;  // of one sequence, per group
  PoolPlan plan_;
};

}  // namespace

std::uint64_t default_snapshot_bytes(const ModelLayout& layout, std::uint64_t pool_bytes) {
  return layout.snapshot ? pool_bytes / 8 : 0;
}

Result<PoolPlan> plan_pool(const ModelLayout& layout, std::uint64_t pool_bytes,
                           const PoolPlanOptions& options) {
  return Division(layout, pool_bytes, options).run();
}

}  // namespace emblema
