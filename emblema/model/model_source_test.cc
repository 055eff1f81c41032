// Presets, files, folders and what a user may type by mistake.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/model/model_config.h"
#include "emblema/model/model_family.h"

namespace emblema {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::string_view kTiny =
    R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64,
        "num_attention_heads": 4})";

// A folder of its own that goes when the test ends.
class ModelSource : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() /
              ("emblema_model_source_" + std::to_string(std::random_device{}()));
    fs::create_directories(folder_);
  }
  void TearDown() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  std::string write(const fs::path& name, std::string_view text) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return (folder_ / name).string();
  }
  static Error refused(const std::string& source) {
    const auto config = load_model_config(source);
    EXPECT_FALSE(config) << source;
    return config ? Error{ErrorCode::Corrupt, "it was read"} : config.error();
  }
  fs::path folder_;
};

TEST_F(ModelSource, AFileAFolderAndAPresetEachGiveTheirName) {
  EXPECT_EQ(load_model_config(write("tiny.json", kTiny))->name, "tiny");
  EXPECT_EQ(load_model_config(write("my-model/config.json", kTiny))->name, "my-model");
  EXPECT_EQ(load_model_config((folder_ / "my-model").string())->name, "my-model");
  EXPECT_EQ(load_model_config((folder_ / "my-model/").string())->name, "my-model");
  EXPECT_EQ(load_model_config("deepseek-v3")->name, "deepseek-v3");
}

TEST_F(ModelSource, APresetNameWinsOverAFileOfThatName) {
  const fs::path before = fs::current_path();
  write("llama-3-8b", kTiny);
  fs::current_path(folder_);
  const auto preset = load_model_config("llama-3-8b");
  const auto file = load_model_config("./llama-3-8b");
  fs::current_path(before);
  ASSERT_TRUE(preset && file);
  EXPECT_EQ(preset->num_hidden_layers, 32u);
  EXPECT_EQ(file->num_hidden_layers, 2u);
}

TEST_F(ModelSource, StandardInputIsReadToItsEndAndBounded) {
  std::istringstream input{std::string(kTiny)};
  std::streambuf* const before = std::cin.rdbuf(input.rdbuf());
  const auto config = load_model_config("-");
  std::istringstream endless{std::string(ConfigLimits::kFileBytesMax + 1, ' ')};
  std::cin.clear();
  std::cin.rdbuf(endless.rdbuf());
  const auto refused_config = load_model_config("-");
  std::cin.rdbuf(before);
  std::cin.clear();
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->name, "stdin");
  ASSERT_FALSE(refused_config);
  EXPECT_THAT(refused_config.error().message,
              HasSubstr("standard input has more than 16777216 bytes"));
}

