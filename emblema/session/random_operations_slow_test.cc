// Random operations against an independent model (random_operations_testing.h): 4 runs of 1,500
// steps in each of 32 setups, almost 2 x 10^5 steps; 10^7 and other seeds with EMBLEMA_TORTURE.
// A seed given by EMBLEMA_SEED replays.
#include <cstdlib>

#include <gtest/gtest.h>

#include "emblema/session/random_matrix_testing.h"

namespace emblema {
namespace {

using namespace session_testing;

class RandomOperationsLong : public testing::TestWithParam<RandomSetup> {};

INSTANTIATE_TEST_SUITE_P(Setups, RandomOperationsLong, testing::ValuesIn(every_setup()),
                         [](const auto& made) { return name_of(made.param); });

TEST_P(RandomOperationsLong, AgreeWithTheModel) {
  const bool torture = std::getenv("EMBLEMA_TORTURE") != nullptr;
  run_setup(GetParam(), torture ? 210 : 4, 1500);
}

}  // namespace
}  // namespace emblema
