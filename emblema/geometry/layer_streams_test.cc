// Layers that differ from one another in more than their window.
#include <gtest/gtest.h>

#include "emblema/geometry/model_geometry.h"
#include "test/model_samples.h"

namespace emblema {
namespace {

using samples::grouped;

ModelGeometry geometry_of(const ModelConfig& model) {
  auto geometry = ModelGeometry::from(model);
  EXPECT_TRUE(geometry) << geometry.error().describe();
  return *geometry;
}

TEST(LayerByLayer, HeadsOfEachLayerWhereTheyGrowWithDepth) {
  // OpenELM lists query and KV heads per layer: all of its layers are groups of four.
  ModelConfig model = grouped("openelm", 3, 20, 5, 64);
  for (std::size_t i = 0; i < 3; ++i) {
    model.layers[i].num_attention_heads = static_cast<std::uint32_t>(12 + 4 * i);
    model.layers[i].num_key_value_heads = static_cast<std::uint32_t>(3 + i);
  }
  const ModelGeometry geometry = geometry_of(model);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(geometry.layers()[i].query_heads, 12 + 4 * i);
    EXPECT_EQ(geometry.layers()[i].kv_heads, 3 + i);
    EXPECT_EQ(geometry.layers()[i].kind, "gqa");
  }
  EXPECT_EQ(geometry.growing_bytes_per_token().value(),
            Rational(std::uint64_t{3 + 4 + 5} * 2 * 64 * 2));
  // As many KV heads as the layer's own query heads is MHA, though the widest layer has more.
  model.layers[0].num_key_value_heads = 12;
  EXPECT_EQ(geometry_of(model).layers()[0].kind, "mha");
}

TEST(LayerByLayer, SinksOfEachLayerWhereOnlyWindowsHaveThem) {
  // MiMo-V2 gives sinks, and more KV heads, to its sliding layers alone.
  ModelConfig model = grouped("mimo-v2", 2, 64, 4, 192);
  samples::set_window(&model.layers[1], 128);
  model.layers[1].num_key_value_heads = 8;
  model.layers[1].has_sinks = true;
  model.has_attention_sinks = true;
  const ModelGeometry geometry = geometry_of(model);
  EXPECT_FALSE(geometry.layers()[0].has_sinks);
  EXPECT_TRUE(geometry.layers()[1].has_sinks);
  EXPECT_EQ(geometry.layers()[1].kv_heads, 8u);
}

}  // namespace
}  // namespace emblema
