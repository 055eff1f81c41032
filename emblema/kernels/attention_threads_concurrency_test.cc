// The same bits whatever the thread count, the workspace's past and the other callers: over splits
// of long sequences, waves of work, relocated spans and expanded rows, in every instruction set.
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "emblema/kernels/attention_plan_testing.h"
#include "emblema/kernels/prefill_case_testing.h"

namespace emblema {
namespace {

using namespace testing_support;

std::unique_ptr<ThreadPool> pool_of(std::uint32_t threads) {
  Result<std::unique_ptr<ThreadPool>> pool = ThreadPool::open(threads);
  EXPECT_TRUE(pool) << pool.error().describe();
  return *std::move(pool);
}

// -0 and 0 are different bits; a NaN is itself.
bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

struct Bits {
  std::vector<float> out;
  std::vector<float> lse;
};

Bits bits_of(const AttentionInputs& inputs, const LatentExpansion* expansion,
             const AttentionOptions& options) {
  const std::uint32_t width = expansion == nullptr ? inputs.shape.value_dim : expansion->value_dim;
  const std::uint64_t rows = inputs.tokens * inputs.shape.query_heads;
  Bits bits{std::vector<float>(rows * width, -7.0F), std::vector<float>(rows, -7.0F)};
  const Status got = prefill_attention(inputs, bits.out, bits.lse, expansion, options);
  EXPECT_TRUE(got) << got.error().describe();
  return bits;
}

// What the workspace held before must not matter: all bits set are NaN as a number and far away as
// a pointer.
void spoil(AttentionWorkspace& workspace) {
  const std::uint64_t bytes = workspace.size_bytes();
  if (bytes == 0) return;
  std::memset(*workspace.reserve(bytes), 0xFF, bytes);
}

void expect_same_bits(const AttentionInputs& inputs, const LatentExpansion* expansion,
                      const std::string& name) {
  for (const Isa isa : runnable_isas()) {
    AttentionOptions options;
    options.isa = isa;
    const Bits alone = bits_of(inputs, expansion, options);
    for (const std::uint32_t threads : {1U, 2U, 3U, 7U}) {
      const std::unique_ptr<ThreadPool> pool = pool_of(threads);
      AttentionWorkspace workspace;
      options.threads = pool.get();
      options.workspace = &workspace;
      const auto bytes = attention_workspace_bytes(inputs, expansion, options);
      ASSERT_TRUE(bytes) << bytes.error().describe();
      for (int again = 0; again < 2; ++again) {
        const Bits together = bits_of(inputs, expansion, options);
        EXPECT_TRUE(same_bits(together.out, alone.out) && same_bits(together.lse, alone.lse))
            << name << " by " << to_string(isa) << " with " << threads << " threads";
        EXPECT_EQ(workspace.size_bytes(), *bytes) << name << ", " << threads << " threads";
        spoil(workspace);
      }
    }
  }
}

TEST(AttentionThreads, SplitsOfLongSequences) {
  AttentionCase call(grouped_shape(2, 1, 8, 4), Encoding::kBf16, 256, 340);
  call.add_sinks();
  call.add_plain_sequence(4096, 1);    // one split
  call.add_plain_sequence(4097, 3);    // two
  call.add_plain_sequence(70'000, 2);  // more rows than 16 splits of 4,096
  expect_same_bits(call.inputs, nullptr, "splits");
  expect_reference(call, "splits");
}

TEST(AttentionThreads, SplitsAcrossManySpansAndRelocation) {
  AttentionShape shape = latent_shape(5, 12, 4);
  shape.rope = &shared_rope(4, true);
  shape.rotary_offset = 12;
  AttentionCase call(shape, Encoding::kFp16, 20, 700);
  std::vector<Span> spans;
  std::int64_t at = 0;
  for (const std::uint64_t rows : {1ULL, 4096ULL, 13ULL, 5000ULL, 300ULL, 2000ULL}) {
    spans.push_back(call.make_span({.rows = rows, .delta = at, .first_row = rows % 7}));
    at += static_cast<std::int64_t>(rows);
  }
  call.add_sequence(std::move(spans), 5, at - 3);
  expect_same_bits(call.inputs, nullptr, "spans");
  expect_reference(call, "spans");
}

// More sequences than one wave holds, many of them with nothing to see.
TEST(AttentionThreads, WavesOfManySequences) {
  AttentionShape shape = grouped_shape(2, 1, 4, 4);
  shape.window_tokens = 40;
  AttentionCase call(shape, Encoding::kFp32, 16, 1500);
  for (std::uint64_t i = 0; i < 1400; ++i) {
    if (i % 5 == 0) {
      call.add_sequence({}, 1, 3);
    } else {
      call.add_plain_sequence(1 + i % 16, 1);
    }
  }
  expect_same_bits(call.inputs, nullptr, "1,400 sequences");
  expect_reference(call, "1,400 sequences");
}

// More partial results than are kept at once: wide values, windows across the border of a split.
// What a sequence gives in the waves is what it gives alone.
TEST(AttentionThreads, WavesOfPartialResults) {
  constexpr std::size_t kSequences = 18;
  AttentionShape shape = grouped_shape(128, 1, 1, 1024);
  shape.window_tokens = 6;
  AttentionCase call(shape, Encoding::kBf16, 64, 65);
  const Span cached = call.make_span({.rows = 4096 + 4});
  for (std::size_t i = 0; i < kSequences; ++i) call.add_sequence({cached}, 4, 4096);
  const auto bytes = attention_workspace_bytes(call.inputs);
  ASSERT_TRUE(bytes);
  EXPECT_GT(*bytes, std::uint64_t{64} << 20);
  EXPECT_LT(*bytes, std::uint64_t{128} << 20);
  const std::unique_ptr<ThreadPool> pool = pool_of(3);
  call.options.threads = pool.get();
  ASSERT_TRUE(call.decode());
  AttentionInputs alone = call.inputs;
  for (const std::size_t i : {std::size_t{0}, kSequences / 2, kSequences - 1}) {
    SequenceInputs one = call.sequences[i];
    one.first_query = 0;
    alone.sequences = {&one, 1};
    alone.tokens = 4;
    alone.q = call.q.data() + i * 4 * 128;
    const Bits want = bits_of(alone, nullptr, {});
    ASSERT_EQ(std::memcmp(want.out.data(), call.out.data() + i * want.out.size(),
                          want.out.size() * sizeof(float)),
              0)
        << i;
  }
}

TEST(AttentionThreads, ManyQueriesInUnitsOfEverySize) {
  AttentionCase call(grouped_shape(16, 4, 32, 32), Encoding::kBf16, 16, 60);
  call.add_plain_sequence(300, 150);
  call.add_plain_sequence(17, 1);
  call.add_plain_sequence(200, 200);
  expect_same_bits(call.inputs, nullptr, "many queries");
}

TEST(AttentionThreads, ExpandedRows) {
  AttentionCase rows(latent_shape(5, 16, 4), Encoding::kBf16, 64, 75);
  rows.add_plain_sequence(4200, 40);
  rows.add_plain_sequence(33, 33);
  PrefillCase prefill(std::move(rows), 12, 20);
  expect_same_bits(prefill.call.inputs, &prefill.expansion, "expanded");
}

TEST(AttentionThreads, AWorkspaceThatServedLargerAndSmallerCalls) {
  AttentionCase small(latent_shape(3, 24, 8), Encoding::kBf16, 16, 8);
  small.add_plain_sequence(33, 2);
  AttentionCase large(grouped_shape(16, 4, 64, 64), Encoding::kFp32, 16, 400);
  large.add_plain_sequence(6000, 20);
  const std::unique_ptr<ThreadPool> pool = pool_of(2);
  for (const Isa isa : runnable_isas()) {
    AttentionOptions fresh;
    fresh.isa = isa;
    const Bits want_small = bits_of(small.inputs, nullptr, fresh);
    const Bits want_large = bits_of(large.inputs, nullptr, fresh);
    AttentionWorkspace workspace;
    AttentionOptions kept = fresh;
    kept.workspace = &workspace;
    kept.threads = pool.get();
    const auto largest = attention_workspace_bytes(large.inputs, nullptr, kept);
    ASSERT_TRUE(largest);
    for (int round = 0; round < 3; ++round) {
      EXPECT_TRUE(same_bits(bits_of(small.inputs, nullptr, kept).out, want_small.out));
      spoil(workspace);
      EXPECT_TRUE(same_bits(bits_of(large.inputs, nullptr, kept).out, want_large.out));
      EXPECT_EQ(workspace.size_bytes(), *largest) << "grown once, kept";
      spoil(workspace);
    }
  }
}

TEST(AttentionThreads, CallersOfTheirOwnOverTheSameRowsAndPool) {
  AttentionCase call(grouped_shape(8, 2, 16, 16), Encoding::kBf16, 16, 700);
  call.add_plain_sequence(9000, 3);
  const Bits want = bits_of(call.inputs, nullptr, {});
  const std::unique_ptr<ThreadPool> pool = pool_of(3);
  std::vector<Bits> got(3);
  std::vector<std::thread> callers;
  for (Bits& bits : got) {
    callers.emplace_back([&] {
      AttentionWorkspace workspace;
      AttentionOptions options;
      options.workspace = &workspace;
      options.threads = pool.get();
      for (int i = 0; i < 4; ++i) bits = bits_of(call.inputs, nullptr, options);
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const Bits& bits : got) {
    EXPECT_TRUE(same_bits(bits.out, want.out) && same_bits(bits.lse, want.lse));
  }
}

}  // namespace
}  // namespace emblema
