#include "apps/agents/way_run.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "emblema/kernels/reference/reference_attention.h"

namespace emblema::agents {
namespace {

// Keeps the clock, the engine and the live sequences of one way.
class Run {
 public:
  static Result<Run> open(const Job& job, std::string name) {
    auto engine = Engine::open(*job.geometry, job.engine);
    if (!engine) return propagate(engine);
    return Run(job, std::move(*engine), std::move(name));
  }

  Engine& engine() { return engine_; }
  Runner& runner() { return runner_; }
  const Job& job() const { return *job_; }

  // Runs what of `tokens` is behind the sequence's own length.
  Status prefill(Sequence& sequence, std::span<const TokenId> tokens) {
    job_->advance(name_ + ": prompts", tokens.size());
    computed_tokens_ += tokens.size();
    return runner_.prefill(sequence, tokens, job_->engine.step_tokens);
  }

  void keep(const Agent& agent, Sequence sequence) {
    agents_.push_back(&agent);
    sequences_.push_back(std::move(sequence));
  }

  // Forks every agent's sequence, decodes both answers of all agents in step, and takes stock.
  Result<WayRun> answer();

 private:
  Run(const Job& job, Engine engine, std::string name)
      : job_(&job),
        name_(std::move(name)),
        engine_(std::move(engine)),
        runner_(*job.stack),
        outputs_(job.empty_outputs()) {}

  Status fork_all();
  Status decode_all();
  void check_against_reference(std::size_t layer, const AttentionInputs& inputs,
                               std::span<const float> out);
  WayReport take_stock() const;

  const Job* job_;
  std::string name_;
  Engine engine_;
  Runner runner_;
  Outputs outputs_;
  std::vector<const Agent*> agents_;
  std::vector<Sequence> sequences_;  // one per agent; after fork_all one per answer
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::duration checking_{};  // not the way's own work
  std::uint64_t computed_tokens_ = 0;
  double reference_difference_ = 0;
};

Status Run::fork_all() {
  std::vector<Sequence> answers;
  for (Sequence& sequence : sequences_) {
    for (std::uint32_t branch = 1; branch < kBranches; ++branch) {
      auto child = sequence.fork();
      if (!child) return propagate(child);
      answers.push_back(std::move(*child));
    }
    answers.push_back(std::move(sequence));
  }
  sequences_ = std::move(answers);
  return {};
}

Status Run::decode_all() {
  const std::uint64_t steps = job_->decode_tokens();
  std::vector<Sequence*> batch;
  for (Sequence& sequence : sequences_) batch.push_back(&sequence);
  std::vector<TokenId> tokens(batch.size());
  for (std::uint64_t step = 0; step < steps; ++step) {
    job_->advance(name_ + ": answers", batch.size());
    for (std::size_t i = 0; i < batch.size(); ++i) {
      tokens[i] = agents_[i / kBranches]->answers[i % kBranches][step];
    }
    if (step + 1 == steps) {
      runner_.set_decode_hook(
          [this](std::size_t layer, const AttentionInputs& inputs, std::span<const float> out,
                 std::span<const float>) { check_against_reference(layer, inputs, out); });
    }
    const Status done = runner_.decode(
        batch, tokens, [&](std::size_t layer, std::uint64_t index, std::span<const float> output) {
          outputs_.record(index, step, layer, output);
        });
    if (!done) return done;
    computed_tokens_ += batch.size();
  }
  return {};
}

// In double, over the very rows that the kernel read. Each answer on one layer, in turn: the double
// loops are a hundred times slower than the kernel.
void Run::check_against_reference(std::size_t layer, const AttentionInputs& inputs,
                                  std::span<const float> out) {
  const auto begin = std::chrono::steady_clock::now();
  const std::uint64_t width = std::uint64_t{inputs.shape.query_heads} * inputs.shape.value_dim;
  const std::uint64_t query = std::uint64_t{inputs.shape.query_heads} * inputs.shape.key_dim;
  for (std::uint64_t i = layer; i < inputs.sequences.size(); i += job_->stack->layers().size()) {
    SequenceInputs alone = inputs.sequences[i];
    alone.first_query = 0;
    AttentionInputs one = inputs;
    one.q = inputs.q + i * query;
    one.tokens = 1;
    one.sequences = {&alone, 1};
    std::vector<double> truth(width);
    std::vector<double> lse(inputs.shape.query_heads);
    const Status done = reference_attention(one, truth, lse);
    const double apart = done ? relative_difference(out.subspan(i * width, width), truth) : 1e9;
    reference_difference_ = std::max(reference_difference_, apart);
  }
  checking_ += std::chrono::steady_clock::now() - begin;
}

WayReport Run::take_stock() const {
  WayReport report;
  report.name = name_;
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_ - checking_;
  const EngineStats stats = engine_.stats();
  report.huge_pages = stats.huge_pages;
  report.logical_bytes = stats.totals.logical_bytes;
  report.physical_bytes = stats.totals.physical_bytes;
  report.prefix_hit_tokens = stats.blocks.prefix_hit_tokens;
  report.segment_hit_tokens = stats.blocks.segment_hit_tokens;
  report.content_shared_blocks = stats.blocks.content_shared_blocks;
  report.collisions = stats.blocks.content_collisions;
  report.copied_blocks = stats.blocks.copied_blocks;
  report.computed_tokens = computed_tokens_;
  report.served_tokens = job_->workload->total_tokens();
  report.seconds = spent.count();
  report.tokens_per_second = static_cast<double>(report.served_tokens) / spent.count();
  report.max_reference_difference = reference_difference_;
  std::vector<LiveSequence> live;
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    const Agent& agent = *agents_[i / kBranches];
    live.push_back({&sequences_[i], job_->workload->preamble_of(agent).size(),
                    job_->workload->document.size(), agent.question.size()});
  }
  report.holdings = measure_holdings(engine_, live);
  return report;
}

Result<WayRun> Run::answer() {
  if (Status ok = fork_all(); !ok) return propagate(ok);
  if (Status ok = decode_all(); !ok) return propagate(ok);
  return WayRun{take_stock(), std::move(outputs_)};
}

// Starts a prompt and runs what was not found of it.
Result<Sequence> run_prompt(Run& run, const std::vector<TokenId>& prompt,
                            const std::string& tenant) {
  auto sequence = run.engine().start({.tokens = prompt, .tenant = tenant});
  if (!sequence) return sequence;
  const auto rest = std::span(prompt).subspan(sequence->hit_tokens());
  if (Status ok = run.prefill(*sequence, rest); !ok) return propagate(ok);
  return sequence;
}

}  // namespace

