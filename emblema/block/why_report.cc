// The words of an answer.
#include <algorithm>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "emblema/block/why.h"
#include "emblema/contract/bytes.h"

namespace emblema {
namespace {

std::string ages(std::span<const BlockAnswer> run) {
  const auto [young, old] = std::ranges::minmax_element(run, {}, &BlockAnswer::age_uses);
  if (young->age_uses == old->age_uses) return format_count(young->age_uses);
  return fmt::format("{} to {}", format_count(young->age_uses), format_count(old->age_uses));
}

std::string tokens_of(std::span<const BlockAnswer> run) {
  const std::uint64_t first = run.front().first_token;
  const std::uint64_t last = run.back().first_token + run.back().tokens - 1;
  if (first == last) return fmt::format("token {}", format_count(first));
  return fmt::format("tokens {} to {}", format_count(first), format_count(last));
}

// Equal answers in a row, but for when they were evicted.
std::string in_words(std::span<const BlockAnswer> run) {
  const BlockAnswer& answer = run.front();
  const std::string where =
      answer.group.empty() ? "" : fmt::format(" (group '{}' lacks it)", answer.group);
  switch (answer.verdict) {
    case Verdict::kHit:
      return "hit: served from the cache";
    case Verdict::kNotWhole:
      return "computed always: a hit is whole blocks and at most all but one token";
    case Verdict::kNeverStored:
      return fmt::format("never stored{}", where);
    case Verdict::kEvicted:
      return fmt::format("evicted {} uses ago, {}{}; {}", ages(run), to_string(answer.reason),
                         where,
                         answer.reason == EvictionReason::kMemoryWanted
                             ? "a pin or a larger pool would have kept it"
                             : "evict_idle() was called");
    case Verdict::kOlderThanRecord:
      return fmt::format(
          "never stored, or evicted so long ago that the record of the last 65,536 "
          "evictions has lost it{}",
          where);
    case Verdict::kIdentityDiffers:
      return fmt::format("stored by this tenant under another identity; what differs: {}",
                         fmt::join(answer.fields, ", "));
    case Verdict::kAnotherTenant:
      return "another tenant";
  }
  return "";
}

bool same_answer(BlockAnswer a, const BlockAnswer& b) {
  a.first_token = b.first_token;
  a.tokens = b.tokens;
  a.evicted_tick = b.evicted_tick;
  a.age_uses = b.age_uses;
  return a == b;
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kHit:
      return "hit";
    case Verdict::kNotWhole:
      return "not whole";
    case Verdict::kNeverStored:
      return "never stored";
    case Verdict::kEvicted:
      return "evicted";
    case Verdict::kOlderThanRecord:
      return "older than the record";
    case Verdict::kIdentityDiffers:
      return "identity differs";
    case Verdict::kAnotherTenant:
      return "another tenant";
  }
  return "";
}

std::vector<std::string> WhyReport::describe() const {
  std::vector<std::string> lines = {
      fmt::format("{} of {} tokens are served (prefix hit), in blocks of {}",
                  format_count(hit_tokens), format_count(asked_tokens), boundary_tokens)};
  if (segment_tokens > 0) {
    lines.push_back("all of them are stored as a segment, which segment() finds and start() not");
  }
  for (std::size_t i = 0; i < blocks.size();) {
    std::size_t end = i + 1;
    while (end < blocks.size() && same_answer(blocks[i], blocks[end])) ++end;
    const auto run = std::span(blocks).subspan(i, end - i);
    lines.push_back(fmt::format("{}: {}", tokens_of(run), in_words(run)));
    i = end;
  }
  return lines;
}

}  // namespace emblema
