// Fuzz target: sequences of operations of an engine. The bytes choose the model, the options and
// each operation; every byte that attention can see must be what was stored for its identity,
// context and position (Tracked), and at the end everything comes back.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "emblema/contract/check.h"
#include "emblema/session/session_testing.h"

namespace emblema {
namespace {

using namespace session_testing;

constexpr int kOperationsMax = 48;  // of one input, so that none takes long
constexpr std::size_t kLivesMax = 5;
constexpr std::uint64_t kStepTokens = 100;

// 0 where the input has ended.
class Input {
 public:
  explicit Input(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  bool ended() const { return bytes_.empty(); }
  std::uint8_t byte() {
    if (bytes_.empty()) return 0;
    const std::uint8_t first = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return first;
  }
  std::uint64_t below(std::uint64_t limit) { return byte() % limit; }

 private:
  std::span<const std::uint8_t> bytes_;
};

struct Identity {
  std::string tenant;
  std::string salt;
};
const std::vector<Identity> kIdentities = {{"a", ""}, {"b", ""}, {"a", "salt"}};

class Operations {
 public:
  explicit Operations(std::span<const std::uint8_t> bytes) : input_(bytes), engine_(open(input_)) {}

  void run() {
    for (int i = 0; i < kOperationsMax && !input_.ended(); ++i) one_operation();
    for (const Live& live : lives_) check(live);
    check_sound();
    lives_.clear();
    segments_.clear();
    pins_.clear();
    engine_.evict_idle();
    for (const BlockCounts& counts : counts_of(engine_)) {
      EMBLEMA_CHECK(counts.free == counts.capacity && counts.entries == 0, "all comes back");
    }
    check_sound();
  }

 private:
  struct Live {
    Tracked tracked;
    std::size_t identity = 0;
    std::vector<TokenId> expected;  // what commit must find from here on
    std::vector<TokenId> written;   // reserved rows that hold these tokens
  };
  struct HeldSegment {
    Segment segment;
    std::size_t identity = 0;
  };

  static Engine open(Input& input) {
    const std::uint8_t how = input.byte();
    const ModelConfig models[] = {grouped_model(), two_group_model(), latent_model()};
    constexpr unsigned kDigestBits[] = {256, 8, 1, 0};
    return open_engine(models[how % 3], 6 + how / 3 % 8,
                       {.sequence_tokens = 100,
                        .step_tokens = kStepTokens,
                        .share_content = input.below(8) != 0,
                        .seal = input.below(2) == 0 ? SealMode::kInline : SealMode::kDeferred,
                        .digest_bits_for_test = kDigestBits[input.below(4)]});
  }

  // ---- choosing --------------------------------------------------------------------------------

  // One of three texts, cut somewhere, sometimes with another end.
  std::vector<TokenId> some_tokens() {
    const std::uint64_t text = input_.below(3);
    std::vector<TokenId> tokens = tokens_from(static_cast<TokenId>(1000 * text), input_.below(140));
    if (const std::uint64_t other = input_.below(4); other > 0 && !tokens.empty()) {
      tokens.back() = static_cast<TokenId>(5000 + other);
    }
    return tokens;
  }
  StartRequest request_of(std::size_t identity, std::span<const TokenId> tokens) const {
    const Identity& who = kIdentities[identity];
    return {.tokens = tokens, .tenant = who.tenant, .salt = who.salt};
  }
  // What the bytes depend on. Salts keep callers apart but change no byte, so that equal bytes meet
  // under different keys.
  std::uint64_t context_of(std::size_t identity) const {
    return identity_word({.tenant = kIdentities[identity].tenant});
  }
  Live* some_live() { return lives_.empty() ? nullptr : &lives_[input_.below(lives_.size())]; }

  void one_operation() {
    const std::uint8_t operation = input_.byte() % 16;
    if (operation < 8) {
      if (Live* live = some_live()) return of_sequence(operation, *live);
      return start();
    }
    switch (operation) {
      case 8:
      case 9:
        return start();
      case 10:
        return make_segment();
      case 11:
        if (!segments_.empty()) segments_.erase(segments_.begin());
        return;
      case 12:
        return pin();
      case 13:
        if (!pins_.empty()) pins_.erase(pins_.begin());
        return;
      case 14:
        engine_.evict_idle();
        return;
      default:
        engine_.seal_pending(input_.below(8));
    }
  }