Result<WayRun> run_unshared(const Job& job) {
  auto run = Run::open(job, "unshared");
  if (!run) return propagate(run);
  for (std::size_t i = 0; i < job.workload->agents.size(); ++i) {
    const Agent& agent = job.workload->agents[i];
    auto sequence = run_prompt(*run, job.workload->prompt_of(agent), fmt::format("agent {}", i));
    if (!sequence) return propagate(sequence);
    run->keep(agent, std::move(*sequence));
  }
  return run->answer();
}

Result<WayRun> run_prefix(const Job& job) {
  auto run = Run::open(job, "prefix");
  if (!run) return propagate(run);
  const auto& agents = job.workload->agents;
  // Two agents with the same preamble arrive at the same moment: neither can hit, both compute, and
  // the equal blocks are found by their bytes.
  const std::size_t twin = job.workload->preambles.size();
  std::optional<Sequence> early;
  std::vector<TokenId> early_prompt;
  if (twin < agents.size()) {
    early_prompt = job.workload->prompt_of(agents[twin]);
    auto started = run->engine().start({.tokens = early_prompt, .tenant = "all"});
    if (!started) return propagate(started);
    early.emplace(std::move(*started));
  }
  for (std::size_t i = 0; i < agents.size(); ++i) {
    if (i == twin) {
      if (Status ok = run->prefill(*early, early_prompt); !ok) return propagate(ok);
      run->keep(agents[i], std::move(*early));
      continue;
    }
    auto sequence = run_prompt(*run, job.workload->prompt_of(agents[i]), "all");
    if (!sequence) return propagate(sequence);
    run->keep(agents[i], std::move(*sequence));
  }
  return run->answer();
}

Result<WayRun> run_segment(const Job& job) {
  auto run = Run::open(job, "segment");
  if (!run) return propagate(run);
  const Workload& workload = *job.workload;
  const StartRequest document{.tokens = workload.document, .tenant = "all"};
  for (const Agent& agent : workload.agents) {
    auto lookup = run->engine().segment(document);
    if (!lookup) return propagate(lookup);
    std::optional<Segment> segment = std::move(lookup->found);
    if (!segment) {
      Sequence& builder = lookup->builder->sequence();
      const auto rest = std::span(workload.document).subspan(builder.hit_tokens());
      if (Status ok = run->prefill(builder, rest); !ok) return propagate(ok);
      auto sealed = lookup->builder->seal();
      if (!sealed) return propagate(sealed);
      segment.emplace(std::move(*sealed));
    }
    const auto preamble = workload.preamble_of(agent);
    auto sequence = run_prompt(*run, {preamble.begin(), preamble.end()}, "all");
    if (!sequence) return propagate(sequence);
    const auto hit = sequence->attach(*segment, agent.question);
    if (!hit) return propagate(hit);
    const auto rest = std::span(agent.question).subspan(*hit);
    if (Status ok = run->prefill(*sequence, rest); !ok) return propagate(ok);
    run->keep(agent, std::move(*sequence));
  }
  return run->answer();
}

}  // namespace emblema::agents
