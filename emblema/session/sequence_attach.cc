// Putting a segment behind a sequence's tokens.
#include <utility>

#include <fmt/format.h>

#include "emblema/session/engine_core.h"
#include "emblema/session/sequence_state.h"

namespace emblema {

Status Sequence::State::check_attach(const Segment& segment) const {
  if (Status ok = check_idle("attach"); !ok) return ok;
  if (tail().tokens < expected.size()) {
    return fail(
        ErrorCode::Invalid,
        fmt::format("attach with {} tokens of the prompt not run yet; commit them first, or "
                    "start with those before the segment",
                    expected.size() - tail().tokens));
  }
  if (segment.core_ != core) {
    return fail(ErrorCode::Invalid,
                "attach of another engine's segment; allowed: one that this engine gave");
  }
  if (segment.content().identity != identity) {
    return fail(ErrorCode::Invalid,
                fmt::format("attach of a segment of tenant '{}' to a sequence of tenant '{}'; "
                            "allowed: one identity (tenant, salt, adapter, weights, geometry)",
                            segment.content().identity.tenant, identity.tenant));
  }
  if (!core->relocatable && committed() > 0) {
    return fail(ErrorCode::Unsupported,
                "attach at another position: this model's rotary frequencies depend on the length");
  }
  if (core->chunk_tokens > 0 && committed() % core->chunk_tokens != 0) {
    return fail(ErrorCode::Invalid,
                fmt::format("attach at position {}; allowed: multiples of {}, where chunks of this "
                            "model begin",
                            committed(), core->chunk_tokens));
  }
  return {};
}

// The segment becomes the last part, the part before it remembers how to become so again.
void Sequence::State::push_segment(const Segment& segment, const std::vector<Tip>& behind) {
  Part attached{
      .is_segment = true, .position = committed(), .tokens = segment.tokens(), .runs = {}};
  for (const Tip& tip : behind) attached.tips.push_back(tip.share());
  for (const Segment::Run& run : segment.runs_) {
    GroupRun copy{.first_block = run.first_block, .sealed = {}, .open = {}, .indexes = {}};
    for (const SealedBlock& block : run.blocks) copy.sealed.push_back(block.share());
    attached.runs.push_back(std::move(copy));
  }
  tail().tips = std::move(tips);
  tail().token_ids = std::move(part_tokens);
  tail().extras = std::move(extras);
  if (tail().tokens == 0) parts.pop_back();
  parts.push_back(std::move(attached));
}

Result<std::uint64_t> Sequence::attach(const Segment& segment, std::span<const TokenId> following) {
  State& s = live();
  if (Status ok = s.check_attach(segment); !ok) return propagate(ok);
  BlockManager::LinkRequest link{.segment = segment.content_,
                                 .delta = static_cast<std::int64_t>(s.committed()),
                                 .tail = {},
                                 .tail_extras = {}};
  for (std::uint32_t g = 0; g < s.group_count(); ++g) {
    const std::uint64_t linked = s.tail().tokens / s.block_tokens(g) * s.block_tokens(g);
    link.tail.push_back(std::span<const TokenId>(s.part_tokens).subspan(linked));
    link.tail_extras.push_back(s.extras_within(linked, s.tail().tokens - linked));
  }
  std::vector<Tip> tips = s.core->blocks->link(s.tips, link);
  const std::uint64_t limit = following.empty() ? 0 : following.size() - 1;
  std::vector<std::uint64_t> segment_blocks;
  for (const Segment::Run& run : segment.runs_) segment_blocks.push_back(run.blocks.size());
  auto room = s.admit_attach(segment_blocks, tips, following, limit);
  if (!room) return propagate(room);

  s.seal_tail();
  const std::uint64_t position = s.committed() + segment.tokens();
  s.push_segment(segment, tips);
  ChainMatch found = s.core->blocks->match_behind(tips, following, {}, limit);
  const std::uint64_t hit = found.tokens;
  s.expected.assign(following.begin(), following.end());
  s.extras.clear();
  s.forward_epoch = 0;  // the segment's blocks may have been replaced long ago
  s.begin_part(position, std::move(found));
  s.release_behind_windows();
  s.charge.absorb(std::move(*room));
  s.rebuild_spans();
  return hit;
}

}  // namespace emblema
