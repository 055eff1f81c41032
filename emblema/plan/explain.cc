#include "emblema/plan/explain.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "emblema/contract/bytes.h"

namespace emblema {
namespace {

std::string joined(const std::vector<std::string>& terms) {
  if (terms.empty()) return "0";
  return fmt::format("{}", fmt::join(terms, " + "));
}

// "512 c_kv bf16 + 64 k_rope bf16 = 1152"
std::string entry_formula(const StreamCapacity& stream) {
  std::vector<std::string> parts;
  for (const EntryRegion& region : stream.regions) {
    parts.push_back(
        fmt::format("{} {} {}", region.elements, region.name, to_string(region.encoding)));
  }
  return fmt::format("{} = {}", joined(parts), stream.entry_bytes);
}

// Equal terms of many layers as one: "61 x (...)".
class Terms {
 public:
  void add(std::string term) {
    const auto known = std::find_if(counts_.begin(), counts_.end(),
                                    [&term](const auto& count) { return count.first == term; });
    if (known != counts_.end()) {
      ++known->second;
    } else {
      counts_.emplace_back(std::move(term), 1);
    }
  }

  std::string text() const {
    std::vector<std::string> terms;
    for (const auto& [term, count] : counts_) terms.push_back(fmt::format("{} x {}", count, term));
    return joined(terms);
  }

 private:
  std::vector<std::pair<std::string, std::uint64_t>> counts_;  // in order of first appearance
};

class RankExplainer {
 public:
  RankExplainer(const CapacityPlan& plan, const Deployment& deployment, const RankCapacity& rank,
                std::vector<ExplainedFigure>* figures)
      : plan_(plan), deployment_(deployment), rank_(rank), figures_(*figures) {}

  void run() {
    explain_sequence();
    for (const LengthBytes& at : rank_.at) explain_length(at);
    explain_weights();
    explain_step();
    if (rank_.pool) explain_pool();
  }

 private:
  void add(std::string figure, std::string value, std::string formula) {
    figures_.push_back({rank_.name, std::move(figure), std::move(value), std::move(formula)});
  }

  template <class TermOf>
  std::string over_streams(TermOf term_of) const {
    Terms terms;
    for (const LayerCapacity& layer : plan_.layers) {
      const bool is_here = layer.is_draft
                               ? rank_.stage.is_last
                               : layer.index >= rank_.stage.first_layer &&
                                     layer.index < rank_.stage.first_layer + rank_.stage.layers;
      if (!is_here) continue;
      for (const StreamCapacity& stream : layer.streams) {
        std::string term = term_of(stream);
        if (!term.empty()) terms.add(std::move(term));
      }
    }
    return terms.text();
  }

  void explain_sequence() {
    add("growing_bytes_per_token", rank_.growing_bytes_per_token.exact(),
        over_streams([](const StreamCapacity& stream) -> std::string {
          if (stream.retention != Retention::kGrowing) return "";
          if (stream.stride_tokens == 1) return fmt::format("({})", entry_formula(stream));
          return fmt::format("({}) / {}", entry_formula(stream), stream.stride_tokens);
        }));
    add("fixed_bytes_per_sequence", fmt::format("{}", rank_.fixed_bytes_per_sequence),
        over_streams([](const StreamCapacity& stream) -> std::string {
          if (stream.retention == Retention::kGrowing || stream.retention == Retention::kFixed) {
            return "";
          }
          return fmt::format("({}) x {} tokens", entry_formula(stream), stream.retention_tokens);
        }));
    add("state_bytes_per_sequence", fmt::format("{}", rank_.state_bytes_per_sequence),
        over_streams([](const StreamCapacity& stream) -> std::string {
          if (stream.retention != Retention::kFixed) return "";
          return fmt::format("({}) x {} rows", entry_formula(stream), stream.retention_tokens);
        }));
  }

  void explain_length(const LengthBytes& at) {
    const std::uint64_t local = local_tokens(at.tokens, 0, deployment_.parallel.decode_context,
                                             deployment_.parallel.interleave);
    add(fmt::format("bytes_per_sequence[{}]", at.tokens), fmt::format("{}", at.payload_bytes),
        over_streams([local](const StreamCapacity& stream) -> std::string {
          switch (stream.retention) {
            case Retention::kGrowing:
              return fmt::format("{} x {}", stream.entry_bytes, local / stream.stride_tokens);
            case Retention::kWindow:
            case Retention::kChunk:
              return fmt::format("{} x min({}, {})", stream.entry_bytes, local,
                                 stream.retention_tokens);
            case Retention::kEncoder:
              return fmt::format("{} x {}", stream.entry_bytes, stream.retention_tokens);
            case Retention::kFixed:
              break;
          }
          return "";
        }));
    add(fmt::format("allocated_bytes_per_sequence[{}]", at.tokens),
        fmt::format("{}", at.allocated_bytes), allocated_formula(local));
  }

