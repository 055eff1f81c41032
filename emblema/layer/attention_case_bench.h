// The cases of `emblema bench attention`, and the rows that they read.
//
// Rows lie in pages of 64 tokens, many more than caches hold, in one store for each way of storing
// them. A case has several copies of its input, each over pages of its own, which it takes in turn:
// when one comes again, all others have been read in between. Pages of a copy are scattered over
// the store, or neighbours (`is_contiguous`).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emblema/contract/result.h"
#include "emblema/kernels/attention.h"
#include "emblema/layout/attention_inputs.h"
#include "emblema/os/memory.h"

namespace emblema::bench {

inline constexpr std::uint64_t kPageRows = 64;

enum class StoredAs : std::uint8_t {
  kLatentBf16,   // 512 + 64, 1,152 bytes
  kLatentFp8,    // the same as fp8_ds_mla, 656 bytes
  kGroupedBf16,  // 8 KV heads, keys and values of 128, 4,096 bytes
};
inline constexpr std::size_t kStoredAsCount = 3;

// The widths of DeepSeek-V3's attention: latents, and what prefill expands them to.
inline constexpr std::uint32_t kLatentDim = 512;
inline constexpr std::uint32_t kRopeDim = 64;
inline constexpr std::uint32_t kContentDim = 128;
inline constexpr std::uint32_t kExpandedValueDim = 128;

struct AttentionCase {
  std::string_view key;   // as users choose it
  std::string_view name;  // as it is shown
  StoredAs stored = StoredAs::kLatentBf16;
  std::uint32_t heads = 0;
  std::uint64_t context = 0;    // rows of a sequence, its queries' own included
  std::uint64_t queries = 1;    // tokens of each sequence that ask, the last ones
  std::uint64_t sequences = 1;  // more than 1: over one prefix, each with a page of its own
  bool is_warm = false;
  bool is_contiguous = false;
  bool is_prefill = false;
};

struct CaseSizes {
  std::uint64_t context = 0;  // of the cases with 128 heads; four times that with fewer
  std::uint64_t prefill = 0;  // new tokens
};

// All cases, in the order in which they are shown.
std::vector<AttentionCase> attention_cases(const CaseSizes& sizes);

AttentionShape shape_of(const AttentionCase& one);
std::uint64_t row_bytes_of(StoredAs stored);
std::uint64_t pages_of(const AttentionCase& one);  // of one copy
std::uint64_t distinct_rows_of(const AttentionCase& one);

// Floating-point operations, two for each multiplication: what queries see, and no more.
//   latent    2 H (2 r + d_r) for each query and row      grouped   2 H (d_k + d_v)
//   expanded  2 H (d_n + d_r + d_v), and 2 H r (d_n + d_v) for each row
double flop_of(const AttentionCase& one);
double expanded_flop_of(const AttentionCase& one);

// Pages of rows drawn N(0, 1).
class RowStore {
 public:
  // Io: the memory was refused.
  static Result<std::unique_ptr<RowStore>> open(StoredAs stored, std::uint64_t pages);

  const PagedRows& rows() const { return rows_; }
  std::uint64_t bytes() const { return memory_.size_bytes(); }
  bool has_huge_pages() const { return memory_.huge_pages(); }  // asked for
  ConstByteSpan memory() const { return {memory_.data(), memory_.size_bytes()}; }
  std::span<const std::uint32_t> scattered() const { return scattered_; }
  std::span<const std::uint32_t> ascending() const { return ascending_; }

 private:
  MemoryRegion memory_;
  PagedRows rows_;
  std::vector<std::uint32_t> scattered_;  // every page once
  std::vector<std::uint32_t> ascending_;
};

// One input of a case. Views into itself: it stays where it was made.
class CaseCopy {
 public:
  // `pages`: pages_of(one) of them. `queries` are read, and outlive it.
  CaseCopy(const AttentionCase& one, const RowStore& store, std::span<const std::uint32_t> pages,
           const float* queries);
  CaseCopy(const CaseCopy&) = delete;
  CaseCopy& operator=(const CaseCopy&) = delete;

  const AttentionInputs& inputs() const { return inputs_; }
  // The same with queries of the expanded form.
  AttentionInputs inputs_with(const float* queries) const;

  // Reads the rows as a plain loop does, a page at a time; parts of the pages for several threads.
  std::uint64_t read_pages(std::uint64_t part, std::uint64_t parts) const;

 private:
  struct Page {
    std::uint32_t index = 0;
    std::uint64_t rows = 0;
  };

  AttentionInputs inputs_;
  std::vector<std::vector<std::uint32_t>> tables_;  // of each sequence
  std::vector<Span> spans_;
  std::vector<SequenceInputs> sequences_;
  std::vector<Page> pages_;  // each once
};

// out[i] from N(0, 1) * size; the same for the same seed.
void fill_normal(std::span<float> out, std::uint64_t seed, float size = 1.0F);

}  // namespace emblema::bench
