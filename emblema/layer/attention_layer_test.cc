#include "emblema/layer/attention_layer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/layer/absorbed_weights.h"
#include "emblema/layer/small_layers_testing.h"

namespace emblema {
namespace {

using small_layers::apply;
using small_layers::Doubles;
using small_layers::grouped;
using small_layers::kNormEps;
using small_layers::latent;
using small_layers::Made;
using small_layers::turn;
using small_layers::values;
using testing::HasSubstr;

// Everything below is compared with plain loops in double. Sums of at most 30 products of numbers
// of order 1, three of them in a row, each rounded to 2^-24.
constexpr double kTolerance = 5e-6;

Doubles row_of(std::span<const float> rows, std::size_t row, std::size_t width) {
  return {rows.begin() + static_cast<std::ptrdiff_t>(row * width),
          rows.begin() + static_cast<std::ptrdiff_t>((row + 1) * width)};
}

void normalise(Doubles& x, std::size_t width, const std::vector<float>& gain) {
  double squares = 0;
  for (std::size_t i = 0; i < width; ++i) squares += x[i] * x[i];
  const double rms = std::sqrt(squares / static_cast<double>(width) + kNormEps);
  for (std::size_t i = 0; i < width; ++i) x[i] = x[i] / rms * gain[i];
}

void expect_near(std::span<const float> got, const Doubles& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], expected[i], kTolerance) << what << " element " << i;
  }
}

const std::vector<std::int64_t> kPositions = {0, 1, 7, 7, 1000};

Doubles latent_query(const AttentionLayer& layer, const Doubles& hidden, std::size_t head,
                     double position) {
  const LayerWeights& w = layer.weights();
  Doubles low_rank = hidden;
  if (layer.dims().query_rank > 0) {
    low_rank = apply(w.query_down, 0, 10, hidden);
    normalise(low_rank, 10, w.query_norm);
  }
  Doubles query = apply(w.query_up, head * 10, 10, low_rank);
  turn(query, 6, 4, true, position);
  return query;
}

// [W_UK^T q_content ; q_rope]
Doubles absorbed(const AttentionLayer& layer, const Doubles& query, std::size_t head) {
  Doubles made(20, 0.0);
  for (std::size_t i = 0; i < 6; ++i) {
    for (std::size_t j = 0; j < 16; ++j) {
      made[j] += layer.weights().key_up[(head * 6 + i) * 16 + j] * query[i];
    }
  }
  std::copy(query.begin() + 6, query.end(), made.begin() + 16);
  return made;
}

void check_latent_projection(std::optional<std::uint32_t> query_rank) {
  const AttentionLayer layer = latent(query_rank).make();
  const std::vector<float> hidden = values(5 * 24, 1);
  LayerScratch scratch;
  for (const AttentionForm form : {AttentionForm::kExpanded, AttentionForm::kAbsorbed}) {
    const Projection got = layer.project(hidden, kPositions, form, scratch).value();
    ASSERT_EQ(got.count, 5u);
    ASSERT_EQ(got.query_dim, form == AttentionForm::kExpanded ? 10u : 20u);
    ASSERT_EQ(got.row_elements, 20u);
    for (std::size_t token = 0; token < 5; ++token) {
      const Doubles x = row_of(hidden, token, 24);
      const auto position = static_cast<double>(kPositions[token]);
      Doubles row = apply(layer.weights().row_down, 0, 20, x);
      normalise(row, 16, layer.weights().latent_norm);
      turn(row, 16, 4, true, position);
      expect_near(got.rows.subspan(token * 20, 20), row, "row");
      for (std::size_t head = 0; head < 3; ++head) {
        Doubles query = latent_query(layer, x, head, position);
        if (form == AttentionForm::kAbsorbed) query = absorbed(layer, query, head);
        const std::size_t width = query.size();
        expect_near(got.queries.subspan((token * 3 + head) * width, width), query, "query");
      }
    }
  }
}

TEST(AttentionLayer, ProjectsLatentsThroughALowRankQuery) {
  check_latent_projection(10);
}

TEST(AttentionLayer, ProjectsLatentsWithQueriesStraightFromTheHiddenState) {
  check_latent_projection(std::nullopt);
}

TEST(AttentionLayer, ProjectsGroupedKeysOfWhichHalfRotates) {
  const AttentionLayer layer = grouped().make();
  const std::vector<float> hidden = values(5 * 24, 2);
  LayerScratch scratch;
  const Projection got =
      layer.project(hidden, kPositions, AttentionForm::kExpanded, scratch).value();
  ASSERT_EQ(got.row_elements, 2u * (8 + 5));
  for (std::size_t token = 0; token < 5; ++token) {
    const Doubles x = row_of(hidden, token, 24);
    const auto position = static_cast<double>(kPositions[token]);
    Doubles row = apply(layer.weights().row_down, 0, 26, x);
    turn(row, 0, 4, false, position);
    turn(row, 8, 4, false, position);
    expect_near(got.rows.subspan(token * 26, 26), row, "row");
    for (std::size_t head = 0; head < 6; ++head) {
      Doubles query = apply(layer.weights().query_up, head * 8, 8, x);
      turn(query, 0, 4, false, position);
      expect_near(got.queries.subspan((token * 6 + head) * 8, 8), query, "query");
    }
  }
}

