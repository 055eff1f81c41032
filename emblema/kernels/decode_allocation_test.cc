// Decode and append sit in the inner loop of every layer: they take no memory from the heap. The
// test binary's own operator new counts.
#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "emblema/kernels/append.h"
#include "emblema/kernels/attention.h"
#include "emblema/kernels/attention_case_testing.h"
#include "emblema/kernels/convert_rows.h"
#include "emblema/kernels/prefill_case_testing.h"

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

// What the first call of a process looks up and a first workspace takes stay; then nothing more.
template <class Work>
long allocations_of_second_call(Work&& work) {
  EXPECT_TRUE(work());
  const long before = allocation_count;
  EXPECT_GT(before, 0) << "the counter counts";
  const Status status = work();
  const long taken = allocation_count - before;
  EXPECT_TRUE(status);
  return taken;
}

TEST(DecodeAttention, TakesNothingFromTheHeap) {
  RopeFacts facts;
  facts.rotary_dim = 8;
  const RopeTable rope = RopeTable::from(facts, 0).value();
  AttentionShape shape = testing_support::latent_shape(20, 24, 8);
  shape.rope = &rope;
  testing_support::AttentionCase call(shape, Encoding::kBf16, 16, 600);
  call.add_sinks();
  call.add_plain_sequence(33, 2);
  call.add_sequence({call.make_span({.rows = 20, .delta = 12})}, 1, 31);
  call.add_plain_sequence(9000, 1);  // in splits
  const std::unique_ptr<ThreadPool> pool = ThreadPool::open(2).value();
  AttentionWorkspace workspace;
  for (const Isa isa : runnable_isas()) {
    call.options = {nullptr, nullptr, isa};
    EXPECT_EQ(allocations_of_second_call([&] { return call.decode(); }), 0) << to_string(isa);
    call.options = {&workspace, pool.get(), isa};
    EXPECT_EQ(allocations_of_second_call([&] { return call.decode(); }), 0) << to_string(isa);
  }
}

TEST(PrefillAttention, TakesNothingFromTheHeapInTheExpandedForm) {
  testing_support::AttentionCase rows(testing_support::latent_shape(3, 24, 8), Encoding::kBf16, 16,
                                      8);
  rows.add_plain_sequence(40, 20);
  testing_support::PrefillCase prefill(std::move(rows), 16, 16);
  AttentionWorkspace workspace;
  for (const Isa isa : runnable_isas()) {
    prefill.call.options = {&workspace, nullptr, isa};
    EXPECT_EQ(allocations_of_second_call([&] { return prefill.prefill(); }), 0) << to_string(isa);
  }
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
