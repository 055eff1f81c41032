// Decode and append sit in the inner loop of every layer: they take no memory from the heap. The
// test binary's own operator new counts.
#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include <gtest/gtest.h>

#include "emblema/kernels/append.h"
#include "emblema/kernels/attention.h"
#include "emblema/kernels/attention_case_testing.h"
#include "emblema/kernels/convert_rows.h"

namespace {
std::atomic<long> allocation_count{0};
}  // namespace

// Not inlined: compilers then take malloc and delete for a mismatched pair.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocation_count;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace emblema {
namespace {

TEST(DecodeAttention, TakesNothingFromTheHeap) {
  RopeFacts facts;
  facts.rotary_dim = 8;
  const RopeTable rope = RopeTable::from(facts, 0).value();
  AttentionShape shape = testing_support::latent_shape(20, 24, 8);
  shape.rope = &rope;
  testing_support::AttentionCase call(shape, Encoding::kBf16, 16, 8);
  call.add_sinks();
  call.add_plain_sequence(33, 2);
  call.add_sequence({call.make_span({.rows = 20, .delta = 12})}, 1, 31);
  ASSERT_TRUE(call.decode());  // what the first call of a process looks up stays
  const long before = allocation_count;
  const Status status = call.decode();
  const long taken = allocation_count - before;
  ASSERT_TRUE(status);
  EXPECT_EQ(taken, 0);
  EXPECT_GT(before, 0) << "the counter counts";
}

TEST(AppendRows, TakesNothingFromTheHeap) {
  RopeFacts facts;
  facts.rotary_dim = 64;
  const RopeTable rope = RopeTable::from(facts, 0).value();
  const AttentionShape shape = testing_support::latent_shape(1, 512, 64);
  const std::vector<float> numbers(576 * 2, 0.5F);
  const std::vector<std::int64_t> positions = {3, 4};
  const AppendInputs inputs{shape, numbers, &rope, positions, {}, {}};
  std::vector<std::byte> packed(656 * 2);
  std::vector<std::byte> plain(576 * 4 * 2);
  const RowTarget target =
      contiguous_rows(packed.data(), 2, {.row_bytes = 656, .format = RowFormat::kFp8DsMla});
  RowSource source{target.layout, target.blocks, 0, 2};
  source.layout.base = packed.data();
  const RowTarget back = contiguous_rows(plain.data(), 2, {.row_bytes = 1152});
  ASSERT_TRUE(append_rows(inputs, target));  // what the first call of a process looks up stays
  const long before = allocation_count;
  const Status appended = append_rows(inputs, target);
  const Status converted = convert_rows(shape, source, back);
  const long taken = allocation_count - before;
  ASSERT_TRUE(appended);
  ASSERT_TRUE(converted);
  EXPECT_EQ(taken, 0);
}

}  // namespace
}  // namespace emblema
