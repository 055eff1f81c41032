// What sharing means in numbers: a small random attention stack runs over the cache, and its
// results are held against stacks that share nothing.
//
//   prefix   rows found by a prompt are the rows that it would have computed
//   fork     two branches are two independent runs
//   segment  a span attached at p is the span encoded alone with its keys freshly rotated at p; it
//            is not the span read behind the prefix: from layer 1 on those latents differ, and a
//            test says by how much, so that nobody takes one for the other
//
// Geometries: MLA, GQA, and GQA with windows (two groups); fp32 and bf16 rows.
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "emblema/kernels/attention.h"
#include "emblema/kernels/reference/reference_attention.h"
#include "emblema/layer/attention_layer.h"
#include "emblema/layer/rms_norm.h"
#include "emblema/layer/seeded_values.h"
#include "emblema/session/engine.h"
#include "test/model_samples.h"

namespace emblema {
namespace {

struct Setup {
  std::string name;
  ModelConfig model;
  KvDtype dtype;
  double tolerance;  // relative, in norm, of hidden states behind the last layer
};

constexpr std::uint64_t kHidden = 64;

ModelConfig latent_model() {
  ModelConfig model = samples::latent("tiny-mla", 3, 4);
  model.hidden_size = kHidden;
  model.q_lora_rank = 24;
  model.kv_lora_rank = 32;
  model.qk_nope_head_dim = 16;
  model.qk_rope_head_dim = 8;
  model.v_head_dim = 16;
  for (LayerFacts& layer : model.layers) layer.rope.rotary_dim = 8;
  return model;
}

ModelConfig grouped_model() {
  return samples::grouped("tiny-gqa", 3, 4, 2, 16);
}

ModelConfig window_model() {
  ModelConfig model = grouped_model();
  samples::set_window(&model.layers[0], 24);
  samples::set_window(&model.layers[2], 24);
  return model;
}

std::vector<TokenId> tokens_from(TokenId first, std::size_t count) {
  std::vector<TokenId> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

std::vector<float> embedding_of(std::span<const TokenId> ids) {
  std::vector<float> hidden(ids.size() * kHidden);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    fill_uniform(std::span(hidden).subspan(i * kHidden, kHidden), mix_bits(ids[i] + 1), 1.7F);
  }
  return hidden;
}

double relative_difference(std::span<const float> got, std::span<const float> expected) {
  double difference = 0;
  double norm = 0;
  EXPECT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    difference += std::pow(static_cast<double>(got[i]) - expected[i], 2);
    norm += std::pow(static_cast<double>(expected[i]), 2);
  }
  return std::sqrt(difference / norm);
}

// The layers, and how tokens run through them over a sequence of an engine.
class Stack {
 public:
  explicit Stack(const Setup& setup)
      : geometry_(ModelGeometry::from(setup.model, {.kv_dtype = setup.dtype}).value()) {
    for (const LayerGeometry& layer : geometry_.layers()) {
      layers_.push_back(AttentionLayer::create(setup.model, layer, {.seed = 5}).value());
    }
  }

  Engine open() const {
    return Engine::open(geometry_, {.pool_bytes = std::uint64_t{8} << 20}).value();
  }
  std::size_t depth() const { return layers_.size(); }
  const AttentionLayer& layer(std::size_t index) const { return layers_[index]; }
  const LayerGeometry& geometry(std::size_t index) const { return geometry_.layers()[index]; }

  // Reserves, writes and attends layer by layer, commits; gives back the last hidden states.
  std::vector<float> run(Sequence& sequence, std::span<const TokenId> ids) {
    EXPECT_TRUE(sequence.reserve(ids.size()));
    std::vector<float> hidden = embedding_of(ids);
    for (std::uint32_t l = 0; l < depth(); ++l) {
      const Projection made = project(l, hidden, sequence.tokens());
      write(sequence, l, made);
      attend(sequence, l, made, &hidden);
    }
    EXPECT_TRUE(sequence.commit(ids));
    return hidden;
  }

  // The declared meaning of a segment, without sharing: the span sees only itself (in `alone`, from
  // position 0), and its rows are written afresh behind `sequence`, rotated at their new positions.
  void run_alone_and_place(Sequence& alone, Sequence& sequence, std::span<const TokenId> ids) {
    EXPECT_TRUE(alone.reserve(ids.size()));
    EXPECT_TRUE(sequence.reserve(ids.size()));
    std::vector<float> hidden = embedding_of(ids);
    for (std::uint32_t l = 0; l < depth(); ++l) {
      write(sequence, l, project(l, hidden, sequence.tokens()));
      const Projection made = project(l, hidden, alone.tokens());
      write(alone, l, made);
      attend(alone, l, made, &hidden);
    }
    EXPECT_TRUE(alone.commit(ids));
    EXPECT_TRUE(sequence.commit(ids));
  }

