// The inner loops of attention, as a table: what an instruction set supplies. The driver (driver/)
// owns everything else: spans, masks, splits, threads, the merge.
//
// The driver takes stored rows a *block* at a time (up to block_rows of them, neighbours in their
// sequence) against *chunks* of up to kChunkQueries query rows that read the same KV head:
//
//   pack_queries     query rows -> the form that weigh_rows wants; once per chunk and relocation
//   load_rows        stored rows -> numbers, scales applied; once per block and KV head
//   expand_rows      latents -> keys and values of one head (prefill in the expanded form)
//   weigh_rows       scores, softcap, mask, online softmax: probabilities; and what the sums so far
//                    must be multiplied by
//   accumulate_rows  out = out * correction + probabilities . values
//   read_out         one query row of out as plain numbers
//
// Packed forms are the instruction set's own: the driver gives memory of the size it is told,
// 64-byte aligned, and looks at none of it. `out` begins as zero bytes.
//
// Softmax runs against `top`, the largest logit so far (or more, where an instruction set would
// rather not move it often).
//
// Every primitive gives each (query, row) and each (query, channel) the same operations in the same
// order whatever else is in the chunk, so a query's bits do not depend on its neighbours.
#pragma once

#include <cstddef>
#include <cstdint>

#include "emblema/kernels/isa.h"
#include "emblema/layout/attention_inputs.h"

namespace emblema {

inline constexpr std::uint32_t kChunkQueries = 128;
inline constexpr std::uint32_t kBlockRowsMax = 256;

struct TileWidths {
  std::uint32_t key_dim = 0;
  std::uint32_t value_dim = 0;
  bool value_in_key = false;  // latent rows: the value is the key's first value_dim numbers
};

// Neighbouring rows, wherever they lie.
struct StoredRows {
  const PagedRows* layout = nullptr;         // format, encoding, scales of all
  const std::byte* const* rows = nullptr;    // [count]
  const std::byte* const* scales = nullptr;  // [count], kDeepSeekV4 only
  std::uint32_t count = 0;
  std::uint64_t key_offset = 0;    // of the KV head's key in a row, in bytes
  std::uint64_t value_offset = 0;  // grouped rows
};

// Cache lines of the rows that come next, to be asked for evenly during the work on these.
struct RowPrefetch {
  const std::byte* const* rows = nullptr;
  std::uint32_t row_lines = 1;
  std::uint32_t row = 0;   // the next line to ask for
  std::uint32_t line = 0;  // of that row
  std::uint64_t left = 0;  // lines
  std::uint64_t per_step = 0;

