#include "apps/agents/holdings.h"

#include <algorithm>
#include <map>
#include <set>

namespace emblema::agents {
namespace {

enum class Owner : std::uint8_t { kNobody, kPreamble, kDocument, kQuestion, kAnswer };

Owner owner_of(const LiveSequence& live, std::uint64_t position) {
  if (position < live.preamble_tokens) return Owner::kPreamble;
  if (position < live.preamble_tokens + live.document_tokens) return Owner::kDocument;
  const std::uint64_t prompt = live.preamble_tokens + live.document_tokens + live.question_tokens;
  return position < prompt ? Owner::kQuestion : Owner::kAnswer;
}

std::uint32_t growing_group(const ModelLayout& layout) {
  for (std::uint32_t g = 0; g < layout.groups.size(); ++g) {
    if (layout.groups[g].retention == Retention::kGrowing) return g;
  }
  return 0;
}

// Which rows of which block a sequence sees as the document's, and whether as nothing else.
struct BlockUse {
  bool document = false;
  bool other = false;
};

}  // namespace

Holdings measure_holdings(const Engine& engine, const std::vector<LiveSequence>& sequences) {
  const std::uint32_t group = growing_group(engine.layout());
  const std::uint64_t block_tokens = engine.layout().groups[group].block_tokens;
  std::map<std::uint64_t, Owner> owners;  // block x block_tokens + row
  std::set<std::vector<std::uint32_t>> copies;
  for (const LiveSequence& live : sequences) {
    std::map<std::uint32_t, BlockUse> uses;
    std::vector<std::uint32_t> order;
    for (const Span& span : live.sequence->spans(group)) {
      for (std::uint64_t i = 0; i < span.rows; ++i) {
        const std::uint64_t row = span.first_row + i;
        const std::uint32_t block = span.blocks[row / block_tokens];
        const auto position = static_cast<std::uint64_t>(span.position + span.delta) + i;
        const Owner owner = owner_of(live, position);
        owners.emplace(block * block_tokens + row % block_tokens, owner);
        const auto [use, fresh] = uses.try_emplace(block);
        if (fresh) order.push_back(block);
        (owner == Owner::kDocument ? use->second.document : use->second.other) = true;
      }
    }
    std::vector<std::uint32_t> whole;
    std::vector<std::uint32_t> touched;
    for (const std::uint32_t block : order) {
      if (!uses[block].document) continue;
      touched.push_back(block);
      if (!uses[block].other) whole.push_back(block);
    }
    copies.insert(whole.empty() ? touched : whole);
  }
  Holdings holdings;
  holdings.document_copies = copies.size();
  for (const auto& [row, owner] : owners) {
    holdings.preamble_rows += owner == Owner::kPreamble ? 1 : 0;
    holdings.document_rows += owner == Owner::kDocument ? 1 : 0;
    holdings.question_rows += owner == Owner::kQuestion ? 1 : 0;
    holdings.answer_rows += owner == Owner::kAnswer ? 1 : 0;
  }
  return holdings;
}

}  // namespace emblema::agents
