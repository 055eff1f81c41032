#include "apps/cli/plan_arguments.h"

#include <algorithm>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "apps/cli/counts.h"
#include "apps/cli/hardware_arguments.h"
#include "emblema/layout/pool_plan.h"

namespace emblema {
namespace {

constexpr std::uint64_t kSequencesMax = std::uint64_t{1} << 32;
constexpr CountLimits kTokensLimits = {1, kSequenceTokensMax};
constexpr CountLimits kRanksLimits = {1, 65'536};

void add_question(CLI::App& app, PlanArguments* arguments) {
  app.add_option("--at", arguments->at,
                 "Lengths to give bytes for; default 1,8k,128k within the model's positions")
      ->type_name("TOKENS");
  app.add_option("--context", arguments->context,
                 "Length that concurrency is for; default: the model's positions")
      ->type_name("TOKENS");
  app.add_option("--sweep", arguments->sweep,
                 "A row for each doubling of the context or of the ranks: context=8k..1M, tp=1..16")
      ->type_name("context|tp=A..B");
  app.add_option("--sequences", arguments->sequences, "Bytes of so many sequences together")
      ->type_name("N");
  app.add_option("--step-tokens", arguments->step_tokens,
                 "Most tokens of a sequence written in one step; default 2048")
      ->type_name("N");
}

void add_hardware(CLI::App& app, PlanArguments* arguments) {
  app.add_option("--pool", arguments->pool,
                 "Memory of the cache on each GPU: adds blocks and concurrency")
      ->type_name("SIZE");
  app.add_option("--gpu", arguments->gpu,
                 "GPU: its memory less the weights is the pool, its speeds the roofline")
      ->type_name(gpu_names());
  app.add_option("--gpus", arguments->gpus,
                 "GPUs in all. Without --tp all of a stage; more than one copy of the model takes "
                 "are copies")
      ->type_name("N");
  app.add_option("--hbm", arguments->hbm, "Memory of a GPU, in place of the table's")
      ->type_name("SIZE");
  app.add_option("--bandwidth", arguments->bandwidth,
                 "Bytes a GPU reads per second, as 3.35TB; in place of the table's")
      ->type_name("SIZE");
  app.add_option("--flops", arguments->flops,
                 "Dense bf16 FLOP/s of a GPU, as 989T; in place of the table's")
      ->type_name("NUMBER");
  app.add_option("--weights", arguments->weights,
                 "Bytes of the model's weights; auto: its index file, else an estimate")
      ->type_name("SIZE|auto");
  app.add_option("--utilisation", arguments->utilisation,
                 "Share of a GPU's memory that is used, weights included; default 0.92")
      ->type_name("0..1");
  app.add_option("--reserve", arguments->reserve,
                 "Memory of each GPU for activations and the runtime; default 0")
      ->type_name("SIZE");
}

void add_parallelism(CLI::App& app, PlanArguments* arguments) {
  const auto add = [&app](const char* name, std::string* value, const char* help) {
    app.add_option(name, *value, help)->type_name("N");
  };
  add("--tp", &arguments->tensor, "Tensor parallelism: GPUs that share out the heads");
  add("--pp", &arguments->pipeline, "Pipeline parallelism: stages, layers as even as can be");
  app.add_option("--pp-layers", arguments->pipeline_layers, "Layers of each stage")
      ->type_name("N,...");
  add("--dp-attention", &arguments->data_attention,
      "Groups of requests that the tensor ranks attend to side by side");
  add("--dcp", &arguments->decode_context, "Ranks that one sequence's tokens are dealt out to");
  add("--dcp-interleave", &arguments->interleave, "Tokens in a row on one such rank; default 1");
  add("--pcp", &arguments->prefill_context,
      "So many times the tensor ranks compute a prompt together");
}

void add_views(CLI::App& app, PlanArguments* arguments) {
  app.add_option("--engine", arguments->engine,
                 "Whose rules: Emblema's, or what another engine would do and log")
      ->type_name("emblema|vllm|sglang");
  app.add_option("--compare", arguments->compare, "The same under other engines' rules, beside it")
      ->type_name("ENGINE,...");
  app.add_option(
         "--engine-kv-dtype", arguments->engine_kv_dtype,
         "Numbers of those engines' caches in their own word, as nvfp4; default: --kv-dtype")
      ->type_name("WORD");
  app.add_flag("--per-layer", arguments->per_layer, "List every layer");
  app.add_flag("--explain", arguments->explain, "How each figure comes about");
  app.add_flag("--reproduce", arguments->reproduce,
               "Recompute what three published articles say about cache sizes");
  app.add_option("--html", arguments->html, "Write a page with charts")->type_name("FILE");
  app.add_option("--svg", arguments->svg, "Write one chart")->type_name("FILE");
  app.add_option("--chart", arguments->chart, "Which one; default bytes")
      ->type_name("bytes|capacity|roofline");
  app.add_flag("--json", arguments->json, "JSON with stable keys; an array for several models");
}

Status read_count(std::string_view option, const std::string& text, CountLimits limits,
                  std::uint64_t* value) {
  if (text.empty()) return {};
  const auto count = parse_count(option, text, limits);
  if (!count) return propagate(count);
  *value = *count;
  return {};
}

Status read_ranks(std::string_view option, const std::string& text, std::uint32_t* value) {
  std::uint64_t ranks = *value;
  const Status ok = read_count(option, text, kRanksLimits, &ranks);
  if (ok) *value = static_cast<std::uint32_t>(ranks);
  return ok;
}

Status read_tokens(std::string_view option, const std::string& text, std::uint64_t* value) {
  if (text.empty()) return {};
  const auto tokens = parse_token_count(option, text, kTokensLimits);
  if (!tokens) return propagate(tokens);
  *value = *tokens;
  return {};
}

Status read_stages(const std::string& text, Parallelism* parallel) {
  if (text.empty()) return {};
  std::string_view rest = text;
  while (true) {
    const std::size_t comma = rest.find(',');
    const auto layers =
        parse_count("--pp-layers", rest.substr(0, comma), {1, ConfigLimits::kLayersMax});
    if (!layers) return propagate(layers);
    parallel->pipeline_layers.push_back(static_cast<std::uint32_t>(*layers));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return {};
}

// --gpus without --tp: each stage's share of them. --pp-layers alone says how many stages there
// are.
void share_gpus(const PlanArguments& arguments, Deployment* deployment) {
  Parallelism& parallel = deployment->parallel;
  const std::uint64_t others = std::uint64_t{parallel.pipeline} * parallel.prefill_context;
  if (!arguments.tensor.empty() || deployment->gpus == 0) return;
  if (deployment->gpus % others != 0) return;  // the plan says what is allowed
  parallel.tensor = static_cast<std::uint32_t>(deployment->gpus / others);
}

Status read_parallelism(const PlanArguments& arguments, Deployment* deployment) {
  Parallelism& parallel = deployment->parallel;
  if (const auto ok = read_count("--gpus", arguments.gpus, kRanksLimits, &deployment->gpus); !ok) {
    return ok;
  }
  if (const auto ok = read_stages(arguments.pipeline_layers, &parallel); !ok) return ok;
  if (arguments.pipeline.empty() && !parallel.pipeline_layers.empty()) {
    parallel.pipeline = static_cast<std::uint32_t>(parallel.pipeline_layers.size());
  }
  struct Field {
    std::string_view option;
    const std::string& text;
    std::uint32_t* value;
  };
  for (const Field& field :
       {Field{"--tp", arguments.tensor, &parallel.tensor},
        Field{"--pp", arguments.pipeline, &parallel.pipeline},
        Field{"--dp-attention", arguments.data_attention, &parallel.data_attention},
        Field{"--dcp", arguments.decode_context, &parallel.decode_context},
        Field{"--pcp", arguments.prefill_context, &parallel.prefill_context}}) {
    if (const auto ok = read_ranks(field.option, field.text, field.value); !ok) return ok;
  }
  share_gpus(arguments, deployment);
  if (!arguments.interleave.empty() && parallel.decode_context == 1) {
    return fail(ErrorCode::Invalid,
                fmt::format("--dcp-interleave is '{}' without --dcp; allowed: with --dcp above 1",
                            arguments.interleave));
  }
  return read_count("--dcp-interleave", arguments.interleave, kRanksLimits, &parallel.interleave);
}

Status read_model(const PlanArguments& arguments, Deployment* deployment) {
  const auto geometry = geometry_options(arguments.model);
  if (!geometry) return propagate(geometry);
  deployment->kv_dtype = geometry->kv_dtype;
  deployment->indexer_dtype = geometry->indexer_dtype;
  deployment->speculative_mtp = geometry->speculative_mtp;
  deployment->block_tokens = geometry->block_tokens;
  deployment->layers = geometry->layers;
  deployment->state_dtype = geometry->state_dtype;
  deployment->encoder_tokens = geometry->encoder_tokens;
  const auto profile = profile_of(arguments.model);
  if (!profile) return propagate(profile);
  deployment->profile = *profile;
  return {};
}

Status read_lengths(const PlanArguments& arguments, Deployment* deployment) {
  if (!arguments.at.empty()) {
    auto lengths = parse_token_list("--at", arguments.at, kTokensLimits);
    if (!lengths) return propagate(lengths);
    deployment->at_tokens = std::move(*lengths);
  }
  if (const auto ok = read_tokens("--context", arguments.context, &deployment->context_tokens);
      !ok) {
    return ok;
  }
  if (const auto ok = read_tokens("--step-tokens", arguments.step_tokens, &deployment->step_tokens);
      !ok) {
    return ok;
  }
  return read_count("--sequences", arguments.sequences, {1, kSequencesMax}, &deployment->sequences);
}

}  // namespace

void add_plan_arguments(CLI::App& app, PlanArguments* arguments) {
  add_model_arguments(app, ModelCount::kMany, &arguments->model);
  add_state_arguments(app, &arguments->model);
  add_question(app, arguments);
  add_hardware(app, arguments);
  add_parallelism(app, arguments);
  add_views(app, arguments);
}

Result<Deployment> deployment_of(const PlanArguments& arguments) {
  Deployment deployment;
  if (const auto ok = read_model(arguments, &deployment); !ok) return propagate(ok);
  if (const auto ok = read_lengths(arguments, &deployment); !ok) return propagate(ok);
  if (const auto ok = read_parallelism(arguments, &deployment); !ok) return propagate(ok);
  if (!arguments.pool.empty()) {
    const auto bytes = parse_size("--pool", arguments.pool);
    if (!bytes) return propagate(bytes);
    deployment.pool_bytes = *bytes;
  }
  if (const auto ok = read_hardware(arguments, &deployment); !ok) return propagate(ok);
  return deployment;
}

Result<Sweep> sweep_of(const PlanArguments& arguments) {
  Sweep sweep;
  if (arguments.sweep.empty()) return sweep;
  const std::string_view text = arguments.sweep;
  const std::size_t equals = std::min(text.find('='), text.size());
  const std::size_t dots = text.find("..", equals);
  const std::string_view axis = text.substr(0, equals);
  if (dots == std::string_view::npos || (axis != "context" && axis != "tp")) {
    return fail(
        ErrorCode::Invalid,
        fmt::format("--sweep is '{}'; allowed: context=A..B or tp=A..B, as context=8k..1M", text));
  }
  sweep.axis = axis == "tp" ? SweepAxis::kTensor : SweepAxis::kContext;
  CountLimits limits = sweep.axis == SweepAxis::kTensor ? kRanksLimits : kTokensLimits;
  const auto first =
      parse_token_count("--sweep", text.substr(equals + 1, dots - equals - 1), limits);
  if (!first) return propagate(first);
  limits.min = *first;
  const auto last = parse_token_count("--sweep", text.substr(dots + 2), limits);
  if (!last) return propagate(last);
  for (std::uint64_t value = *first; value < *last; value *= 2) sweep.values.push_back(value);
  sweep.values.push_back(*last);
  return sweep;
}

}  // namespace emblema
