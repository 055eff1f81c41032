#include "emblema/block/manager_bench.h"

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "emblema/block/block_manager.h"
#include "emblema/contract/check.h"

namespace emblema::bench {
namespace {

constexpr std::uint64_t kBlockTokens = 64;
constexpr std::uint64_t kPromptBlocks = 64;      // of a prompt that comes and goes: 4,096 tokens
constexpr std::uint64_t kLongBlocks = 2048;      // of a prompt that is only looked up: 128k tokens
constexpr std::uint64_t kLongPromptsMax = 64;    // 64 x 2,048 entries are more than caches hold
constexpr std::uint64_t kBlocksARound = 65'536;  // that come and go, by each thread
constexpr double kOperationsPerBlock = 5;

Result<std::unique_ptr<BlockManager>> open_manager(std::uint64_t blocks, LockHolds* holds) {
  BlockLayout group;
  group.group_name = "growing";
  group.block_tokens = kBlockTokens;
  group.block_bytes = kPageAlignmentBytes;
  ModelLayout layout;
  layout.groups = {group};
  PoolPlan plan;
  plan.groups = {{blocks, group.block_bytes, group.block_tokens}};
  BlockManagerOptions options;
  options.metadata_only = true;
  options.lock_holds = holds;
  return BlockManager::open(layout, plan, options);
}

// Stores `tokens` behind what is there of them.
Status publish_all(BlockManager& manager, const std::vector<TokenId>& tokens, ChainMatch& chain) {
  ChainMatch::Group& found = chain.groups.front();
  const std::uint64_t count = tokens.size() / kBlockTokens;
  auto taken = manager.take(std::array{count}, "bench");
  if (!taken) return propagate(taken);
  found.blocks.reserve(count);
  for (std::uint64_t block = 0; block < count; ++block) {
    const auto part = std::span(tokens).subspan(block * kBlockTokens, kBlockTokens);
    SealedBlock sealed = manager.seal(std::move(taken->front()[block]), kBlockTokens);
    auto published = manager.publish(std::move(sealed), found.tip, part, {});
    found.blocks.push_back(std::move(published.block));
    found.tip = std::move(published.tip);
  }
  return {};
}

tl::unexpected<Error> lost(std::uint64_t tokens, std::uint64_t found) {
  return fail(ErrorCode::NotFound,
              fmt::format("of a prompt of {} tokens {} were found, so that nothing was measured",
                          tokens, found));
}

// What one thread does to the manager: prompts that come, are found again once, and go.
class Churn {
 public:
  // `prompts` fit into this thread's share of the pool.
  Churn(BlockManager& manager, std::uint32_t thread, std::uint64_t prompts)
      : manager_(manager), prompts_(prompts), tokens_(kPromptBlocks * kBlockTokens) {
    identity_.tenant = "bench";
    identity_.salt = fmt::format("{}", thread);
  }

  std::uint64_t prompts() const { return prompts_; }

  Status step() {
    // A prompt is looked up once, a quarter of the pool after it came. That makes it new again, so
    // that it is still there then, and goes half a pool later.
    const std::uint64_t age = prompts_ / 4;
    if (next_ >= age) {
      write_tokens(next_ - age);
      const ChainMatch found = manager_.match(identity_, tokens_, {}, tokens_.size());
      if (found.tokens != tokens_.size()) return lost(tokens_.size(), found.tokens);
    }
    write_tokens(next_++);
    ChainMatch chain = manager_.match(identity_, tokens_, {}, 0);
    return publish_all(manager_, tokens_, chain);
  }

