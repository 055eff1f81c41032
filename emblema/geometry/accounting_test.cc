// The closed formulas against a simulation: a sequence is fed token by token, and what each layer
// still remembers is counted.
#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "emblema/geometry/model_geometry.h"
#include "test/model_samples.h"

namespace emblema {
namespace {

// Bytes of one stream after `tokens` tokens, by keeping and dropping entries one at a time.
std::uint64_t simulated_bytes(const Stream& stream, std::uint64_t tokens) {
  std::deque<std::uint64_t> kept;  // the first token of each entry
  for (std::uint64_t token = 0; token < tokens; ++token) {
    if ((token + 1) % stream.stride_tokens != 0) continue;  // its entry is not closed yet
    kept.push_back(token + 1 - stream.stride_tokens);
    const bool is_capped =
        stream.retention == Retention::kWindow || stream.retention == Retention::kChunk;
    if (is_capped && kept.size() > stream.retention_tokens) kept.pop_front();
  }
  return kept.size() * stream.entry_bytes;
}

ModelConfig any_model() {
  const auto layers = *rc::gen::inRange<std::uint32_t>(1, 9);
  switch (*rc::gen::inRange(0, 3)) {
    case 0: {
      ModelConfig model = samples::grouped("grouped", layers, 8, 2, 16);
      for (LayerFacts& layer : model.layers) {
        layer.head_dim = *rc::gen::inRange<std::uint32_t>(1, 300);
        layer.v_head_dim = *rc::gen::inRange<std::uint32_t>(1, 300);
        layer.num_key_value_heads = *rc::gen::elementOf(std::vector<std::uint32_t>{1, 2, 4, 8});
        const auto window = *rc::gen::inRange<std::uint32_t>(0, 200);
        if (window > 0) samples::set_window(&layer, window);
        if (window > 0 && *rc::gen::arbitrary<bool>()) layer.reach = LayerReach::kChunk;
        layer.recurrent = {.mixer = RecurrentMixer::kShortConv,
                           .conv_channels = *rc::gen::inRange<std::uint32_t>(1, 100),
                           .conv_columns = 3};
      }
      return model;
    }
    case 1: {
      ModelConfig model = samples::latent("latent", layers, 4);
      model.index_head_dim = 128;
      model.kv_lora_rank = *rc::gen::inRange<std::uint32_t>(1, 1024);
      for (LayerFacts& layer : model.layers) layer.has_indexer = *rc::gen::arbitrary<bool>();
      return model;
    }
    default: {
      ModelConfig model = samples::deepseek_v4("compressed", layers, 4, 0);
      for (LayerFacts& layer : model.layers) {
        layer.compress_ratio = *rc::gen::elementOf(std::vector<std::uint32_t>{0, 4, 128});
        layer.window_tokens = *rc::gen::inRange<std::uint32_t>(1, 300);
      }
      return model;
    }
  }
}

RC_GTEST_PROP(Accounting, EqualsTokenByTokenSimulation, ()) {
  const ModelConfig model = any_model();
  const auto geometry = ModelGeometry::from(model);
  RC_ASSERT(geometry.has_value());
  const auto tokens = *rc::gen::inRange<std::uint64_t>(0, 700);
  std::uint64_t expected = 0;
  std::uint64_t state = 0;
  for (const LayerGeometry& layer : geometry->layers()) {
    for (const Stream& stream : layer.streams) {
      if (stream.retention == Retention::kFixed) {
        state += stream.retention_tokens * stream.entry_bytes;
      } else {
        expected += simulated_bytes(stream, tokens);
      }
    }
  }
  RC_ASSERT(geometry->bytes_per_sequence(tokens).value() == expected);
  RC_ASSERT(geometry->state_bytes_per_sequence().value() == state);
}

// Past all windows, `growing bytes per token` over a common multiple of the strides is exact.
RC_GTEST_PROP(Accounting, GrowthRateIsTheDifferenceOver128Tokens, ()) {
  const auto geometry = ModelGeometry::from(any_model());
  RC_ASSERT(geometry.has_value());
  const auto from = *rc::gen::inRange<std::uint64_t>(300, 100'000);
  const std::uint64_t grown =
      geometry->bytes_per_sequence(from + 128).value() - geometry->bytes_per_sequence(from).value();
  const Rational rate = geometry->growing_bytes_per_token().value();
  RC_ASSERT(multiply(rate, 128, "growth").value() == Rational(grown));
}

RC_GTEST_PROP(Accounting, EveryPagedStreamIsInExactlyOneGroup, ()) {
  const auto geometry = ModelGeometry::from(any_model());
  RC_ASSERT(geometry.has_value());
  std::vector<std::pair<std::uint32_t, std::uint32_t>> members;
  for (const CacheGroup& group : geometry->groups()) {
    RC_ASSERT(!group.members.empty());
    for (const CacheGroup::Member& member : group.members) {
      const Stream& stream = geometry->layers()[member.layer].streams[member.stream];
      RC_ASSERT(stream.placement == Placement::kPaged);
      RC_ASSERT(stream.retention == group.retention);
      RC_ASSERT(group.block_tokens % stream.stride_tokens == 0);
      members.emplace_back(member.layer, member.stream);
    }
  }
  std::sort(members.begin(), members.end());
  RC_ASSERT(std::adjacent_find(members.begin(), members.end()) == members.end());
  std::size_t paged = 0;
  for (const LayerGeometry& layer : geometry->layers()) {
    for (const Stream& stream : layer.streams) paged += stream.placement == Placement::kPaged;
  }
  RC_ASSERT(paged == members.size());
}

}  // namespace
}  // namespace emblema
