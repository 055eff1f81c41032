// Random operations over models with state outside blocks, held against what must be true:
//   - every byte that a sequence's next token reads is the one of exactly these tokens (Hybrid)
//   - a hit ends at a boundary up to which somebody committed these very tokens; what was certainly
//     left and not evicted since is found
//   - slots, step buffers and holds equal a recount from all live sequences
//   - nothing is left when all are gone
// One seed decides everything.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

#include "emblema/session/hybrid_testing.h"

namespace emblema::session_testing {

struct HybridSetup {
  std::string name;
  ModelConfig model;
  SnapshotPolicy policy = SnapshotPolicy::kBoundaries;
  std::uint64_t drafts = 0;
  SealMode seal = SealMode::kInline;
  unsigned digest_bits = 256;
  std::uint64_t seed = 0;
};

// What a run came across: a harness that never meets its subject proves nothing.
struct HybridMet {
  std::uint64_t hit_tokens = 0;
  std::uint64_t replayed_tokens = 0;
  std::uint64_t forks = 0;
  std::uint64_t partial_commits = 0;
  std::uint64_t exact_truncations = 0;
  std::uint64_t truncations_to_a_snapshot = 0;
  std::uint64_t refusals = 0;
  std::uint64_t snapshots = 0;
  std::uint64_t evictions = 0;
};

// Numbers from a seed, or from bytes that a fuzzer chose: then 0 from their end on.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : random_(seed) {}
  explicit Draws(std::span<const std::uint8_t> bytes) : bytes_(bytes), is_seeded_(false) {}

  std::uint64_t below(std::uint64_t limit) {
    if (is_seeded_) return random_() % limit;
    std::uint64_t number = 0;
    for (std::uint64_t reach = 1; reach < limit && !bytes_.empty(); reach *= 256) {
      number = number * 256 + bytes_.front();
      bytes_ = bytes_.subspan(1);
    }
    return number % limit;
  }
  bool ended() const { return !is_seeded_ && bytes_.empty(); }

 private:
  std::mt19937_64 random_;
  std::span<const std::uint8_t> bytes_;
  bool is_seeded_ = true;
};

class RandomHybrid {
 public:
  explicit RandomHybrid(const HybridSetup& setup) : RandomHybrid(setup, Draws(setup.seed)) {}
  RandomHybrid(const HybridSetup& setup, Draws draws)
      : setup_(setup), draws_(draws), engine_(open(setup)) {
    boundary_ = ModelLayout::native(engine_.geometry())->snapshot->block_tokens;
  }

  // "" or what went wrong, and at which step.
  std::string run(std::uint64_t steps) {
    for (std::uint64_t step = 0; step < steps && problem_.empty() && !draws_.ended(); ++step) {
      const std::uint64_t operation = below(kOperations);
      perform(operation);
      recount();
      check_bytes(step % 16 == 0);
      if (!problem_.empty()) {
        return "seed " + std::to_string(setup_.seed) + " step " + std::to_string(step) +
               ", operation " + std::to_string(operation) + ": " + problem_;
      }
    }
    lives_.clear();
    pins_.clear();
    engine_.evict_idle();
    for (const BlockCounts& counts : counts_of(engine_)) {
      expect(counts.free == counts.capacity && counts.entries == 0, "not all came back");
    }
    const Status sound = engine_.check_invariants();
    expect(sound.has_value(), sound ? "" : sound.error().message);
    return problem_;
  }

  HybridMet met() const {
    HybridMet met = met_;
    met.snapshots = engine_.stats().snapshots_taken;
    met.evictions = engine_.stats().blocks.evicted_entries;
    return met;
  }

 private:
  static constexpr std::uint64_t kLivesMax = 3;
  static constexpr std::uint64_t kStepTokens = 40;
  static constexpr std::uint64_t kOperations = 13;

  struct Live {
    Hybrid hybrid;
    std::vector<TokenId> prompt;  // expected by commit() while tokens() is within it
  };

  static Engine open(const HybridSetup& setup) {
    const std::uint64_t boundary =
        ModelLayout::native(geometry_of(setup.model))->snapshot->block_tokens;
    return open_hybrid(setup.model, kLivesMax, 4 * boundary, 5,
                       {.step_tokens = kStepTokens,
                        .steps_max = 2,
                        .draft_tokens_max = setup.drafts,
                        .snapshots = setup.policy,
                        .snapshot_period_tokens = 2 * boundary,
                        .seal = setup.seal,
                        .digest_bits_for_test = setup.digest_bits});
  }

