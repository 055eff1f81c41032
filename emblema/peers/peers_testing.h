// What the tests of this room share: a model by preset name or from its facts, and a plan that must
// succeed.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include "emblema/contract/bytes.h"
#include "emblema/model/model_config.h"
#include "emblema/peers/peer.h"

namespace emblema::peers_testing {

inline ModelConfig preset(const std::string& name) {
  auto model = load_model_config(name);
  EXPECT_TRUE(model) << model.error().describe();
  return model ? *model : ModelConfig{};
}

inline ModelConfig parsed(const std::string& json) {
  auto model = parse_model_config(json, "test");
  EXPECT_TRUE(model) << model.error().describe();
  return model ? *model : ModelConfig{};
}

// The settings that the published identities hold for: 16 tokens to a block where none is named.
inline PeerQuestion asked(std::uint64_t memory_gib, std::uint64_t model_len) {
  PeerQuestion question;
  question.kv_memory_bytes = memory_gib * kGiB;
  question.max_model_len = model_len;
  return question;
}

inline PeerPlan planned(const Result<PeerPlan>& plan) {
  EXPECT_TRUE(plan) << plan.error().describe();
  return plan ? *plan : PeerPlan{};
}

inline PeerPlan vllm(const ModelConfig& model, const PeerQuestion& question) {
  return planned(plan_vllm(model, question));
}

inline PeerPlan sglang(const ModelConfig& model, const PeerQuestion& question) {
  return planned(plan_sglang(model, question));
}

inline std::uint64_t blocks(const PeerPlan& plan) {
  return plan.capacity ? plan.capacity->blocks : 0;
}

inline std::uint64_t tokens(const PeerPlan& plan) {
  return plan.capacity ? plan.capacity->tokens : 0;
}

inline std::string last_line(const PeerPlan& plan) {
  return plan.log.empty() ? "" : plan.log.back();
}

inline std::string size_line(const std::string& tokens, const std::string& model_len,
                             const std::string& concurrency) {
  return "GPU KV cache size: " + tokens + " tokens, Maximum concurrency for " + model_len +
         " tokens per request: " + concurrency + "x";
}

inline std::string refusal(const Result<PeerPlan>& plan) {
  EXPECT_FALSE(plan);
  return plan ? "" : plan.error().message;
}

inline bool has(const std::vector<std::string>& lines, const std::string& part) {
  for (const std::string& line : lines) {
    if (line.find(part) != std::string::npos) return true;
  }
  return false;
}

}  // namespace emblema::peers_testing
