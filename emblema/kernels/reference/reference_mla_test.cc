// Absorbed = expanded, to 1e-12 in double (DeepSeek-V2 section 2.1.3: the up-projections move to
// the query and to the output, and the cache holds only latents).
#include "emblema/kernels/reference/reference_mla.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "emblema/kernels/attention_case_testing.h"

namespace emblema {
namespace {

using testing_support::relative_difference;

class Drawn {
 public:
  explicit Drawn(std::uint64_t seed) : random_(seed) {}
  std::vector<double> matrix(std::size_t outputs, std::size_t inputs) {
    std::vector<double> values(outputs * inputs);
    for (double& v : values) v = normal_(random_) / std::sqrt(static_cast<double>(inputs));
    return values;
  }
  std::vector<double> vector(std::size_t count) { return matrix(count, 1); }

 private:
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
};

MlaWeights weights_of(std::uint32_t query_rank) {
  MlaWeights w;
  w.hidden_size = 48;
  w.heads = 5;
  w.query_rank = query_rank;
  w.latent_rank = 20;
  w.nope_dim = 12;
  w.rope_dim = 8;
  w.value_dim = 10;
  w.scale = 1.0 / std::sqrt(20.0);
  Drawn drawn(11);
  if (query_rank > 0) {
    w.query_down = drawn.matrix(query_rank, w.hidden_size);
    w.query_norm = drawn.vector(query_rank);
  }
  w.query_up = drawn.matrix(w.heads * 20, query_rank > 0 ? query_rank : w.hidden_size);
  w.latent_down = drawn.matrix(w.latent_rank, w.hidden_size);
  w.latent_norm = drawn.vector(w.latent_rank);
  w.rope_key = drawn.matrix(w.rope_dim, w.hidden_size);
  w.key_up = drawn.matrix(std::size_t{w.heads} * w.nope_dim, w.latent_rank);
  w.value_up = drawn.matrix(std::size_t{w.heads} * w.value_dim, w.latent_rank);
  w.output = drawn.matrix(w.hidden_size, std::size_t{w.heads} * w.value_dim);
  return w;
}

RopeTable yarn_table() {
  RopeFacts facts;
  facts.rotary_dim = 8;
  facts.interleaved = true;
  facts.scaling = RopeScaling::kYarn;
  facts.factor = 40;
  facts.original_max_positions = 4096;
  facts.mscale = 1.0;
  facts.mscale_all_dim = 0.707;
  return RopeTable::from(facts, 163840).value();
}

struct Cached {
  std::vector<double> rows;
  std::vector<ReferenceRows::Place> places;
};

// `count` tokens written at positions 0, 1, ... and read `delta` further on.
Cached cache_of(const MlaWeights& w, const RopeTable& rope, std::size_t count, std::int64_t written,
                std::int64_t delta) {
  Cached cached;
  Drawn drawn(12);
  for (std::size_t j = 0; j < count; ++j) {
    const std::int64_t position = written + static_cast<std::int64_t>(j);
    const std::vector<double> row = mla_row(w, rope, drawn.vector(w.hidden_size), position);
    cached.rows.insert(cached.rows.end(), row.begin(), row.end());
    cached.places.push_back({position + delta, delta});
  }
  return cached;
}

TEST(ReferenceMla, AbsorbedIsExpandedWithAndWithoutAQueryRank) {
  const RopeTable rope = yarn_table();
  for (const std::uint32_t query_rank : {0U, 14U}) {
    const MlaWeights w = weights_of(query_rank);
    const Cached cached = cache_of(w, rope, 23, 0, 0);
    const std::vector<double> hidden = Drawn(13).vector(w.hidden_size);
    const auto expanded = mla_expanded(w, rope, hidden, 22, cached.rows, cached.places);
    const auto absorbed = mla_absorbed(w, rope, hidden, 22, cached.rows, cached.places);
    const auto both =
        mla_absorbed_both(w, rope, mla_output_product(w), hidden, 22, cached.rows, cached.places);
    ASSERT_EQ(expanded.size(), 48U);
    EXPECT_LE(relative_difference(absorbed, expanded), 1e-12) << query_rank;
    EXPECT_LE(relative_difference(both, expanded), 1e-12) << query_rank;
  }
}

TEST(ReferenceMla, ARelocatedSpanIsOneEncodedAtItsNewPosition) {
  const RopeTable rope = yarn_table();
  const MlaWeights w = weights_of(14);
  const Cached relocated = cache_of(w, rope, 9, 0, 500);
  const Cached fresh = cache_of(w, rope, 9, 500, 0);
  const std::vector<double> hidden = Drawn(14).vector(w.hidden_size);
  const auto want = mla_expanded(w, rope, hidden, 512, fresh.rows, fresh.places);
  const auto expanded = mla_expanded(w, rope, hidden, 512, relocated.rows, relocated.places);
  const auto absorbed = mla_absorbed(w, rope, hidden, 512, relocated.rows, relocated.places);
  EXPECT_LE(relative_difference(expanded, want), 1e-12);
  EXPECT_LE(relative_difference(absorbed, want), 1e-12);
}

TEST(ReferenceMla, TheLatentIsNormalisedAndThePositionTouchesOnlyTheRopePart) {
  const RopeTable rope = yarn_table();
  MlaWeights w = weights_of(0);
  w.latent_norm.assign(w.latent_rank, 1.0);
  const std::vector<double> hidden = Drawn(15).vector(w.hidden_size);
  const std::vector<double> here = mla_row(w, rope, hidden, 3);
  const std::vector<double> there = mla_row(w, rope, hidden, 4);
  double squares = 0.0;
  for (std::size_t i = 0; i < w.latent_rank; ++i) {
    EXPECT_EQ(here[i], there[i]);
    squares += here[i] * here[i];
  }
  EXPECT_NEAR(squares, w.latent_rank, 1e-3);  // norm_epsilon takes a little
  EXPECT_NE(here[w.latent_rank], there[w.latent_rank]);
}

}  // namespace
}  // namespace emblema
