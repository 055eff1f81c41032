// Layers that remember otherwise than by keys and values of every token: recurrent state, chunks,
// another layer's rows, an encoder's rows. Figures: products written out, and those of public
// reports.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/geometry/model_geometry.h"
#include "test/model_samples.h"

namespace emblema {
namespace {

using samples::grouped;
using testing::HasSubstr;

ModelGeometry geometry_of(const ModelConfig& model, const GeometryOptions& options = {}) {
  auto geometry = ModelGeometry::from(model, options);
  EXPECT_TRUE(geometry) << geometry.error().describe();
  return *geometry;
}

std::string refusal(const ModelConfig& model, const GeometryOptions& options = {}) {
  const auto geometry = ModelGeometry::from(model, options);
  return geometry ? "it was accepted" : geometry.error().describe();
}

void make_recurrent(LayerFacts* layer) {
  *layer = {};
  layer->cache = LayerCache::kNone;
  layer->has_rope = false;
  layer->recurrent = {.mixer = RecurrentMixer::kMamba2,
                      .conv_channels = 64 * 64 + 2 * 8 * 128,
                      .conv_columns = 3,
                      .state_heads = 64,
                      .state_rows = 64,
                      .state_columns = 128};
}

// 14 layers: 6 Mamba-2, 6 that remember nothing, 2 with 8 KV heads of 128.
ModelConfig mamba_hybrid() {
  ModelConfig model = grouped("hybrid", 14, 32, 8, 128);
  const std::string pattern = "M-M-M*-M-M-M*-";
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '*') continue;
    make_recurrent(&model.layers[i]);
    if (pattern[i] == '-') model.layers[i].recurrent = {};
  }
  return model;
}