  void of_sequence(std::uint8_t operation, Live& live) {
    switch (operation) {
      case 0:
        reserve(live, input_.below(kStepTokens + 4));
        break;
      case 1:
        write(live);
        break;
      case 2:
        commit(live, input_.below(live.written.size() + 2));
        break;
      case 3:
      case 4:
        go_on(live);
        break;
      case 5:
        return fork(live);
      case 6:
        attach(live);
        break;
      default:
        if (input_.below(2) == 0) {
          lives_.erase(lives_.begin() + (&live - lives_.data()));
          return;
        }
        live.tracked.cancel();
        live.written.clear();
    }
    check(live);
  }

  // ---- operations ------------------------------------------------------------------------------

  void start() {
    if (lives_.size() >= kLivesMax) lives_.erase(lives_.begin());
    const std::size_t identity = input_.below(kIdentities.size());
    std::vector<TokenId> prompt = some_tokens();
    auto sequence = engine_.start(request_of(identity, prompt));
    EMBLEMA_CHECK(sequence, "a sequence starts");
    const std::uint64_t hit = sequence->hit_tokens();
    EMBLEMA_CHECK(hit == sequence->tokens() && (hit == 0 || hit < prompt.size()),
                  "a hit leaves a token to run");
    Tracked tracked(engine_, std::move(*sequence), context_of(identity), prompt);
    prompt.erase(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(hit));
    lives_.push_back({std::move(tracked), identity, std::move(prompt), {}});
    check(lives_.back());
  }

  bool reserve(Live& live, std::uint64_t n) {
    const std::uint64_t reserved = live.tracked->reserved_tokens();
    const Status ok = live.tracked->reserve(n);
    const bool too_many = reserved + n > kStepTokens;
    EMBLEMA_CHECK(ok ? !too_many
                     : ok.error().code == (too_many ? ErrorCode::Invalid : ErrorCode::OutOfBlocks),
                  "a step is refused for its size or for want of blocks");
    EMBLEMA_CHECK(live.tracked->reserved_tokens() == reserved + (ok ? n : 0), "all or nothing");
    return ok.has_value();
  }

  void write(Live& live) {
    std::vector<TokenId> ids = live.expected;
    ids.resize(live.tracked->reserved_tokens(), static_cast<TokenId>(input_.below(3)));
    live.tracked.write(ids, static_cast<std::uint8_t>(input_.below(8) == 0 ? 1 : 0));
    live.written = std::move(ids);
  }

  // `count` may be one more than what is written.
  void commit(Live& live, std::uint64_t count) {
    if (count > live.written.size()) {
      const std::vector<TokenId> ids(live.tracked->reserved_tokens() + 1, 1);
      const Status ok = live.tracked->commit(ids);
      EMBLEMA_CHECK(!ok && ok.error().code == ErrorCode::Invalid, "more than is reserved");
      return;
    }
    const Status ok = live.tracked.commit(std::span(live.written).first(count));
    EMBLEMA_CHECK(ok, "what is written can be committed");
    live.written.clear();
    const std::uint64_t met = std::min<std::uint64_t>(count, live.expected.size());
    live.expected.erase(live.expected.begin(),
                        live.expected.begin() + static_cast<std::ptrdiff_t>(met));
  }

  // What most requests do: the rest of the prompt, or some new tokens.
  void go_on(Live& live) {
    live.tracked.cancel();
    live.written.clear();
    const std::uint64_t wanted = live.expected.empty() ? input_.below(40) : live.expected.size();
    if (!reserve(live, std::min(wanted, kStepTokens))) return;
    write(live);
    commit(live, live.written.size());
  }

