#include "emblema/layer/prefill.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/kernels/attention.h"
#include "emblema/layer/prefill_case_testing.h"

namespace emblema {
namespace {

using testing::HasSubstr;
using namespace prefill_case;  // NOLINT: this file is about nothing else

constexpr float kNothing = -std::numeric_limits<float>::infinity();

void check_prompt(const Made& made, std::uint64_t count, Encoding encoding) {
  const AttentionLayer layer = made.make();
  const Prompt prompt = project(layer, count, 0, encoding, count);
  const Pages pages(prompt.rows, layer.dims().row_elements(), encoding, 3);
  const std::vector<Span> spans = {{pages.order(), 3, count, 0, 0}};
  for (const AttentionForm form : {AttentionForm::kExpanded, AttentionForm::kAbsorbed}) {
    const Outcome outcome = run(layer, form, prompt.queries(form), spans, 0, pages.paged());
    expect_definition(layer, form, outcome, in_place(prompt.rows, count, 0), prompt.expanded, 0);
  }
}

TEST(Prefill, ExpandedAndAbsorbedAreTheDefinitionInDouble) {
  for (const std::uint64_t count : {1U, 2U, 5U, 37U}) {
    check_prompt(latent(), count, Encoding::kBf16);
    check_prompt(grouped(), count, Encoding::kBf16);
    check_prompt(latent(), count, Encoding::kFp16);
    check_prompt(grouped(), count, Encoding::kFp32);
  }
}

TEST(Prefill, LongPromptsCrossTilesOfQueriesAndKeys) {
  check_prompt(latent(), 531, Encoding::kBf16);
  Made made = grouped();
  made.layer.window_tokens = 270;
  check_prompt(made, 531, Encoding::kBf16);
}

TEST(Prefill, WindowSoftcapAndSinksAreTheDefinitionInDouble) {
  for (Made made : {latent(), grouped()}) {
    made.layer.window_tokens = 5;
    check_prompt(made, 23, Encoding::kBf16);
    made.layer.softcap = 0.8;
    made.layer.has_sinks = true;
    check_prompt(made, 23, Encoding::kBf16);
    made.layer.window_tokens = 1;
    check_prompt(made, 9, Encoding::kBf16);
  }
}

TEST(Prefill, ChunksAreTheDefinitionInDouble) {
  for (Made made : {latent(), grouped()}) {
    for (const std::uint32_t chunk : {1U, 4U, 16U, 23U}) {
      made.layer.chunk_tokens = chunk;
      check_prompt(made, 23, Encoding::kBf16);
    }
  }
  Made made = grouped();
  made.layer.chunk_tokens = 256;
  check_prompt(made, 531, Encoding::kBf16);
}

TEST(Prefill, NoRotationNeedsNoTable) {
  Made made = latent();
  made.layer.has_rope = false;
  check_prompt(made, 11, Encoding::kBf16);
}

TEST(Prefill, InChunksGivesWhatOneCallGives) {
  for (const Made& made : {latent(), grouped()}) {
    const AttentionLayer layer = made.make();
    const Prompt prompt = project(layer, 8, 0, Encoding::kBf16, 4);
    const Pages pages(prompt.rows, layer.dims().row_elements(), Encoding::kBf16);
    const AttentionForm form = AttentionForm::kExpanded;
    const std::uint64_t width = layer.dims().query_heads * layer.dims().query_dim(form);
    for (const std::vector<std::uint64_t>& chunks :
         std::vector<std::vector<std::uint64_t>>{{8}, {3, 5}, {1, 1, 1, 1, 1, 1, 1, 1}}) {
      std::uint64_t done = 0;
      for (const std::uint64_t chunk : chunks) {
        const std::vector<Span> spans = {{pages.order(), 0, done + chunk, 0, 0}};
        const auto queries = prompt.queries(form).subspan(done * width, chunk * width);
        const auto at = static_cast<std::int64_t>(done);
        const Outcome outcome = run(layer, form, queries, spans, at, pages.paged());
        expect_definition(layer, form, outcome, in_place(prompt.rows, 8, 0), queries, at);
        done += chunk;
      }
    }
  }
}

// A window of 4 that attended to 5 keys gave 2.0 and 3.0 at the end (transformers #39408).
TEST(Prefill, WindowOfFourSeesFourKeysNotFive) {
  Made made;
  made.model.hidden_size = 1;
  made.layer.query_heads = made.layer.kv_heads = 1;
  made.layer.key_dim = made.layer.value_dim = 1;
  made.layer.scale = 1;
  made.layer.has_rope = false;
  made.layer.window_tokens = 4;
  const AttentionLayer layer = made.make();
  const std::vector<float> rows = {1, 0, 1, 1, 1, 2, 1, 3, 1, 4, 1, 5};  // key 1, value 0 ... 5
  const Pages pages(rows, 2, Encoding::kBf16);
  const std::vector<Span> spans = {{pages.order(), 0, 6, 0, 0}};
  const std::vector<float> zeros(6, 0.0F);
  const std::vector<double> expected = {0, 0.5, 1, 1.5, 2.5, 3.5};
  for (const std::uint64_t chunk : {1U, 2U, 3U, 6U}) {
    for (std::uint64_t first = 0; first < 6; first += chunk) {
      const Outcome outcome = run(layer, AttentionForm::kExpanded, std::span(zeros).first(chunk),
                                  spans, static_cast<std::int64_t>(first), pages.paged());
      for (std::uint64_t i = 0; i < chunk; ++i) {
        EXPECT_NEAR(outcome.out[i], expected[first + i], 1e-6);
        const auto keys_seen = static_cast<double>(std::min<std::uint64_t>(4, first + i + 1));
        EXPECT_NEAR(outcome.lse[i], std::log(keys_seen), 1e-6);
      }
    }
  }
}

// A document encoded alone from position 0, read behind a preamble: as if its keys had been
// rotated at the positions where it now stands.
TEST(Prefill, RelocatedSpanIsReadAsFreshlyRotatedKeys) {
  for (Made made : {latent(), grouped()}) {
    made.layer.window_tokens = 19;
    const AttentionLayer layer = made.make();
    const std::uint64_t width = layer.dims().row_elements();
    const Prompt preamble = project(layer, 7, 0, Encoding::kBf16, 21);
    const Prompt document = project(layer, 13, 0, Encoding::kBf16, 22);
    const Prompt question = project(layer, 6, 20, Encoding::kBf16, 23);
    std::vector<float> rows = preamble.rows;
    rows.insert(rows.end(), document.rows.begin(), document.rows.end());
    rows.insert(rows.end(), question.rows.begin(), question.rows.end());
    const Pages pages(rows, width, Encoding::kBf16);
    const std::span<const std::uint32_t> order = pages.order();
    const std::vector<Span> spans = {{order.first(2), 0, 7, 0, 0},
                                     {order.subspan(1), 3, 13, 0, 7},
                                     {order.subspan(5), 0, 6, 20, 0}};
    Cached cached = in_place(rows, 26, 0);
    std::fill(cached.deltas.begin() + 7, cached.deltas.begin() + 20, 7);
    for (const AttentionForm form : {AttentionForm::kExpanded, AttentionForm::kAbsorbed}) {
      const Outcome outcome = run(layer, form, question.queries(form), spans, 20, pages.paged());
      expect_definition(layer, form, outcome, cached, question.expanded, 20);
    }
  }
}

TEST(Prefill, ThreadCountChangesNoBit) {
  for (Made made : {latent(), grouped()}) {
    made.layer.query_heads = 18;  // more than one thread's share
    const AttentionLayer one = made.make();
    const auto pool = ThreadPool::open(3).value();
    const AttentionLayer three =
        AttentionLayer::create(made.model, made.layer, {.seed = 11, .threads = pool.get()}).value();
    const Prompt prompt = project(one, 29, 0, Encoding::kBf16, 25);
    ASSERT_EQ(project(three, 29, 0, Encoding::kBf16, 25).absorbed, prompt.absorbed);
    const Pages pages(prompt.rows, one.dims().row_elements(), Encoding::kBf16);
    const std::vector<Span> spans = {{pages.order(), 0, 29, 0, 0}};
    const AttentionForm form = AttentionForm::kExpanded;
    const Outcome a = run(one, form, prompt.expanded, spans, 0, pages.paged());
    const Outcome b = run(three, form, prompt.expanded, spans, 0, pages.paged());
    EXPECT_EQ(a.out, b.out);
    EXPECT_EQ(a.lse, b.lse);
    expect_definition(three, form, b, in_place(prompt.rows, 29, 0), prompt.expanded, 0);
  }
}

TEST(Prefill, LaterKeysChangeNoBit) {
  const AttentionLayer layer = latent().make();
  const std::uint64_t width = layer.dims().row_elements();
  const Prompt prompt = project(layer, 12, 0, Encoding::kBf16, 31);
  std::vector<float> changed = prompt.rows;
  for (std::size_t i = 9 * width; i < changed.size(); ++i) changed[i] = 5.0F;
  const auto queries = std::span(prompt.expanded).first(9 * 3 * 10);
  const Pages one(prompt.rows, width, Encoding::kBf16);
  const Pages two(changed, width, Encoding::kBf16);
  const std::vector<Span> spans = {{one.order(), 0, 12, 0, 0}};
  const Outcome a = run(layer, AttentionForm::kExpanded, queries, spans, 0, one.paged());
  const Outcome b = run(layer, AttentionForm::kExpanded, queries, spans, 0, two.paged());
  EXPECT_EQ(a.out, b.out);
  EXPECT_EQ(a.lse, b.lse);
}

TEST(Prefill, QueryWithNothingVisibleIsZeroAndMinusInfinity) {
  Made made = grouped();
  made.layer.has_sinks = true;
  const AttentionLayer layer = made.make();
  const Prompt prompt = project(layer, 3, 4, Encoding::kBf16, 41);
  const Pages pages(prompt.rows, layer.dims().row_elements(), Encoding::kBf16);
  const std::vector<Span> later = {{pages.order(), 0, 2, 5, 0}};  // keys at 5 and 6, query 4 first
  const Outcome outcome =
      run(layer, AttentionForm::kExpanded, prompt.expanded, later, 4, pages.paged());
  for (std::size_t i = 0; i < 6 * 5; ++i) EXPECT_EQ(outcome.out[i], 0.0F);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(outcome.lse[i], kNothing);
  expect_definition(layer, AttentionForm::kExpanded, outcome, in_place(prompt.rows, 2, 5),
                    prompt.expanded, 4);
  const Outcome alone = run(layer, AttentionForm::kExpanded, prompt.expanded, {}, 4, pages.paged());
  for (const float value : alone.out) EXPECT_EQ(value, 0.0F);
  for (const float value : alone.lse) EXPECT_EQ(value, kNothing);
}

TEST(Prefill, NoQueriesIsNoWork) {
  const AttentionLayer layer = latent().make();
  const std::vector<float> row(20, 1.0F);
  const Pages pages(row, 20, Encoding::kBf16);
  const std::vector<Span> spans = {{pages.order(), 0, 1, 0, 0}};
  const Outcome outcome = run(layer, AttentionForm::kExpanded, {}, spans, 1, pages.paged());
  EXPECT_TRUE(outcome.out.empty());
}

TEST(Prefill, QueriesThatNoSequenceNamesGiveZero) {
  const AttentionLayer layer = grouped().make();
  const Prompt prompt = project(layer, 5, 0, Encoding::kBf16, 51);
  const Pages pages(prompt.rows, layer.dims().row_elements(), Encoding::kBf16);
  const std::vector<Span> spans = {{pages.order(), 0, 5, 0, 0}};
  const SequenceInputs own{spans, 2, 2, 2};
  std::vector<float> out(5 * 30, 99.0F);
  std::vector<float> lse(5 * 6, 99.0F);
  ASSERT_TRUE(prefill(layer, AttentionForm::kExpanded, prompt.expanded, own, pages.paged(), out,
                      lse, {.isa = exact_isa()}));
  const Outcome whole =
      run(layer, AttentionForm::kExpanded, prompt.expanded, spans, 0, pages.paged());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const bool is_own = i >= 2 * 30 && i < 4 * 30;
    ASSERT_NEAR(out[i], is_own ? whole.out[i] : 0.0F, 1e-6) << i;
  }
  EXPECT_EQ(lse[11], kNothing);
  EXPECT_NE(lse[12], kNothing);
  EXPECT_EQ(lse[24], kNothing);
}

// Two ways to one number: the decode kernel over the same pages, by the layer's own shape.
TEST(Prefill, AgreesWithTheDecodeKernel) {
  for (Made made : {latent(), grouped()}) {
    made.layer.window_tokens = 11;
    made.layer.softcap = 2;
    made.layer.has_sinks = true;
    const AttentionLayer layer = made.make();
    const Prompt prompt = project(layer, 21, 0, Encoding::kBf16, 91);
    const Pages pages(prompt.rows, layer.dims().row_elements(), Encoding::kBf16);
    const std::vector<Span> spans = {{pages.order(), 0, 21, 0, 9}};
    const AttentionForm form = AttentionForm::kAbsorbed;
    const Outcome outcome = run(layer, form, prompt.absorbed, spans, 9, pages.paged());
    const SequenceInputs sequence{spans, 0, 21, 9};
    AttentionInputs inputs;
    inputs.shape = layer.shape();
    inputs.rows = pages.paged();
    inputs.q = prompt.absorbed.data();
    inputs.tokens = 21;
    inputs.sequences = {&sequence, 1};
    inputs.sinks = layer.sinks();
    std::vector<float> out(outcome.out.size());
    std::vector<float> lse(outcome.lse.size());
    ASSERT_TRUE(decode_attention(inputs, out, lse, {.isa = exact_isa()}));
    for (std::size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], outcome.out[i], kTolerance);
    for (std::size_t i = 0; i < lse.size(); ++i) ASSERT_NEAR(lse[i], outcome.lse[i], kTolerance);
  }
}