 private:
  void write_tokens(std::uint64_t prompt) {
    std::iota(tokens_.begin(), tokens_.end(), static_cast<TokenId>(prompt * tokens_.size()));
  }
  BlockManager& manager_;
  CacheIdentity identity_;
  std::uint64_t prompts_;
  std::uint64_t next_ = 0;
  std::vector<TokenId> tokens_;
};

// A long prompt that others may look up while sequences hold it, as they hold a shared document.
struct LongPrompt {
  std::vector<TokenId> tokens;
  ChainMatch held;
};

// One pool and all that is measured with it.
class PoolBench {
 public:
  static Result<std::unique_ptr<PoolBench>> open(std::uint64_t blocks, std::uint32_t threads) {
    auto bench = std::unique_ptr<PoolBench>(new PoolBench(blocks, threads));
    auto manager = open_manager(blocks, &bench->holds_);
    if (!manager) return propagate(manager);
    bench->manager_ = std::move(*manager);
    bench->identity_.tenant = "bench";
    const std::uint64_t longs = std::min(kLongPromptsMax, blocks / 4 / kLongBlocks);
    for (std::uint64_t i = 0; i < longs; ++i) {
      if (const Status stored = bench->store_long(i); !stored) return propagate(stored);
    }
    const std::uint64_t left = blocks - longs * kLongBlocks;
    for (std::uint32_t thread = 0; thread < threads; ++thread) {
      bench->churns_.emplace_back(*bench->manager_, thread, left / kPromptBlocks / threads);
    }
    const Status filled = bench->run_steps(2 * bench->churns_.front().prompts());
    if (!filled) return propagate(filled);
    return bench;
  }

  std::uint64_t blocks() const { return blocks_; }
  LockHolds& holds() { return holds_; }
  bool has_long() const { return !long_.empty(); }

  // Seconds of one block's life, of each thread.
  Result<double> block_life(bool observed) {
    const std::uint64_t steps = std::min(kBlocksARound, 8 * blocks_) / kPromptBlocks;
    if (observed) holds_.start();
    const double start = now_seconds();
    const Status done = run_steps(steps);
    holds_.stop();
    if (!done) return propagate(done);
    return (now_seconds() - start) / static_cast<double>(steps * kPromptBlocks);
  }

  // Seconds of one look-up of a long prompt.
  Result<double> look_up_long(bool observed) {
    double seconds = 0;
    for (const LongPrompt& prompt : long_) {
      if (observed) holds_.start();
      const double start = now_seconds();
      const ChainMatch found = manager_->match(identity_, prompt.tokens, {}, prompt.tokens.size());
      seconds += now_seconds() - start;
      holds_.stop();  // giving back takes the lock once for each block: it would hide the look-up
      if (found.tokens != prompt.tokens.size()) return lost(prompt.tokens.size(), found.tokens);
    }
    return seconds / static_cast<double>(long_.size());
  }

 private:
  PoolBench(std::uint64_t blocks, std::uint32_t threads) : blocks_(blocks), threads_(threads) {}

  Status store_long(std::uint64_t number) {
    LongPrompt prompt;
    prompt.tokens.resize(kLongBlocks * kBlockTokens);
    std::iota(prompt.tokens.begin(), prompt.tokens.end(),
              static_cast<TokenId>(number * prompt.tokens.size()));
    prompt.held = manager_->match(identity_, prompt.tokens, {}, 0);
    const Status stored = publish_all(*manager_, prompt.tokens, prompt.held);
    long_.push_back(std::move(prompt));
    return stored;
  }

  // Threads meet again and again, so that none runs ahead and has all of the pool.
  Status run_steps(std::uint64_t steps) {
    const std::uint64_t together = std::max<std::uint64_t>(churns_.front().prompts() / 8, 1);
    for (; steps > 0; steps -= std::min(steps, together)) {
      const Status ran = run_together(std::min(steps, together));
      if (!ran) return propagate(ran);
    }
    return {};
  }

  Status run_together(std::uint64_t steps) {
    std::vector<Status> results(threads_);
    run_threads(threads_, [&](std::uint32_t thread) {
      for (std::uint64_t i = 0; i < steps && results[thread]; ++i) {
        results[thread] = churns_[thread].step();
      }
    });
    for (const Status& one : results) {
      if (!one) return propagate(one);
    }
    return {};
  }

