// Sequences of a hybrid model on several threads over one engine: shared snapshots, forks handed
// from thread to thread, taking tokens back, refusals. No wrong byte, nothing lost, nothing for
// ThreadSanitizer to find.
#include <atomic>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "emblema/session/hybrid_testing.h"

namespace emblema {
namespace {

using namespace session_testing;

constexpr std::uint64_t kThreads = 3;

class HybridRequests {
 public:
  HybridRequests(Engine* engine, unsigned seed) : engine_(engine), random_(seed) {}

  void run(int rounds) {
    for (int round = 0; round < rounds && wrong_.empty(); ++round) one_request();
  }
  const std::string& wrong() const { return wrong_; }
  std::uint64_t hit_tokens() const { return hit_tokens_; }

 private:
  void check(const Hybrid& hybrid) {
    if (wrong_.empty()) wrong_ = hybrid.first_wrong_byte();
  }

  // A refused start, fork or step is given up; what is there must be right.
  void one_request() {
    const std::vector<TokenId> prompt =
        tokens_from(static_cast<TokenId>(random_() % 3 * 1000), 20 + random_() % 50);
    const StartRequest request = {.tokens = prompt};
    auto started = engine_->start(request);
    if (!started) return;
    Hybrid sequence(*engine_, std::move(*started), identity_word(request), prompt);
    hit_tokens_ += sequence.tokens();
    check(sequence);
    if (!sequence.run(prompt, 16)) return check(sequence);
    check(sequence);
    auto child = sequence->fork();
    if (child) {
      // The other thread writes while this one does.
      Hybrid forked = sequence.adopt(std::move(*child));
      std::thread other([&] {
        (void)forked.step(tokens_from(7000, 9));
        forked_wrong_ = forked.first_wrong_byte();
      });
      (void)sequence.step(tokens_from(8000, 5));
      check(sequence);
      other.join();
      if (wrong_.empty()) wrong_ = forked_wrong_;
    }
    if (random_() % 2 == 0) (void)sequence.truncate(random_() % (sequence.tokens() + 1));
    check(sequence);
    if (random_() % 4 == 0) (void)sequence->reserve(3);  // and aborted
  }

  Engine* engine_;
  std::mt19937 random_;
  std::string wrong_;
  std::string forked_wrong_;
  std::uint64_t hit_tokens_ = 0;
};

class HybridThreads : public testing::TestWithParam<SnapshotPolicy> {};
INSTANTIATE_TEST_SUITE_P(Policies, HybridThreads,
                         testing::Values(SnapshotPolicy::kBoundaries, SnapshotPolicy::kFull),
                         [](const auto& made) { return std::string(to_string(made.param)); });

TEST_P(HybridThreads, ReadOnlyWhatWasStoredAndGiveEverythingBack) {
  Engine engine =
      open_hybrid(recurrent_window_model(), 5, 90, 4,
                  {.steps_max = 4, .snapshots = GetParam(), .seal = SealMode::kDeferred});
  std::vector<HybridRequests> requests;
  for (unsigned i = 0; i < kThreads; ++i) requests.emplace_back(&engine, i + 1);
  std::atomic<bool> done = false;
  std::thread sealer([&] {
    while (!done) {
      engine.seal_pending(3);
      const Pin pin = engine.pin({.tokens = tokens_from(1000, 40)});
      std::this_thread::yield();
    }
  });
  std::vector<std::thread> threads;
  for (HybridRequests& one : requests) threads.emplace_back([&one] { one.run(60); });
  for (std::thread& thread : threads) thread.join();
  done = true;
  sealer.join();
  std::uint64_t hit_tokens = 0;
  for (const HybridRequests& one : requests) {
    EXPECT_EQ(one.wrong(), "");
    hit_tokens += one.hit_tokens();
  }
  EXPECT_GT(hit_tokens, 0u);
  EXPECT_GT(engine.stats().snapshots_taken, 0u);
  EXPECT_EQ(engine.stats().arena.slots_used, 0u);
  expect_all_given_back(engine);
}

}  // namespace
}  // namespace emblema
