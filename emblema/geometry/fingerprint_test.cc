// A fingerprint changes with every number that makes cached bytes differ, and with nothing else.
#include "emblema/geometry/fingerprint.h"

#include <functional>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "test/model_samples.h"

namespace emblema {
namespace {

std::string fingerprint(const ModelConfig& model, const GeometryOptions& options = {}) {
  const auto geometry = ModelGeometry::from(model, options);
  EXPECT_TRUE(geometry) << geometry.error().describe();
  return geometry->fingerprint().hex();
}

using Change = std::function<void(ModelConfig*)>;

Change in_layer(std::size_t index, std::function<void(LayerFacts*)> change) {
  return [=](ModelConfig* model) { change(&model->layers[index]); };
}

Change in_rope(std::function<void(RopeFacts*)> change) {
  return in_layer(60, [=](LayerFacts* layer) { change(&layer->rope); });
}

const std::map<std::string, Change>& changes_that_matter() {
  static const std::map<std::string, Change> changes = {
      {"hidden_size", [](ModelConfig* m) { m->hidden_size += 1; }},
      {"num_attention_heads",
       [](ModelConfig* m) {
         m->num_attention_heads += 1;
         for (LayerFacts& layer : m->layers) layer.num_attention_heads += 1;
       }},
      {"heads of one layer", in_layer(60, [](LayerFacts* l) { l->num_attention_heads -= 1; })},
      {"fewer layers",
       [](ModelConfig* m) {
         m->layers.pop_back();
         --m->num_hidden_layers;
       }},
      {"q_lora_rank", [](ModelConfig* m) { m->q_lora_rank = 1537; }},
      {"no q_lora_rank", [](ModelConfig* m) { m->q_lora_rank.reset(); }},
      {"kv_lora_rank", [](ModelConfig* m) { m->kv_lora_rank = 513; }},
      {"qk_nope_head_dim", [](ModelConfig* m) { m->qk_nope_head_dim = 129; }},
      {"qk_rope_head_dim", [](ModelConfig* m) { m->qk_rope_head_dim = 65; }},
      {"v_head_dim", [](ModelConfig* m) { m->v_head_dim = 129; }},
      {"index_head_dim", [](ModelConfig* m) { m->index_head_dim = 1; }},
      {"index_n_heads", [](ModelConfig* m) { m->index_n_heads = 1; }},
      {"index_topk", [](ModelConfig* m) { m->index_topk = 1; }},
      {"rms_norm_eps", [](ModelConfig* m) { m->rms_norm_eps = 1e-5; }},
      {"query_pre_attn_scalar", [](ModelConfig* m) { m->query_pre_attn_scalar = 192; }},
      {"attn_logit_softcapping", [](ModelConfig* m) { m->attn_logit_softcapping = 50; }},
      {"sinks of one layer", in_layer(60, [](LayerFacts* l) { l->has_sinks = true; })},
      {"sinks elsewhere", in_layer(59, [](LayerFacts* l) { l->has_sinks = true; })},
      {"window", in_layer(60, [](LayerFacts* l) { samples::set_window(l, 128); })},
      {"another window", in_layer(60, [](LayerFacts* l) { samples::set_window(l, 129); })},
      {"window elsewhere", in_layer(59, [](LayerFacts* l) { samples::set_window(l, 128); })},
      {"no rope", in_layer(60, [](LayerFacts* l) { l->has_rope = false; })},
      {"theta", in_rope([](RopeFacts* r) { r->theta = 10'001; })},
      {"rotary_dim", in_rope([](RopeFacts* r) { r->rotary_dim = 32; })},
      {"interleaved", in_rope([](RopeFacts* r) { r->interleaved = false; })},
      {"scaling", in_rope([](RopeFacts* r) { r->scaling = RopeScaling::kLinear; })},
      {"factor", in_rope([](RopeFacts* r) { r->factor = 41; })},
      {"original_max_positions", in_rope([](RopeFacts* r) { r->original_max_positions = 8192; })},
      {"beta_fast", in_rope([](RopeFacts* r) { r->beta_fast = 33; })},
      {"beta_slow", in_rope([](RopeFacts* r) { r->beta_slow = 2; })},
      {"truncate", in_rope([](RopeFacts* r) { r->truncate = false; })},
      {"mscale", in_rope([](RopeFacts* r) { r->mscale = 0.5; })},
      {"no mscale", in_rope([](RopeFacts* r) { r->mscale.reset(); })},
      {"mscale_all_dim", in_rope([](RopeFacts* r) { r->mscale_all_dim = 0.5; })},
      {"attention_factor", in_rope([](RopeFacts* r) { r->attention_factor = 1; })},
      {"low_freq_factor", in_rope([](RopeFacts* r) { r->low_freq_factor = 2; })},
      {"high_freq_factor", in_rope([](RopeFacts* r) { r->high_freq_factor = 5; })},
      {"short_factor", in_rope([](RopeFacts* r) { r->short_factor = {1}; })},
      {"long_factor", in_rope([](RopeFacts* r) { r->long_factor = {1}; })},
      {"unit_amplitude", in_rope([](RopeFacts* r) { r->unit_amplitude = true; })},
  };
  return changes;
}

TEST(Fingerprint, EveryFieldThatMattersChangesItAndNoTwoAlike) {
  std::map<std::string, std::string> seen = {{fingerprint(samples::deepseek_v3()), "unchanged"}};
  for (const auto& [name, change] : changes_that_matter()) {
    ModelConfig model = samples::deepseek_v3();
    change(&model);
    const auto [other, is_new] = seen.emplace(fingerprint(model), name);
    EXPECT_TRUE(is_new) << name << " and " << other->second << " have one fingerprint";
  }
}

TEST(Fingerprint, EveryOptionThatMattersChangesIt) {
  std::map<std::string, std::string> seen;
  const auto add = [&seen](const std::string& name, const GeometryOptions& options) {
    const auto [other, is_new] = seen.emplace(fingerprint(samples::deepseek_v3_2(), options), name);
    EXPECT_TRUE(is_new) << name << " and " << other->second << " have one fingerprint";
  };
  for (const KvDtype dtype :
       {KvDtype::kBf16, KvDtype::kFp16, KvDtype::kFp32, KvDtype::kFp8, KvDtype::kFp8Rope16,
        KvDtype::kFp8DsMla, KvDtype::kQ8_0, KvDtype::kQ4_0}) {
    add(std::string(to_string(dtype)), {.kv_dtype = dtype});
  }
  for (const IndexerDtype dtype :
       {IndexerDtype::kFp8, IndexerDtype::kMxfp4, IndexerDtype::kMxfp4NoScale}) {
    add("indexer " + std::string(to_string(dtype)), {.indexer_dtype = dtype});
  }
  add("mtp", {.speculative_mtp = true});
  add("block tokens", {.block_tokens = 128});
  add("layers", {.layers = 60});
}

TEST(Fingerprint, GroupedAndCompressedFieldsMatterToo) {
  const auto differs = [](ModelConfig model, auto change) {
    const std::string before = fingerprint(model);
    change(&model);
    EXPECT_NE(before, fingerprint(model));
  };
  differs(samples::llama_3_70b(), [](ModelConfig* m) { m->layers[7].num_key_value_heads = 4; });
  differs(samples::llama_3_70b(), [](ModelConfig* m) { m->layers[7].head_dim = 64; });
  differs(samples::llama_3_70b(), [](ModelConfig* m) { m->layers[7].v_head_dim = 64; });
  differs(samples::deepseek_v4_pro(), [](ModelConfig* m) { m->layers[7].compress_ratio = 4; });
  differs(samples::deepseek_v4_pro(), [](ModelConfig* m) { m->layers[7].window_tokens = 256; });
}

TEST(Fingerprint, TheLongestPositionMattersOnlyToRopesThatReadIt) {
  ModelConfig model = samples::latent("minicpm3", 2, 40);
  model.max_positions = 4096;
  const std::string plain = fingerprint(model);
  model.max_positions = 32'768;
  EXPECT_EQ(plain, fingerprint(model));
  for (LayerFacts& layer : model.layers) {
    layer.rope.scaling = RopeScaling::kLongRope;
    layer.rope.original_max_positions = 4096;
    layer.rope.short_factor.assign(layer.rope.rotary_dim / 2, 1.0);
    layer.rope.long_factor.assign(layer.rope.rotary_dim / 2, 4.0);
  }
  const std::string long_table = fingerprint(model);
  model.max_positions = 4096;
  const std::string short_table = fingerprint(model);
  EXPECT_NE(long_table, short_table);
  for (LayerFacts& layer : model.layers) layer.rope.scaling = RopeScaling::kDynamic;
  EXPECT_NE(short_table, fingerprint(model));
}

TEST(Fingerprint, NamesNotesAndUnusedFactsDoNotMatter) {
  ModelConfig model = samples::deepseek_v3();
  model.name = "other";
  model.model_type = "other";
  model.architectures = {"Other"};
  model.torch_dtype = "float32";
  model.notes = {"a note"};
  model.num_nextn_predict_layers = 3;  // without speculative_mtp
  EXPECT_EQ(fingerprint(samples::deepseek_v3()), fingerprint(model));
  for (LayerFacts& layer : model.layers) layer.has_rope = false;
  const std::string no_rope = fingerprint(model);
  for (LayerFacts& layer : model.layers) layer.rope.theta = 7;
  EXPECT_EQ(no_rope, fingerprint(model));
}

// Caches on disk carry this number: if it moves, kFingerprintVersion must move with it.
TEST(Fingerprint, GoldenOfDeepseekV3Bf16) {
  EXPECT_EQ(kFingerprintVersion, 2u);
  EXPECT_EQ(fingerprint(samples::deepseek_v3()),
            "440877822b5eff20b4b852ea387b922ebf97b2bbd09e4adc42c6d0460fd7c476");
}

}  // namespace
}  // namespace emblema
