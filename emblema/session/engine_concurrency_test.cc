// Many threads over one engine, each with sequences of its own over shared prompts, one of them
// sharing content meanwhile: no wrong byte, no lost block, nothing for ThreadSanitizer to find.
#include <atomic>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "emblema/session/session_testing.h"

namespace emblema {
namespace {

using namespace session_testing;

// One thread's requests: prompts of a few that all threads use, forks, segments, aborts.
class Requests {
 public:
  Requests(Engine* engine, unsigned seed) : engine_(engine), random_(seed) {}

  void run(int rounds) {
    for (int round = 0; round < rounds && wrong_.empty(); ++round) one_request();
  }
  const std::string& wrong() const { return wrong_; }
  std::uint64_t hit_tokens() const { return hit_tokens_; }

 private:
  void check(const Tracked& tracked) {
    if (wrong_.empty()) wrong_ = tracked.first_wrong_byte();
  }

  void one_request() {
    const std::vector<TokenId> prompt =
        tokens_from(static_cast<TokenId>(random_() % 3 * 1000), 10 + random_() % 40);
    const StartRequest request = {.tokens = prompt};
    auto started = engine_->start(request);
    if (!started) return;
    Tracked sequence(*engine_, std::move(*started), identity_word(request), prompt);
    hit_tokens_ += sequence->hit_tokens();
    check(sequence);
    if (!sequence.extend(std::span(prompt).subspan(sequence->tokens()))) return;
    check(sequence);
    if (random_() % 2 == 0) {
      Tracked child = sequence.fork();
      if (!child.extend(tokens_from(static_cast<TokenId>(7000 + random_() % 2), 9))) return;
      check(child);
    }
    if (random_() % 3 == 0) with_segment(&sequence);
    if (!sequence.extend(tokens_from(static_cast<TokenId>(8000 + random_() % 2), 9))) return;
    check(sequence);
    if (random_() % 4 == 0) (void)sequence->reserve(20);  // and aborted
  }

  void with_segment(Tracked* sequence) {
    const std::vector<TokenId> document = tokens_from(9000, 37);
    auto lookup = engine_->segment({.tokens = document});
    if (!lookup) return;
    if (!lookup->found) {
      Sequence& building = lookup->builder->sequence();
      const auto truth = truth_of(identity_word({}), document);
      const std::uint64_t done = building.tokens();
      if (!building.reserve(document.size() - done)) return;
      write_rows(*engine_, building, std::span(truth).subspan(done));
      if (!building.commit(std::span(document).subspan(done))) return;
      auto sealed = lookup->builder->seal();
      if (!sealed) return;
      lookup->found.emplace(std::move(*sealed));
    }
    if (sequence->attach(*lookup->found, identity_word({}))) check(*sequence);
  }

