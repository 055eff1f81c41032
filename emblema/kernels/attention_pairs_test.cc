// Every pair of values of what a call can vary in (storage, family, page size, queries, heads, KV
// heads, mask, length) meets in some call, and that call runs in every instruction set: against the
// double reference, and against scalar. attention_torture_test.cc runs the whole product.
#include <array>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "emblema/kernels/attention_factors_testing.h"
#include "emblema/kernels/attention_truth_testing.h"

namespace emblema {
namespace {

using namespace testing_support;

using Choice = std::array<std::size_t, kFactors>;  // an index for each factor

constexpr std::size_t kValuesMax = 12;  // of one factor
constexpr std::size_t kValues = kFactors * kValuesMax;

// Calls found one after another, each with as many pairs of values as it can add.
class PairCover {
 public:
  explicit PairCover(std::uint64_t seed) : random_(seed), is_missing_(kValues * kValues, false) {
    // A pair of values that exclude each other (a format and a width) is in no call. Every other
    // is in one of a hundred at least.
    for (int draw = 0; draw < 20'000; ++draw) {
      const Choice choice = drawn();
      each_pair(choice, [this](std::size_t pair) {
        missing_ += is_missing_[pair] ? 0U : 1U;
        is_missing_[pair] = true;
      });
    }
  }

  std::size_t missing() const { return missing_; }

  Choice next() {
    Choice best{};
    std::size_t most = 0;
    for (int candidate = 0; candidate < 300 || most == 0; ++candidate) {
      const Choice choice = drawn();
      std::size_t found = 0;
      each_pair(choice, [&](std::size_t pair) { found += is_missing_[pair] ? 1U : 0U; });
      if (found > most) most = found, best = choice;
    }
    each_pair(best, [this](std::size_t pair) { is_missing_[pair] = false; });
    missing_ -= most;
    return best;
  }

 private:
  template <class Use>
  static void each_pair(const Choice& choice, Use&& use) {
    for (std::size_t a = 0; a < kFactors; ++a) {
      for (std::size_t b = a + 1; b < kFactors; ++b) {
        use((a * kValuesMax + choice[a]) * kValues + b * kValuesMax + choice[b]);
      }
    }
  }

  Choice drawn() {
    Choice choice{};
    do {
      for (std::size_t f = 0; f < kFactors; ++f) choice[f] = random_() % kFactorSizes[f];
    } while (!is_allowed(choice));
    return choice;
  }

  std::mt19937_64 random_;
  std::vector<bool> is_missing_;
  std::size_t missing_ = 0;
};

TEST(AttentionPairs, EveryPairOfValuesInEveryInstructionSet) {
  PairCover cover(20'260'814);
  std::uint64_t calls = 0;
  while (cover.missing() > 0) {
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