  std::uint64_t below(std::uint64_t limit) { return draws_.below(limit); }
  void expect(bool holds, const std::string& what) {
    if (!holds && problem_.empty()) problem_ = what;
  }

  // Few tokens, so that prompts meet; most go on from an earlier one, or from what was said since.
  std::vector<TokenId> prompt() {
    std::vector<TokenId> tokens;
    if (!lives_.empty() && below(4) == 0) {
      tokens = lives_[below(lives_.size())].hybrid.ids();
    } else if (!prompts_.empty() && below(4) != 0) {
      tokens = prompts_[below(prompts_.size())];
      if (below(3) == 0) tokens.resize(below(tokens.size() + 1));
    }
    const std::uint64_t length = std::max<std::uint64_t>(tokens.size(), below(3 * boundary_));
    while (tokens.size() < length) tokens.push_back(static_cast<TokenId>(1 + below(2)));
    if (prompts_.size() < 5) {
      prompts_.push_back(tokens);
    } else {
      prompts_[below(prompts_.size())] = tokens;
    }
    return tokens;
  }

  Live* some_live() { return lives_.empty() ? nullptr : &lives_[below(lives_.size())]; }

  void perform(std::uint64_t operation) {
    Live* live = some_live();
    if (operation < 2 || live == nullptr) return start();
    if (operation < 6) return step(*live);
    switch (operation) {
      case 6:
        return fork(*live);
      case 7:
        return truncate(*live);
      case 8:
        lives_.erase(lives_.begin() + (live - lives_.data()));
        return;
      case 9:
        return hold_or_drop_pin();
      case 10:
        engine_.seal_pending(below(6));
        return;
      case 11:
        for (int i = 0; i < 20 && live->hybrid.tokens() < live->prompt.size(); ++i) step(*live);
        return;
      default:
        if (below(12) == 0) engine_.evict_idle();
        return note_evictions();
    }
  }

  void start() {
    const std::vector<TokenId> tokens = prompt();
    const StartRequest request = {.tokens = tokens, .tenant = below(4) == 0 ? "b" : "a"};
    std::vector<std::uint64_t> words = {identity_word(request)};
    for (const TokenId token : tokens) words.push_back(after_token(words.back(), token));
    auto sequence = engine_.start(request);
    if (!sequence) {
      ++met_.refusals;
      return expect(lives_.size() == kLivesMax && sequence.error().code == ErrorCode::OutOfBlocks,
                    "start: " + sequence.error().message);
    }
    const std::uint64_t hit = sequence->hit_tokens();
    check_hit(words, tokens.empty() ? 0 : tokens.size() - 1, hit);
    met_.hit_tokens += hit;
    lives_.push_back({Hybrid(engine_, std::move(*sequence), words.front(), tokens), tokens});
    lives_.back().hybrid.set_drafts(setup_.drafts);
    replay(lives_.back());
  }

  void replay(Live& live) {
    met_.replayed_tokens += live.hybrid->replay().count;
    if (live.hybrid->replay().count == 0) return;
    const Status ok = live.hybrid.replay(1 + below(kStepTokens));
    if (!ok && ok.error().code == ErrorCode::OutOfBlocks) {  // no step buffer: given up
      lives_.erase(lives_.begin() + (&live - lives_.data()));
      return;
    }
    expect(ok.has_value(), ok ? "" : "replay: " + ok.error().message);
  }

  // Neither more than was ever committed, nor less than is certainly there.
  void check_hit(const std::vector<std::uint64_t>& words, std::uint64_t limit, std::uint64_t hit) {
    expect(hit % boundary_ == 0 && hit <= limit, "a hit ends at " + std::to_string(hit));
    if (hit > 0) expect(ever_.contains(words[hit]), "a hit on what was never committed");
    for (std::uint64_t at = boundary_; at <= limit; at += boundary_) {
      if (present_.contains(words[at])) {
        expect(hit >= at, "what was left at " + std::to_string(at) + " was not found");
      }
    }
  }