  void spread(std::uint64_t steps) { per_step = steps == 0 ? left : (left + steps - 1) / steps; }
  void step() {
    std::uint64_t now = per_step < left ? per_step : left;
    left -= now;
    for (; now > 0; --now) {
      __builtin_prefetch(rows[row] + std::size_t{line} * 64, 0, 2);
      if (++line == row_lines) {
        line = 0;
        ++row;
      }
    }
  }
  // The next `lines` of this, which goes on behind them.
  RowPrefetch take(std::uint64_t lines) {
    RowPrefetch part = *this;
    part.left = lines < left ? lines : left;
    left -= part.left;
    const std::uint64_t at = line + part.left;
    row += static_cast<std::uint32_t>(at / row_lines);
    line = static_cast<std::uint32_t>(at % row_lines);
    return part;
  }
};

struct WeighTask {
  TileWidths widths;
  float scale = 1.0F;
  float softcap = 0.0F;
  const std::byte* queries = nullptr;  // as packed
  std::uint32_t query_count = 0;
  const std::byte* rows = nullptr;  // as loaded or expanded
  std::uint32_t row_count = 0;
  // [query_count]: the rows that each query sees; null: all of them.
  const std::uint32_t* first_row = nullptr;
  const std::uint32_t* end_row = nullptr;
  float* top = nullptr;          // [kChunkQueries], in and out; -infinity before the first row
  double* sum = nullptr;         // [kChunkQueries], in and out: of e^(z - top)
  float* corrections = nullptr;  // [kChunkQueries], out: e^(old top - top)
  std::byte* weights = nullptr;  // out
  RowPrefetch prefetch{};
};

// Queries [first_query, end_query) of the chunk over rows [first_row, end_row) of the block, all
// of which they see; or with first_rows and end_rows (takes_ragged) those that each query sees.
struct AccumulateTask {
  TileWidths widths;
  const std::byte* rows = nullptr;
  const std::byte* weights = nullptr;
  std::uint32_t query_count = 0;  // of the chunk
  std::uint32_t row_count = 0;    // of the block
  std::uint32_t first_query = 0;
  std::uint32_t end_query = 0;
  std::uint32_t first_row = 0;
  std::uint32_t end_row = 0;
  const std::uint32_t* first_rows = nullptr;  // [query_count] or null
  const std::uint32_t* end_rows = nullptr;
  const float* corrections = nullptr;  // [kChunkQueries]
  std::byte* out = nullptr;
  RowPrefetch prefetch{};
};

// rows (widths `latent`) -> keys [key_up . c ; rope], values [value_up . c] (widths `expanded`).
struct ExpandTask {
  TileWidths latent;
  TileWidths expanded;
  const std::byte* rows = nullptr;  // as loaded
  std::uint32_t row_count = 0;
  const std::byte* key_up = nullptr;    // content_dim rows of latent_dim numbers, as pack_weights
  const std::byte* value_up = nullptr;  // value_dim rows, likewise
  std::byte* to = nullptr;
};

struct BlockPrimitives {
  Isa isa = Isa::kScalar;
  // Rows of a block, from the widths as stored: what stays in the nearest caches beside queries and
  // sums. At most kBlockRowsMax.
  std::uint32_t (*block_rows)(const TileWidths& stored);

  // Bytes, multiples of 64.
  std::size_t (*query_bytes)(const TileWidths& widths, std::uint32_t query_count);
  std::size_t (*row_bytes)(const TileWidths& widths);  // of a whole block
  std::size_t (*weight_bytes)(std::uint32_t query_count);
  std::size_t (*out_bytes)(const TileWidths& widths, std::uint32_t query_count);
  std::size_t (*matrix_bytes)(std::uint32_t outputs, std::uint32_t inputs);

  // queries [query_count] pointers to key_dim numbers each
  void (*pack_queries)(const TileWidths& widths, const float* const* queries,
                       std::uint32_t query_count, std::byte* to);
  // matrix [outputs][inputs], for expand_rows
  void (*pack_matrix)(const float* matrix, std::uint32_t outputs, std::uint32_t inputs,
                      std::byte* to);
  void (*load_rows)(const TileWidths& widths, const StoredRows& from, std::byte* to);
  void (*expand_rows)(const ExpandTask& task);
  void (*weigh_rows)(const WeighTask& task);
  void (*accumulate_rows)(const AccumulateTask& task);
  void (*read_out)(const TileWidths& widths, const std::byte* out, std::uint32_t query_count,
                   std::uint32_t query, float* to);

  // Rows are summed up in groups of so many, counted from the block's first: blocks begin where
  // groups do, whatever their queries see.
  std::uint32_t row_step = 1;
  // Whether accumulate_rows takes queries that see different rows in one task.
  bool takes_ragged = false;
};

// The table of an instruction set that check_isa allows, for rows of this storage: amx gives
// avx512's over rows whose numbers do not fit bf16.
const BlockPrimitives& primitives_of(Isa isa, const PagedRows& rows);

const BlockPrimitives& scalar_primitives();
#if defined(__x86_64__)
const BlockPrimitives& avx2_primitives();
const BlockPrimitives& avx512_primitives();
const BlockPrimitives& amx_primitives();
#endif

}  // namespace emblema
