// Prefill: the absorbed form is decode over many queries; the expanded form against keys and values
// expanded in double (reference_mla), and both forms against each other.
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/kernels/attention_plan_testing.h"
#include "emblema/kernels/prefill_case_testing.h"

namespace emblema {
namespace {

using ::testing::HasSubstr;
using namespace testing_support;

// Every instruction set: expanded against double, absorbed against expanded. Where bf16 tiles
// multiply, expanded keys and values are rounded as well as queries and probabilities.
void expect_prefill(PrefillCase& prefill, const std::string& name) {
  const Truth truth = prefill.truth();
  for (const Isa isa : runnable_isas()) {
    SCOPED_TRACE(fmt::format("{} by {}", name, to_string(isa)));
    prefill.call.options.isa = isa;
    const Status got = prefill.prefill();
    ASSERT_TRUE(got) << got.error().describe();
    const double bound = bound_of(isa, prefill.call.storage);
    const double out = relative_difference(prefill.out, truth.out);
    const double lse = lse_difference(prefill.lse, truth.lse);
    worst_errors().record(isa, prefill.call.storage, out, lse);
    // Tiles round the expanded keys and values to bf16, too.
    EXPECT_LE(out, computes_in_bf16(isa, prefill.call.storage) ? 6e-3 : bound);
    EXPECT_LE(lse, bound);
    EXPECT_LE(relative_difference(prefill.absorbed_out(), truth.out), bound);
  }
}

const Storage kLatentStorages[] = {Encoding::kFp32, Encoding::kBf16, Encoding::kFp16,
                                   Encoding::kFp8E4m3};

TEST(PrefillAttention, ExpandedIsTheReferenceInEveryStorage) {
  for (const Storage& storage : kLatentStorages) {
    AttentionCase rows(latent_shape(6, 48, 16), storage, 16, 12);
    rows.add_plain_sequence(70, 33);
    PrefillCase prefill(std::move(rows), 24, 20);
    expect_prefill(prefill, storage.name());
  }
}

TEST(PrefillAttention, ExpandedRowsOfTheTrueWidths) {
  AttentionCase mla(latent_shape(4, 512, 64), RowFormat::kFp8DsMla, 64, 3);
  mla.add_plain_sequence(65, 30);
  PrefillCase from_mla(std::move(mla), 128, 128);
  expect_prefill(from_mla, "656 B");
  AttentionCase v4(latent_shape(2, 512, 0), RowFormat::kDeepSeekV4, 64, 3);
  v4.add_plain_sequence(65, 30);
  PrefillCase from_v4(std::move(v4), 128, 96);
  expect_prefill(from_v4, "584 B");
  AttentionCase bf16(latent_shape(4, 512, 64), Encoding::kBf16, 64, 3);
  bf16.add_plain_sequence(65, 30);
  PrefillCase from_bf16(std::move(bf16), 128, 128);
  expect_prefill(from_bf16, "bf16");
}

TEST(PrefillAttention, WidthsThatFillNoVector) {
  const std::uint32_t widths[][4] = {
      // latent, rope, content, value
      {1, 1, 1, 1}, {7, 2, 5, 3}, {17, 6, 33, 31}, {20, 0, 13, 47}, {30, 4, 16, 16}, {8, 8, 64, 1}};
  for (const auto& [latent, rope, content, value] : widths) {
    AttentionCase rows(latent_shape(3, latent, rope), Encoding::kFp32, 20, 5);
    rows.add_plain_sequence(51, 19);
    PrefillCase prefill(std::move(rows), content, value);
    expect_prefill(prefill, fmt::format("{} + {} to {} and {}", latent, rope, content, value));
  }
}

// Chunks of 1, 7 and 64 over nothing and over 100 cached rows.
TEST(PrefillAttention, ChunksOverAGrowingCache) {
  for (const std::uint64_t cached : {0ULL, 100ULL}) {
    for (const std::uint64_t chunk : {1ULL, 7ULL, 64ULL}) {
      AttentionCase rows(latent_shape(5, 32, 8), Encoding::kFp32, 16, 20);
      const Span all = rows.make_span({.rows = cached + 64});
      for (std::uint64_t first = 0; first < 64; first += chunk) {
        Span written = all;
        const std::uint64_t count = std::min(chunk, 64 - first);
        written.rows = cached + first + count;
        rows.add_sequence({written}, count, static_cast<std::int64_t>(cached + first));
      }
      PrefillCase prefill(std::move(rows), 16, 12);
      expect_prefill(prefill, fmt::format("chunks of {} over {}", chunk, cached));
    }
  }
}

TEST(PrefillAttention, ARaggedBatchWithWindowsSoftcapAndSinks) {
  for (const std::uint64_t window : {0ULL, 9ULL, 48ULL}) {
    AttentionShape shape = latent_shape(4, 24, 8);
    shape.window_tokens = window;
    shape.softcap = 2.0;
    AttentionCase rows(shape, Encoding::kBf16, 20, 20);
    rows.add_sinks();
    rows.add_plain_sequence(1, 1);
    rows.add_plain_sequence(130, 70);
    rows.add_sequence({}, 2, 5);
    rows.add_plain_sequence(48, 48);
    rows.add_sequence({rows.make_span({.rows = 9, .position = 4})}, 11, 0);  // some see nothing
    PrefillCase prefill(std::move(rows), 20, 28);
    expect_prefill(prefill, fmt::format("window {}", window));
  }
}

TEST(PrefillAttention, RelocatedSpansAreReadThroughTurnedQueries) {
  for (const bool interleaved : {true, false}) {
    AttentionShape shape = latent_shape(3, 24, 12);
    shape.rope = &shared_rope(8, interleaved);
    shape.rotary_offset = 24 + 2;  // not all of the tail turns
    AttentionCase rows(shape, Encoding::kFp32, 16, 20);
    std::vector<Span> spans = {rows.make_span({.rows = 13}),
                               rows.make_span({.rows = 30, .delta = 13}),
                               rows.make_span({.rows = 25, .position = 50, .delta = -7})};
    rows.add_sequence(std::move(spans), 40, 28);
    PrefillCase prefill(std::move(rows), 16, 16);
    expect_prefill(prefill, interleaved ? "neighbours" : "halves");
  }
}

// More than one chunk of queries, more than one unit, a sequence cut into splits.
TEST(PrefillAttention, ManyQueriesOverManyRows) {
  AttentionCase rows(latent_shape(2, 16, 4), Encoding::kBf16, 64, 75);
  rows.add_plain_sequence(4700, 300);
  PrefillCase prefill(std::move(rows), 8, 8);
  expect_prefill(prefill, "300 of 4,700");
}

TEST(PrefillAttention, AbsorbedIsTheReferenceWithAHeadEachAndWithOneForAll) {
  for (const Storage& storage : kLatentStorages) {
    AttentionCase own(grouped_shape(3, 3, 40, 24), storage, 16, 12);
    own.add_plain_sequence(90, 77);
    expect_reference(own, "a KV head each, " + storage.name());
    AttentionCase latent(latent_shape(5, 40, 8), storage, 16, 12);
    latent.add_plain_sequence(90, 77);
    expect_reference(latent, "latent, " + storage.name());
  }
}

std::string refused(const std::function<void(PrefillCase&)>& spoil) {
  AttentionCase rows(latent_shape(4, 8, 4), Encoding::kBf16, 16, 4);
  rows.add_plain_sequence(20, 3);
  PrefillCase prefill(std::move(rows), 6, 5);
  spoil(prefill);
  const std::vector<float> before = prefill.out;
  const Status status = prefill.prefill();
  if (status) return "accepted";
  EXPECT_EQ(prefill.out, before) << "nothing may be written by a refused call";
  std::vector<double> out(prefill.out.size()), lse(prefill.lse.size());
  EXPECT_FALSE(reference_prefill(prefill.call.inputs, prefill.expansion, out, lse));
  const auto bytes =
      attention_workspace_bytes(prefill.call.inputs, &prefill.expansion, prefill.call.options);
  const bool by_results = status.error().message.rfind("size of", 0) == 0 &&
                          status.error().message.rfind("size of expansion", 0) != 0;
  EXPECT_EQ(bytes.has_value(), by_results) << "the same answer, but for results it does not see";
  return status.error().describe();
}

TEST(PrefillAttention, RefusesAnExpansionThatDoesNotFit) {
  EXPECT_EQ(refused([](PrefillCase&) {}), "accepted");
  EXPECT_EQ(refused([](PrefillCase& p) { p.call.inputs.shape.kind = RowKind::kGrouped; }),
            "Invalid: expansion is given over grouped rows; allowed: over latent rows");
  EXPECT_EQ(refused([](PrefillCase& p) { p.expansion.content_dim = 0; }),
            "Invalid: expansion.content_dim is 0; allowed: 1 to 1020");
  EXPECT_THAT(refused([](PrefillCase& p) { p.expansion.content_dim = 1021; }),
              HasSubstr("content_dim is 1021"));
  EXPECT_EQ(refused([](PrefillCase& p) { p.expansion.value_dim = 1025; }),
            "Invalid: expansion.value_dim is 1025; allowed: 1 to 1024");
  EXPECT_THAT(refused([](PrefillCase& p) { p.expansion.value_dim = 0; }),
              HasSubstr("value_dim is 0"));
  EXPECT_EQ(refused([](PrefillCase& p) { p.expansion.key_up = p.expansion.key_up.first(191); }),
            "Invalid: size of expansion.key_up is 191; allowed: content_dim x query_heads x "
            "latent_dim (6 x 32)");
  EXPECT_EQ(refused([](PrefillCase& p) { p.expansion.value_up = {}; }),
            "Invalid: size of expansion.value_up is 0; allowed: value_dim x query_heads x "
            "latent_dim (5 x 32)");
  EXPECT_EQ(refused([](PrefillCase& p) { p.out.pop_back(); }),
            "Invalid: size of out is 59; allowed: tokens x query_heads x value_dim (3 x 20)");
  EXPECT_THAT(refused([](PrefillCase& p) { p.lse.pop_back(); }), HasSubstr("size of lse is 11"));
}

}  // namespace
}  // namespace emblema