TEST(AttentionLayer, WithoutRopePositionsChangeNothing) {
  Made made = latent(10);
  made.layer.has_rope = false;
  const AttentionLayer layer = made.make();
  const std::vector<float> hidden = values(24, 3);
  LayerScratch one;
  LayerScratch two;
  const std::vector<std::int64_t> near = {0};
  const std::vector<std::int64_t> far = {900};
  const Projection a = layer.project(hidden, near, AttentionForm::kAbsorbed, one).value();
  const Projection b = layer.project(hidden, far, AttentionForm::kAbsorbed, two).value();
  EXPECT_TRUE(std::equal(a.queries.begin(), a.queries.end(), b.queries.begin()));
  EXPECT_TRUE(std::equal(a.rows.begin(), a.rows.end(), b.rows.begin()));
}

// cos and sin of YaRN at factor 32 without mscale keys carry 0.1 ln 32 + 1 = 1.346574 (arXiv
// 2309.00071), in queries and in keys.
TEST(AttentionLayer, AmplitudeOfTheRotationEntersOnce) {
  Made made = grouped();
  made.layer.rope.rotary_dim = 8;
  made.layer.rope.scaling = RopeScaling::kYarn;
  made.layer.rope.factor = 32;
  made.layer.rope.original_max_positions = 4096;
  const AttentionLayer layer = made.make();
  const std::vector<float> hidden = values(24, 4);
  const std::vector<std::int64_t> origin = {0};
  LayerScratch scratch;
  const Projection got = layer.project(hidden, origin, AttentionForm::kExpanded, scratch).value();
  const Doubles key = apply(layer.weights().row_down, 0, 8, row_of(hidden, 0, 24));
  const Doubles query = apply(layer.weights().query_up, 0, 8, row_of(hidden, 0, 24));
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_NEAR(got.rows[i], 1.346574 * key[i], 1e-5);
    EXPECT_NEAR(got.queries[i], 1.346574 * query[i], 1e-5);
  }
}

// W_O [W_UV,i u_i]
Doubles latent_output(const AttentionLayer& layer, const Doubles& latents) {
  Doubles heads;
  for (std::size_t head = 0; head < 3; ++head) {
    const Doubles u(latents.begin() + static_cast<std::ptrdiff_t>(head * 16),
                    latents.begin() + static_cast<std::ptrdiff_t>(head * 16 + 16));
    const Doubles value = apply(layer.weights().value_up, head * 5, 5, u);
    heads.insert(heads.end(), value.begin(), value.end());
  }
  return apply(layer.weights().output, 0, 24, heads);
}

TEST(AttentionLayer, OutputsFromLatentsInOneStepOrTwo) {
  const AttentionLayer layer = latent(10).make();
  const AbsorbedWeights one_step = AbsorbedWeights::from(layer).value();
  EXPECT_EQ(one_step.size_bytes(), 4u * 24 * 3 * 16);
  const std::vector<float> result = values(4 * 3 * 16, 6);
  std::vector<float> out(4 * 24);
  std::vector<float> out_one_step(4 * 24);
  LayerScratch scratch;
  ASSERT_TRUE(layer.output(result, AttentionForm::kAbsorbed, out, scratch));
  ASSERT_TRUE(one_step.output(result, out_one_step));
  for (std::size_t token = 0; token < 4; ++token) {
    const Doubles expected = latent_output(layer, row_of(result, token, 48));
    expect_near(std::span(out).subspan(token * 24, 24), expected, "two steps");
    expect_near(std::span(out_one_step).subspan(token * 24, 24), expected, "one step");
  }
}

TEST(AttentionLayer, OutputsFromHeads) {
  for (const AttentionLayer& layer : {latent(std::nullopt).make(), grouped().make()}) {
    const std::size_t width = layer.dims().query_heads * 5;
    const std::vector<float> result = values(2 * width, 7);
    std::vector<float> out(2 * 24);
    LayerScratch scratch;
    ASSERT_TRUE(layer.output(result, AttentionForm::kExpanded, out, scratch));
    for (std::size_t token = 0; token < 2; ++token) {
      expect_near(std::span(out).subspan(token * 24, 24),
                  apply(layer.weights().output, 0, 24, row_of(result, token, width)), "output");
    }
  }
}

