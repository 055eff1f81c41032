// A part of test/config_mutation_slow_test.cc that the fast suite has time for.
#include "test/config_mutation.h"

namespace emblema {
namespace {

TEST(ConfigMutation, EverySixteenthPlaceGivesARightNumberOrOneClearError) {
  EXPECT_GT(mutation_testing::check_places(5, 16), 150u);
}

}  // namespace
}  // namespace emblema