  // The part of the rows that carries no rotation: latents, or values.
  std::vector<float> content(const Sequence& sequence, std::uint32_t l, std::uint64_t first,
                             std::uint64_t count) const {
    const LayerDims& dims = layers_[l].dims();
    const StreamRole role = geometry(l).streams.front().role;
    std::vector<float> all;
    std::vector<float> row(dims.row_elements());
    for (std::uint64_t position = first; position < first + count; ++position) {
      const ConstByteSpan bytes = sequence.row_bytes(l, role, position);
      EXPECT_FALSE(bytes.empty());
      for (std::size_t i = 0; i < row.size(); ++i) {
        const std::size_t at = i * (bits_per_element(encoding(l)) / 8);
        row[i] = static_cast<float>(reference_element(bytes.data() + at, encoding(l)));
      }
      const std::size_t begin = dims.is_latent() ? 0 : dims.kv_heads * dims.content_dim;
      const std::size_t end = dims.is_latent() ? dims.latent_dim : row.size();
      all.insert(all.end(), row.begin() + static_cast<std::ptrdiff_t>(begin),
                 row.begin() + static_cast<std::ptrdiff_t>(end));
    }
    return all;
  }

 private:
  Encoding encoding(std::uint32_t l) const {
    return geometry(l).streams.front().regions.front().encoding;
  }

  Projection project(std::uint32_t l, std::span<const float> hidden, std::uint64_t first) {
    normed_.resize(hidden.size());
    rms_norm(hidden, kHidden, std::vector<float>(kHidden, 1.0F), 1e-6, normed_);
    std::vector<std::int64_t> positions(hidden.size() / kHidden);
    std::iota(positions.begin(), positions.end(), static_cast<std::int64_t>(first));
    return layers_[l].project(normed_, positions, AttentionForm::kAbsorbed, scratch_).value();
  }

  void write(Sequence& sequence, std::uint32_t l, const Projection& made) {
    const auto view =
        sequence.rows(l, geometry(l).streams.front().role, sequence.tokens(), made.count);
    ASSERT_TRUE(view) << view.error().message;
    std::uint64_t next = 0;
    for (std::uint64_t c = 0; c < view->size(); ++c) {
      const RowChunk chunk = (*view)[c];
      const PagedRows stored{.row_bytes = chunk.row_bytes, .encoding = encoding(l)};
      ASSERT_TRUE(
          encode_rows(made, next, chunk.rows, contiguous_rows(chunk.data, chunk.rows, stored)));
      next += chunk.rows;
    }
  }

  void attend(Sequence& sequence, std::uint32_t l, const Projection& made,
              std::vector<float>* hidden) {
    const AttentionLayer& layer = layers_[l];
    const auto inputs = sequence.inputs(l, made.queries.data(), sequence.tokens(), made.count);
    ASSERT_TRUE(inputs) << inputs.error().message;
    const std::uint64_t heads = layer.dims().query_heads;
    std::vector<float> result(made.count * heads *
                              layer.dims().result_dim(AttentionForm::kAbsorbed));
    std::vector<float> lse(made.count * heads);
    const Status done = decode_attention(*inputs, result, lse);
    ASSERT_TRUE(done) << done.error().message;
    std::vector<float> more(hidden->size());
    ASSERT_TRUE(layer.output(result, AttentionForm::kAbsorbed, more, scratch_));
    for (std::size_t i = 0; i < more.size(); ++i) (*hidden)[i] += more[i];
  }

