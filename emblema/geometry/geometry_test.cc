// Sizes against published figures and hand arithmetic. Names say what other programs got wrong.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/geometry/model_geometry.h"
#include "test/model_samples.h"

namespace emblema {
namespace {

using samples::grouped;
using testing::AllOf;
using testing::HasSubstr;

ModelGeometry geometry_of(const ModelConfig& model, const GeometryOptions& options = {}) {
  auto geometry = ModelGeometry::from(model, options);
  EXPECT_TRUE(geometry) << geometry.error().describe();
  return *geometry;
}

std::string growth(const ModelConfig& model, const GeometryOptions& options = {}) {
  return geometry_of(model, options).growing_bytes_per_token().value().exact();
}

std::uint64_t bytes(const ModelConfig& model, std::uint64_t tokens,
                    const GeometryOptions& options = {}) {
  return geometry_of(model, options).bytes_per_sequence(tokens).value();
}

Error error_of(const ModelConfig& model, const GeometryOptions& options = {}) {
  const auto geometry = ModelGeometry::from(model, options);
  EXPECT_FALSE(geometry);
  return geometry ? Error{ErrorCode::NotFound, "no error"} : geometry.error();
}

TEST(GroupedGeometry, DeclaredHeadDimNotHiddenOverHeads) {
  // Qwen3-0.6B: hidden 1024, 16 heads, head_dim 128 (LMCache issue 688).
  ModelConfig model = grouped("qwen3-0.6b", 28, 16, 8, 128);
  model.hidden_size = 1024;
  EXPECT_EQ(growth(model), "114688");
}

TEST(GroupedGeometry, KvHeadsEqualToHeadsIsMhaOfFullSize) {
  ModelConfig model = grouped("phi-2", 32, 32, 32, 80);
  EXPECT_EQ(growth(model, {.kv_dtype = KvDtype::kFp16}), "327680");
  EXPECT_EQ(geometry_of(model).attention_in_words(), "32 x MHA");
}

TEST(GroupedGeometry, TextPartOfAMultimodalModel) {
  EXPECT_EQ(growth(grouped("some-vl", 40, 32, 8, 128)), "163840");
}

TEST(GroupedGeometry, WindowLayersAreCountedAndCapped) {
  const ModelConfig model = samples::gpt_oss_120b();
  EXPECT_EQ(growth(model), "36864");
  EXPECT_EQ(bytes(model, 1), 73'728u);
  EXPECT_EQ(bytes(model, 128), 36u * 2048 * 128);
  EXPECT_EQ(bytes(model, 129), 36u * 2048 * 128 + 18u * 2048);
  EXPECT_EQ(bytes(model, 8192), 306'708'480u);
  EXPECT_EQ(bytes(model, 131'072), 4'836'556'800u);
  EXPECT_EQ(geometry_of(model).fixed_bytes_per_sequence().value(), 4'718'592u);
  EXPECT_EQ(geometry_of(model).attention_in_words(), "18 x GQA window 128 + 18 x GQA");
}

TEST(GroupedGeometry, WindowOffPartlyOnAndBoundAtTheLastLayer) {
  // Qwen2 7B: 28 layers, 4 KV heads, window 4096 from layer `bound` on.
  const auto model_with = [](std::size_t bound) {
    ModelConfig model = grouped("qwen2-7b", 28, 28, 4, 128);
    for (std::size_t i = bound; i < 28; ++i) samples::set_window(&model.layers[i], 4096);
    return model;
  };
  EXPECT_EQ(bytes(model_with(28), 32'768), 1'879'048'192u);
  EXPECT_EQ(bytes(model_with(21), 32'768), 1'468'006'400u);
}

TEST(GroupedGeometry, AWindowThatNeverBindsIsAFullLayer) {
  ModelConfig model = grouped("small", 2, 4, 2, 64);
  model.max_positions = 4096;
  samples::set_window(&model.layers[0], 4096);
  samples::set_window(&model.layers[1], 4095);
  const ModelGeometry geometry = geometry_of(model);
  EXPECT_EQ(geometry.layers()[0].window_tokens, 0u);
  EXPECT_EQ(geometry.layers()[1].window_tokens, 4095u);
  ASSERT_EQ(geometry.groups().size(), 2u);
  EXPECT_EQ(geometry.groups()[1].name, "window 4095");
}

TEST(GroupedGeometry, NothingGrowsWhereEveryLayerHasAWindow) {
  ModelConfig model = grouped("mistral-7b", 32, 32, 8, 128);
  for (LayerFacts& layer : model.layers) samples::set_window(&layer, 4096);
  EXPECT_EQ(growth(model), "0");
  EXPECT_EQ(bytes(model, 131'072), 536'870'912u);
  ASSERT_EQ(geometry_of(model).groups().size(), 1u);
  EXPECT_EQ(geometry_of(model).groups()[0].retention, Retention::kWindow);
}

TEST(GroupedGeometry, BytesPast32BitsAreExact) {
  const ModelConfig model = samples::llama_3_70b();
  EXPECT_EQ(growth(model), "327680");  // 320 KiB
  EXPECT_EQ(bytes(model, 32'768), 10'737'418'240u);
  EXPECT_EQ(64 * bytes(model, 1'048'576), 21'990'232'555'520u);
}

TEST(GroupedGeometry, ScalesOfPerTokenHeadTypesAreCounted) {
  const ModelConfig model = grouped("qwen3-0.6b", 28, 16, 8, 128);
  for (const KvDtype dtype : {KvDtype::kInt8PerTokenHead, KvDtype::kFp8PerTokenHead}) {
    EXPECT_EQ(growth(model, {.kv_dtype = dtype}), "59136");
    EXPECT_EQ(bytes(model, 500 * 256, {.kv_dtype = dtype}), 7'569'408'000u);  // 7218.75 MiB
  }
}

TEST(GroupedGeometry, GgmlBlocksOf32) {
  const ModelConfig model = grouped("llama-2-7b", 32, 32, 32, 128);
  EXPECT_EQ(growth(model, {.kv_dtype = KvDtype::kQ8_0}), std::to_string(32 * 2 * 4096 / 32 * 34));
  EXPECT_EQ(growth(model, {.kv_dtype = KvDtype::kQ4_0}), std::to_string(32 * 2 * 4096 / 32 * 18));
  const Error error = error_of(grouped("phi-2", 32, 32, 32, 80), {.kv_dtype = KvDtype::kQ8_0});
  EXPECT_EQ(error.code, ErrorCode::Unsupported);
  EXPECT_THAT(error.message, AllOf(HasSubstr("head_dim is 80"), HasSubstr("multiples of 32")));
}

TEST(GroupedGeometry, KeysAndValuesOfDifferentWidth) {
  ModelConfig model = grouped("mimo-v2", 1, 64, 4, 192);
  model.layers[0].v_head_dim = 128;
  EXPECT_EQ(growth(model), std::to_string(4 * (192 + 128) * 2));
  EXPECT_EQ(geometry_of(model).layers()[0].value_dim, 128u);
}

TEST(GroupedGeometry, KindByHeads) {
  const auto kind = [](std::uint32_t heads, std::uint32_t kv_heads) {
    return geometry_of(grouped("m", 1, heads, kv_heads, 64)).layers()[0].kind;
  };
  EXPECT_EQ(kind(8, 8), "mha");
  EXPECT_EQ(kind(8, 2), "gqa");
  EXPECT_EQ(kind(8, 1), "mqa");
  EXPECT_EQ(kind(1, 1), "mha");
}

TEST(LatentGeometry, OneLatentPerTokenWhateverTheHeads) {
  // Published for DeepSeek-V3: vLLM and SGLang agree on all four.
  const ModelConfig model = samples::deepseek_v3();
  EXPECT_EQ(growth(model), "70272");
  EXPECT_EQ(growth(model, {.kv_dtype = KvDtype::kFp8}), "35136");
  EXPECT_EQ(growth(model, {.kv_dtype = KvDtype::kFp8Rope16}), "39040");
  EXPECT_EQ(growth(model, {.kv_dtype = KvDtype::kFp8DsMla}), "40016");
  EXPECT_EQ(growth(model, {.kv_dtype = KvDtype::kFp32}), "140544");
  EXPECT_EQ(growth(model, {.kv_dtype = KvDtype::kQ8_0}), std::to_string(61 * 18 * 34));
  EXPECT_EQ(bytes(model, 131'072), 9'210'691'584u);  // 8.578 GiB
}

TEST(LatentGeometry, RatioToMhaIs32768Over576) {
  // MHA of the same model: 2 x 128 heads x 128.
  const Rational mha = 2 * 128 * 128 * 2;
  const Rational mla = geometry_of(samples::deepseek_v3()).layers()[0].streams[0].entry_bytes;
  EXPECT_EQ(divide(mha, mla, "ratio").value(), Rational::of(32'768, 576));
}

TEST(LatentGeometry, TheDraftLayerIsCountedOnlyWhenUsedAndOnlyOnce) {
  for (const std::uint32_t trunk : {2u, 8u, 61u}) {
    ModelConfig model = samples::latent("deepseek-v3", trunk, 128);
    model.num_nextn_predict_layers = 1;
    EXPECT_EQ(growth(model), std::to_string(trunk * 1152));
    EXPECT_EQ(growth(model, {.speculative_mtp = true}), std::to_string((trunk + 1) * 1152));
    EXPECT_EQ(growth(model, {.speculative_mtp = true, .layers = 1}), "2304");
  }
  const ModelGeometry geometry = geometry_of(samples::deepseek_v3(), {.speculative_mtp = true});
  EXPECT_EQ(growth(samples::deepseek_v3(), {.speculative_mtp = true}), "71424");
  EXPECT_TRUE(geometry.layers().back().is_draft);
  EXPECT_FALSE(geometry.layers()[60].is_draft);
  EXPECT_EQ(geometry.attention_in_words(), "61 x MLA + 1 x MLA draft");
}

TEST(LatentGeometry, DraftLayersThatTheModelDoesNotHave) {
  const Error error = error_of(samples::llama_3_70b(), {.speculative_mtp = true});
  EXPECT_EQ(error.code, ErrorCode::Invalid);
  EXPECT_THAT(error.message, HasSubstr("num_nextn_predict_layers 0"));
}

TEST(LatentGeometry, AGroupedDraftLayerSeesEverything) {
  ModelConfig model = samples::gpt_oss_120b();
  std::swap(model.layers[34], model.layers[35]);  // the last layer has a window
  model.num_nextn_predict_layers = 1;
  const ModelGeometry geometry = geometry_of(model, {.speculative_mtp = true});
  EXPECT_EQ(geometry.layers().back().window_tokens, 0u);
  EXPECT_EQ(geometry.growing_bytes_per_token().value(), Rational(36'864 + 2048));
}

TEST(LatentGeometry, IndexKeysOfSparseAttention) {
  const ModelConfig model = samples::deepseek_v3_2();
  EXPECT_EQ(growth(model), "85888");                                         // bf16, 704 x 61 x 2
  EXPECT_EQ(growth(model, {.kv_dtype = KvDtype::kFp8DsMla}), "48068");       // 656 + 132
  EXPECT_EQ(growth(model, {.indexer_dtype = IndexerDtype::kFp8}), "78324");  // 1152 + 132
  EXPECT_EQ(growth(model, {.indexer_dtype = IndexerDtype::kMxfp4}), std::to_string(61 * 1220));
  EXPECT_EQ(geometry_of(model).attention_in_words(), "61 x MLA+DSA");
  EXPECT_EQ(growth(model, {.speculative_mtp = true}), std::to_string(62 * 1408));
}

TEST(LatentGeometry, OnlyLayersWithAnIndexerPayForIt) {
  ModelConfig model = samples::deepseek_v3_2();
  for (std::size_t i = 1; i < 61; i += 2) model.layers[i].has_indexer = false;
  EXPECT_EQ(growth(model), std::to_string(61 * 1152 + 31 * 256));
}

struct V4Figures {
  KvDtype dtype;
  IndexerDtype indexer;
  const char* flash_growth;
  const char* pro_growth;
  std::uint64_t flash_growing_bytes_at_1mi;
  std::uint64_t pro_growing_bytes_at_1mi;
  std::uint64_t entry_bytes;
};

class V4Geometry : public testing::TestWithParam<V4Figures> {};

TEST_P(V4Geometry, GrowthAndTotalsOfFlashAndPro) {
  const V4Figures& figures = GetParam();
  const GeometryOptions options{.kv_dtype = figures.dtype, .indexer_dtype = figures.indexer};
  const ModelGeometry flash = geometry_of(samples::deepseek_v4_flash(), options);
  const ModelGeometry pro = geometry_of(samples::deepseek_v4_pro(), options);
  EXPECT_EQ(flash.growing_bytes_per_token().value().exact(), figures.flash_growth);
  EXPECT_EQ(pro.growing_bytes_per_token().value().exact(), figures.pro_growth);
  EXPECT_EQ(flash.fixed_bytes_per_sequence().value(), 43 * 128 * figures.entry_bytes);
  EXPECT_EQ(pro.fixed_bytes_per_sequence().value(), 61 * 128 * figures.entry_bytes);
  constexpr std::uint64_t kTokens = 1'048'576;
  EXPECT_EQ(flash.bytes_per_sequence(kTokens).value() - flash.fixed_bytes_per_sequence().value(),
            figures.flash_growing_bytes_at_1mi);
  EXPECT_EQ(pro.bytes_per_sequence(kTokens).value() - pro.fixed_bytes_per_sequence().value(),
            figures.pro_growing_bytes_at_1mi);
}

// Derived from the formats in DeepSeek's reference code; bf16 Pro is the 9.617 GiB of vLLM's blog.
INSTANTIATE_TEST_SUITE_P(
    Formats, V4Geometry,
    testing::Values(V4Figures{KvDtype::kFp8Rope16, IndexerDtype::kMxfp4NoScale, "3450", "4939.5",
                              3'617'587'200, 5'179'441'152, 576},
                    V4Figures{KvDtype::kFp8DsMla, IndexerDtype::kMxfp4, "3514.25", "5031.4375",
                              3'684'958'208, 5'275'844'608, 584},
                    V4Figures{KvDtype::kFp8DsMla, IndexerDtype::kFp8, "3850.25", "5511.4375",
                              4'037'279'744, 5'779'161'088, 584},
                    V4Figures{KvDtype::kBf16, IndexerDtype::kBf16, "6880", "9848", 7'214'202'880,
                              10'326'376'448, 1024}));

TEST(V4GeometryShape, LayersInWords) {
  EXPECT_EQ(geometry_of(samples::deepseek_v4_flash()).attention_in_words(),
            "2 x SWA + 21 x CSA + 20 x HCA");
  EXPECT_EQ(geometry_of(samples::deepseek_v4_pro()).attention_in_words(), "31 x HCA + 30 x CSA");
}

TEST(V4GeometryShape, GrowthPerLayerIs160AndNineHalves) {
  const ModelGeometry pro =
      geometry_of(samples::deepseek_v4_pro(), {.kv_dtype = KvDtype::kFp8Rope16});
  Rational csa;
  for (const Stream& stream : pro.layers()[2].streams) {
    csa = add(csa, stream.growing_bytes_per_token(), "").value();
  }
  EXPECT_EQ(csa, Rational(160));
  EXPECT_EQ(pro.layers()[0].streams[0].growing_bytes_per_token(), Rational::of(9, 2));
  EXPECT_EQ(pro.layers()[0].streams[1].entry_bytes, 576u);  // a window row
}

TEST(V4GeometryShape, WindowsAndCompressorsInTheReferenceBuffers) {
  const ModelGeometry flash = geometry_of(samples::deepseek_v4_flash());
  const ModelGeometry pro = geometry_of(samples::deepseek_v4_pro());
  EXPECT_EQ(flash.fixed_bytes_per_sequence().value(), 5'636'096u);
  EXPECT_EQ(pro.fixed_bytes_per_sequence().value(), 7'995'392u);
  EXPECT_EQ(flash.state_bytes_per_sequence().value(), 12'206'080u);
  EXPECT_EQ(pro.state_bytes_per_sequence().value(), 18'710'528u);
  EXPECT_EQ(bytes(samples::deepseek_v4_pro(), 8192), 88'670'208u);
  EXPECT_EQ(bytes(samples::deepseek_v4_flash(), 131'072), 907'411'456u);
  EXPECT_TRUE(pro.has_arena());
  EXPECT_FALSE(geometry_of(samples::deepseek_v3()).has_arena());
}

TEST(V4GeometryShape, TheDraftLayerIsWindowOnlyWithPlainRotation) {
  for (const ModelConfig& model : {samples::deepseek_v4_flash(), samples::deepseek_v4_pro()}) {
    const ModelGeometry geometry = geometry_of(model, {.speculative_mtp = true});
    const LayerGeometry& draft = geometry.layers().back();
    EXPECT_EQ(draft.kind, "swa");
    EXPECT_EQ(draft.rope.theta, 10'000);
    EXPECT_EQ(draft.rope.scaling, RopeScaling::kNone);
    EXPECT_EQ(draft.rope.rotary_dim, 64u);
    EXPECT_EQ(geometry.growing_bytes_per_token().value(),
              geometry_of(model).growing_bytes_per_token().value());
  }
  const auto fixed = [](const ModelConfig& model, KvDtype dtype) {
    return geometry_of(model, {.kv_dtype = dtype, .speculative_mtp = true})
        .fixed_bytes_per_sequence()
        .value();
  };
  EXPECT_EQ(fixed(samples::deepseek_v4_flash(), KvDtype::kFp8DsMla), 3'289'088u);
  EXPECT_EQ(fixed(samples::deepseek_v4_flash(), KvDtype::kBf16), 5'767'168u);
  EXPECT_EQ(fixed(samples::deepseek_v4_pro(), KvDtype::kFp8DsMla), 4'634'624u);
  EXPECT_EQ(fixed(samples::deepseek_v4_pro(), KvDtype::kBf16), 8'126'464u);
}

TEST(V4GeometryShape, EntriesCountOnlyWhenTheirGroupIsClosed) {
  // (tokens, CSA entries, HCA entries): DeepSeek-V4's visibility rule floor((t + 1) / ratio).
  const ModelGeometry pro = geometry_of(samples::deepseek_v4_pro());
  const Stream& hca = pro.layers()[0].streams[0];
  const Stream& csa = pro.layers()[2].streams[0];
  for (const auto& [tokens, csa_entries, hca_entries] : {std::tuple{1, 0, 0},
                                                         {3, 0, 0},
                                                         {4, 1, 0},
                                                         {127, 31, 0},
                                                         {128, 32, 1},
                                                         {256, 64, 2},
                                                         {4096, 1024, 32},
                                                         {1'048'576, 262'144, 8192}}) {
    const auto n = static_cast<std::uint64_t>(tokens);
    EXPECT_EQ(csa.payload_bytes(n).value(), static_cast<std::uint64_t>(csa_entries) * 1024);
    EXPECT_EQ(hca.payload_bytes(n).value(), static_cast<std::uint64_t>(hca_entries) * 1024);
  }
}

TEST(V4GeometryShape, DefaultIndexTypeFollowsTheEntries) {
  EXPECT_EQ(growth(samples::deepseek_v4_pro(), {.kv_dtype = KvDtype::kFp8Rope16}), "4939.5");
  EXPECT_EQ(growth(samples::deepseek_v4_pro(), {.kv_dtype = KvDtype::kFp8DsMla}), "5031.4375");
  EXPECT_EQ(default_indexer_dtype(KvDtype::kFp8, true), IndexerDtype::kMxfp4);
  EXPECT_EQ(default_indexer_dtype(KvDtype::kFp8, false), IndexerDtype::kFp8);
  EXPECT_EQ(default_indexer_dtype(KvDtype::kFp16, true), IndexerDtype::kBf16);
}

TEST(Blocks, TokensAreTheCommonMultipleOfStridesAndPage) {
  EXPECT_EQ(geometry_of(samples::deepseek_v3()).groups()[0].block_tokens, 64u);
  EXPECT_EQ(geometry_of(samples::deepseek_v3_2()).groups()[0].block_tokens, 64u);
  EXPECT_EQ(geometry_of(samples::llama_3_70b()).groups()[0].block_tokens, 16u);
  EXPECT_EQ(geometry_of(samples::deepseek_v4_pro()).groups()[0].block_tokens, 128u);
  EXPECT_EQ(geometry_of(samples::deepseek_v4_flash(), {.layers = 3}).groups()[0].block_tokens,
            128u);
}

TEST(Blocks, AnOverrideIsAMultipleOrAnErrorThatNamesTheRule) {
  EXPECT_EQ(geometry_of(samples::deepseek_v3(), {.block_tokens = 256}).groups()[0].block_tokens,
            256u);
  const ModelGeometry two_groups = geometry_of(samples::gpt_oss_120b(), {.block_tokens = 48});
  EXPECT_EQ(two_groups.groups()[0].block_tokens, 48u);
  EXPECT_EQ(two_groups.groups()[1].block_tokens, 48u);
  const Error error = error_of(samples::deepseek_v3(), {.block_tokens = 96});
  EXPECT_EQ(error.code, ErrorCode::Invalid);
  EXPECT_THAT(error.message, AllOf(HasSubstr("block_tokens is 96"), HasSubstr("multiples of 64"),
                                   HasSubstr("growing")));
  EXPECT_THAT(error_of(samples::deepseek_v4_pro(), {.block_tokens = 64}).message,
              HasSubstr("multiples of 128"));
}

TEST(Groups, GrowingStreamsTogetherEachWindowApart) {
  ModelConfig model = grouped("mixed", 6, 8, 2, 64);
  samples::set_window(&model.layers[1], 512);
  samples::set_window(&model.layers[2], 128);
  samples::set_window(&model.layers[4], 512);
  const ModelGeometry geometry = geometry_of(model);
  ASSERT_EQ(geometry.groups().size(), 3u);
  EXPECT_EQ(geometry.groups()[0].name, "growing");
  EXPECT_EQ(geometry.groups()[0].members.size(), 3u);
  EXPECT_EQ(geometry.groups()[1].name, "window 128");
  EXPECT_EQ(geometry.groups()[2].name, "window 512");
  ASSERT_EQ(geometry.groups()[2].members.size(), 2u);
  EXPECT_EQ(geometry.groups()[2].members[1].layer, 4u);
  EXPECT_EQ(geometry.attention_in_words(), "3 x GQA + 2 x GQA window 512 + 1 x GQA window 128");
}

TEST(Scale, YarnCorrectionOnlyWhereTheModelHasIt) {
  const double m = 0.1 * std::log(40.0) + 1;
  EXPECT_NEAR(geometry_of(samples::deepseek_v3()).layers()[0].scale, m * m / std::sqrt(192.0),
              1e-15);
  EXPECT_NEAR(geometry_of(samples::deepseek_v4_pro()).layers()[0].scale, 0.044194173824159216,
              1e-15);
  EXPECT_NEAR(geometry_of(samples::llama_3_70b()).layers()[0].scale, 1 / std::sqrt(128.0), 1e-15);
  ModelConfig gemma = grouped("gemma-2-27b", 1, 32, 16, 128);
  gemma.query_pre_attn_scalar = 144;
  gemma.attn_logit_softcapping = 50;
  EXPECT_NEAR(geometry_of(gemma).layers()[0].scale, 1.0 / 12, 1e-15);
  EXPECT_EQ(geometry_of(gemma).layers()[0].softcap, 50);
}

TEST(Options, TypesWithoutMeaningAreRefusedByName) {
  for (const KvDtype dtype : {KvDtype::kFp8Rope16, KvDtype::kFp8DsMla}) {
    const Error error = error_of(samples::llama_3_70b(), {.kv_dtype = dtype});
    EXPECT_EQ(error.code, ErrorCode::Unsupported);
    EXPECT_THAT(error.message, AllOf(HasSubstr(std::string(to_string(dtype))), HasSubstr("bf16")));
  }
  for (const KvDtype dtype : {KvDtype::kInt8PerTokenHead, KvDtype::kFp8PerTokenHead}) {
    EXPECT_EQ(error_of(samples::deepseek_v3(), {.kv_dtype = dtype}).code, ErrorCode::Unsupported);
    EXPECT_EQ(error_of(samples::deepseek_v4_pro(), {.kv_dtype = dtype}).code,
              ErrorCode::Unsupported);
  }
  EXPECT_EQ(error_of(samples::deepseek_v4_pro(), {.kv_dtype = KvDtype::kQ8_0}).code,
            ErrorCode::Unsupported);
  EXPECT_EQ(error_of(samples::deepseek_v3(), {.indexer_dtype = IndexerDtype::kFp8}).code,
            ErrorCode::Unsupported);
  ModelConfig minicpm = samples::latent("minicpm3-4b", 62, 40);
  minicpm.kv_lora_rank = 256;
  minicpm.qk_rope_head_dim = 32;
  EXPECT_EQ(growth(minicpm), "35712");
  EXPECT_EQ(growth(minicpm, {.kv_dtype = KvDtype::kFp8DsMla}),
            std::to_string(62 * (256 + 2 * 4 + 64)));
  minicpm.kv_lora_rank = 192;
  EXPECT_THAT(error_of(minicpm, {.kv_dtype = KvDtype::kFp8DsMla}).message,
              HasSubstr("kv_lora_rank is 192"));
}

TEST(Options, FewerLayersButNotMore) {
  EXPECT_EQ(growth(samples::deepseek_v3(), {.layers = 4}), "4608");
  EXPECT_THAT(error_of(samples::deepseek_v3(), {.layers = 62}).message,
              AllOf(HasSubstr("layers is 62"), HasSubstr("1 to 61")));
}

TEST(HandMadeConfig, WrongFieldsAreNamedNeverCrash) {
  const auto broken = [](auto change) {
    ModelConfig model = samples::llama_3_70b();
    change(&model);
    return error_of(model).message;
  };
  EXPECT_THAT(broken([](ModelConfig* m) { m->num_hidden_layers = 0; }),
              HasSubstr("num_hidden_layers is 0"));
  EXPECT_THAT(broken([](ModelConfig* m) { m->layers.pop_back(); }), HasSubstr("79 layers"));
  EXPECT_THAT(broken([](ModelConfig* m) { m->num_attention_heads = 0; }),
              HasSubstr("num_attention_heads is 0"));
  EXPECT_THAT(broken([](ModelConfig* m) { m->layers[3].num_attention_heads = 0; }),
              HasSubstr("layer 3: num_attention_heads is 0; allowed: 1 to 64"));
  EXPECT_THAT(broken([](ModelConfig* m) { m->layers[3].num_attention_heads = 65; }),
              HasSubstr("layer 3: num_attention_heads is 65; allowed: 1 to 64"));
  EXPECT_THAT(broken([](ModelConfig* m) { m->layers[3].num_key_value_heads = 0; }),
              HasSubstr("layer 3: num_key_value_heads is 0"));
  EXPECT_THAT(broken([](ModelConfig* m) { m->layers[3].num_key_value_heads = 7; }),
              HasSubstr("divisor of num_attention_heads (64)"));
  EXPECT_THAT(broken([](ModelConfig* m) { m->layers[0].head_dim = 0; }),
              HasSubstr("head_dim is 0"));
  EXPECT_THAT(broken([](ModelConfig* m) { m->layers[0].reach = LayerReach::kWindow; }),
              HasSubstr("window_tokens is 0"));
  EXPECT_THAT(broken([](ModelConfig* m) { m->query_pre_attn_scalar = 0; }),
              HasSubstr("query_pre_attn_scalar is 0"));
  EXPECT_THAT(broken([](ModelConfig* m) { m->layers[0].has_indexer = true; }),
              HasSubstr("index_head_dim is 0"));
  ModelConfig v4 = samples::deepseek_v4_pro();
  v4.layers[5].compress_ratio = 2;
  EXPECT_THAT(error_of(v4).message, HasSubstr("layer 5: compress_ratio is 2"));
}

TEST(HandMadeConfig, SizesPast64BitsAreAnErrorNotAWrap) {
  const ModelConfig model = samples::llama_3_70b();
  const auto geometry = geometry_of(model);
  EXPECT_EQ(geometry.bytes_per_sequence(UINT64_C(1) << 40).value(), UINT64_C(327'680) << 40);
  const auto wrapped = geometry.bytes_per_sequence(UINT64_C(1) << 60);
  ASSERT_FALSE(wrapped);
  EXPECT_EQ(wrapped.error().code, ErrorCode::Invalid);
  EXPECT_THAT(wrapped.error().message, HasSubstr("does not fit 64 bits"));
}

TEST(Names, EveryTypeReadsItselfBack) {
  for (int i = 1; i <= 10; ++i) {
    const auto dtype = static_cast<KvDtype>(i);
    EXPECT_EQ(parse_kv_dtype(to_string(dtype)).value(), dtype);
  }
  for (int i = 1; i <= 4; ++i) {
    const auto dtype = static_cast<IndexerDtype>(i);
    EXPECT_EQ(parse_indexer_dtype(to_string(dtype)).value(), dtype);
  }
  for (const char* text : {"", "BF16", "fp9", "bf16 "}) {
    const auto dtype = parse_kv_dtype(text);
    ASSERT_FALSE(dtype);
    EXPECT_THAT(dtype.error().message, AllOf(HasSubstr(text), HasSubstr("fp8_ds_mla")));
  }
}

TEST(Names, HalfAByteIsNoSize) {
  EXPECT_EQ(region_bytes({"key", 128, Encoding::kE2m1}).value(), 64u);
  EXPECT_FALSE(region_bytes({"key", 3, Encoding::kE2m1}));
  EXPECT_FALSE(region_bytes({"key", UINT64_MAX, Encoding::kFp32}));
}

}  // namespace
}  // namespace emblema