  void fork(Live& live) {
    if (live.tracked->reserved_tokens() > 0) {
      const auto child = live.tracked->fork();
      EMBLEMA_CHECK(!child && child.error().code == ErrorCode::Invalid, "rows are reserved");
      live.tracked.cancel();
      live.written.clear();
    }
    if (lives_.size() >= kLivesMax) return check(live);
    Live child{live.tracked.fork(), live.identity, live.expected, {}};
    lives_.push_back(std::move(child));
    check(lives_.back());
  }

  void make_segment() {
    const std::size_t identity = input_.below(kIdentities.size());
    const std::vector<TokenId> tokens = some_tokens();
    auto lookup = engine_.segment(request_of(identity, tokens));
    EMBLEMA_CHECK(lookup || (tokens.empty() && lookup.error().code == ErrorCode::Invalid),
                  "only a segment of nothing is refused");
    if (!lookup) return;
    if (lookup->builder && !build(*lookup, identity, tokens)) return;
    if (segments_.size() >= 2) segments_.erase(segments_.begin());
    segments_.push_back({std::move(*lookup->found), identity});
  }

  // In steps; some are given up on the way.
  bool build(SegmentLookup& lookup, std::size_t identity, std::span<const TokenId> tokens) {
    Sequence& sequence = lookup.builder->sequence();
    const std::vector<RowTruth> truth = truth_of(context_of(identity), tokens);
    while (sequence.tokens() < tokens.size()) {
      const std::uint64_t at = sequence.tokens();
      const std::uint64_t n = std::min(1 + input_.below(kStepTokens), tokens.size() - at);
      if (input_.below(16) == 15 || !sequence.reserve(n)) return false;
      write_rows(engine_, sequence, std::span(truth).subspan(at, n));
      EMBLEMA_CHECK(sequence.commit(tokens.subspan(at, n)), "a segment's tokens are committed");
    }
    auto sealed = lookup.builder->seal();
    EMBLEMA_CHECK(sealed, "a whole segment is sealed");
    lookup.found.emplace(std::move(*sealed));
    return true;
  }

  void attach(Live& live) {
    if (segments_.empty()) return;
    const HeldSegment& held = segments_[input_.below(segments_.size())];
    std::vector<TokenId> following = input_.below(2) == 0 ? some_tokens() : std::vector<TokenId>{};
    const bool may = held.identity == live.identity && live.expected.empty() &&
                     live.tracked->reserved_tokens() == 0;
    if (!may) {
      const auto hit = live.tracked->attach(held.segment, following);
      EMBLEMA_CHECK(!hit && hit.error().code == ErrorCode::Invalid, "attach is refused");
      return;
    }
    if (live.tracked->tokens() > 400) return;
    const auto hit = live.tracked.attach(held.segment, context_of(held.identity), following);
    EMBLEMA_CHECK(hit, "a segment is attached");
    following.erase(following.begin(), following.begin() + static_cast<std::ptrdiff_t>(*hit));
    live.expected = std::move(following);
  }

  void pin() {
    const std::size_t identity = input_.below(kIdentities.size());
    const std::vector<TokenId> tokens = some_tokens();
    if (pins_.size() >= 2) pins_.erase(pins_.begin());
    pins_.push_back(engine_.pin(request_of(identity, tokens)));
    EMBLEMA_CHECK(pins_.back().tokens() <= tokens.size(), "a pin holds what was asked");
  }

  // ---- checking --------------------------------------------------------------------------------

  static void check(const Live& live) {
    const std::string wrong = live.tracked.first_wrong_byte();
    EMBLEMA_CHECK(wrong.empty(), wrong.c_str());
  }
  void check_sound() const {
    const Status ok = engine_.check_invariants();
    EMBLEMA_CHECK(ok, ok.error().message.c_str());
  }

  Input input_;
  Engine engine_;
  std::vector<Live> lives_;
  std::vector<HeldSegment> segments_;
  std::vector<Pin> pins_;
};

}  // namespace
}  // namespace emblema

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // What session_testing.h expects must hold here as well.
  static const bool set = [] { return testing::GTEST_FLAG(break_on_failure) = true; }();
  static_cast<void>(set);
  emblema::Operations({data, size}).run();
  return 0;
}
