// Random operations over an engine, held against a small independent model.
//
// After every operation, as far as the model can know it:
//   - every byte of every row that attention can see is the one that was stored for exactly this
//     identity, context, position and layer (Tracked)
//   - a hit is as long as FindModel says: never what was not stored under this identity, and all
//     that nothing can have evicted
//   - holds, bytes and classes of blocks, and what tenants are charged, equal a recount from all
//     live sequences and segments
//   - why() says of each block what the model knows of it, and changes nothing
//   - a refused operation has changed nothing
//   - memory handed to a tenant holds no row of another
// In checked builds the engine's own walkers run around every mutation as well.
//
// Swarm testing: every run draws its own weights, some of them 0 (runs that never release, that
// never fork ...). Tokens come from a tiny alphabet and prompts start like earlier ones half of the
// time, so that chains meet. One seed decides everything.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "emblema/session/find_model_testing.h"
#include "emblema/session/session_testing.h"

namespace emblema::session_testing {

struct RandomSetup {
  std::uint64_t seed = 0;
  unsigned digest_bits = 256;
  SealMode seal = SealMode::kInline;
  bool two_groups = false;
  bool share_content = true;
  bool across_tenants = false;
};

// What a run came across: a harness that never meets its subject proves nothing.
struct RandomMet {
  std::uint64_t refusals = 0;
  std::uint64_t forks = 0;
  std::uint64_t attaches = 0;
  std::uint64_t truncations = 0;
  std::uint64_t tokens_hit_behind_segments = 0;
  std::uint64_t segments_found = 0;
  std::uint64_t segments_built = 0;
  std::uint64_t evicted_named = 0;  // blocks that why() remembered
  std::uint64_t others_named = 0;   // blocks that why() found under another identity
};

class RandomRun {
 public:
  explicit RandomRun(const RandomSetup& setup)
      : setup_(setup), random_(setup.seed), engine_(open(setup)) {
    for (std::uint64_t& weight : weights_) weight = below(4) == 0 ? 0 : 1 + below(10);
    weights_[kFork] *= 3;
    weights_[kStart] = std::max<std::uint64_t>(weights_[kStart], 6);
    for (const Operation must : {kReserve, kWrite, kCommit, kRun, kScene}) {
      weights_[must] = std::max<std::uint64_t>(weights_[must], 20);
    }
    for (const Operation drastic : {kPressure, kEvict}) {
      weights_[drastic] = std::min<std::uint64_t>(weights_[drastic], 1);
    }
    noise_percent_ = below(3) == 0 ? 20 : 0;
    for (std::size_t i = 0; i < kIdentities; ++i) {
      identities_[i] = {i % 2 == 0 ? "a" : "b", i / 2 % 2 == 0 ? "" : "salt", Digest{}};
      if (i == 4) identities_[i].adapter.bytes[0] = 1;
    }
  }

  // "" or what went wrong, and at which step.
  std::string run(std::uint64_t steps) {
    for (std::uint64_t step = 0; step < steps; ++step) {
      const auto operation = static_cast<Operation>(pick_weighted());
      perform(operation);
      note_evictions();
      if (problem_.empty()) recount();
      if (problem_.empty()) read_back(step % 16 == 0);
      if (!problem_.empty()) return describe(step, operation);
    }
    lives_.clear();
    segments_.clear();
    pins_.clear();
    engine_.evict_idle();
    for (const BlockCounts& counts : counts_of(engine_)) {
      if (counts.free != counts.capacity || counts.entries != 0) {
        problem_ = "not all came back: " + in_words(counts);
        return describe(steps, kEvict);
      }
    }
    return "";
  }

  BlockStats stats() const { return engine_.stats().blocks; }
  const RandomMet& met() const { return met_; }