  Engine* engine_;
  std::mt19937 random_;
  std::string wrong_;
  std::uint64_t hit_tokens_ = 0;
};

struct Setup {
  std::string name;
  ModelConfig model;
  SealMode seal;
};

// As ctest names the case; without it, bytes that change with every run.
void PrintTo(const Setup& setup, std::ostream* out) {
  *out << setup.name;
}

class ManyRequests : public testing::TestWithParam<Setup> {};

INSTANTIATE_TEST_SUITE_P(
    Setups, ManyRequests,
    testing::Values(Setup{"OneGroupInline", grouped_model(), SealMode::kInline},
                    Setup{"OneGroupDeferred", grouped_model(), SealMode::kDeferred},
                    Setup{"TwoGroupsInline", two_group_model(), SealMode::kInline},
                    Setup{"TwoGroupsDeferred", two_group_model(), SealMode::kDeferred}),
    [](const auto& made) { return made.param.name; });

TEST_P(ManyRequests, ReadOnlyWhatWasStoredAndGiveEverythingBack) {
  Engine engine =
      open_engine(GetParam().model, 30, {.sequence_tokens = 100, .seal = GetParam().seal});
  std::vector<Requests> work;
  for (unsigned seed = 1; seed <= 4; ++seed) work.emplace_back(&engine, seed);
  std::atomic<bool> done = false;
  {
    std::jthread sealing([&] {
      while (!done) engine.seal_pending(3);
    });
    {
      std::vector<std::jthread> threads;
      threads.reserve(work.size());
      for (Requests& one : work) threads.emplace_back([&one] { one.run(60); });
    }
    done = true;
  }
  std::uint64_t hit_tokens = 0;
  for (const Requests& one : work) {
    EXPECT_EQ(one.wrong(), "");
    hit_tokens += one.hit_tokens();
  }
  EXPECT_GT(hit_tokens, 0u);
  expect_all_given_back(engine);
}

// Requests of one tenant on many threads: what they hold together stays within its quota at every
// moment, and what they were refused leaves nothing on its account.
TEST(TenantQuota, IsKeptByManyThreads) {
  // 8 blocks of 2 layers: a prompt of 5 blocks cannot be forked, even alone.
  constexpr std::uint64_t kQuotaBytes = std::uint64_t{8} * 2 * 16 * 32;
  Engine engine = open_engine(grouped_model(), 60, {.tenant_quota_bytes = kQuotaBytes});
  std::atomic<std::uint64_t> most = 0;
  std::atomic<std::uint64_t> refused = 0;
  std::atomic<std::uint64_t> wrong = 0;
  const auto request = [&](unsigned seed) {
    std::mt19937 random(seed);
    for (int round = 0; round < 200; ++round) {
      const std::vector<TokenId> prompt =
          tokens_from(static_cast<TokenId>(random() % 3 * 1000), 10 + random() % 60);
      auto sequence = engine.start({.tokens = prompt, .tenant = "t"});
      if (!sequence) {
        ++refused;
        continue;
      }
      const auto rest = std::span(prompt).subspan(sequence->tokens());
      if (!sequence->reserve(rest.size())) {
        ++refused;
        continue;
      }
      if (!sequence->commit(rest)) ++wrong;
      const auto child = sequence->fork();
      refused += child ? 0 : 1;
      const std::uint64_t held = engine.usage("t").held_bytes;
      std::uint64_t seen = most;
      while (held > seen && !most.compare_exchange_weak(seen, held)) continue;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned seed = 1; seed <= 4; ++seed) threads.emplace_back(request, seed);
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_LE(most, kQuotaBytes);
  EXPECT_GT(refused, 0u);
  EXPECT_EQ(engine.usage("t").refusals, refused);
  EXPECT_EQ(engine.usage("t").held_bytes, 0u);
  expect_all_given_back(engine);
}

// The two ends of a fork are two threads': the tail's other holder may go between the question
// whether to copy and the answer. The other thread waits for each child and drops it at once.
TEST(ForkedTails, MayBeLetGoWhileTheOtherEndGoesOn) {
  Engine engine = open_engine(grouped_model(), 80);
  std::atomic<std::optional<Sequence>*> handed = nullptr;
  std::atomic<bool> done = false;
  std::jthread other([&] {
    while (!done) {
      if (std::optional<Sequence>* child = handed.load()) {
        child->reset();
        handed = nullptr;
      }
    }
  });
  std::string wrong;
  for (int round = 0; round < 300 && wrong.empty(); ++round) {
    Tracked parent = start(engine, {});
    if (!parent.extend(tokens_from(1, 19))) wrong = "no room";
    std::optional<Sequence> child(parent->fork().value());
    handed = &child;
    if (!parent.extend(tokens_from(100, 5))) wrong = "no room";
    while (handed.load() != nullptr) std::this_thread::yield();
    const Tracked again = parent.fork();
    if (wrong.empty()) wrong = parent.first_wrong_byte();
    if (parent->held_blocks(0).size() != 2) wrong = "a block too many";
  }
  done = true;
  other.join();
  EXPECT_EQ(wrong, "");
  expect_all_given_back(engine);
}

}  // namespace
}  // namespace emblema
