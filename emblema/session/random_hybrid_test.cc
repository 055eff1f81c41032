// A few hundred random operations over every kind of state, each time the suite runs; more of them
// in random_hybrid_slow_test.cc.
#include <gtest/gtest.h>

#include "emblema/session/random_hybrid_testing.h"

namespace emblema {
namespace {

using namespace session_testing;

class RandomHybridOperations : public testing::TestWithParam<HybridSetup> {};

TEST_P(RandomHybridOperations, HoldAgainstWhatMustBeTrue) {
  run_hybrid(GetParam(), 2, 300);
}

INSTANTIATE_TEST_SUITE_P(All, RandomHybridOperations, testing::ValuesIn(every_hybrid_setup()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace emblema