  ModelGeometry geometry_;
  std::vector<AttentionLayer> layers_;
  LayerScratch scratch_;
  std::vector<float> normed_;
};

// As ctest names the case; without it, bytes that change with every run.
void PrintTo(const Setup& setup, std::ostream* out) {
  *out << setup.name;
}

class SharedAttention : public testing::TestWithParam<Setup> {};

// fp32: the roundings of some thousand products and sums of 2^-24 each. bf16: rows that differ in
// their last bit where a value was rotated at another position before it was rounded, 2^-9 each.
INSTANTIATE_TEST_SUITE_P(Setups, SharedAttention,
                         testing::Values(Setup{"MlaFp32", latent_model(), KvDtype::kFp32, 1e-5},
                                         Setup{"MlaBf16", latent_model(), KvDtype::kBf16, 4e-3},
                                         Setup{"GqaFp32", grouped_model(), KvDtype::kFp32, 1e-5},
                                         Setup{"GqaBf16", grouped_model(), KvDtype::kBf16, 4e-3},
                                         Setup{"WindowsFp32", window_model(), KvDtype::kFp32, 1e-5},
                                         Setup{"WindowsBf16", window_model(), KvDtype::kBf16,
                                               4e-3}),
                         [](const auto& made) { return made.param.name; });

const std::vector<TokenId> kPreamble = tokens_from(1, 21);
const std::vector<TokenId> kDocument = tokens_from(9000, 70);
const std::vector<TokenId> kQuestion = tokens_from(500, 9);

TEST_P(SharedAttention, BehindASharedPrefixEqualsUnsharedRecomputation) {
  Stack stack(GetParam());
  Engine shared = stack.open();
  Engine alone = stack.open();
  std::vector<TokenId> prompt = kPreamble;
  prompt.insert(prompt.end(), kDocument.begin(), kDocument.end());
  {
    Sequence first = shared.start({.tokens = prompt}).value();
    stack.run(first, prompt);
  }
  prompt.insert(prompt.end(), kQuestion.begin(), kQuestion.end());
  Sequence second = shared.start({.tokens = prompt}).value();
  ASSERT_GT(second.hit_tokens(), 0u);
  const auto rest = std::span(prompt).subspan(second.hit_tokens());
  const std::vector<float> got = stack.run(second, rest);
  Sequence fresh = alone.start({.tokens = prompt}).value();
  const std::vector<float> expected = stack.run(fresh, prompt);
  EXPECT_LT(relative_difference(got, std::span(expected).last(got.size())), GetParam().tolerance);
}

TEST_P(SharedAttention, BranchesOfAForkEqualIndependentRuns) {
  Stack stack(GetParam());
  Engine shared = stack.open();
  Sequence parent = shared.start({}).value();
  stack.run(parent, kPreamble);
  Sequence child = parent.fork().value();
  const std::vector<TokenId> left = tokens_from(300, 30);
  const std::vector<TokenId> right = tokens_from(700, 30);
  const std::vector<float> got_left = stack.run(parent, left);
  const std::vector<float> got_right = stack.run(child, right);
  for (const auto& [ids, got] : {std::pair(left, got_left), std::pair(right, got_right)}) {
    Engine alone = stack.open();
    Sequence fresh = alone.start({}).value();
    std::vector<TokenId> all = kPreamble;
    all.insert(all.end(), ids.begin(), ids.end());
    const std::vector<float> expected = stack.run(fresh, all);
    EXPECT_LT(relative_difference(got, std::span(expected).last(got.size())), GetParam().tolerance);
  }
}

Segment encode(Stack& stack, Engine& engine, std::span<const TokenId> ids) {
  auto lookup = engine.segment({.tokens = ids}).value();
  stack.run(lookup.builder->sequence(), ids);
  return lookup.builder->seal().value();
}

TEST_P(SharedAttention, OverASegmentEqualsItsKeysFreshlyRotatedAtTheAttachedPosition) {
  Stack stack(GetParam());
  Engine shared = stack.open();
  const Segment segment = encode(stack, shared, kDocument);
  for (const std::size_t before : {std::size_t{0}, std::size_t{1}, kPreamble.size()}) {
    const auto preamble = std::span(kPreamble).first(before);
    Sequence sequence = shared.start({}).value();
    stack.run(sequence, preamble);
    ASSERT_TRUE(sequence.attach(segment));
    const std::vector<float> got = stack.run(sequence, kQuestion);

    Engine alone = stack.open();
    Sequence isolated = alone.start({.tenant = "isolated"}).value();
    Sequence placed = alone.start({}).value();
    stack.run(placed, preamble);
    stack.run_alone_and_place(isolated, placed, kDocument);
    const std::vector<float> expected = stack.run(placed, kQuestion);
    EXPECT_LT(relative_difference(got, expected), GetParam().tolerance) << before;
  }
}

TEST_P(SharedAttention, TwoSegmentsInARowSeeTheirOwnPositions) {
  Stack stack(GetParam());
  Engine shared = stack.open();
  const std::vector<TokenId> other = tokens_from(4000, 19);
  const Segment first = encode(stack, shared, kDocument);
  const Segment second = encode(stack, shared, other);
  Sequence sequence = shared.start({}).value();
  stack.run(sequence, kPreamble);
  ASSERT_TRUE(sequence.attach(second));
  ASSERT_TRUE(sequence.attach(first));
  const std::vector<float> got = stack.run(sequence, kQuestion);

  Engine alone = stack.open();
  Sequence isolated = alone.start({.tenant = "isolated"}).value();
  Sequence isolated_too = alone.start({.tenant = "isolated"}).value();
  Sequence placed = alone.start({}).value();
  stack.run(placed, kPreamble);
  stack.run_alone_and_place(isolated, placed, other);
  stack.run_alone_and_place(isolated_too, placed, kDocument);
  const std::vector<float> expected = stack.run(placed, kQuestion);
  EXPECT_LT(relative_difference(got, expected), GetParam().tolerance);
}

// Rotation repairs position, never context. Layer 0 sees only the token itself; from layer 1 on a
// document read behind a preamble has other latents than the same document read alone.
TEST_P(SharedAttention, TheSameTokensBehindAPrefixDifferFromLayerOneOn) {
  Stack stack(GetParam());
  Engine engine = stack.open();
  Sequence alone = engine.start({.tenant = "alone"}).value();
  Sequence behind = engine.start({.tenant = "behind"}).value();
  stack.run(behind, kPreamble);
  // Few enough that no window has let go of them.
  const auto document = std::span(kDocument).first(20);
  stack.run(alone, document);
  stack.run(behind, document);
  for (std::uint32_t l = 0; l < stack.depth(); ++l) {
    const double difference =
        relative_difference(stack.content(behind, l, kPreamble.size(), document.size()),
                            stack.content(alone, l, 0, document.size()));
    if (l == 0) {
      EXPECT_LT(difference, GetParam().tolerance);
    } else {
      EXPECT_GT(difference, 0.05) << "layer " << l;
    }
  }
}

}  // namespace
}  // namespace emblema
