// What the agents read and write: one document, some preambles of ragged lengths, a question each,
// and two answers. Token ids are seeded or the bytes of a file; nothing here knows a model.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "emblema/contract/ids.h"
#include "emblema/contract/result.h"

namespace emblema::agents {

inline constexpr std::uint32_t kBranches = 2;      // answers per agent, by fork
inline constexpr std::uint32_t kPreamblesMax = 4;  // agents take one in turn

struct WorkloadOptions {
  std::uint32_t agents = 16;            // 1 to kAgentsMax
  std::uint64_t document_tokens = 512;  // 1 to kDocumentTokensMax
  std::vector<TokenId> document = {};   // given outright, wins over document_tokens
  std::uint32_t decode_tokens = 16;     // per answer, 1 to kDecodeTokensMax
  std::uint64_t seed = 1;
};

inline constexpr std::uint32_t kAgentsMax = 4096;
inline constexpr std::uint64_t kDocumentTokensMax = std::uint64_t{1} << 20;
inline constexpr std::uint32_t kDecodeTokensMax = 65'536;

struct Agent {
  std::uint32_t preamble = 0;  // index into Workload::preambles
  std::vector<TokenId> question;
  std::vector<std::vector<TokenId>> answers;  // kBranches of them
};

struct Workload {
  std::vector<std::vector<TokenId>> preambles;
  std::vector<TokenId> document;
  std::vector<Agent> agents;

  std::span<const TokenId> preamble_of(const Agent& agent) const {
    return preambles[agent.preamble];
  }
  // Preamble, document and question of an agent, as one prompt.
  std::vector<TokenId> prompt_of(const Agent& agent) const;
  // The longest sequence: prompt and answer of one agent.
  std::uint64_t longest_tokens() const;
  // Tokens of all agents, prompts and both answers, as if nothing were shared.
  std::uint64_t total_tokens() const;
};

// Invalid: an option out of its range (names it).
Result<Workload> make_workload(const WorkloadOptions& options);

}  // namespace emblema::agents
