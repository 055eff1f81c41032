// For tests: paged memory for rows of any storage, with the reference codec beside it.
//
// The codec (layout/entry_codec.h) reads and writes the same memory by its own description of a
// page, so a kernel's bytes can be held against the codec's. Blocks lie in a shuffled order, at
// addresses without alignment; whatever nobody wrote is 0xee.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "emblema/contract/check.h"
#include "emblema/kernels/row_places.h"
#include "emblema/layout/entry_codec.h"

namespace emblema::testing_support {

// How rows are stored; scales of e4m3.
struct Storage {
  std::string_view name;
  RowFormat format = RowFormat::kPlain;
  Encoding encoding = Encoding::kBf16;
  float key_scale = 1.0F;
  float value_scale = 1.0F;
};

inline constexpr Storage kFp32Rows{"fp32", RowFormat::kPlain, Encoding::kFp32};
inline constexpr Storage kFp16Rows{"fp16", RowFormat::kPlain, Encoding::kFp16};
inline constexpr Storage kBf16Rows{"bf16", RowFormat::kPlain, Encoding::kBf16};
inline constexpr Storage kE4m3Rows{"e4m3", RowFormat::kPlain, Encoding::kFp8E4m3, 0.3F, 0.011F};
inline constexpr Storage kMlaRows{"fp8_ds_mla", RowFormat::kFp8DsMla};
inline constexpr Storage kV4Rows{"deepseek_v4", RowFormat::kDeepSeekV4};

inline AttentionShape row_shape(RowKind kind, std::uint32_t kv_heads, std::uint32_t key_dim,
                                std::uint32_t value_dim) {
  AttentionShape shape;
  shape.kind = kind;
  shape.kv_heads = kv_heads;
  shape.key_dim = key_dim;
  shape.value_dim = value_dim;
  return shape;
}

// What the fixed formats hold.
inline const AttentionShape kMlaShape = row_shape(RowKind::kLatent, 1, 576, 512);
inline const AttentionShape kV4Shape = row_shape(RowKind::kLatent, 1, 512, 512);

struct PagePlan {
  std::uint64_t block_rows = 16;
  std::uint64_t rows = 40;
  std::uint64_t first_row = 0;
  std::uint64_t gap_bytes = 5;  // behind the numbers of each row
};

class RowPages {
 public:
  RowPages(const AttentionShape& shape, const Storage& storage, const PagePlan& plan,
           std::optional<ScaleRule> rule = {})
      : first_row_(plan.first_row), codec_(codec_of(shape, storage, plan, rule)) {
    const std::uint64_t blocks = (plan.first_row + plan.rows) / plan.block_rows + 2;
    layout.block_bytes = page_.page_bytes + 3;
    layout.block_rows = plan.block_rows;
    layout.block_count = blocks;
    layout.encoding = storage.encoding;
    layout.format = storage.format;
    layout.key_scale = storage.key_scale;
    layout.value_scale = storage.value_scale;
    order.resize(blocks);
    std::iota(order.begin(), order.end(), 0U);
    std::shuffle(order.begin(), order.end(), std::mt19937_64(7));
    memory.assign(blocks * layout.block_bytes + 1, std::byte{0xee});
    layout.base = memory.data() + 1;
  }

  RowTarget target() { return {memory.data() + 1, layout, order, first_row_}; }
  RowSource source(std::uint64_t rows) const { return {layout, order, first_row_, rows}; }

  // By the codec.
  void encode(std::uint64_t row, std::span<const float> numbers) {
    const Status done = codec_.encode(numbers, place(row), page_at(row));
    EMBLEMA_CHECK(done.has_value(), "the page takes the row");
  }
  std::vector<float> decode(std::uint64_t row) {
    std::vector<float> numbers(codec_.row_numbers());
    const Status done = codec_.decode(page_at(row), place(row), numbers);
    EMBLEMA_CHECK(done.has_value(), "the page gives the row");
    return numbers;
  }
  std::uint64_t row_numbers() const { return codec_.row_numbers(); }

  PagedRows layout;
  std::vector<std::uint32_t> order;
  std::vector<std::byte> memory;

 private:
  std::uint64_t place(std::uint64_t row) const { return (first_row_ + row) % layout.block_rows; }
  ByteSpan page_at(std::uint64_t row) {
    const std::uint64_t block = order[(first_row_ + row) / layout.block_rows];
    return {memory.data() + 1 + block * layout.block_bytes, page_.page_bytes};
  }

  void add_region(std::string name, std::uint64_t elements, Encoding encoding,
                  std::uint32_t segment = 0) {
    std::uint64_t& end = segment == 0 ? page_.row_bytes : scale_bytes_;
    page_.regions.push_back({std::move(name), end, elements, encoding, segment});
    end += elements * bits_per_element(encoding) / 8;
  }

  EntryCodec codec_of(const AttentionShape& shape, const Storage& storage, const PagePlan& plan,
                      std::optional<ScaleRule> rule) {
    EntryCodecOptions options;
    options.scale_rule = rule;
    page_.role = StreamRole::kLatent;
    if (storage.format == RowFormat::kFp8DsMla) {
      add_region("latent", 512, Encoding::kFp8E4m3);
      add_region("latent_scale", 4, Encoding::kFp32);
      add_region("rope", 64, Encoding::kBf16);
    } else if (storage.format == RowFormat::kDeepSeekV4) {
      add_region("content", 448, Encoding::kFp8E4m3);
      add_region("rope", 64, Encoding::kBf16);
      add_region("content_scale", 7, Encoding::kUe8m0, 1);
      add_region("beside", 1, Encoding::kPad8, 1);
    } else if (shape.kind == RowKind::kLatent) {
      add_region("row", shape.key_dim, storage.encoding);
      options.tensor_scales = {storage.key_scale};
    } else {
      add_region("k", std::uint64_t{shape.kv_heads} * shape.key_dim, storage.encoding);
      add_region("v", std::uint64_t{shape.kv_heads} * shape.value_dim, storage.encoding);
      options.tensor_scales = {storage.key_scale, storage.value_scale};
    }
    if (storage.format != RowFormat::kPlain || storage.encoding != Encoding::kFp8E4m3) {
      options.tensor_scales.clear();
    }
    add_region("gap", plan.gap_bytes, Encoding::kPad8);
    page_.rows = plan.block_rows;
    page_.page_bytes = page_.rows * page_.row_bytes;
    layout.row_bytes = page_.row_bytes;
    if (scale_bytes_ > 0) {
      layout.scales_offset = page_.page_bytes + 2;
      page_.segments = {{0, page_.row_bytes}, {layout.scales_offset, scale_bytes_}};
      page_.page_bytes = layout.scales_offset + page_.rows * scale_bytes_;
    }
    return EntryCodec::from(page_, options).value();
  }

  std::uint64_t first_row_;
  StreamPage page_;
  std::uint64_t scale_bytes_ = 0;
  EntryCodec codec_;
};

}  // namespace emblema::testing_support
