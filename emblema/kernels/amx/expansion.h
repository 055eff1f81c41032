// expand_rows: keys and values of one head from latents, as products of the same kind as scores:
// the matrix's rows are packed as queries are.
//
// A scale that the latents share is taken out of every sum and stays with the expanded rows.
//
// Included inside a region of the instruction set (isa_region.h), after what it needs.
#pragma once

#include "emblema/kernels/amx/packing.h"
#include "emblema/kernels/amx/rows.h"
#include "emblema/kernels/amx/tiles.h"

namespace emblema::amx_kernels {

inline std::size_t matrix_bytes(std::uint32_t outputs, std::uint32_t inputs) {
  return parts_of(outputs, kTileRows) * (parts_of(inputs, kStep) * kTileBytes);
}

inline void pack_matrix(const float* matrix, std::uint32_t outputs, std::uint32_t inputs,
                        std::byte* to) {
  const std::size_t panel_bytes = parts_of(inputs, kStep) * kTileBytes;
  for (std::uint32_t first = 0; first < outputs; first += kTileRows, to += panel_bytes) {
    const float* vectors[kTileRows] = {};
    const std::uint32_t count = std::min(kTileRows, outputs - first);
    for (std::uint32_t i = 0; i < count; ++i) {
      vectors[i] = matrix + std::size_t{first + i} * inputs;
    }
    pack_columns(vectors, count, inputs, to);
  }
}

struct NoWork {
  void step() {}
};

// Products of 16 rows -> bf16, `count` columns of them.
inline void store_products(const float* products, std::uint32_t count, std::ptrdiff_t stride,
                           std::byte* to) {
  for (std::uint32_t r = 0; r < kTileRows; ++r, to += stride) {
    const __m512 numbers = _mm512_load_ps(products + std::size_t{r} * kTileRows);
    const auto rounded = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(numbers));
    _mm256_mask_storeu_epi16(to, first_lanes(count), rounded);
  }
}

// Rows of two groups (or one: the second null) times the matrix -> to[group], `stride` apart.
inline void expand_groups(const RowOperands& rows, const std::byte* matrix, std::uint32_t outputs,
                          std::uint32_t steps, std::byte* const (&to)[2], std::ptrdiff_t stride) {
  alignas(64) float products[4 * kTileFloats];
  const std::size_t panel_bytes = steps * kTileBytes;
  NoWork nothing;
  for (std::uint32_t first = 0; first < outputs; first += 2 * kTileRows) {
    RowOperands o = rows;
    o.columns[0] = matrix + first / kTileRows * panel_bytes;
    if (first + kTileRows < outputs) o.columns[1] = o.columns[0] + panel_bytes;
    multiply_rows(o, steps, nothing, products);
    for (std::uint32_t column = 0; column < 2 && o.columns[column] != nullptr; ++column) {
      const std::uint32_t at = first + column * kTileRows;
      for (std::uint32_t group = 0; group < 2 && o.rows[group] != nullptr; ++group) {
        store_products(products + std::size_t{2 * column + group} * kTileFloats,
                       std::min(kTileRows, outputs - at), stride,
                       to[group] + at * sizeof(std::uint16_t));
      }
    }
  }
}

// The rotary part of the keys as it is, and zeros up to whole steps.
inline void finish_expanded_group(const ExpandTask& task, const RowGroup& latents,
                                  const CopyLayout& copy, std::byte* to) {
  const std::size_t latent_bytes = task.latent.value_dim * sizeof(std::uint16_t);
  const std::size_t key_bytes = task.expanded.key_dim * sizeof(std::uint16_t);
  const std::size_t rope_bytes = task.latent.key_dim * sizeof(std::uint16_t) - latent_bytes;
  const std::size_t value_bytes = task.expanded.value_dim * sizeof(std::uint16_t);
  for (std::uint32_t r = 0; r < kTileRows; ++r, to += copy.stride) {
    std::memcpy(to + key_bytes - rope_bytes, latents.keys + r * latents.stride + latent_bytes,
                rope_bytes);
    std::memset(to + key_bytes, 0, copy.key_bytes - key_bytes);
    std::memset(to + copy.value_at + value_bytes, 0, copy.stride - copy.value_at - value_bytes);
  }
}

inline void expand_rows(const ExpandTask& task) {
  const CopyLayout copy(task.expanded);
  const Rows& latents = rows_of(task.rows);
  Rows& expanded = rows_of(task.to);
  expanded.key_scale = latents.key_scale;
  expanded.value_scale = latents.key_scale;
  const auto stride = static_cast<std::ptrdiff_t>(copy.stride);
  const std::uint32_t steps = parts_of(task.latent.value_dim, kStep);
  const std::uint32_t rope = task.latent.key_dim - task.latent.value_dim;
  const TileSession session;
  for (std::uint32_t first = 0; first < task.row_count; first += 2 * kTileRows) {
    RowOperands o;
    std::byte* keys[2] = {};
    std::byte* values[2] = {};
    for (std::uint32_t i = 0; i < 2 && first + i * kTileRows < task.row_count; ++i) {
      const std::uint32_t group = first / kTileRows + i;
      o.rows[i] = latents.groups[group].keys;
      o.strides[i] = latents.groups[group].stride;
      expanded.groups[group] = copied_group(copy, task.to, group);
      keys[i] = copies_of(task.to) + group * (kTileRows * copy.stride);
      values[i] = keys[i] + copy.value_at;
      finish_expanded_group(task, latents.groups[group], copy, keys[i]);
    }
    expand_groups(o, task.key_up, task.expanded.key_dim - rope, steps, keys, stride);
    expand_groups(o, task.value_up, task.expanded.value_dim, steps, values, stride);
  }
}

}  // namespace emblema::amx_kernels
