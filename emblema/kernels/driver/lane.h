// One thread's part of a call: its scratch, and how it takes an item through the primitives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "emblema/kernels/driver/call.h"
#include "emblema/kernels/driver/result.h"

namespace emblema::driver {

// Memory handed out piece by piece; with no memory behind it, it only counts.
class Carver {
 public:
  explicit Carver(std::byte* memory) : memory_(memory) {}
  std::byte* take(std::uint64_t bytes);
  template <class T>
  std::span<T> take_array(std::uint64_t count) {
    std::byte* at = take(count * sizeof(T));
    return {reinterpret_cast<T*>(at), at == nullptr ? 0 : count};
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::byte* memory_;
  std::uint64_t bytes_ = 0;
};

// One unit of an item, and where its results go: to the caller where `partial` is null.
struct UnitRun {
  Unit unit;
  std::byte* partial = nullptr;
};

// What the largest unit of a call needs, and how many such may be joined in one item.
struct LaneSizes {
  std::uint64_t joined = 1;
  std::uint64_t chunks = 0;
  std::uint64_t query_bytes = 0;
  std::uint64_t out_bytes = 0;

  void include(const Call& call, const Unit& unit);
};

class Lane {
 public:
  Lane(const Call& call, const LaneSizes& sizes, Carver& carver);

  // Results of the units over the split, which is the first one's; the others read the same rows.
  void run(std::span<const UnitRun> units, const Split& split);

 private:
  struct Chunk {
    const SequenceInputs* sequence = nullptr;
    std::uint32_t unit = 0;  // of the item's
    std::uint32_t kv_head = 0;
    std::uint32_t count = 0;
    std::uint64_t first = 0;  // query row of its KV head
    std::uint64_t row = 0;    // result row of its unit
    std::byte* queries = nullptr;
    std::byte* out = nullptr;
    float* top = nullptr;
    double* sum = nullptr;
  };
  // The addresses of the rows of one block.
  struct BlockRows {
    RowRange range;  // in its span
    std::span<const std::byte*> rows;
    std::span<const std::byte*> scales;
  };

  void begin(std::span<const UnitRun> units);
  void add_chunks(std::uint32_t unit, std::uint32_t head, std::byte** queries, std::byte** out);
  RowRange seen_rows(const Span& span) const;
  void pack_chunks(std::int64_t delta);
  void attend_span(const Span& span, RowRange range);
  RowRange from_whole_groups(const Span& span, RowRange range) const;
  RowRange next_block(const Span& span, std::uint64_t row, std::uint64_t end) const;
  void find_rows(const Span& span, const RowRange& range, BlockRows& block) const;
  void attend_block(const Span& span, const BlockRows& block, const BlockRows* next);
  bool see_rows(const Chunk& chunk, const Span& span, const RowRange& range, bool* all);
  void load_rows(const BlockRows& block, std::uint32_t kv_head);
  void load_expansion(std::uint32_t head);
  void weigh(const Chunk& chunk, const BlockRows& block, bool all, const RowPrefetch& prefetch);
  void accumulate(const Chunk& chunk, const BlockRows& block, bool all,
                  const RowPrefetch& prefetch);
  void finish(std::span<const UnitRun> units);

  const Call& call_;
  const BlockPrimitives& primitives_;
  std::uint32_t block_rows_;
  std::span<Unit> units_;  // whose chunks are there; the first unit_count_
  std::uint64_t unit_count_ = 0;
  bool is_packed_ = false;
  std::int64_t packed_delta_ = 0;
  std::uint64_t chunk_count_ = 0;
  bool is_loaded_ = false;  // the block at hand, for loaded_head_
  std::uint32_t loaded_head_ = 0;
  std::uint32_t expansion_head_ = 0;
  bool has_expansion_ = false;

  std::span<Chunk> chunks_;
  std::byte* queries_;
  std::byte* out_;
  std::span<float> tops_;
  std::span<double> sums_;
  std::span<float> corrections_;
  std::span<std::uint32_t> first_rows_;
  std::span<std::uint32_t> end_rows_;
  std::span<float> turned_;
  std::span<float> cosines_;
  std::span<float> sines_;
  std::span<float> result_;
  std::byte* stored_rows_;
  std::byte* attended_rows_;
  std::byte* weights_;
  std::byte* key_up_ = nullptr;
  std::byte* value_up_ = nullptr;
  BlockRows blocks_[2];
};

}  // namespace emblema::driver
