// Every config of test/configs and every preset, broken in every place in every way.
#include "test/config_mutation.h"

namespace emblema {
namespace {

TEST(ConfigMutation, EveryPlaceGivesARightNumberOrOneClearError) {
  EXPECT_GT(mutation_testing::check_places(0, 1), 3000u);
}

}  // namespace
}  // namespace emblema
