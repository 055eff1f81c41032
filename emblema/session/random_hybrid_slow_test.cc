// The long form of random_hybrid_test.cc: 4 runs of up to 900 steps in each setup, 40 times as many
// with EMBLEMA_TORTURE.
#include <cstdlib>

#include <gtest/gtest.h>

#include "emblema/session/random_hybrid_testing.h"

namespace emblema {
namespace {

using namespace session_testing;

class RandomHybridLong : public testing::TestWithParam<HybridSetup> {};

TEST_P(RandomHybridLong, HoldAgainstWhatMustBeTrue) {
  const bool torture = std::getenv("EMBLEMA_TORTURE") != nullptr;
  // DeepSeek-V4's rows are wide: a step over them costs as much as ten over the others.
  const bool is_wide = GetParam().model.family == AttentionFamily::kCompressed;
  run_hybrid(GetParam(), torture ? 160 : 4, is_wide ? 400 : 900);
}

INSTANTIATE_TEST_SUITE_P(All, RandomHybridLong, testing::ValuesIn(every_hybrid_setup()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace emblema
