// What `emblema plan` is asked: its options as typed, and as values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "apps/cli/model_arguments.h"
#include "emblema/plan/deployment.h"

namespace emblema {

// As typed: checked when they are turned into values, where a message can name the option.
struct PlanArguments {
  ModelArguments model;
  // How long, how many
  std::string at;
  std::string context;
  std::string sweep;
  std::string sequences;
  std::string step_tokens;
  // On what
  std::string pool;
  std::string gpu;
  std::string gpus;
  std::string hbm;
  std::string bandwidth;
  std::string flops;
  std::string weights;
  std::string utilisation;
  std::string reserve;
  // How spread
  std::string tensor;
  std::string pipeline;
  std::string pipeline_layers;
  std::string data_attention;
  std::string decode_context;
  std::string interleave;
  std::string prefill_context;
  // What to show
  std::string engine = "emblema";
  std::string engine_kv_dtype;
  std::string compare;
  std::string html;
  std::string svg;
  std::string chart;  // empty: bytes
  bool per_layer = false;
  bool explain = false;
  bool reproduce = false;
  bool json = false;
};

// `arguments` must live as long as `app` is parsed.
void add_plan_arguments(CLI::App& app, PlanArguments* arguments);

// Invalid: an option with a value that has no meaning; the message names it.
Result<Deployment> deployment_of(const PlanArguments& arguments);

// "context=8k..1M", "tp=1..16": both ends, and the doublings between them.
enum class SweepAxis : std::uint8_t { kNone, kContext, kTensor };
struct Sweep {
  SweepAxis axis = SweepAxis::kNone;
  std::vector<std::uint64_t> values;
};
Result<Sweep> sweep_of(const PlanArguments& arguments);

}  // namespace emblema
