// The whole product of what a call can vary in, in an order that its seed gives, for as long as the
// time allows: every instruction set against the double reference. The seed is printed; a plan that
// fails prints itself. EMBLEMA_SEED runs another order.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "emblema/kernels/attention_factors_testing.h"
#include "emblema/kernels/attention_truth_testing.h"

namespace emblema {
namespace {

using namespace testing_support;

constexpr std::chrono::minutes kBudget{20};

std::array<std::size_t, kFactors> choice_of(std::size_t index) {
  std::array<std::size_t, kFactors> choice{};
  for (std::size_t f = 0; f < kFactors; ++f) {
    choice[f] = index % kFactorSizes[f];
    index /= kFactorSizes[f];
  }
  return choice;
}

std::vector<std::array<std::size_t, kFactors>> every_choice() {
  std::size_t product = 1;
  for (const std::size_t size : kFactorSizes) product *= size;
  std::vector<std::array<std::size_t, kFactors>> choices;
  for (std::size_t index = 0; index < product; ++index) {
    if (is_allowed(choice_of(index))) choices.push_back(choice_of(index));
  }
  return choices;
}

TEST(AttentionTorture, TheWholeProduct) {
  const char* given = std::getenv("EMBLEMA_SEED");
  const std::uint64_t seed = given == nullptr ? 20'260'814 : std::strtoull(given, nullptr, 10);
  std::vector<std::array<std::size_t, kFactors>> choices = every_choice();
  std::shuffle(choices.begin(), choices.end(), std::mt19937_64(seed));
  const auto end = std::chrono::steady_clock::now() + kBudget;
  std::size_t done = 0;
  while (done < choices.size() && std::chrono::steady_clock::now() < end && !HasFailure()) {
    const AttentionPlan plan = plan_of(choices[done], seed + done);
    AttentionCase call = case_of(plan);
    expect_reference(call, plan.name());
    ++done;
  }
  std::printf("seed %lu: %zu of %zu calls\n", static_cast<unsigned long>(seed), done,
              choices.size());
}

}  // namespace
}  // namespace emblema
