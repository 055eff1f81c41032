// Sequences of one batch that read the same blocks are worked on together; nobody can tell.
#include <vector>

#include <gtest/gtest.h>

#include "emblema/kernels/attention.h"
#include "emblema/kernels/attention_case_testing.h"
#include "emblema/kernels/reference/reference_attention.h"

namespace emblema {
namespace {

using testing_support::AttentionCase;
using testing_support::grouped_shape;
using testing_support::latent_shape;
using testing_support::relative_difference;

// Blocks of a sequence: `shared` first, then some of its own.
std::vector<std::uint32_t> behind(const std::vector<std::uint32_t>& shared,
                                  const std::vector<std::uint32_t>& own) {
  std::vector<std::uint32_t> blocks = shared;
  blocks.insert(blocks.end(), own.begin(), own.end());
  return blocks;
}

// Six sequences over a document of 9,000 rows (three splits): tails of other lengths, one query or
// several, one document read at another place, one whose second split is another's.
AttentionCase documents(const AttentionShape& shape, const RopeTable* rope) {
  AttentionCase call(shape, Encoding::kFp32, 64, 300);
  call.inputs.shape.rope = rope;
  const std::vector<std::uint32_t> document = call.take_blocks(141);
  for (const std::uint64_t rows : {9'010U, 9'024U, 9'001U}) {
    call.add_sequence({call.make_span({.rows = rows}, document)}, rows % 4 + 1,
                      static_cast<std::int64_t>(rows - rows % 4 - 1));
  }
  call.add_sequence({call.make_span({.rows = 9'000, .delta = 7}, document)}, 1, 9'006);
  std::vector<std::uint32_t> other = document;
  other[70] = call.take_blocks(1).front();
  call.add_sequence({call.make_span({.rows = 9'000}, other)}, 1, 8'999);
  call.add_sequence({call.make_span({.rows = 9'020}, behind(document, call.take_blocks(2)))}, 2,
                    9'018);
  return call;
}

TEST(SharedPrefix, ChangesNoBitOfAnybody) {
  RopeFacts facts;
  facts.rotary_dim = 4;
  const RopeTable rope = RopeTable::from(facts, 0).value();
  for (const AttentionShape& shape : {latent_shape(5, 12, 4), grouped_shape(6, 2, 8, 4)}) {
    for (const Isa isa : runnable_isas()) {
      AttentionCase call = documents(shape, &rope);
      const AttentionOptions options{.isa = isa};
      ASSERT_TRUE(decode_attention(call.inputs, call.out, call.lse, options));
      const std::vector<float> together = call.out;
      const std::vector<float> together_lse = call.lse;
      std::vector<double> want(call.out.size());
      std::vector<double> want_lse(call.lse.size());
      ASSERT_TRUE(reference_attention(call.inputs, want, want_lse));
      EXPECT_LE(relative_difference(together, want), 4e-6) << to_string(isa);
      const std::uint64_t width = std::uint64_t{shape.query_heads} * shape.value_dim;
      for (const SequenceInputs& one : call.sequences) {
        call.inputs.sequences = {&one, 1};
        ASSERT_TRUE(decode_attention(call.inputs, call.out, call.lse, options));
        for (std::uint64_t i = one.first_query * width; i < (one.first_query + one.queries) * width;
             ++i) {
          ASSERT_EQ(call.out[i], together[i]) << to_string(isa) << " query " << i / width;
        }
      }
    }
  }
}

}  // namespace
}  // namespace emblema
