#include "emblema/layout/block_layout.h"

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "emblema/contract/bytes.h"
#include "emblema/layout/convert.h"
#include "emblema/layout/layout_testing.h"
#include "test/model_samples.h"

namespace emblema {
namespace {

void put(std::vector<std::uint8_t>* block, std::uint64_t offset, std::uint64_t value,
         std::uint32_t bytes) {
  for (std::uint32_t i = 0; i < bytes; ++i) {
    (*block)[offset + i] = static_cast<std::uint8_t>(value >> (8 * i));
  }
}

// Writes `row` at the place that the layout gives it, region after region.
void write_row(const BlockLayout& layout, const StreamPage& page, std::uint64_t row,
               const std::vector<float>& values, std::vector<std::uint8_t>* block) {
  std::size_t next = 0;
  for (const RowRegion& region : page.regions) {
    const std::uint32_t bytes = bits_per_element(region.encoding) / 8;
    const std::uint64_t begin = row_offset_bytes(layout, page, 0, row) + region.offset_bytes;
    for (std::uint64_t i = 0; i < region.elements; ++i, ++next) {
      const float value = values.at(next);
      const std::uint64_t bits = region.encoding == Encoding::kFp32
                                     ? std::bit_cast<std::uint32_t>(value)
                                 : region.encoding == Encoding::kFp16 ? fp16_from_fp32(value)
                                                                      : bf16_from_fp32(value);
      put(block, begin + i * bytes, bits, bytes);
    }
  }
}

ModelConfig tiny_latent() {
  ModelConfig model = samples::latent("tiny", 2, 1);
  model.kv_lora_rank = 2;
  model.qk_rope_head_dim = 2;
  return model;
}

TEST(NativePages, GoldenBytesOfLatentRowsInBf16) {
  const ModelLayout layout = layout_of(tiny_latent());
  const BlockLayout& block = layout.groups.at(0);
  ASSERT_EQ(block.block_bytes, 2u * 64 * 8);
  std::vector<std::uint8_t> bytes(block.block_bytes, 0);
  write_row(block, *block.find(0, StreamRole::kLatent), 0, {1.0f, -2.5f, 0.15625f, 3.0e38f},
            &bytes);
  write_row(block, *block.find(1, StreamRole::kLatent), 63, {-0.0f, 1.00390625f, 2.0f, 0.5f},
            &bytes);
  // bf16, little-endian, c_kv then k_rope; 1 + 2^-8 is a tie and goes to the even 1.0.
  const std::vector<std::uint8_t> first = {0x80, 0x3f, 0x20, 0xc0, 0x20, 0x3e, 0x62, 0x7f};
  const std::vector<std::uint8_t> last = {0x00, 0x80, 0x80, 0x3f, 0x00, 0x40, 0x00, 0x3f};
  EXPECT_TRUE(std::equal(first.begin(), first.end(), bytes.begin()));
  EXPECT_TRUE(std::equal(last.begin(), last.end(), bytes.end() - 8));
  EXPECT_EQ(std::count(bytes.begin() + 8, bytes.end() - 8, 0), 2 * 64 * 8 - 16);
}

TEST(NativePages, GoldenBytesOfLatentRowsInFp16AndFp32) {
  const auto first_row = [](KvDtype dtype) {
    const ModelLayout layout = layout_of(tiny_latent(), {.kv_dtype = dtype});
    const BlockLayout& block = layout.groups.at(0);
    std::vector<std::uint8_t> bytes(block.block_bytes, 0);
    const StreamPage& page = block.pages.at(0);
    write_row(block, page, 0, {1.0f, -2.5f, 65504.0f, 0x1p-24f}, &bytes);
    bytes.resize(page.row_bytes);
    return bytes;
  };
  EXPECT_THAT(first_row(KvDtype::kFp16),
              testing::ElementsAre(0x00, 0x3c, 0x00, 0xc1, 0xff, 0x7b, 0x01, 0x00));
  EXPECT_THAT(first_row(KvDtype::kFp32),
              testing::ElementsAre(0x00, 0x00, 0x80, 0x3f, 0x00, 0x00, 0x20, 0xc0, 0x00, 0xe0, 0x7f,
                                   0x47, 0x00, 0x00, 0x80, 0x33));
}

TEST(NativePages, GoldenBytesOfKeyAndValueRowsWithAPaddedPage) {
  // Two KV heads, keys of 2, values of 1: 12 bytes a row, 16 rows = 192 = 3 x 64; with 1 KV head
  // and keys of 1: 4 bytes a row in a page of 64 bytes.
  ModelConfig model = samples::grouped("tiny", 2, 2, 2, 2);
  model.layers[0].v_head_dim = 1;
  model.layers[1].num_key_value_heads = 1;
  model.layers[1].head_dim = 3;
  model.layers[1].v_head_dim = 2;
  const ModelLayout layout = layout_of(model);
  const BlockLayout& block = layout.groups.at(0);
  ASSERT_EQ(block.pages.size(), 2u);
  EXPECT_EQ(block.pages[0].row_bytes, 12u);
  EXPECT_EQ(block.pages[0].page_bytes, 192u);
  EXPECT_EQ(block.pages[1].offset_bytes, 192u);
  EXPECT_EQ(block.pages[1].row_bytes, 10u);
  EXPECT_EQ(block.pages[1].page_bytes, 192u);  // 160 padded
  EXPECT_EQ(block.block_bytes, 384u);
  std::vector<std::uint8_t> bytes(block.block_bytes, 0);
  write_row(block, block.pages[0], 1, {1, 2, 3, 4, -1, -2}, &bytes);  // k0 k0 k1 k1 v0 v1
  write_row(block, block.pages[1], 15, {8, 16, 32, 64, 128}, &bytes);
  const std::vector<std::uint8_t> row = {0x80, 0x3f, 0x00, 0x40, 0x40, 0x40,
                                         0x80, 0x40, 0x80, 0xbf, 0x00, 0xc0};
  EXPECT_TRUE(std::equal(row.begin(), row.end(), bytes.begin() + 12));
  const std::vector<std::uint8_t> last = {0x00, 0x41, 0x80, 0x41, 0x00,
                                          0x42, 0x80, 0x42, 0x00, 0x43};
  EXPECT_TRUE(std::equal(last.begin(), last.end(), bytes.begin() + 192 + 150));
  EXPECT_EQ(block.find(1, StreamRole::kKv), &block.pages[1]);
  EXPECT_EQ(block.find(2, StreamRole::kKv), nullptr);
  EXPECT_EQ(block.find(0, StreamRole::kLatent), nullptr);
}

TEST(NativePages, Fp8DsMlaRowIsFlashMlas656Bytes) {
  const ModelLayout layout = layout_of(samples::deepseek_v3(), {.kv_dtype = KvDtype::kFp8DsMla});
  const StreamPage& page = layout.groups.at(0).pages.at(0);
  EXPECT_EQ(page.row_bytes, 656u);
  EXPECT_EQ(page.page_bytes, 41'984u);
  ASSERT_EQ(page.regions.size(), 3u);
  EXPECT_EQ(page.regions[1].offset_bytes, 512u);
  EXPECT_EQ(page.regions[2].offset_bytes, 528u);
}

TEST(NativeBlocks, SizesOfKnownModels) {
  EXPECT_EQ(layout_of(samples::deepseek_v3()).groups.at(0).block_bytes, 61u * 73'728);
  EXPECT_EQ(layout_of(samples::llama_3_70b()).groups.at(0).block_bytes, 80u * 65'536);
  // DeepSeek-V4's 128-token block: 32 CSA and 32 index entries, one HCA entry per layer.
  EXPECT_EQ(layout_of(samples::deepseek_v4_flash()).groups.at(0).block_bytes, 880'640u);
  EXPECT_EQ(layout_of(samples::deepseek_v4_pro()).groups.at(0).block_bytes, 1'260'544u);
  EXPECT_EQ(layout_of(samples::deepseek_v4_pro(), {.kv_dtype = KvDtype::kFp8Rope16})
                .groups.at(0)
                .block_bytes,
            632'256u);  // all pages are multiples of 64 already
  // fp8_ds_mla: an HCA page of one 584-byte row takes 640.
  EXPECT_EQ(layout_of(samples::deepseek_v4_pro(), {.kv_dtype = KvDtype::kFp8DsMla})
                .groups.at(0)
                .block_bytes,
            644'024u + 31 * 56);
}

TEST(NativeBlocks, ArenaSlotHoldsWindowsAndCompressors) {
  const auto slot = [](const ModelConfig& model, KvDtype dtype) {
    return layout_of(model, {.kv_dtype = dtype}).arena;
  };
  EXPECT_EQ(slot(samples::deepseek_v4_flash(), KvDtype::kFp8DsMla).slot_bytes, 15'420'416u);
  EXPECT_EQ(slot(samples::deepseek_v4_pro(), KvDtype::kFp8DsMla).slot_bytes, 23'270'400u);
  EXPECT_EQ(slot(samples::deepseek_v4_flash(), KvDtype::kBf16).slot_bytes, 17'842'176u);
  EXPECT_EQ(slot(samples::deepseek_v4_pro(), KvDtype::kBf16).slot_bytes, 26'705'920u);
  const ArenaLayout pro = slot(samples::deepseek_v4_pro(), KvDtype::kBf16);
  EXPECT_EQ(pro.state_bytes, 18'710'528u);
  EXPECT_EQ(pro.step_bytes(2048), 18'710'528u + 2048u * 61 * 1024);
  EXPECT_EQ(pro.step_bytes(UINT64_MAX), UINT64_MAX);
  EXPECT_EQ(slot(samples::deepseek_v3(), KvDtype::kBf16).slot_bytes, 0u);
}

TEST(Addresses, SlotsPast32BitsOfBytes) {
  // One latent of 576 bytes per block: slot ids of a flat cache.
  BlockLayout layout;
  layout.block_tokens = 1;
  layout.block_bytes = 576;
  StreamPage page;
  page.rows = 1;
  page.row_bytes = 576;
  page.page_bytes = 576;
  EXPECT_EQ(row_offset_bytes(layout, page, 3'728'270, 0), 2'147'483'520u);
  EXPECT_EQ(row_offset_bytes(layout, page, 3'728'271, 0), 2'147'484'096u);
  EXPECT_EQ(row_offset_bytes(layout, page, 8'000'000, 0), 4'608'000'000u);
}

// The blocks that hold rows of a sequence with `committed` tokens and `step` more reserved, by
// walking the rule token by token: rows before committed - W + 1 are gone, a block leaves when all
// its rows have.
std::uint64_t simulated_blocks(const BlockLayout& layout, std::uint64_t committed,
                               std::uint64_t step) {
  std::set<std::uint64_t> blocks;
  for (std::uint64_t row = 0; row < committed + step; ++row)
    blocks.insert(row / layout.block_tokens);
  if (layout.retention != Retention::kWindow) return blocks.size();
  for (std::uint64_t row = 0; row + layout.window_tokens < committed + 1; ++row) {
    const bool is_last_of_block = (row + 1) % layout.block_tokens == 0;
    if (is_last_of_block) blocks.erase(row / layout.block_tokens);
  }
  return blocks.size();
}

BlockLayout window_blocks(std::uint64_t window_tokens, std::uint64_t block_tokens) {
  BlockLayout layout;
  layout.retention = window_tokens == 0 ? Retention::kGrowing : Retention::kWindow;
  layout.window_tokens = window_tokens;
  layout.block_tokens = block_tokens;
  return layout;
}

TEST(WindowBlocks, AWindowOf128HoldsAtMostNineBlocksOf16) {
  const ModelLayout layout = layout_of(samples::gpt_oss_120b());
  const BlockLayout& window = layout.groups.at(1);
  ASSERT_EQ(window.window_tokens, 128u);
  ASSERT_EQ(window.block_tokens, 16u);
  std::uint64_t most = 0;
  for (std::uint64_t tokens = 0; tokens <= 1000; ++tokens) {
    ASSERT_EQ(window.blocks_at(tokens), simulated_blocks(window, tokens, 0)) << tokens;
    most = std::max(most, window.blocks_at(tokens));
  }
  EXPECT_EQ(most, 9u);
  for (std::uint64_t tokens = 0; tokens <= 1000; ++tokens) {
    ASSERT_LE(window.blocks_peak(tokens, 1), 9u) << tokens;
  }
}

RC_GTEST_PROP(WindowBlocks, AtEveryLengthAsSimulated, ()) {
  const auto window = *rc::gen::inRange<std::uint64_t>(0, 40);
  const BlockLayout layout = window_blocks(window, *rc::gen::inRange<std::uint64_t>(1, 20));
  const auto tokens = *rc::gen::inRange<std::uint64_t>(0, 200);
  RC_ASSERT(layout.blocks_at(tokens) == simulated_blocks(layout, tokens, 0));
}

RC_GTEST_PROP(WindowBlocks, ThePeakIsTheWorstOfAllSteps, ()) {
  const auto window = *rc::gen::inRange<std::uint64_t>(0, 30);
  const BlockLayout layout = window_blocks(window, *rc::gen::inRange<std::uint64_t>(1, 12));
  const auto tokens = *rc::gen::inRange<std::uint64_t>(0, 90);
  const auto step = *rc::gen::inRange<std::uint64_t>(0, 50);
  std::uint64_t worst = 0;
  for (std::uint64_t committed = 0; committed <= tokens; ++committed) {
    const std::uint64_t reserved = std::min(step, tokens - committed);
    worst = std::max(worst, simulated_blocks(layout, committed, reserved));
  }
  RC_ASSERT(layout.blocks_peak(tokens, step) == worst);
  if (window > 1) {
    const std::uint64_t bound = ceil_div(window - 2 + step, layout.block_tokens) + 1;
    RC_ASSERT(layout.blocks_peak(tokens, step) <= bound);
  }
}

TEST(WindowBlocks, HugeLengthsDoNotWrap) {
  const BlockLayout layout = window_blocks(128, 16);
  EXPECT_LE(layout.blocks_at(UINT64_MAX), 9u);
  EXPECT_LE(layout.blocks_peak(UINT64_MAX, 1), 9u);
  EXPECT_EQ(layout.blocks_peak(UINT64_MAX, UINT64_MAX), UINT64_C(1) << 60);
  EXPECT_LE(layout.blocks_peak(UINT64_MAX, 0), 9u);
}

TEST(Allocated, WholeBlocksAndTheSlot) {
  const ModelLayout v3 = layout_of(samples::deepseek_v3());
  EXPECT_EQ(v3.allocated_bytes_per_sequence(0).value(), 0u);
  EXPECT_EQ(v3.allocated_bytes_per_sequence(1).value(), 64u * 70'272);
  EXPECT_EQ(v3.allocated_bytes_per_sequence(64).value(), 64u * 70'272);
  EXPECT_EQ(v3.allocated_bytes_per_sequence(65).value(), 128u * 70'272);
  const ModelLayout pro = layout_of(samples::deepseek_v4_pro());
  EXPECT_EQ(pro.allocated_bytes_per_sequence(129).value(), 26'705'920u + 2 * 1'260'544u);
  const auto wrapped = v3.allocated_bytes_per_sequence(UINT64_C(1) << 60);
  ASSERT_FALSE(wrapped);
  EXPECT_EQ(wrapped.error().code, ErrorCode::Invalid);
}

TEST(Allocated, ABlockTooLargeFor64BitsIsInvalid) {
  const auto geometry =
      ModelGeometry::from(samples::llama_3_70b(), {.block_tokens = UINT64_C(1) << 60});
  ASSERT_TRUE(geometry);
  const auto layout = ModelLayout::native(*geometry);
  ASSERT_FALSE(layout);
  EXPECT_EQ(layout.error().code, ErrorCode::Invalid);
}

}  // namespace
}  // namespace emblema
