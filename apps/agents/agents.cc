#include "apps/agents/agents.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "apps/agents/way_run.h"
#include "emblema/layout/rope_table.h"
#include "emblema/os/memory.h"

namespace emblema::agents {
namespace {

constexpr std::uint32_t kThreadsMax = 1024;
// Queries of 128 absorbed heads take 0.5 MiB per token; steps keep them within a few hundred MiB.
constexpr std::uint64_t kStepTokens = 512;
// Tiles round queries and probabilities to bf16 (kernels/attention.h).
bool is_by_tiles(std::optional<Isa> isa, KvDtype dtype) {
  return isa.value_or(best_isa()) == Isa::kAmx && dtype == KvDtype::kBf16;
}

bool is_plain(const Stream& stream) {
  return std::ranges::all_of(stream.regions, [](const EntryRegion& region) {
    return region.encoding == Encoding::kBf16 || region.encoding == Encoding::kFp16 ||
           region.encoding == Encoding::kFp32;
  });
}

// What the stack or the third way cannot do is said before any work.
Status check_attention(const ModelGeometry& geometry) {
  const std::string model =
      fmt::format("model {} ({})", geometry.model().name, geometry.attention_in_words());
  for (const LayerGeometry& layer : geometry.layers()) {
    const bool has_index = std::ranges::any_of(
        layer.streams, [](const Stream& s) { return s.role == StreamRole::kIndexer; });
    if (has_index) {
      return fail(ErrorCode::Unsupported,
                  model +
                      " caches keys of a sparse-attention index, which the run's layers do not "
                      "compute; it can be planned and laid out");
    }
    if (!std::ranges::all_of(layer.streams, is_plain)) {
      return fail(ErrorCode::Unsupported,
                  fmt::format("kv dtype {}: the run writes rows of bf16, fp16 or fp32; this dtype "
                              "can be planned and laid out",
                              to_string(geometry.options().kv_dtype)));
    }
    if (!layer.has_rope) continue;
    const auto rope = RopeTable::from(layer.rope, layer.max_positions);
    if (!rope) return propagate(rope);
    if (rope->fixed_frequencies()) continue;
    return fail(ErrorCode::Unsupported,
                model +
                    " has rotary frequencies that depend on the length (rope_scaling), so that a "
                    "segment cannot be attached at another position; it can be planned and "
                    "laid out");
  }
  return {};
}

Status check_options(const ModelGeometry& geometry, const AgentsOptions& options) {
  if (options.threads < 1 || options.threads > kThreadsMax) {
    return fail(ErrorCode::Invalid,
                fmt::format("threads is {}; allowed: 1 to {}", options.threads, kThreadsMax));
  }
  const bool any_without_rows = std::any_of(
      geometry.layers().begin(), geometry.layers().end(),
      [](const LayerGeometry& layer) { return layer.streams.empty() || layer.chunk_tokens > 0; });
  if (geometry.has_arena() || any_without_rows) {
    return fail(ErrorCode::Unsupported,
                fmt::format("model {} ({}) has layers without keys and values of their own in "
                            "blocks; it can be planned and laid out, not yet run",
                            geometry.model().name, geometry.attention_in_words()));
  }
  return check_attention(geometry);
}

// Every answer with rows of its own, and the document alone at each preamble: the most that any way
// or check holds at once.
Result<std::uint64_t> pool_for(const ModelLayout& layout, const Workload& workload,
                               std::uint64_t sequences) {
  std::uint64_t total = 0;
  for (const BlockLayout& group : layout.groups) {
    const std::uint64_t blocks = group.blocks_peak(workload.longest_tokens(), kStepTokens) + 1;
    const auto bytes = mul_bytes(group.block_bytes, blocks, "bytes of one sequence");
    if (!bytes) return propagate(bytes);
    const auto all = mul_bytes(*bytes, sequences, "bytes of all sequences");
    if (!all) return propagate(all);
    const auto sum = add_bytes(total, *all, "bytes of the pool");
    if (!sum) return propagate(sum);
    total = *sum;
  }
  return total;
}

Status check_memory(std::uint64_t pool_bytes, const Job& job) {
  constexpr std::uint64_t kOutputsAtOnce = 3;
  const std::uint64_t outputs =
      kOutputsAtOnce * Outputs::size_bytes(job.answers(), job.decode_tokens(),
                                           job.stack->layers().size(), job.stack->hidden());
  const auto needed = add_bytes(pool_bytes, outputs, "bytes of pool and outputs");
  if (!needed) return propagate(needed);
  const std::uint64_t available = available_memory_bytes();
  if (available == 0 || *needed < available) return {};
  return fail(ErrorCode::Invalid,
              fmt::format("{} agents over a document of {} tokens need {} of memory, {} is "
                          "available; fewer agents, layers or tokens would fit",
                          job.workload->agents.size(), job.workload->document.size(),
                          format_bytes(*needed), format_bytes(available)));
}

// Tokens that will be run, for the progress bar.
std::uint64_t work_tokens(const Workload& workload) {
  return 4 * workload.total_tokens();
}

void add_check(AgentsReport* report, std::string name, double measured, double allowed) {
  report->checks.push_back({std::move(name), measured <= allowed, measured, allowed});
}

// Compares a way with its truth; a comparison of nothing is a failed check.
void compare(AgentsReport* report, WayRun* run, const Outputs& truth, const std::string& against,
             double allowed, double reference) {
  const Outputs::Difference difference = Outputs::largest(run->outputs, truth);
  WayReport& way = run->report;
  way.max_relative_difference = difference.relative;
  way.compared_vectors = difference.compared;
  report->checks.push_back({fmt::format("{}: {} attention outputs equal {}", way.name,
                                        format_count(difference.compared), against),
                            difference.compared > 0 && difference.relative <= allowed,
                            difference.relative, allowed});
  add_check(report, fmt::format("{}: kernel over blocks equals double precision", way.name),
            way.max_reference_difference, reference);
  add_check(report, fmt::format("{}: content collisions", way.name),
            static_cast<double>(way.collisions), 0);
}

void check_copies(AgentsReport* report, const Workload& workload) {
  const std::uint64_t expected[] = {workload.agents.size(), workload.preambles.size(), 1};
  // A document that fills no block of its own lies in blocks with other tokens, which are copied
  // with them; only a segment never shares a block with what follows.
  const bool whole_blocks = workload.document.size() >= 2 * report->block_tokens;
  for (std::size_t i = whole_blocks ? 0 : 2; i < report->ways.size(); ++i) {
    const WayReport& way = report->ways[i];
    add_check(report, fmt::format("{}: copies of the document", way.name),
              static_cast<double>(way.holdings.document_copies), static_cast<double>(expected[i]));
  }
}

Result<AgentsReport> run_all(const Job& ways, const Job& checks, AgentsReport report) {
  const KvDtype dtype = ways.geometry->options().kv_dtype;
  const bool by_tiles = is_by_tiles(ways.stack->isa(), dtype);
  // Both sides of a comparison then round in each layer, decode absorbed and prefill expanded.
  const double allowed = allowed_difference(dtype) * (by_tiles ? 2 : 1);
  // A kernel's sums over at most a few thousand keys, with room for logits that are not N(0, 1).
  const double reference = by_tiles ? 1e-2 : 2e-5;
  auto unshared = run_unshared(ways);
  if (!unshared) return propagate(unshared);
  {
    const auto truth = recompute_in_one_go(checks);
    if (!truth) return propagate(truth);
    compare(&report, &*unshared, *truth, "whole sequences computed in one go", allowed, reference);
  }
  auto prefix = run_prefix(ways);
  if (!prefix) return propagate(prefix);
  compare(&report, &*prefix, unshared->outputs, "the unshared ones", allowed, reference);
  auto segment = run_segment(ways);
  if (!segment) return propagate(segment);
  {
    const auto truth = recompute_isolated(checks);
    if (!truth) return propagate(truth);
    compare(&report, &*segment, *truth, "private documents rotated in place", allowed, reference);
  }
  report.ways = {unshared->report, prefix->report, segment->report};
  check_copies(&report, *ways.workload);
  report.ok = std::ranges::all_of(report.checks, &Check::passed);
  return report;
}

}  // namespace

SizeRatios size_ratios(const ModelGeometry& geometry) {
  constexpr std::uint64_t kGqaHeads = 8;
  std::uint64_t ours = 0;
  std::uint64_t mha = 0;
  std::uint64_t gqa8 = 0;
  for (const LayerGeometry& layer : geometry.layers()) {
    const Stream& stream = layer.streams.front();
    const std::uint64_t element_bits = bits_per_element(stream.regions.front().encoding);
    const std::uint64_t value_dim =
        stream.role == StreamRole::kLatent ? geometry.model().v_head_dim : layer.value_dim;
    ours += stream.entry_bytes;
    mha += 2 * std::uint64_t{layer.query_heads} * value_dim * element_bits / 8;
    gqa8 += 2 * kGqaHeads * value_dim * element_bits / 8;
  }
  return {ours, mha, gqa8};
}

double allowed_difference(KvDtype dtype) {
  // Two ways that round the same row differently are one unit in the last place apart, and later
  // layers add their own: four units of bf16 (2^-8) and fp16 (2^-11). Rows of fp32 leave the sums
  // of thousands of fp32 terms. What was measured: docs/internals/main-job.md.
  switch (dtype) {
    case KvDtype::kFp32:
      return 1e-5;
    case KvDtype::kFp16:
      return 0x1p-9;
    default:
      return 0x1p-6;
  }
}

Result<AgentsReport> run_agents(const ModelGeometry& geometry, const AgentsOptions& options,
                                const Progress& progress) {
  if (Status ok = check_options(geometry, options); !ok) return propagate(ok);
  const auto workload = make_workload(options.workload);
  if (!workload) return propagate(workload);
  const auto layout = ModelLayout::native(geometry);
  if (!layout) return propagate(layout);
  const auto pool = pool_for(*layout, *workload,
                             (workload->agents.size() + workload->preambles.size()) * kBranches);
  if (!pool) return propagate(pool);
  if (progress) progress("weights", 0);
  const auto threads = ThreadPool::open(options.threads);
  if (!threads) return propagate(threads);
  const auto stack = Stack::create(geometry, options.workload.seed, threads->get(), options.isa);
  if (!stack) return propagate(stack);

  std::uint64_t tokens_done = 0;
  Job ways;
  ways.geometry = &geometry;
  ways.stack = &*stack;
  ways.workload = &*workload;
  ways.engine = {.pool_bytes = options.pool_bytes.value_or(*pool),
                 .sequence_tokens = workload->longest_tokens(),
                 .step_tokens = kStepTokens};
  ways.advance = [&](const std::string& step, std::uint64_t tokens) {
    const double all = static_cast<double>(work_tokens(*workload));
    if (progress) progress(step, std::min(1.0, static_cast<double>(tokens_done) / all));
    tokens_done += tokens;
  };
  Job checks = ways;
  checks.engine.pool_bytes = *pool;
  if (Status ok = check_memory(*pool, ways); !ok) return propagate(ok);

  AgentsReport report;
  report.model = geometry.model().name;
  report.attention = geometry.attention_in_words();
  report.kv_dtype = std::string(to_string(geometry.options().kv_dtype));
  report.isa = options.isa.value_or(best_isa());
  report.threads = options.threads;
  report.notes = geometry.model().notes;
  report.layers = geometry.layers().size();
  report.agents = workload->agents.size();
  report.document_tokens = workload->document.size();
  report.total_tokens = workload->total_tokens();
  report.block_tokens = layout->groups.front().block_tokens;
  report.per_token = size_ratios(geometry);
  const double ours = report.per_token.bytes.approximate();
  report.ratio_to_mha = report.per_token.mha_bytes.approximate() / ours;
  report.ratio_to_gqa8 = report.per_token.gqa8_bytes.approximate() / ours;
  auto done = run_all(ways, checks, std::move(report));
  if (!done && done.error().code == ErrorCode::OutOfBlocks && options.pool_bytes) {
    return fail(ErrorCode::OutOfBlocks,
                fmt::format("pool of {} bytes: {}; {} bytes are enough", *options.pool_bytes,
                            done.error().message, *pool));
  }
  return done;
}

}  // namespace emblema::agents