 private:
  enum Operation : std::size_t {
    kStart,
    kRun,
    kReserve,
    kWrite,
    kCommit,
    kCancel,
    kTruncate,
    kFork,
    kSegment,
    kScene,
    kAttach,
    kRelease,
    kReleaseSegment,
    kPin,
    kUnpin,
    kSealPending,
    kEvict,
    kPressure,
    kOperations
  };
  static constexpr std::size_t kIdentities = 5;
  static constexpr std::size_t kLivesMax = 6;
  static constexpr std::uint64_t kStepTokens = 40;
  static constexpr std::uint32_t kWindow = 20;

  struct Identity {
    std::string tenant;
    std::string salt;
    Digest adapter;
  };
  struct Live {
    Tracked tracked;
    std::size_t identity;
    std::vector<std::uint64_t> words;  // of the last part: [i] behind i of its tokens
    std::vector<TokenId> expected;     // what commit must find in this part
    std::vector<TokenId> written;      // reserved rows that hold these tokens
    std::vector<TokenId> tokens;       // of the last part, committed
    std::uint64_t part_tokens() const { return words.size() - 1; }
  };
  struct HeldSegment {
    Segment segment;
    std::size_t identity;
    std::uint64_t word;  // its chain's end
  };
  struct HeldPin {
    Pin pin;
    std::uint64_t word;
    std::size_t identity;
    std::vector<TokenId> tokens;
  };

  // A prompt, a segment behind it and what follows: agents that read one document.
  struct Scene {
    std::vector<TokenId> prompt;
    std::vector<TokenId> segment;
    std::vector<TokenId> following;
  };

  // Sometimes scarce, sometimes ample; never too many for the walkers.
  static Engine open(const RandomSetup& setup) {
    const std::uint64_t blocks = 20 + setup.seed % 3 * 6;
    return open_engine(setup.two_groups ? two_group_model(kWindow) : grouped_model(),
                       setup.two_groups ? blocks - 4 : blocks,
                       {.sequence_tokens = 100,
                        .step_tokens = kStepTokens,
                        .share_content = setup.share_content,
                        .share_content_across_tenants = setup.across_tenants,
                        .seal = setup.seal,
                        .digest_bits_for_test = setup.digest_bits});
  }

  // ---- choosing --------------------------------------------------------------------------------

  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  std::size_t pick_weighted() {
    std::uint64_t sum = 0;
    for (const std::uint64_t weight : weights_) sum += weight;
    std::uint64_t at = below(sum);
    std::size_t operation = 0;
    while (at >= weights_[operation]) at -= weights_[operation++];
    return operation;
  }
  TokenId hot_token() { return static_cast<TokenId>(below(4) == 0 ? below(1000) : 1 + below(2)); }

  std::size_t some_identity() { return below(2) == 0 ? 0 : below(kIdentities); }

  // Three quarters are like an earlier prompt, or like its beginning; or like what a running
  // sequence has come to.
  std::vector<TokenId> prompt() {
    std::vector<TokenId> tokens;
    if (!lives_.empty() && below(6) == 0) {
      tokens = lives_[below(lives_.size())].tokens;
    } else if (!prompts_.empty() && below(4) != 0) {
      tokens = prompts_[below(prompts_.size())];
      if (below(3) == 0) tokens.resize(below(tokens.size() + 1));
    }
    const std::uint64_t length = std::max<std::uint64_t>(tokens.size(), below(64));
    while (tokens.size() < length) tokens.push_back(hot_token());
    if (prompts_.size() < 6) {
      prompts_.push_back(tokens);
    } else {
      prompts_[below(prompts_.size())] = tokens;
    }
    return tokens;
  }

