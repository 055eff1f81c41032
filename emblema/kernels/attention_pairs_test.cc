// Every pair of values of what a call can vary in (storage, family, page size, queries, heads, KV
// heads, mask, length) meets in some call, and that call runs in every instruction set: against the
// double reference, and against scalar. attention_torture_test.cc runs the whole product.
#include <array>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "emblema/kernels/attention_factors_testing.h"
#include "emblema/kernels/attention_truth_testing.h"

namespace emblema {
namespace {

using namespace testing_support;

using Choice = std::array<std::size_t, kFactors>;  // an index for each factor
using Pair = std::array<std::size_t, 4>;           // factor, index, factor, index

std::set<Pair> pairs_of(const Choice& choice) {
  std::set<Pair> pairs;
  for (std::size_t a = 0; a < kFactors; ++a) {
    for (std::size_t b = a + 1; b < kFactors; ++b) pairs.insert({a, choice[a], b, choice[b]});
  }
  return pairs;
}

class PairCover {
 public:
  explicit PairCover(std::uint64_t seed) : random_(seed) {
    // Which pairs some allowed call has: two that exclude each other (a format and a width) have
    // none. Enough draws that only those stay out; the count below says so.
    for (int draw = 0; draw < 60'000; ++draw) {
      for (const Pair& pair : pairs_of(drawn())) left_.insert(pair);
    }
  }

  std::size_t left() const { return left_.size(); }

  // Of many calls that have a certain missing pair, the one with the most missing pairs.
  Choice next() {
    Choice best{};
    std::size_t most = 0;
    for (int candidate = 0; candidate < 300 || most == 0; ++candidate) {
      const Choice choice = drawn();
      std::size_t found = 0;
      for (const Pair& pair : pairs_of(choice)) found += left_.count(pair);
      if (found > most) most = found, best = choice;
    }
    for (const Pair& pair : pairs_of(best)) left_.erase(pair);
    return best;
  }

 private:
  Choice drawn() {
    Choice choice{};
    do {
      for (std::size_t f = 0; f < kFactors; ++f) choice[f] = random_() % kFactorSizes[f];
    } while (!is_allowed(choice));
    return choice;
  }

  std::mt19937_64 random_;
  std::set<Pair> left_;
};

TEST(AttentionPairs, EveryPairOfValuesInEveryInstructionSet) {
  PairCover cover(20'260'814);
  std::uint64_t calls = 0;
  while (cover.left() > 0) {
    const AttentionPlan plan = plan_of(cover.next(), ++calls);
    AttentionCase call = case_of(plan);
    expect_reference(call, plan.name());
    if (HasFatalFailure()) return;
  }
  std::printf("%lu calls\n", static_cast<unsigned long>(calls));
  EXPECT_GE(calls, kStorages.size() * kPages.size()) << "pairs of the two longest lists";
}

}  // namespace
}  // namespace emblema
