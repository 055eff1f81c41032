// What tests of this room share. Part of no library.
#pragma once

#include <gtest/gtest.h>

#include "emblema/layout/block_layout.h"

namespace emblema {

inline ModelLayout layout_of(const ModelConfig& model, const GeometryOptions& options = {}) {
  const auto geometry = ModelGeometry::from(model, options);
  EXPECT_TRUE(geometry) << geometry.error().describe();
  auto layout = ModelLayout::native(*geometry);
  EXPECT_TRUE(layout) << layout.error().describe();
  return *layout;
}

}  // namespace emblema