  std::string allocated_formula(std::uint64_t tokens) const {
    std::vector<std::string> terms;
    for (const GroupCapacity& group : rank_.groups) {
      BlockLayout layout;
      layout.retention = group.retention;
      layout.window_tokens = group.window_tokens;
      layout.block_tokens = group.block_tokens;
      terms.push_back(fmt::format("{} blocks of {} tokens x {}", layout.blocks_at(tokens),
                                  group.block_tokens, group.block_bytes));
    }
    if (rank_.arena_slot_bytes > 0) {
      terms.push_back(fmt::format("{} arena slot", rank_.arena_slot_bytes));
    }
    return joined(terms);
  }

  void explain_weights() {
    if (!rank_.weight_bytes) return;
    add("weights_bytes", fmt::format("{}", *rank_.weight_bytes),
        fmt::format("{}{}", plan_.are_weights_estimated ? "this rank's part of an estimate: " : "",
                    plan_.weights_formula));
  }

  void explain_step() {
    if (rank_.step.bytes == 0) return;
    add("flop_per_byte", rank_.flop_per_byte.exact(),
        fmt::format("{} FLOP / {} bytes read, one decode step over {} rows", rank_.step.flop,
                    rank_.step.bytes, rank_.step.context_tokens));
    if (!rank_.roofline) return;
    const Hardware& hardware = *deployment_.hardware;
    add("bound_by", std::string(to_string(rank_.roofline->bound)),
        fmt::format("{:.2f} FLOP/B against the ridge, {} FLOP/s / {} B/s = {:.2f} FLOP/B",
                    rank_.flop_per_byte.approximate(), *hardware.bf16_flops,
                    *hardware.bandwidth_bytes_per_second, rank_.roofline->ridge.approximate()));
  }

  void explain_pool() {
    const PoolPlan& pool = *rank_.pool;
    if (!deployment_.pool_bytes) {
      add("pool_bytes", fmt::format("{}", *rank_.pool_bytes),
          fmt::format("floor({} x {}) - {} weights - {} reserve",
                      *deployment_.hardware->memory_bytes, deployment_.memory_share.exact(),
                      *rank_.weight_bytes, deployment_.reserve_bytes));
    }
    for (std::size_t i = 0; i < rank_.groups.size(); ++i) {
      add(fmt::format("blocks[{}]", rank_.groups[i].name), fmt::format("{}", pool.groups[i].blocks),
          blocks_formula(i));
    }
    const std::uint64_t ranks = deployment_.parallel.decode_context;
    if (!rank_.groups.empty()) {
      add("tokens", fmt::format("{}", rank_.tokens),
          fmt::format("{} of the scarcest group's blocks{}", pool.tokens,
                      ranks > 1 ? fmt::format(" on each of {} dcp ranks", ranks) : ""));
    }
    add("concurrency", fmt::format("{}", rank_.concurrency), concurrency_formula());
  }

  // With one group all of the pool is its; several share what arena and snapshots leave.
  std::string blocks_formula(std::size_t group) const {
    const PoolPlan& pool = *rank_.pool;
    const std::uint64_t rest = *rank_.pool_bytes - pool.arena_bytes - pool.snapshot_bytes;
    std::string text = fmt::format("({} pool - {} arena - {} snapshots = {})", *rank_.pool_bytes,
                                   pool.arena_bytes, pool.snapshot_bytes, rest);
    if (rank_.groups.size() == 1) {
      return fmt::format("floor({} / {})", text, rank_.groups[group].block_bytes);
    }
    return fmt::format("{} of {} bytes, divided by what whole sequences need of each group",
                       pool.groups[group].blocks * rank_.groups[group].block_bytes, text);
  }

  std::string concurrency_formula() const {
    const PoolPlan& pool = *rank_.pool;
    std::vector<std::string> terms;
    for (std::size_t i = 0; i < rank_.groups.size(); ++i) {
      const GroupCapacity& group = rank_.groups[i];
      if (group.retention != Retention::kGrowing) {
        terms.push_back(
            fmt::format("what {} blocks of {} hold", pool.groups[i].blocks, group.name));
        continue;
      }
      terms.push_back(fmt::format("floor({} / ceil({} / {}))", pool.groups[i].blocks,
                                  pool.sequence_tokens, group.block_tokens));
    }
    if (pool.arena_slots > 0) terms.push_back(fmt::format("{} arena slots", pool.arena_slots));
    return fmt::format("min({})", fmt::join(terms, ", "));
  }

  const CapacityPlan& plan_;
  const Deployment& deployment_;
  const RankCapacity& rank_;
  std::vector<ExplainedFigure>& figures_;
};

}  // namespace

std::vector<ExplainedFigure> explain(const CapacityPlan& plan, const Deployment& deployment) {
  std::vector<ExplainedFigure> figures;
  for (const RankCapacity& rank : plan.ranks) RankExplainer(plan, deployment, rank, &figures).run();
  if (plan.concurrency_total) {
    figures.push_back(
        {"", "concurrency_total", fmt::format("{}", *plan.concurrency_total),
         fmt::format("{} of {} x {} groups of requests x {} copies", plan.ranks.front().concurrency,
                     plan.ranks.front().name, deployment.parallel.data_attention, plan.copies)});
  }
  return figures;
}

}  // namespace emblema
