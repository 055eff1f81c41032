// Quotas of sequences: what may be held, before anything is done. Bytes that do not fit 64 bits are
// the largest number, which no quota has room for.
#include "emblema/session/sequence_state.h"

namespace emblema {

std::uint64_t EngineCore::bytes_of(const std::vector<std::uint64_t>& counts) const {
  std::uint64_t bytes = 0;
  for (std::size_t g = 0; g < counts.size(); ++g) {
    const auto more = checked_mul(counts[g], layout.groups[g].block_bytes);
    const auto sum = more ? checked_add(bytes, *more) : std::nullopt;
    if (!sum) return UINT64_MAX;
    bytes = *sum;
  }
  return bytes;
}

std::uint64_t Sequence::State::held_bytes() const {
  std::vector<std::uint64_t> blocks(group_count(), 0);
  for (const Part& part : parts) {
    for (std::uint32_t g = 0; g < group_count(); ++g) {
      blocks[g] += part.runs[g].sealed.size() + part.runs[g].open.size();
    }
  }
  return core->bytes_of(blocks);
}

Status Sequence::State::admit_start(std::uint64_t limit) {
  charge = Charge(core->quotas.get(), identity.tenant);
  if (!charge.is_limited()) return {};
  return charge.grow(core->blocks->peek_bytes(identity, expected, extras, limit));
}

Status Sequence::State::admit_found() {
  const std::uint64_t held = held_bytes();
  return held > charge.bytes() ? charge.grow(held - charge.bytes()) : Status();
}

Result<Charge> Sequence::State::admit_attach(const std::vector<std::uint64_t>& segment_blocks,
                                             const std::vector<Tip>& behind,
                                             std::span<const TokenId> following,
                                             std::uint64_t limit) const {
  const std::uint64_t segment_bytes = core->bytes_of(segment_blocks);
  if (!charge.is_limited()) return charge.room(segment_bytes);
  const auto bytes =
      checked_add(segment_bytes, core->blocks->peek_bytes_behind(behind, following, {}, limit));
  return charge.room(bytes.value_or(UINT64_MAX));
}

}  // namespace emblema