  void step(Live& live) {
    Hybrid& hybrid = live.hybrid;
    if (hybrid.tokens() > 6 * boundary_) return;
    std::uint64_t n = 1 + below(below(3) == 0 ? 4 : kStepTokens);
    if (below(3) != 0) {
      const auto next = hybrid->next_snapshot();
      if (next) n = std::min(n, *next - hybrid.tokens());
    }
    std::vector<TokenId> ids;
    for (std::uint64_t at = hybrid.tokens(); ids.size() < n; ++at) {
      ids.push_back(at < live.prompt.size() ? live.prompt[at] : static_cast<TokenId>(1 + below(2)));
    }
    const auto before = counts_of(engine_);
    const auto arena = engine_.stats().arena;
    if (const Status ok = hybrid->reserve(n); !ok) {
      ++met_.refusals;
      expect(ok.error().code == ErrorCode::OutOfBlocks, "reserve: " + ok.error().message);
      expect(counts_of(engine_) == before && engine_.stats().arena == arena, "a refusal's trace");
      return;
    }
    note_evictions();
    hybrid.write(ids);
    if (below(8) == 0) return hybrid->cancel();
    const std::uint64_t rejected = below(2) == 0 ? 0 : below(std::min(setup_.drafts, n - 1) + 1);
    ids.resize(n - rejected);
    met_.partial_commits += rejected > 0 ? 1 : 0;
    const std::uint64_t refused = engine_.stats().snapshots_refused;
    const Status ok = hybrid.commit(ids);
    expect(ok.has_value(), ok ? "" : "commit: " + ok.error().message);
    const bool left = engine_.stats().snapshots_refused == refused;
    hybrid->cancel();
    note_evictions();
    if (ok) note_stored(hybrid, ids.size(), left);
  }

  void note_stored(const Hybrid& hybrid, std::uint64_t count, bool left) {
    const std::uint64_t end = hybrid.tokens();
    for (std::uint64_t at = end - count + 1; at <= end; ++at) {
      if (at % boundary_ == 0) ever_.insert(hybrid.words()[at]);
    }
    // With every boundary wanted and this one stepped on, its snapshot is there; by period, blocks
    // are enough.
    const bool sure = setup_.policy == SnapshotPolicy::kFull && end % boundary_ == 0;
    if (sure && left) present_.insert(hybrid.words()[end]);
  }

  // From here on nothing is certain but what a pin keeps.
  void note_evictions() {
    const EngineStats stats = engine_.stats();
    const std::uint64_t gone = stats.blocks.evicted_entries + stats.snapshots_refused;
    if (gone == gone_) return;
    gone_ = gone;
    present_.clear();
    for (const HeldPin& pin : pins_) {
      if (setup_.policy == SnapshotPolicy::kFull) present_.insert(pin.word);
    }
  }

  void fork(Live& live) {
    auto child = live.hybrid->fork();
    if (!child) {
      ++met_.refusals;
      return expect(lives_.size() == kLivesMax, "fork: " + child.error().message);
    }
    { const Sequence given_up = std::move(*child); }
    lives_.push_back({live.hybrid.fork(), live.prompt});
    ++met_.forks;
  }

  void truncate(Live& live) {
    Hybrid& hybrid = live.hybrid;
    const std::uint64_t tokens = hybrid.tokens();
    const std::uint64_t n =
        below(2) == 0 ? tokens - std::min(tokens, below(setup_.drafts + 2)) : below(tokens + 1);
    const std::vector<TokenId> ids = hybrid.ids();
    const std::vector<std::uint64_t> words = hybrid.words();
    const auto again = hybrid.truncate(n);
    if (!again) return expect(false, "truncate: " + again.error().message);
    expect(again->first + again->count == n && hybrid.tokens() == again->first,
           "a half-true state");
    live.prompt.assign(ids.begin(),
                       ids.begin() + static_cast<std::ptrdiff_t>(again->count > 0 ? n : 0));
    if (again->count == 0) {
      ++met_.exact_truncations;
    } else {
      ++met_.truncations_to_a_snapshot;
      check_hit(words, n, again->first);
    }
    if (problem_.empty()) replay(live);
  }

  void hold_or_drop_pin() {
    if (!pins_.empty() && below(2) == 0) {
      pins_.erase(pins_.begin());
      return;
    }
    if (pins_.size() >= 2) return;
    const std::vector<TokenId> tokens = prompt();
    const StartRequest request = {.tokens = tokens, .tenant = "a"};
    std::vector<std::uint64_t> words = {identity_word(request)};
    for (const TokenId token : tokens) words.push_back(after_token(words.back(), token));
    Pin pin = engine_.pin(request);
    check_hit(words, tokens.size(), pin.tokens());
    if (pin.tokens() == 0) return;
    const std::uint64_t word = words[pin.tokens()];
    pins_.push_back({std::move(pin), word});
  }

  void recount() {
    const StateArena::Counts arena = engine_.stats().arena;
    expect(arena.slots_used == lives_.size(), "slots");
    expect(arena.steps_used == 0, "a step buffer stayed behind");
    for (std::uint32_t g = 0; g < engine_.layout().groups.size(); ++g) {
      std::uint64_t holds = 0;
      for (Live& live : lives_) holds += live.hybrid->held_blocks(g).size();
      expect(engine_.counts(g).holds == holds, "holds of group " + std::to_string(g));
    }
  }