// aisimulate pull 176, inference-sim issue 1552: every layer of a hybrid counted as attention, and
// its state not at all.
TEST(HybridStreams, StateIsCountedApartFromWhatGrows) {
  const ModelConfig model = mamba_hybrid();
  const ModelGeometry fp32 = geometry_of(model);
  EXPECT_EQ(fp32.growing_bytes_per_token().value(), Rational(8'192));
  EXPECT_EQ(fp32.growing_bytes_per_token().value(), Rational(2 * 2 * 8 * 128 * 2));
  EXPECT_EQ(fp32.state_bytes_per_sequence().value(), 12'804'096u);
  EXPECT_EQ(fp32.fixed_bytes_per_sequence().value(), 0u);
  EXPECT_EQ(fp32.bytes_per_sequence(1000).value(), 8'192'000u) << "attention caches only";
  const ModelGeometry bf16 = geometry_of(model, {.state_dtype = StateDtype::kBf16});
  EXPECT_EQ(bf16.state_bytes_per_sequence().value(), 6'512'640u);
  EXPECT_EQ(bf16.state_bytes_per_sequence().value(), 6u * (524'288 + 18'432) * 2);
  EXPECT_NE(bf16.fingerprint(), fp32.fingerprint());
  EXPECT_TRUE(fp32.has_arena() && fp32.has_state());
  EXPECT_EQ(fp32.layers()[0].kind, "mamba2");
  EXPECT_EQ(fp32.layers()[1].kind, "none");
  EXPECT_TRUE(fp32.layers()[1].streams.empty());
  EXPECT_EQ(fp32.attention_in_words(), "6 x MAMBA2 + 6 x no attention + 2 x GQA");
  ASSERT_EQ(fp32.groups().size(), 1u);
  EXPECT_EQ(fp32.groups()[0].members.size(), 2u);
}

// A config's mamba_ssm_dtype was ignored: its state was counted as fp32 whatever it said.
TEST(HybridStreams, TheConfigsTypeOfStateHoldsUnlessTheCallerSaysOtherwise) {
  ModelConfig model = mamba_hybrid();
  const auto bytes = [&model](const GeometryOptions& options) {
    return geometry_of(model, options).state_bytes_per_sequence().value();
  };
  model.state_dtype = "float32";
  EXPECT_EQ(bytes({}), 12'804'096u);
  for (const char* word : {"bfloat16", "float16"}) {
    model.state_dtype = word;
    EXPECT_EQ(bytes({}), 6'512'640u) << word;
    EXPECT_EQ(bytes({.state_dtype = StateDtype::kFp32}), 12'804'096u) << word;
  }
  EXPECT_THAT(refusal(grouped("plain", 1, 8, 8, 64), {.state_dtype = StateDtype::kBf16}),
              HasSubstr("state dtype is bf16, but plain keeps no recurrent state; allowed: none"));
}

TEST(HybridStreams, AModelThatNeverAttendsHasStateAlone) {
  ModelConfig model = grouped("mamba", 2, 1, 1, 64);
  model.num_attention_heads = 0;
  for (LayerFacts& layer : model.layers) make_recurrent(&layer);
  const ModelGeometry geometry = geometry_of(model);
  EXPECT_TRUE(geometry.groups().empty());
  EXPECT_EQ(geometry.growing_bytes_per_token().value(), Rational(0));
  model.layers[0].num_attention_heads = 1;
  EXPECT_THAT(refusal(model), HasSubstr("does not attend is 1; allowed: 0 to 0"));
}

TEST(HybridStreams, AMixerBesideAttentionIsASecondStream) {
  ModelConfig model = grouped("parallel", 1, 20, 4, 128);
  LayerFacts recurrent;
  make_recurrent(&recurrent);
  model.layers[0].recurrent = recurrent.recurrent;
  const ModelGeometry geometry = geometry_of(model);
  ASSERT_EQ(geometry.layers()[0].streams.size(), 2u);
  EXPECT_EQ(geometry.layers()[0].kind, "gqa+mamba2");
  const Stream& state = geometry.layers()[0].streams[1];
  EXPECT_EQ(state.role, StreamRole::kState);
  EXPECT_EQ(state.retention, Retention::kFixed);
  EXPECT_EQ(state.placement, Placement::kArena);
  EXPECT_EQ(state.entry_bytes, 64u * 64 * 128 * 4 + 6144 * 3 * 2);
}

TEST(HybridStreams, StatesPastSixtyFourBitsAreRefused) {
  ModelConfig model = grouped("huge", 1, 1, 1, 64);
  make_recurrent(&model.layers[0]);
  model.layers[0].recurrent.state_heads = 65'536;
  model.layers[0].recurrent.state_rows = 1u << 24;
  model.layers[0].recurrent.state_columns = 1u << 24;
  EXPECT_THAT(refusal(model), HasSubstr("numbers of a recurrent state"));
}

// Llama 4: chunks of 8,192 on three layers of four.
TEST(HybridStreams, ChunksAreAGroupOfTheirOwnAndCapLikeWindows) {
  ModelConfig model = grouped("chunks", 4, 40, 8, 128);
  for (std::size_t i = 0; i < 3; ++i) {
    model.layers[i].reach = LayerReach::kChunk;
    model.layers[i].window_tokens = 8192;
  }
  const ModelGeometry geometry = geometry_of(model);
  ASSERT_EQ(geometry.groups().size(), 2u);
  EXPECT_EQ(geometry.groups()[1].name, "chunk 8192");
  EXPECT_EQ(geometry.groups()[1].retention, Retention::kChunk);
  EXPECT_EQ(geometry.groups()[1].window_tokens, 8192u);
  EXPECT_EQ(geometry.layers()[0].chunk_tokens, 8192u);
  EXPECT_EQ(geometry.layers()[0].window_tokens, 0u) << "a chunk is no sliding mask";
  const std::uint64_t row = 2 * 8 * 128 * 2;
  EXPECT_EQ(geometry.growing_bytes_per_token().value(), Rational(row));
  EXPECT_EQ(geometry.fixed_bytes_per_sequence().value(), 3 * row * 8192);
  EXPECT_EQ(geometry.bytes_per_sequence(100).value(), 4 * row * 100);
  EXPECT_EQ(geometry.bytes_per_sequence(10'000).value(), row * 10'000 + 3 * row * 8192);
  EXPECT_EQ(geometry.attention_in_words(), "3 x GQA chunk 8192 + 1 x GQA");
  model.max_positions = 8192;
  EXPECT_EQ(geometry_of(model).groups().size(), 1u) << "a chunk of all positions never ends";
}

// 35 layers (4 sliding, 1 full, seven times), of which the last 20 share: gemma.cpp pull 1012.
TEST(HybridStreams, LayersThatShareHaveNoBytesOfTheirOwn) {
  ModelConfig model = grouped("shared", 35, 8, 1, 256);
  for (std::size_t i = 0; i < 35; ++i) {
    LayerFacts& layer = model.layers[i];
    if (i % 5 == 4) {
      layer.head_dim = layer.v_head_dim = 512;
    } else {
      samples::set_window(&layer, 512);
    }
    if (i < 15) continue;
    layer.cache = LayerCache::kShared;
    layer.shares_with = i % 5 == 4 ? 14 : 13;
  }
  const ModelGeometry geometry = geometry_of(model);
  EXPECT_EQ(geometry.bytes_per_sequence(1).value(), 18'432u);
  EXPECT_EQ(geometry.bytes_per_sequence(2048).value(), 18'874'368u);
  std::size_t without = 0;
  for (const LayerGeometry& layer : geometry.layers()) {
    without += layer.streams.empty();
    EXPECT_EQ(layer.shares_with.has_value(), layer.streams.empty());
  }
  EXPECT_EQ(without, 20u);
  EXPECT_EQ(geometry.layers()[20].window_tokens, 512u) << "it still masks by its window";
  EXPECT_EQ(geometry.layers()[20].shares_with, 13u);

  ModelConfig wrong = model;
  wrong.layers[20].shares_with = 20;
  EXPECT_THAT(refusal(wrong), HasSubstr("shares_with is 20; allowed: an earlier layer"));
  wrong.layers[20].shares_with = 16;
  EXPECT_THAT(refusal(wrong), HasSubstr("an earlier layer with a cache of its own"));
  wrong.layers[20].shares_with = 4;
  EXPECT_THAT(refusal(wrong), HasSubstr("allowed: those of layer 4"));
}

TEST(HybridStreams, EncoderRowsAreFixedWhereTheClassOrTheCallerSaysSo) {
  ModelConfig model = grouped("whisper", 4, 6, 6, 64);
  for (LayerFacts& layer : model.layers) layer.has_cross_attention = true;
  const std::uint64_t row = 2 * 6 * 64 * 2;
  EXPECT_EQ(geometry_of(model).fixed_bytes_per_sequence().value(), 0u) << "the request decides";
  model.encoder_positions = 1500;
  const ModelGeometry geometry = geometry_of(model);
  EXPECT_EQ(geometry.layers()[0].kind, "mha+cross");
  EXPECT_EQ(geometry.fixed_bytes_per_sequence().value(), 9'216'000u);
  EXPECT_EQ(geometry.bytes_per_sequence(1).value(), 4 * row + 9'216'000);
  EXPECT_EQ(geometry.state_bytes_per_sequence().value(), 0u);
  EXPECT_TRUE(geometry.has_arena());
  EXPECT_FALSE(geometry.has_state()) << "an encoder's rows need no snapshot";
  const ModelGeometry asked = geometry_of(model, {.encoder_tokens = 10});
  EXPECT_EQ(asked.fixed_bytes_per_sequence().value(), 4 * row * 10);

  ModelConfig image = grouped("image", 2, 32, 8, 128);
  image.layers[1].cache = LayerCache::kCross;
  image.layers[1].has_rope = false;
  EXPECT_EQ(geometry_of(image).growing_bytes_per_token().value(), Rational(4096));
  EXPECT_EQ(geometry_of(image, {.encoder_tokens = 7}).fixed_bytes_per_sequence().value(),
            7 * 4096u);
  EXPECT_EQ(geometry_of(image).layers()[1].kind, "cross");
  EXPECT_THAT(refusal(grouped("plain", 1, 8, 8, 64), {.encoder_tokens = 7}),
              HasSubstr("encoder tokens is 7, but plain has no cross-attention"));
}

TEST(HybridStreams, ADraftLayerOfAHybridAttends) {
  ModelConfig model = mamba_hybrid();
  model.num_nextn_predict_layers = 1;
  const ModelGeometry geometry = geometry_of(model, {.speculative_mtp = true});
  EXPECT_EQ(geometry.layers().back().kind, "gqa");
  EXPECT_EQ(geometry.growing_bytes_per_token().value(), Rational(3 * 2 * 8 * 128 * 2));
}

TEST(StateDtypes, AreReadByName) {
  EXPECT_EQ(parse_state_dtype("bf16").value(), StateDtype::kBf16);
  EXPECT_EQ(to_string(StateDtype::kFp32), "fp32");
  EXPECT_THAT(parse_state_dtype("int8").error().message,
              HasSubstr("state dtype is 'int8'; allowed: fp32, bf16, fp16"));
}

// Layers x 128 rows x entry bytes, with the draft layer one more; compressor buffers as DeepSeek's
// reference code has them.
TEST(CompressedStreams, WindowsAndCompressorRowsOfOneSequence) {
  struct Case {
    ModelConfig model;
    KvDtype dtype;
    std::uint64_t window;
    std::uint64_t window_with_draft;
    std::uint64_t state;
  };
  const Case cases[] = {
      {samples::deepseek_v4_flash(), KvDtype::kFp8DsMla, 3'214'336, 3'289'088, 12'206'080},
      {samples::deepseek_v4_flash(), KvDtype::kBf16, 5'636'096, 5'767'168, 12'206'080},
      {samples::deepseek_v4_pro(), KvDtype::kFp8DsMla, 4'559'872, 4'634'624, 18'710'528},
      {samples::deepseek_v4_pro(), KvDtype::kBf16, 7'995'392, 8'126'464, 18'710'528}};
  for (const Case& one : cases) {
    const ModelGeometry trunk = geometry_of(one.model, {.kv_dtype = one.dtype});
    EXPECT_EQ(trunk.fixed_bytes_per_sequence().value(), one.window);
    EXPECT_EQ(trunk.state_bytes_per_sequence().value(), one.state);
    const ModelGeometry draft =
        geometry_of(one.model, {.kv_dtype = one.dtype, .speculative_mtp = true});
    EXPECT_EQ(draft.fixed_bytes_per_sequence().value(), one.window_with_draft);
  }
}

// 61 layers of a 656-byte latent and a 132-byte index key.
TEST(CompressedStreams, DeepseekV32StoresLatentAndIndexKey) {
  const ModelGeometry geometry =
      geometry_of(samples::deepseek_v3_2(),
                  {.kv_dtype = KvDtype::kFp8DsMla, .indexer_dtype = IndexerDtype::kFp8});
  EXPECT_EQ(geometry.growing_bytes_per_token().value(), Rational(48'068));
}

}  // namespace
}  // namespace emblema
