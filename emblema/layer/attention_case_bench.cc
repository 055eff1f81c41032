#include "emblema/layer/attention_case_bench.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "bench/machine.h"
#include "emblema/contract/bytes.h"
#include "emblema/contract/check.h"
#include "emblema/layout/convert.h"
#include "emblema/layout/fp8.h"

namespace emblema::bench {
namespace {

constexpr std::uint32_t kGroupedKvHeads = 8;
constexpr std::uint32_t kGroupedDim = 128;
constexpr std::uint64_t kRopeBytes = std::uint64_t{kRopeDim} * 2;  // bf16
constexpr std::size_t kNumbers = 1 << 18;  // drawn once; rows are runs of them

// Numbers N(0, 1), in the two ways in which rows hold them.
struct Numbers {
  std::vector<std::uint16_t> bf16;
  std::vector<std::uint8_t> e4m3;
};

Numbers draw_numbers() {
  Numbers numbers;
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  for (std::size_t i = 0; i < kNumbers; ++i) {
    const float value = normal(random);
    numbers.bf16.push_back(bf16_from_fp32(value));
    numbers.e4m3.push_back(e4m3_from_fp32_saturating(value));
  }
  return numbers;
}

// A row is a run of the numbers that begins anywhere: no two rows of a page are the same.
void fill_row(StoredAs stored, const Numbers& numbers, std::uint64_t random, std::byte* row) {
  const std::size_t start = random % (kNumbers - 4096);
  if (stored != StoredAs::kLatentFp8) {
    std::memcpy(row, numbers.bf16.data() + start, row_bytes_of(stored));
    return;
  }
  constexpr float kScales[4] = {0.5F, 1.0F, 1.5F, 1.0F};
  std::memcpy(row, numbers.e4m3.data() + start, kLatentDim);
  std::memcpy(row + kLatentDim, kScales, sizeof kScales);
  std::memcpy(row + kLatentDim + sizeof kScales, numbers.bf16.data() + start, kRopeBytes);
}

// Query and row pairs that are not masked, of one sequence.
double pairs_of(const AttentionCase& one) {
  const auto queries = static_cast<double>(one.queries);
  return queries * static_cast<double>(one.context) - queries * (queries - 1) / 2;
}

// Rows that all sequences share: whole pages, and at least one row is left to each.
std::uint64_t shared_rows_of(const AttentionCase& one) {
  if (one.sequences == 1) return 0;
  return (one.context - one.queries) / kPageRows * kPageRows;
}

}  // namespace

std::vector<AttentionCase> attention_cases(const CaseSizes& sizes) {
  const std::uint64_t n = sizes.context;
  const std::uint64_t cached = 4 * sizes.prefill;
  using enum StoredAs;
  return {
      {.key = "latent128", .name = "latent, 128 heads", .heads = 128, .context = n},
      {.key = "contiguous",
       .name = "latent, 128 heads, one run of pages",
       .heads = 128,
       .context = n,
       .is_contiguous = true},
      {.key = "warm",
       .name = "latent, 128 heads, warm",
       .heads = 128,
       .context = n,
       .is_warm = true},
      {.key = "queries4",
       .name = "latent, 128 heads, 4 query tokens",
       .heads = 128,
       .context = n,
       .queries = 4},
      {.key = "shared4",
       .name = "latent, 128 heads, 4 sequences, one prefix",
       .heads = 128,
       .context = n,
       .sequences = 4},
      {.key = "latent16", .name = "latent, 16 heads", .heads = 16, .context = 4 * n},
      {.key = "fp8",
       .name = "latent, 16 heads, fp8_ds_mla",
       .stored = kLatentFp8,
       .heads = 16,
       .context = 4 * n},
      {.key = "grouped",
       .name = "grouped, 64 of 8 heads",
       .stored = kGroupedBf16,
       .heads = 64,
       .context = 4 * n},
      {.key = "prefill",
       .name = "prefill",
       .heads = 128,
       .context = sizes.prefill,
       .queries = sizes.prefill,
       .is_prefill = true},
      {.key = "prefill-cached",
       .name = "prefill over a cache",
       .heads = 128,
       .context = cached + sizes.prefill,
       .queries = sizes.prefill,
       .is_prefill = true},
  };
}

AttentionShape shape_of(const AttentionCase& one) {
  AttentionShape shape;
  shape.query_heads = one.heads;
  if (one.stored == StoredAs::kGroupedBf16) {
    shape.kind = RowKind::kGrouped;
    shape.kv_heads = kGroupedKvHeads;
    shape.key_dim = shape.value_dim = kGroupedDim;
    shape.scale = 1 / std::sqrt(static_cast<double>(kGroupedDim));
    return shape;
  }
  shape.kind = RowKind::kLatent;
  shape.kv_heads = 1;
  shape.key_dim = kLatentDim + kRopeDim;
  shape.value_dim = shape.rotary_offset = kLatentDim;
  shape.scale = 1 / std::sqrt(static_cast<double>(kContentDim + kRopeDim));
  return shape;
}

std::uint64_t row_bytes_of(StoredAs stored) {
  switch (stored) {
    case StoredAs::kLatentBf16:
      return std::uint64_t{kLatentDim} * 2 + kRopeBytes;
    case StoredAs::kLatentFp8:
      return kLatentDim + 4 * sizeof(float) + kRopeBytes;
    case StoredAs::kGroupedBf16:
      return std::uint64_t{kGroupedKvHeads} * 2 * kGroupedDim * 2;
  }
  return 0;
}

std::uint64_t pages_of(const AttentionCase& one) {
  return ceil_div(shared_rows_of(one), kPageRows) +
         one.sequences * ceil_div(one.context - shared_rows_of(one), kPageRows);
}

std::uint64_t distinct_rows_of(const AttentionCase& one) {
  return shared_rows_of(one) + one.sequences * (one.context - shared_rows_of(one));
}

double flop_of(const AttentionCase& one) {
  const AttentionShape shape = shape_of(one);
  const double width = static_cast<double>(shape.key_dim) + shape.value_dim;
  return static_cast<double>(one.sequences) * pairs_of(one) * 2 * one.heads * width;
}

double expanded_flop_of(const AttentionCase& one) {
  constexpr double kWidth = kContentDim + kRopeDim + kExpandedValueDim;
  constexpr double kUpPerRow = double{kLatentDim} * (kContentDim + kExpandedValueDim);
  return 2.0 * one.heads * (pairs_of(one) * kWidth + static_cast<double>(one.context) * kUpPerRow);
}

Result<std::unique_ptr<RowStore>> RowStore::open(StoredAs stored, std::uint64_t pages) {
  auto store = std::make_unique<RowStore>();
  PagedRows& rows = store->rows_;
  rows.row_bytes = row_bytes_of(stored);
  rows.block_rows = kPageRows;
  rows.block_bytes = kPageRows * rows.row_bytes;
  rows.block_count = pages;
  if (stored == StoredAs::kLatentFp8) rows.format = RowFormat::kFp8DsMla;
  auto memory = MemoryRegion::map(pages * rows.block_bytes);
  if (!memory) return propagate(memory);
  store->memory_ = *std::move(memory);
  rows.base = store->memory_.data();
  const Numbers numbers = draw_numbers();
  std::mt19937_64 random(2);
  for (std::uint64_t row = 0; row < pages * kPageRows; ++row) {
    fill_row(stored, numbers, random(), store->memory_.data() + row * rows.row_bytes);
  }
  store->ascending_.resize(pages);
  std::iota(store->ascending_.begin(), store->ascending_.end(), 0U);
  store->scattered_ = store->ascending_;
  std::shuffle(store->scattered_.begin(), store->scattered_.end(), random);
  return store;
}

CaseCopy::CaseCopy(const AttentionCase& one, const RowStore& store,
                   std::span<const std::uint32_t> pages, const float* queries) {
  EMBLEMA_CHECK(pages.size() == pages_of(one), "as many pages as the case takes");
  const std::uint64_t shared = shared_rows_of(one);
  const std::uint64_t own = one.context - shared;
  const auto prefix = pages.first(shared / kPageRows);
  pages_.reserve(pages.size());
  for (const std::uint32_t page : prefix) pages_.push_back({page, kPageRows});
  tables_.resize(one.sequences);
  spans_.resize(one.sequences);
  sequences_.resize(one.sequences);
  auto next = pages.begin() + static_cast<std::ptrdiff_t>(prefix.size());
  for (std::uint64_t i = 0; i < one.sequences; ++i) {
    tables_[i].assign(prefix.begin(), prefix.end());
    for (std::uint64_t row = 0; row < own; row += kPageRows, ++next) {
      tables_[i].push_back(*next);
      pages_.push_back({*next, std::min(kPageRows, own - row)});
    }
    spans_[i].blocks = tables_[i];
    spans_[i].rows = one.context;
    sequences_[i].spans = std::span(&spans_[i], 1);
    sequences_[i].first_query = i * one.queries;
    sequences_[i].queries = one.queries;
    sequences_[i].query_position = static_cast<std::int64_t>(one.context - one.queries);
  }
  inputs_.shape = shape_of(one);
  inputs_.rows = store.rows();
  inputs_.q = queries;
  inputs_.tokens = one.sequences * one.queries;
  inputs_.sequences = sequences_;
}

AttentionInputs CaseCopy::inputs_with(const float* queries) const {
  AttentionInputs inputs = inputs_;
  inputs.q = queries;
  return inputs;
}

std::uint64_t CaseCopy::read_pages(std::uint64_t part, std::uint64_t parts) const {
  const PagedRows& rows = inputs_.rows;
  std::uint64_t sum = 0;
  const std::uint64_t end = pages_.size() * (part + 1) / parts;
  for (std::uint64_t i = pages_.size() * part / parts; i < end; ++i) {
    sum +=
        read_all({rows.base + pages_[i].index * rows.block_bytes, pages_[i].rows * rows.row_bytes});
  }
  return sum;
}

void fill_normal(std::span<float> out, std::uint64_t seed, float size) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(std::min(out.size(), kNumbers));
  for (float& number : numbers) number = size * normal(random);
  // Runs of different length, so that no two queries are the same.
  for (std::size_t done = 0; done < out.size();) {
    const std::size_t start = done == 0 ? 0 : random() % (numbers.size() / 2);
    const std::size_t count = std::min(numbers.size() - start, out.size() - done);
    std::copy_n(numbers.begin() + static_cast<std::ptrdiff_t>(start), count,
                out.begin() + static_cast<std::ptrdiff_t>(done));
    done += count;
  }
}

}  // namespace emblema::bench