TEST(AbsorbedWeights, SaysThatDeepSeekV3PaysMoreForOneStep) {
  LayerDims dims;
  dims.kind = RowKind::kLatent;
  dims.hidden = 7168;
  dims.query_heads = 128;
  dims.latent_dim = 512;
  dims.value_dim = 128;
  EXPECT_EQ(output_cost(dims).one_step, 469'762'048.0);
  EXPECT_EQ(output_cost(dims).two_steps, 125'829'120.0);
  EXPECT_TRUE(output_cost(dims).absorbing_costs_more());
  dims.latent_dim = 64;
  EXPECT_FALSE(output_cost(dims).absorbing_costs_more());
  EXPECT_THAT(AbsorbedWeights::from(grouped().make()).error().message, HasSubstr("grouped"));
}

TEST(AttentionLayer, ShapeIsWhatAKernelReads) {
  Made made = latent(10);
  made.layer.softcap = 30;
  made.layer.window_tokens = 9;
  const AttentionLayer layer = made.make();
  const AttentionShape shape = layer.shape();
  EXPECT_EQ(shape.kind, RowKind::kLatent);
  EXPECT_EQ(shape.query_heads, 3u);
  EXPECT_EQ(shape.kv_heads, 1u);
  EXPECT_EQ(shape.key_dim, 20u);
  EXPECT_EQ(shape.value_dim, 16u);
  EXPECT_EQ(shape.rotary_offset, 16u);
  EXPECT_EQ(shape.scale, 0.3);
  EXPECT_EQ(shape.softcap, 30.0);
  EXPECT_EQ(shape.window_tokens, 9u);
  EXPECT_EQ(shape.rope, &layer.rope());
  const AttentionShape plain = grouped().make().shape();
  EXPECT_EQ(plain.kind, RowKind::kGrouped);
  EXPECT_EQ(plain.key_dim, 8u);
  EXPECT_EQ(plain.value_dim, 5u);
  EXPECT_EQ(plain.rotary_offset, 0u);
}

TEST(AttentionLayer, EncodesTheRowsAskedFor) {
  const std::vector<float> rows = {1.0F, -2.5F, 0.5F, 3.0F, 7.0F, 0.0F};
  AttentionShape shape;
  shape.kind = RowKind::kLatent;
  shape.kv_heads = 1;
  shape.key_dim = 2;
  shape.value_dim = 1;
  const Projection projection{{}, rows, 3, 0, 2, shape};
  std::vector<std::byte> bytes(8);
  const RowTarget target = contiguous_rows(bytes.data(), 2, {.row_bytes = 4});
  ASSERT_TRUE(encode_rows(projection, 1, 2, target));
  const std::vector<int> golden = {0x00, 0x3f, 0x40, 0x40, 0xe0, 0x40, 0x00, 0x00};
  for (std::size_t i = 0; i < golden.size(); ++i) {
    EXPECT_EQ(std::to_integer<int>(bytes[i]), golden[i]) << i;
  }
  EXPECT_TRUE(encode_rows(projection, 3, 0, target));
  const Status past = encode_rows(projection, 2, 2, target);
  EXPECT_THAT(past.error().describe(), HasSubstr("Invalid: rows 2 + 2 of a projection; it has 3"));
  EXPECT_THAT(encode_rows(projection, 0, 3, target).error().message,
              HasSubstr("first_row + rows is 0 + 3; allowed: at most 2"));
  EXPECT_FALSE(encode_rows(projection, UINT64_MAX, 2, target));
}

TEST(AttentionLayer, InputsThatDoNotFitAreNamed) {
  const Made made = latent(10);
  const AttentionLayer layer = made.make();
  LayerScratch scratch;
  const std::vector<float> hidden = values(2 * 24, 8);
  const auto projected = [&](std::size_t numbers, std::vector<std::int64_t> positions) {
    const auto got = layer.project(std::span(hidden).first(numbers), positions,
                                   AttentionForm::kAbsorbed, scratch);
    return got ? std::string("accepted") : got.error().describe();
  };
  EXPECT_THAT(projected(47, {0, 1}), HasSubstr("hidden has 47 numbers; allowed: 2 positions x 24"));
  EXPECT_THAT(projected(48, {0}), HasSubstr("hidden has 48 numbers"));
  EXPECT_THAT(projected(48, {0, -1}), HasSubstr("position is -1"));
  EXPECT_EQ(projected(0, {}), "accepted");
  EXPECT_TRUE(layer.output({}, AttentionForm::kAbsorbed, {}, scratch));
  EXPECT_TRUE(AbsorbedWeights::from(layer).value().output({}, {}));
  std::vector<float> out(24);
  EXPECT_THAT(layer.output(std::span(hidden).first(47), AttentionForm::kAbsorbed, out, scratch)
                  .error()
                  .message,
              HasSubstr("result has 47 numbers and out 24; allowed: n x 3 x 16 and n x 24"));
  LayerGeometry odd = made.layer;
  odd.rope.rotary_dim = 3;
  EXPECT_FALSE(AttentionLayer::create(made.model, odd, {}));
}

}  // namespace
}  // namespace emblema
