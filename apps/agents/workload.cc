#include "apps/agents/workload.h"

#include <algorithm>

#include <fmt/format.h>

#include "emblema/layer/seeded_values.h"

namespace emblema::agents {
namespace {

constexpr TokenId kVocabulary = 32'000;

std::vector<TokenId> seeded_tokens(std::uint64_t key, std::uint64_t count) {
  std::vector<TokenId> tokens(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    tokens[i] = static_cast<TokenId>(mix_bits(key + i) % kVocabulary);
  }
  return tokens;
}

Status check_range(const char* option, std::uint64_t value, std::uint64_t most) {
  if (value >= 1 && value <= most) return {};
  return fail(ErrorCode::Invalid, fmt::format("{} is {}; allowed: 1 to {}", option, value, most));
}

}  // namespace

Result<Workload> make_workload(const WorkloadOptions& options) {
  if (Status ok = check_range("agents", options.agents, kAgentsMax); !ok) return propagate(ok);
  const std::uint64_t document_tokens =
      options.document.empty() ? options.document_tokens : options.document.size();
  if (Status ok = check_range("document", document_tokens, kDocumentTokensMax); !ok) {
    return propagate(ok);
  }
  if (Status ok = check_range("decode", options.decode_tokens, kDecodeTokensMax); !ok) {
    return propagate(ok);
  }
  Workload workload;
  std::uint64_t stream = 0;
  const auto next_key = [&] { return value_key(options.seed, ++stream, 0); };
  const std::uint32_t preambles = std::min(kPreamblesMax, options.agents);
  for (std::uint32_t i = 0; i < preambles; ++i) {
    const std::uint64_t key = next_key();
    // Ragged on purpose: no length is a multiple of a block.
    const std::uint64_t length = 37 + 29 * i + key % 5;
    workload.preambles.push_back(seeded_tokens(key, length));
  }
  const std::uint64_t document_key = next_key();
  workload.document =
      options.document.empty() ? seeded_tokens(document_key, document_tokens) : options.document;
  for (std::uint32_t i = 0; i < options.agents; ++i) {
    Agent agent;
    agent.preamble = i % preambles;
    const std::uint64_t key = next_key();
    agent.question = seeded_tokens(key, 9 + key % 23);
    for (std::uint32_t branch = 0; branch < kBranches; ++branch) {
      agent.answers.push_back(seeded_tokens(next_key(), options.decode_tokens));
    }
    workload.agents.push_back(std::move(agent));
  }
  return workload;
}

std::vector<TokenId> Workload::prompt_of(const Agent& agent) const {
  const auto preamble = preamble_of(agent);
  std::vector<TokenId> prompt(preamble.begin(), preamble.end());
  prompt.insert(prompt.end(), document.begin(), document.end());
  prompt.insert(prompt.end(), agent.question.begin(), agent.question.end());
  return prompt;
}

std::uint64_t Workload::longest_tokens() const {
  std::uint64_t longest = 0;
  for (const Agent& agent : agents) {
    longest =
        std::max<std::uint64_t>(longest, preamble_of(agent).size() + document.size() +
                                             agent.question.size() + agent.answers.front().size());
  }
  return longest;
}

std::uint64_t Workload::total_tokens() const {
  std::uint64_t total = 0;
  for (const Agent& agent : agents) {
    total += preamble_of(agent).size() + document.size() + agent.question.size();
    for (const auto& answer : agent.answers) total += answer.size();
  }
  return total;
}

}  // namespace emblema::agents