  std::uint64_t blocks_;
  std::uint32_t threads_;
  LockHolds holds_;
  std::unique_ptr<BlockManager> manager_;
  CacheIdentity identity_;
  std::vector<LongPrompt> long_;  // after the manager: they hold its blocks
  std::vector<Churn> churns_;
};

using Pools = std::vector<std::unique_ptr<PoolBench>>;

struct PoolSubject {
  PoolBench* pool = nullptr;
  bool is_life = false;

  std::string name() const {
    return fmt::format("{}, {} blocks", is_life ? "block life" : "look-up of 128k", pool->blocks());
  }
  // With the lock observed, which costs two looks at the clock for each hold.
  Result<double> run(bool observed) const {
    return is_life ? pool->block_life(observed) : pool->look_up_long(observed);
  }
};

std::vector<PoolSubject> subjects_of(const Pools& pools) {
  std::vector<PoolSubject> subjects;
  for (const auto& pool : pools) {
    subjects.push_back({pool.get(), true});
    if (pool->has_long()) subjects.push_back({pool.get(), false});
  }
  return subjects;
}

Status observe_lock(const PoolSubject& subject, std::uint32_t rounds, Figure* figure) {
  LockHolds& holds = subject.pool->holds();
  holds.clear();
  for (std::uint32_t round = 0; round < rounds; ++round) {
    if (const auto ran = subject.run(true); !ran) return propagate(ran);
  }
  constexpr double kNanosecond = 1e-9;
  figure->lock_held_p50_seconds = static_cast<double>(holds.nanoseconds_at(0.5)) * kNanosecond;
  figure->lock_held_p99_seconds = static_cast<double>(holds.nanoseconds_at(0.99)) * kNanosecond;
  figure->lock_held_max_seconds = static_cast<double>(holds.nanoseconds_at(1)) * kNanosecond;
  return {};
}

Figure figure_of(const PoolSubject& subject, double seconds, const ManagerBenchOptions& options) {
  Figure figure;
  figure.name = subject.is_life ? "manager: life of a block" : "manager: look-up of 128k tokens";
  figure.isa = "scalar";
  figure.blocks = subject.pool->blocks();
  figure.seconds = seconds;
  if (subject.is_life) {
    figure.threads = options.threads;
    figure.operations_per_second = kOperationsPerBlock / seconds;
  }
  return figure;
}

}  // namespace

std::uint64_t manager_bench_blocks_min(std::uint32_t threads) {
  return std::uint64_t{8} * kPromptBlocks * threads;
}

Result<std::vector<Figure>> bench_manager(const ManagerBenchOptions& options) {
  Pools pools;
  for (const std::uint64_t blocks : options.blocks) {
    EMBLEMA_CHECK(blocks >= manager_bench_blocks_min(options.threads), "room for every thread");
    if (options.progress) options.progress(fmt::format("filling {} blocks", blocks), 0);
    auto pool = PoolBench::open(blocks, options.threads);
    if (!pool) return propagate(pool);
    pools.push_back(std::move(*pool));
  }
  const std::vector<PoolSubject> subjects = subjects_of(pools);
  std::vector<Subject> plain;
  for (const PoolSubject& one : subjects) {
    plain.push_back({one.name(), [one] { return one.run(false); }});
  }
  const auto seconds = run_rounds(plain, options.rounds, options.progress);
  if (!seconds) return propagate(seconds);
  std::vector<Figure> figures;
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    Figure figure = figure_of(subjects[i], median((*seconds)[i]), options);
    if (subjects[i].is_life && i > 0) {
      figure.versus.emplace_back("smallest_pool", figure.seconds / figures.front().seconds);
    }
    const Status seen = observe_lock(subjects[i], options.rounds, &figure);
    if (!seen) return propagate(seen);
    figures.push_back(std::move(figure));
  }
  return figures;
}

}  // namespace emblema::bench
