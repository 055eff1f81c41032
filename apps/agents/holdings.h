// Who holds which rows: read from the spans of live sequences, not from any counter.
#pragma once

#include <cstdint>
#include <vector>

#include "apps/agents/workload.h"
#include "emblema/session/engine.h"

namespace emblema::agents {

// A live sequence and where its parts lie, in tokens from its start.
struct LiveSequence {
  const Sequence* sequence = nullptr;
  std::uint64_t preamble_tokens = 0;
  std::uint64_t document_tokens = 0;
  std::uint64_t question_tokens = 0;
};

// Rows of the first growing group, each counted once however many sequences see it.
struct Holdings {
  std::uint64_t preamble_rows = 0;
  std::uint64_t document_rows = 0;
  std::uint64_t question_rows = 0;
  std::uint64_t answer_rows = 0;

  // How many different sets of blocks hold the document: per sequence the blocks that hold nothing
  // else (where there are none, those that hold any of it), counted once when they are the same.
  std::uint64_t document_copies = 0;
};

Holdings measure_holdings(const Engine& engine, const std::vector<LiveSequence>& sequences);

}  // namespace emblema::agents