  void check_bytes(bool all) {
    if (lives_.empty()) return;
    const std::uint64_t one = below(lives_.size());
    for (std::uint64_t i = 0; i < lives_.size(); ++i) {
      if (!all && i != one) continue;
      const std::string wrong = lives_[i].hybrid.first_wrong_byte();
      expect(wrong.empty(), "sequence " + std::to_string(i) + " " + wrong);
    }
  }

  struct HeldPin {
    Pin pin;
    std::uint64_t word;
  };

  HybridSetup setup_;
  Draws draws_;
  Engine engine_;
  std::uint64_t boundary_ = 0;
  std::vector<std::vector<TokenId>> prompts_;
  std::vector<Live> lives_;
  std::vector<HeldPin> pins_;
  std::unordered_set<std::uint64_t> ever_;     // contexts behind a committed boundary
  std::unordered_set<std::uint64_t> present_;  // certainly found
  std::uint64_t gone_ = 0;
  HybridMet met_;
  std::string problem_;
};

inline std::vector<HybridSetup> every_hybrid_setup() {
  std::vector<HybridSetup> setups;
  const SnapshotPolicy policies[] = {SnapshotPolicy::kBoundaries, SnapshotPolicy::kFull,
                                     SnapshotPolicy::kPeriodic};
  for (const SnapshotPolicy policy : policies) {
    for (const std::uint64_t drafts : {0u, 3u}) {
      for (const unsigned bits : {256u, 8u, 0u}) {
        const auto add = [&](const std::string& name, const ModelConfig& model) {
          std::string all = name;
          for (const char c : to_string(policy)) all += c;
          all += "Drafts" + std::to_string(drafts) + "Bits" + std::to_string(bits);
          setups.push_back({all, model, policy, drafts,
                            bits == 8 ? SealMode::kDeferred : SealMode::kInline, bits});
        };
        add("Recurrent", recurrent_model());
        add("RecurrentWindow", recurrent_window_model());
        add("RecurrentChunk", recurrent_chunk_model());
      }
      HybridSetup v4{
          .name = "Compressed" + std::string(to_string(policy)) + "Drafts" + std::to_string(drafts),
          .model = compressed_model(),
          .policy = policy,
          .drafts = drafts};
      setups.push_back(v4);
    }
  }
  setups.push_back(
      {.name = "Compressedzero", .model = compressed_model(), .policy = SnapshotPolicy::kZero});
  return setups;
}

inline void PrintTo(const HybridSetup& setup, std::ostream* out) {
  *out << setup.name;
}

// `runs` seeds in a row, or the one of EMBLEMA_SEED.
inline void run_hybrid(HybridSetup setup, std::uint64_t runs, std::uint64_t steps) {
  const Seeds seeds(20'261'201, runs);
  HybridMet sum;
  for (std::uint64_t i = 0; i < seeds.runs; ++i) {
    setup.seed = seeds.announced(i);
    RandomHybrid run(setup);
    ASSERT_EQ(run.run(steps), "");
    const HybridMet met = run.met();
    sum.hit_tokens += met.hit_tokens;
    sum.replayed_tokens += met.replayed_tokens;
    sum.forks += met.forks;
    sum.partial_commits += met.partial_commits;
    sum.exact_truncations += met.exact_truncations;
    sum.truncations_to_a_snapshot += met.truncations_to_a_snapshot;
    sum.refusals += met.refusals;
    sum.snapshots += met.snapshots;
    sum.evictions += met.evictions;
  }
  if (seeds.runs == 1) return;
  EXPECT_GT(sum.hit_tokens, 0u);
  EXPECT_GT(sum.forks, 0u);
  EXPECT_GT(sum.exact_truncations, 0u);
  EXPECT_GT(sum.truncations_to_a_snapshot, 0u);
  EXPECT_GT(sum.refusals, 0u);
  EXPECT_GT(sum.evictions, 0u);
  if (setup.drafts > 0) {
    EXPECT_GT(sum.partial_commits, 0u);
  }
  if (setup.policy == SnapshotPolicy::kPeriodic || setup.policy == SnapshotPolicy::kZero) {
    EXPECT_GT(sum.replayed_tokens, 0u);
  } else {
    EXPECT_GT(sum.snapshots, 0u);
  }
}

}  // namespace emblema::session_testing