  StartRequest request_of(std::size_t identity, std::span<const TokenId> tokens) const {
    const Identity& who = identities_[identity];
    return {.tokens = tokens, .tenant = who.tenant, .salt = who.salt, .adapter = who.adapter};
  }
  // What the bytes depend on. Salts keep callers apart but change no byte, so that equal bytes meet
  // under different keys; tenants likewise where memory is shared across them.
  std::uint64_t byte_context(std::size_t identity) const {
    StartRequest request = request_of(identity, {});
    request.salt = {};
    if (setup_.across_tenants) request.tenant = {};
    return identity_word(request);
  }
  std::uint64_t root_word(std::size_t identity) const {
    return mix(identity_word(request_of(identity, {})), 77);
  }
  std::uint64_t segment_root(std::size_t identity, std::span<const TokenId> tokens) const {
    return mix(words_of(root_word(identity), tokens).back(), 78);
  }

  // ---- operations ------------------------------------------------------------------------------

  void perform(Operation operation);
  void start_sequence();
  void start_with(std::size_t identity, std::vector<TokenId> tokens);
  void ask_why(std::size_t identity, std::span<const TokenId> tokens,
               const std::vector<std::uint64_t>& boundaries);
  void run_prompt(Live& live);
  void reserve(Live& live, std::uint64_t n);
  void write(Live& live);
  void commit(Live& live);
  void truncate(Live& live);
  void fork(Live& live);
  void make_segment(std::size_t identity, const std::vector<TokenId>& tokens);
  void play_scene();
  void build(SegmentBuilder& builder, std::size_t identity, std::span<const TokenId> tokens,
             const std::vector<std::uint64_t>& words);
  void attach_some(Live& live);
  void attach(Live& live, const HeldSegment& held, std::vector<TokenId> following);
  void pin();
  void press();

  // ---- checking --------------------------------------------------------------------------------

  void expect(bool holds, const std::string& what) {
    if (!holds && problem_.empty()) problem_ = what;
  }
  void expect_within(FindModel::Bounds bounds, std::uint64_t boundaries, const std::string& what) {
    expect(boundaries >= bounds.low && boundaries <= bounds.high,
           what + " found " + std::to_string(boundaries) + " boundaries; possible: " +
               std::to_string(bounds.low) + " to " + std::to_string(bounds.high));
  }
  void expect_refused(bool ok, ErrorCode code, ErrorCode wanted, const std::string& what) {
    ++met_.refusals;
    expect(!ok && code == wanted, what + " was not refused as it must be");
    const std::vector<BlockCounts> now = counts_of(engine_);
    for (std::size_t g = 0; g < now.size(); ++g) {
      // Deferred sharing may let go of a block that was replaced, whatever becomes of the request.
      const bool same = setup_.seal == SealMode::kDeferred
                            ? now[g].holds == before_[g].holds && now[g].open == before_[g].open
                            : now[g] == before_[g];
      expect(same,
             what + " was refused and changed " + in_words(before_[g]) + " to " + in_words(now[g]));
    }
  }
  void note_evictions();
  void recount();
  void recount_tenants();
  void read_back(bool all);
  void remember_rows(const Live& live);
  void look_for_foreign_rows(Live& live);
  std::string describe(std::uint64_t step, Operation operation) const;

  RandomSetup setup_;
  std::mt19937_64 random_;
  Engine engine_;
  std::array<std::uint64_t, kOperations> weights_{};
  std::uint64_t noise_percent_ = 0;
  std::array<Identity, kIdentities> identities_;
  std::vector<std::vector<TokenId>> prompts_;
  std::array<Scene, 3> scenes_;
  std::vector<Live> lives_;
  std::vector<HeldSegment> segments_;
  std::vector<HeldPin> pins_;
  FindModel model_;
  std::uint64_t evicted_ = 0;
  std::uint64_t why_hit_ = 0;  // of the last ask_why()
  RandomMet met_;
  std::vector<BlockCounts> before_;
  std::unordered_map<std::uint64_t, std::string> owner_of_row_;  // by a row's first word
  std::string problem_;
};

}  // namespace emblema::session_testing

#include "emblema/session/random_operations_safety_testing.h"
#include "emblema/session/random_operations_steps_testing.h"
