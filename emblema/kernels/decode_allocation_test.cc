// A decode call sits in the inner loop of every layer: it takes no memory from the heap. The test
// binary's own operator new counts.
#include <atomic>
#include <cstdlib>
#include <new>

#include <gtest/gtest.h>

#include "emblema/kernels/attention.h"
#include "emblema/kernels/attention_case_testing.h"

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

}  // namespace
}  // namespace emblema