TEST_F(ModelSource, AnUnknownNameListsCloseOnes) {
  const Error error = refused("deepsek-v3");
  EXPECT_EQ(error.code, ErrorCode::NotFound);
  EXPECT_THAT(error.message,
              AllOf(HasSubstr("\"deepsek-v3\""), HasSubstr("close preset names: deepseek-v3")));
  EXPECT_THAT(refused("llama").message, HasSubstr("llama-3-8b"));
  EXPECT_THAT(refused("a-name-like-no-other-model").message, HasSubstr("preset names"));
  EXPECT_THAT(refused(std::string(100'000, 'x')).message.size(), testing::Lt(300u));
  EXPECT_EQ(refused("").code, ErrorCode::Invalid);
  EXPECT_EQ(refused(std::string("a\0b", 3)).code, ErrorCode::Invalid);
}

TEST_F(ModelSource, WhatIsNoReadableConfigIsOneClearLine) {
  fs::create_directories(folder_ / "empty");
  EXPECT_THAT(refused((folder_ / "empty").string()).message,
              HasSubstr("is a folder without a config.json"));
  EXPECT_EQ(refused((folder_ / "missing.json").string()).code, ErrorCode::NotFound);
  EXPECT_EQ(refused((folder_ / "missing/config.json").string()).code, ErrorCode::NotFound);
  EXPECT_THAT(refused("/dev/zero").message, HasSubstr("is not a regular file"));
  const std::string broken = write("broken.json", "{\"a\": ");
  EXPECT_THAT(refused(broken).message, AllOf(HasSubstr(broken), HasSubstr("not JSON")));
  const std::string huge = write("huge.json", "{");
  fs::resize_file(huge, std::uintmax_t{1} << 40);  // sparse: a terabyte that costs nothing
  EXPECT_THAT(refused(huge).message, HasSubstr("more than 16777216 bytes"));
  const std::string secret = write("secret.json", kTiny);
  fs::permissions(secret, fs::perms::none);
  const bool is_root = std::ifstream(secret).good();  // who may read anything
  EXPECT_TRUE(is_root || refused(secret).code == ErrorCode::Io);
}

// Every number that a preset would get wrong shows in its bytes per token: 2-byte numbers, growing
// streams only (DeepSeek-V4: payload per token, averaged over its strides).
struct PresetFigure {
  std::string_view name;
  std::uint64_t growing_bytes;
  std::uint64_t window_bytes;
};

constexpr PresetFigure kFigures[] = {
    {"deepseek-r1", 61 * 576 * 2, 0},
    {"deepseek-v2", 60 * 576 * 2, 0},
    {"deepseek-v2-lite", 27 * 576 * 2, 0},
    {"deepseek-v3", 70'272, 0},
    {"deepseek-v3.2", 61 * (576 + 128) * 2, 0},
    {"deepseek-v4-flash", 6'880, 43ull * 128 * 512 * 2},
    {"deepseek-v4-pro", 9'848, 61ull * 128 * 512 * 2},
    {"falcon-h1-34b", 72 * 2 * 4 * 128 * 2, 0},
    {"gemma-2-27b", 23 * 2 * 16 * 128 * 2, 23ull * 4096 * 8192},
    {"gemma-2-2b", 13 * 2 * 4 * 256 * 2, 13ull * 4096 * 4096},
    {"gemma-3-1b", 4 * 2 * 256 * 2, 22ull * 512 * 1024},
    {"gemma-3-27b", 10 * 2 * 16 * 128 * 2, 52ull * 1024 * 8192},
    {"gemma-3n-e4b", 4 * 2 * 2 * 256 * 2, 16ull * 512 * 2048},
    {"gemma-4-26b-a4b", 5 * 2 * 2 * 512 * 2, 25ull * 1024 * 8192},
    {"gemma-4-e2b", 3 * 2 * 512 * 2, 12ull * 512 * 1024},
    {"glm-4.5", 92 * 2 * 8 * 128 * 2, 0},
    {"glm-5", 78 * (576 + 128) * 2, 0},
    {"gpt-oss-120b", 18 * 2048, 18ull * 128 * 2048},
    {"gpt-oss-20b", 12 * 2048, 12ull * 128 * 2048},
    {"jamba-1.5-mini", 4 * 4096, 0},
    {"kimi-k2", 70'272, 0},
    {"kimi-linear-48b-a3b", 7 * 576 * 2, 0},
    {"llama-2-70b", 320 * 1024, 0},
    {"llama-2-7b", 512 * 1024, 0},
    {"llama-3-70b", 320 * 1024, 0},
    {"llama-3-8b", 128 * 1024, 0},
    {"llama-3.1-405b", 126 * 4096, 0},
    {"llama-3.1-70b", 320 * 1024, 0},
    {"llama-3.1-8b", 128 * 1024, 0},
    {"llama-3.2-11b-vision", 32 * 4096, 0},
    {"llama-3.2-1b", 16 * 2 * 8 * 64 * 2, 0},
    {"llama-4-scout", 12 * 4096, 36ull * 8192 * 4096},
    {"longcat-flash", 56 * 576 * 2, 0},
    {"mimo-v2-flash", 9 * 4 * (192 + 128) * 2, 39ull * 128 * 8 * (192 + 128) * 2},
    {"minicpm3-4b", 62 * 288 * 2, 0},
    {"minimax-m1", 10 * 4096, 0},
    {"minimax-m2.5", 62 * 4096, 0},
    {"minimax-m3", 60 * 2048 + 57 * 128 * 2, 0},
    {"mistral-7b", 0, 32ull * 4096 * 4096},
    {"mistral-7b-v0.3", 128 * 1024, 0},
    {"mixtral-8x7b", 128 * 1024, 0},
    {"nemotron-3-nano-30b-a3b", 6 * 2 * 2 * 128 * 2, 0},
    {"nemotron-h-56b", 10 * 4096, 0},
    {"olmo-3.1-32b", 16 * 4096, 48ull * 4096 * 4096},
    {"phi-4-mini", 128 * 1024, 0},
    {"qwen2.5-72b", 320 * 1024, 0},
    {"qwen3-235b-a22b", 94 * 2 * 4 * 128 * 2, 0},
    {"qwen3-32b", 64 * 4096, 0},
    {"qwen3-next-80b-a3b", 12 * 2 * 2 * 256 * 2, 0},
    {"qwen3.5-27b", 16 * 2 * 4 * 256 * 2, 0},
    {"qwen3.6-35b-a3b", 10 * 2 * 2 * 256 * 2, 0},
    {"zamba2-7b", 13 * 2 * 32 * 224 * 2, 0},
};

double growing_bytes(const ModelConfig& config, const LayerFacts& layer) {
  const double index = layer.has_indexer ? 2.0 * config.index_head_dim : 0.0;
  switch (config.family) {
    case AttentionFamily::kLatent:
      return 2.0 * (config.kv_lora_rank + config.qk_rope_head_dim) + index;
    case AttentionFamily::kCompressed:
      return layer.compress_ratio == 0 ? 0.0
                                       : (2.0 * layer.head_dim + index) / layer.compress_ratio;
    case AttentionFamily::kGrouped:
      break;
  }
  return 2.0 * layer.num_key_value_heads * (layer.head_dim + layer.v_head_dim) + index;
}

TEST(Presets, EachGivesThePublishedFigures) {
  ASSERT_EQ(presets().size(), std::size(kFigures));
  for (std::size_t i = 0; i < presets().size(); ++i) {
    EXPECT_EQ(presets()[i].name, kFigures[i].name) << "sorted by name";
    const auto config = parse_model_config(presets()[i].json, presets()[i].name);
    ASSERT_TRUE(config) << config.error().message;
    double growing = 0;
    double windows = 0;
    for (const LayerFacts& layer : config->layers) {
      const double bytes = growing_bytes(*config, layer);
      if (config->family == AttentionFamily::kCompressed) {
        growing += bytes;
        windows += 2.0 * layer.head_dim * layer.window_tokens;
      } else if (layer.cache != LayerCache::kOwn) {
        continue;
      } else if (layer.reach != LayerReach::kFull) {
        windows += bytes * layer.window_tokens;
      } else {
        growing += bytes;
      }
    }
    EXPECT_EQ(growing, static_cast<double>(kFigures[i].growing_bytes)) << kFigures[i].name;
    EXPECT_EQ(windows, static_cast<double>(kFigures[i].window_bytes)) << kFigures[i].name;
  }
}

TEST(Presets, EachIsCompleteEnoughToRunAndAssumesNothingUnsaid) {
  for (const Preset& preset : presets()) {
    const auto config = parse_model_config(preset.json, preset.name);
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_GT(config->hidden_size, 0u) << preset.name;
    EXPECT_GE(config->max_positions, 4096u) << preset.name;
    EXPECT_EQ(find_model_family(config->model_type, {}).model_type, config->model_type);
    EXPECT_FALSE(config->torch_dtype.empty()) << preset.name;
    EXPECT_LE(config->notes.size(), 2u) << preset.name;
    for (const LayerFacts& layer : config->layers) {
      EXPECT_TRUE(!layer.has_rope || layer.rope.rotary_dim > 0) << preset.name;
    }
  }
}

TEST(Presets, FactsThatTellRelatedModelsApart) {
  const auto llama3 = load_model_config("llama-3-8b");
  EXPECT_EQ(llama3->max_positions, 8192u);
  EXPECT_EQ(llama3->layers[0].rope.theta, 500'000.0);
  EXPECT_EQ(llama3->layers[0].rope.scaling, RopeScaling::kNone);
  EXPECT_EQ(load_model_config("llama-3.1-8b")->layers[0].rope.scaling, RopeScaling::kLlama3);
  EXPECT_EQ(load_model_config("deepseek-v2-lite")->q_lora_rank, std::nullopt);
  EXPECT_EQ(load_model_config("deepseek-v3")->q_lora_rank, 1536u);
  EXPECT_EQ(load_model_config("deepseek-v2-lite")->layers[0].rope.mscale_all_dim, 0.707);
  EXPECT_EQ(load_model_config("gemma-2-27b")->query_pre_attn_scalar, 144.0);
  EXPECT_EQ(load_model_config("gemma-2-2b")->attn_logit_softcapping, 50.0);
  EXPECT_EQ(load_model_config("gemma-3-27b")->query_pre_attn_scalar, 168.0);
  EXPECT_EQ(load_model_config("gemma-3-27b")->attn_logit_softcapping, std::nullopt);
  EXPECT_TRUE(load_model_config("gpt-oss-20b")->has_attention_sinks);
}

TEST(Presets, AreFortyAndMore) {
  EXPECT_GE(presets().size(), 40u);
}

TEST(ModelFamilies, AreSortedAndNamedOnce) {
  std::string_view before;
  for (const ModelFamily& family : model_families()) {
    EXPECT_LT(before, family.model_type);
    before = family.model_type;
  }
}

}  // namespace
}  // namespace emblema
