// The unshared truth that the ways are compared with.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "apps/agents/way_run.h"

namespace emblema::agents {
namespace {

// Copies the rows of `from` from position `first` on, all layers, into `count` reserved rows of
// `to`.
Status copy_rows(const Job& job, const Sequence& from, std::uint64_t first, Sequence& to,
                 std::uint64_t count) {
  for (std::size_t layer = 0; layer < job.stack->layers().size(); ++layer) {
    const auto index = static_cast<std::uint32_t>(layer);
    const auto rows = to.rows(index, job.stack->role(layer), to.tokens(), count);
    if (!rows) return propagate(rows);
    for (std::uint64_t i = 0; i < rows->size(); ++i) {
      const RowChunk chunk = (*rows)[i];
      const std::uint64_t offset = first + chunk.first_token - to.tokens();
      for (std::uint64_t row = 0; row < chunk.rows; ++row) {
        const ConstByteSpan bytes = from.row_bytes(index, job.stack->role(layer), offset + row);
        // Behind a window the row is gone, and nobody will read its copy.
        if (bytes.empty()) continue;
        std::memcpy(chunk.data + row * chunk.row_bytes, bytes.data(), bytes.size());
      }
    }
  }
  return {};
}

// The document alone, its keys rotated for positions from `position` on.
Result<Sequence> encode_alone(const Job& job, Engine& engine, Runner& runner,
                              std::uint64_t position) {
  auto sequence = engine.start(
      {.tokens = job.workload->document, .tenant = fmt::format("document at {}", position)});
  if (!sequence) return sequence;
  job.advance("check: document alone", job.workload->document.size());
  const Status done = runner.prefill(*sequence, job.workload->document, job.engine.step_tokens,
                                     static_cast<std::int64_t>(position));
  if (!done) return propagate(done);
  return sequence;
}

Status append_document(const Job& job, const Sequence& alone, Sequence& sequence) {
  const auto& document = job.workload->document;
  for (std::uint64_t first = 0; first < document.size(); first += job.engine.step_tokens) {
    const std::uint64_t count = std::min(job.engine.step_tokens, document.size() - first);
    if (Status ok = sequence.reserve(count); !ok) return ok;
    if (Status ok = copy_rows(job, alone, first, sequence, count); !ok) return ok;
    const Status done = sequence.commit(std::span(document).subspan(first, count));
    if (!done) return done;
  }
  return {};
}

}  // namespace

Result<Outputs> recompute_in_one_go(const Job& job) {
  Outputs outputs = job.empty_outputs();
  Runner runner(*job.stack);
  for (std::size_t i = 0; i < job.workload->preambles.size(); ++i) {
    auto engine = Engine::open(*job.geometry, job.engine);
    if (!engine) return propagate(engine);
    const Agent& agent = job.workload->agents[i];
    std::vector<TokenId> all = job.workload->prompt_of(agent);
    const std::uint64_t prompt_tokens = all.size();
    const auto& answer = agent.answers.front();
    all.insert(all.end(), answer.begin(), answer.end());
    auto sequence = engine->start({.tokens = all, .tenant = "alone"});
    if (!sequence) return propagate(sequence);
    job.advance("check: whole sequences", all.size());
    const Status done =
        runner.prefill(*sequence, all, job.engine.step_tokens, 0,
                       [&](std::size_t layer, std::uint64_t index, std::span<const float> output) {
                         if (index < prompt_tokens) return;
                         outputs.record(i * kBranches, index - prompt_tokens, layer, output);
                       });
    if (!done) return propagate(done);
  }
  return outputs;
}

Result<Outputs> recompute_isolated(const Job& job) {
  Outputs outputs = job.empty_outputs();
  Runner runner(*job.stack);
  auto engine = Engine::open(*job.geometry, job.engine);
  if (!engine) return propagate(engine);
  const Workload& workload = *job.workload;
  std::vector<Sequence> alone;  // per preamble: what the document is at that position
  for (const auto& preamble : workload.preambles) {
    auto encoded = encode_alone(job, *engine, runner, preamble.size());
    if (!encoded) return propagate(encoded);
    alone.push_back(std::move(*encoded));
  }
  std::vector<Sequence> sequences;
  for (std::size_t i = 0; i < workload.agents.size(); ++i) {
    const Agent& agent = workload.agents[i];
    for (std::uint32_t branch = 0; branch < kBranches; ++branch) {
      auto sequence = engine->start(
          {.tokens = workload.prompt_of(agent), .tenant = fmt::format("agent {}.{}", i, branch)});
      if (!sequence) return propagate(sequence);
      const auto preamble = workload.preamble_of(agent);
      job.advance("check: prompts", preamble.size() + agent.question.size());
      Status done = runner.prefill(*sequence, preamble, job.engine.step_tokens);
      if (done) done = append_document(job, alone[agent.preamble], *sequence);
      if (done) done = runner.prefill(*sequence, agent.question, job.engine.step_tokens);
      if (!done) return propagate(done);
      sequences.push_back(std::move(*sequence));
    }
  }
  std::vector<Sequence*> batch;
  for (Sequence& sequence : sequences) batch.push_back(&sequence);
  std::vector<TokenId> tokens(batch.size());
  for (std::uint64_t step = 0; step < job.decode_tokens(); ++step) {
    job.advance("check: answers", batch.size());
    for (std::size_t i = 0; i < batch.size(); ++i) {
      tokens[i] = workload.agents[i / kBranches].answers[i % kBranches][step];
    }
    const Status done = runner.decode(
        batch, tokens, [&](std::size_t layer, std::uint64_t index, std::span<const float> output) {
          outputs.record(index, step, layer, output);
        });
    if (!done) return propagate(done);
  }
  return outputs;
}

}  // namespace emblema::agents