TEST(Prefill, CostSaysWhenAbsorptionIsCheaper) {
  LayerDims dims;
  dims.kind = RowKind::kLatent;
  dims.query_heads = 128;
  dims.content_dim = dims.value_dim = 128;
  dims.tail_dim = 64;
  dims.latent_dim = 512;
  // One query over 1000 keys: 128 (1000 512 256 + 1000 320) and 128 (512 256 + 1000 1088).
  EXPECT_EQ(prefill_cost(dims, 1, 1000).expanded, 128.0 * 131'392'000);
  EXPECT_EQ(prefill_cost(dims, 1, 1000).absorbed, 128.0 * 1'219'072);
  EXPECT_EQ(prefill_cost(dims, 1, 1000).cheaper(), AttentionForm::kAbsorbed);
  EXPECT_EQ(prefill_cost(dims, 1000, 1000).cheaper(), AttentionForm::kExpanded);
  EXPECT_EQ(prefill_cost(grouped().make().dims(), 9, 9).cheaper(), AttentionForm::kExpanded);
}

TEST(Prefill, InputsThatDoNotFitAreRefusedBeforeAnyWork) {
  const AttentionLayer layer = latent().make();
  const Prompt prompt = project(layer, 5, 0, Encoding::kBf16, 71);
  const Pages pages(prompt.rows, 20, Encoding::kBf16);
  const Span good{pages.order(), 0, 5, 0, 0};
  std::vector<float> out(5 * 3 * 5, 99.0F);
  std::vector<float> lse(5 * 3);
  const auto refusal = [&](const std::vector<Span>& spans, std::uint64_t first_query,
                           std::size_t out_size, const PagedRows& rows) {
    const SequenceInputs sequence{spans, first_query, 5, 0};
    const Status status = prefill(layer, AttentionForm::kExpanded, prompt.expanded, sequence, rows,
                                  std::span(out).first(out_size), lse, {.isa = exact_isa()});
    return status ? std::string("accepted") : status.error().describe();
  };
  EXPECT_THAT(refusal({good}, 0, 74, pages.paged()),
              HasSubstr("size of out is 74; allowed: tokens x query_heads x value_dim (5 x 15)"));
  EXPECT_THAT(refusal({good}, 1, 75, pages.paged()), HasSubstr("first_query"));
  EXPECT_THAT(refusal({good, good}, 0, 75, pages.paged()), HasSubstr("span 1"));
  Span past = good;
  past.rows = 9;
  EXPECT_THAT(refusal({past}, 0, 75, pages.paged()), testing::StartsWith("Invalid"));
  PagedRows int8 = pages.paged();
  int8.encoding = Encoding::kInt8;
  EXPECT_THAT(refusal({good}, 0, 75, int8), HasSubstr("encoding"));
  EXPECT_EQ(out, std::vector<float>(75, 99.0F));
  EXPECT_EQ(refusal({good}, 0, 75, pages.paged()), "accepted");
}

TEST(Prefill, RelocationWithoutFixedFrequenciesIsUnsupported) {
  Made made = latent();
  made.layer.rope.scaling = RopeScaling::kDynamic;
  made.layer.rope.factor = 2;
  made.layer.rope.original_max_positions = 64;
  const AttentionLayer layer = made.make();
  const Prompt prompt = project(layer, 2, 0, Encoding::kBf16, 81);
  const Pages pages(prompt.rows, 20, Encoding::kBf16);
  const std::vector<Span> spans = {{pages.order(), 0, 2, 0, 3}};
  std::vector<float> out(2 * 3 * 5);
  std::vector<float> lse(2 * 3);
  const Status status = prefill(layer, AttentionForm::kExpanded, prompt.expanded, {spans, 0, 2, 3},
                                pages.paged(), out, lse);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::Unsupported);
}

}  // namespace
}  // namespace emblema
