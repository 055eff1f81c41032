// Random operations against an independent model (random_operations_testing.h), a short run of
// every setup. The long runs: random_operations_slow_test.cc. A seed given by EMBLEMA_SEED replays.
#include <gtest/gtest.h>

#include "emblema/session/random_matrix_testing.h"

namespace emblema {
namespace {

using namespace session_testing;

class RandomOperations : public testing::TestWithParam<RandomSetup> {};

INSTANTIATE_TEST_SUITE_P(Setups, RandomOperations, testing::ValuesIn(every_setup()),
                         [](const auto& made) { return name_of(made.param); });

TEST_P(RandomOperations, AgreeWithTheModel) {
  run_setup(GetParam(), 4, 500);
}

}  // namespace
}  // namespace emblema
