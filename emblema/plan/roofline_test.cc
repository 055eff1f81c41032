#include "emblema/plan/roofline.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "test/model_samples.h"

namespace emblema {
namespace {

using testing::HasSubstr;

ModelGeometry geometry_of(const ModelConfig& model, const GeometryOptions& options = {}) {
  auto geometry = ModelGeometry::from(model, options);
  EXPECT_TRUE(geometry) << geometry.error().describe();
  return *geometry;
}

AttentionStep step_of(const ModelGeometry& rank, std::uint64_t tokens) {
  const auto step = attention_step(rank, tokens);
  EXPECT_TRUE(step) << step.error().describe();
  return step.value_or(AttentionStep{});
}

Rational intensity(const ModelConfig& model, std::uint64_t tokens = 4096) {
  return *intensity_of(step_of(geometry_of(model), tokens));
}

Hardware gpu(const char* name) {
  return *resolve_hardware({.gpu = name});
}

// A rank's share of heads under tensor parallelism; latents stay whole.
ModelConfig with_heads(ModelConfig model, std::uint32_t query_heads, std::uint32_t kv_heads) {
  model.num_attention_heads = query_heads;
  for (LayerFacts& layer : model.layers) {
    layer.num_attention_heads = query_heads;
    layer.num_key_value_heads = kv_heads;
  }
  return model;
}

// I = 2g / b with g queries per KV head and b bytes per number: context and head width cancel.
TEST(Roofline, GroupedHeadsReadOnceForTheirGroup) {
  const ModelConfig llama = samples::llama_3_70b();
  EXPECT_EQ(intensity(llama), Rational(8));
  EXPECT_EQ(intensity(llama, 1), Rational(8));
  EXPECT_EQ(intensity(with_heads(llama, 64, 64)), Rational(1));
  EXPECT_EQ(intensity(with_heads(llama, 64, 1)), Rational(64));
  const AttentionStep step = step_of(geometry_of(llama), 8192);
  EXPECT_EQ(step.flop, UINT64_C(80) * 2 * 64 * 256 * 8192);
  EXPECT_EQ(step.bytes, 327'680u * 8192);
  EXPECT_EQ(step.indexer_flop, 0u);
}

TEST(Roofline, TensorParallelismLeavesGroupedIntensityAlone) {
  const ModelConfig llama = samples::llama_3_70b();
  EXPECT_EQ(intensity(with_heads(llama, 8, 1)), Rational(8));   // 8 ranks
  EXPECT_EQ(intensity(with_heads(llama, 4, 1)), Rational(4));   // 16: KV heads are repeated
  EXPECT_EQ(intensity(with_heads(llama, 32, 4)), Rational(8));  // 2
}

// 2 x 128 x (2 x 512 + 64) / (2 x 576) = 241.78, and a rank's share of heads less under TP.
TEST(Roofline, LatentIntensityFallsWithTensorParallelism) {
  const ModelConfig v3 = samples::deepseek_v3();
  EXPECT_EQ(intensity(v3), Rational::of(2 * 128 * 1088, 1152));
  EXPECT_EQ(intensity(with_heads(v3, 16, 1)), Rational::of(2 * 16 * 1088, 1152));
  EXPECT_EQ(intensity(with_heads(v3, 8, 1)), Rational::of(2 * 8 * 1088, 1152));
}

TEST(Roofline, NarrowRowsAreDenserInFlop) {
  const ModelGeometry rank = geometry_of(samples::deepseek_v3(), {.kv_dtype = KvDtype::kFp8DsMla});
  EXPECT_EQ(*intensity_of(step_of(rank, 100)), Rational::of(2 * 128 * 1088, 656));
}

TEST(Roofline, WindowsAndChunksAreReadAsFarAsTheyReach) {
  const AttentionStep oss = step_of(geometry_of(samples::gpt_oss_120b()), 8192);
  EXPECT_EQ(oss.bytes, UINT64_C(18) * 2048 * (8192 + 128));
  EXPECT_EQ(oss.flop, UINT64_C(18) * 2 * 64 * 128 * (8192 + 128));
  ModelConfig chunked = samples::grouped("chunked", 1, 8, 8, 64);
  chunked.layers[0].reach = LayerReach::kChunk;
  chunked.layers[0].window_tokens = 100;
  const ModelGeometry rank = geometry_of(chunked);
  EXPECT_EQ(step_of(rank, 100).bytes, UINT64_C(100) * 2048);
  EXPECT_EQ(step_of(rank, 101).bytes, 1u * 2048);
}

TEST(Roofline, ALayerThatSharesReadsTheOtherLayersRows) {
  ModelConfig model = samples::grouped("shared", 2, 8, 2, 64);
  const AttentionStep own = step_of(geometry_of(model), 1000);
  model.layers[1].cache = LayerCache::kShared;
  model.layers[1].shares_with = 0;
  const AttentionStep shared = step_of(geometry_of(model), 1000);
  EXPECT_EQ(shared.bytes, own.bytes);
  EXPECT_EQ(shared.flop, own.flop);
}

TEST(Roofline, SparseAttentionReadsItsChoiceAndScoresEverything) {
  const ModelGeometry rank = geometry_of(samples::deepseek_v3_2());
  const AttentionStep far = step_of(rank, 131'072);
  EXPECT_EQ(far.indexer_flop, UINT64_C(61) * 2 * 64 * 128 * 131'072);
  EXPECT_EQ(far.indexer_bytes, UINT64_C(61) * 256 * 131'072);
  EXPECT_EQ(far.flop - far.indexer_flop, UINT64_C(61) * 2 * 128 * 1088 * 2048);
  EXPECT_EQ(far.bytes - far.indexer_bytes, UINT64_C(61) * 1152 * 2048);
  const AttentionStep near = step_of(rank, 100);
  EXPECT_EQ(near.flop - near.indexer_flop, UINT64_C(61) * 2 * 128 * 1088 * 100);
}

// 30 CSA and 31 HCA layers (4939.5 = 30 x 160 + 31 x 4.5 bytes per token), each with a window.
TEST(Roofline, DeepseekV4ReadsCompressedRowsAndTheWindow) {
  const ModelGeometry rank =
      geometry_of(*load_model_config("deepseek-v4-pro"), {.kv_dtype = KvDtype::kFp8Rope16});
  const AttentionStep step = step_of(rank, 8192);
  EXPECT_EQ(step.indexer_flop, UINT64_C(30) * 2 * 64 * 128 * 2048);
  EXPECT_EQ(step.indexer_bytes, UINT64_C(30) * 64 * 2048);
  EXPECT_EQ(step.flop - step.indexer_flop, UINT64_C(30) * 2 * 128 * 1024 * (1024 + 128) +
                                               UINT64_C(31) * 2 * 128 * 1024 * (64 + 128));
  EXPECT_EQ(step.bytes - step.indexer_bytes, 576u * (30 * (1024 + 128) + 31 * (64 + 128)));
  const AttentionStep first = step_of(rank, 1);  // nothing is compressed yet
  EXPECT_EQ(first.bytes, 61u * 576);
}

// 989.4 TFLOP/s / 3.35 TB/s = 295.34 FLOP/B.
TEST(Roofline, BelowTheRidgeMemoryBounds) {
  const AttentionStep step = step_of(geometry_of(samples::deepseek_v3()), 8192);
  const auto point = place_on_roofline(step, gpu("h100"));
  ASSERT_TRUE(point);
  EXPECT_EQ(point->ridge, Rational::of(98'940, 335));
  EXPECT_EQ(point->bound, Bound::kBandwidth);
  EXPECT_EQ(to_string(point->bound), "memory bandwidth");
  EXPECT_EQ(point->least_seconds, Rational::of(70'272u * 8192, 3'350'000'000'000));
  EXPECT_EQ(point->attainable_flops, 809'955'555'555'555u);  // 2176/9 x 3.35e12, rounded down
}

TEST(Roofline, AboveTheRidgeComputeBounds) {
  const AttentionStep step = step_of(geometry_of(samples::deepseek_v3()), 8192);
  const auto point = place_on_roofline(step, gpu("h20"));  // ridge 37
  ASSERT_TRUE(point);
  EXPECT_EQ(point->bound, Bound::kCompute);
  EXPECT_EQ(point->attainable_flops, 148'000'000'000'000u);
  EXPECT_EQ(point->least_seconds, Rational::of(step.flop, 148'000'000'000'000));
}

TEST(Roofline, WithoutAttentionNothingBounds) {
  ModelConfig model = samples::grouped("none", 1, 8, 8, 64);
  model.layers[0].cache = LayerCache::kNone;
  model.layers[0].num_attention_heads = 0;
  model.num_attention_heads = 0;
  const AttentionStep step = step_of(geometry_of(model), 100);
  EXPECT_EQ(step.bytes, 0u);
  const auto point = place_on_roofline(step, gpu("h100"));
  ASSERT_TRUE(point);
  EXPECT_EQ(point->bound, Bound::kNothing);
  EXPECT_EQ(point->intensity, Rational());
}

// A row is read once per step; only layers that share read what others hold too.
TEST(Roofline, NoPresetReadsMoreThanItHolds) {
  for (const Preset& preset : presets()) {
    const auto model = load_model_config(preset.name);
    ASSERT_TRUE(model) << preset.name;
    const ModelGeometry rank = geometry_of(*model);
    const bool shares =
        std::any_of(rank.layers().begin(), rank.layers().end(),
                    [](const LayerGeometry& l) { return l.shares_with.has_value(); });
    for (const std::uint64_t tokens : {1u, 130u, 8'192u, 1'048'576u}) {
      const AttentionStep step = step_of(rank, tokens);
      EXPECT_GT(step.flop, 0u) << preset.name;
      EXPECT_LE(step.indexer_flop, step.flop) << preset.name;
      EXPECT_LE(step.indexer_bytes, step.bytes) << preset.name;
      if (shares) continue;
      EXPECT_LE(step.bytes, *rank.bytes_per_sequence(tokens)) << preset.name << " " << tokens;
    }
  }
}

TEST(Roofline, RefusesLengthsAndHardwareThatMakeNoSense) {
  const ModelGeometry rank = geometry_of(samples::llama_3_70b());
  EXPECT_THAT(attention_step(rank, 0).error().message, HasSubstr("context is 0"));
  EXPECT_FALSE(attention_step(rank, (UINT64_C(1) << 40) + 1));
  const AttentionStep step = step_of(rank, 1);
  const auto none = place_on_roofline(step, Hardware{.name = "custom"});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::Invalid);
  EXPECT_THAT(none.error().message, HasSubstr("bandwidth of custom is not given"));
  EXPECT_FALSE(ridge_of(Hardware{.name = "x", .bandwidth_bytes_per_second = 0, .bf16_flops = 1}));
}

RC_GTEST_PROP(RooflineProperty, NoStepIsFasterThanEitherBound, ()) {
  const auto tokens = *rc::gen::inRange<std::uint64_t>(1, 1 << 20);
  const auto bandwidth = *rc::gen::inRange<std::uint64_t>(1, 1 << 30);
  const auto flops = *rc::gen::inRange<std::uint64_t>(1, 1 << 30);
  const auto hardware = resolve_hardware({.bandwidth_bytes_per_second = bandwidth, .flops = flops});
  const AttentionStep step = step_of(geometry_of(samples::deepseek_v3_2()), tokens);
  const auto point = place_on_roofline(step, *hardware);
  RC_ASSERT(point.has_value());
  const double seconds = point->least_seconds.approximate();
  const double by_memory = static_cast<double>(step.bytes) / static_cast<double>(bandwidth);
  const double by_compute = static_cast<double>(step.flop) / static_cast<double>(flops);
  RC_ASSERT(seconds >= by_memory * (1 - 1e-12) && seconds >= by_compute * (1 - 1e-12));
  RC_ASSERT(point->attainable_flops <= flops);
}

}  // namespace
}  // namespace emblema
