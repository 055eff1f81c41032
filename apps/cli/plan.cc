// emblema plan: what a model's cache takes, and how much of it fits.
#include <algorithm>
#include <memory>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "apps/cli/commands.h"
#include "apps/cli/counts.h"
#include "apps/cli/model_arguments.h"
#include "apps/cli/plan_output.h"

namespace emblema {
namespace {

constexpr std::uint64_t kSequencesMax = std::uint64_t{1} << 32;

struct PlanArguments {
  ModelArguments model;
  std::string at;
  std::string context;
  std::string pool;
  std::string sequences;
  std::string step_tokens;
  bool per_layer = false;
  bool json = false;
};

void add_arguments(CLI::App& app, PlanArguments* arguments) {
  add_model_arguments(app, ModelCount::kMany, &arguments->model);
  app.add_option("--at", arguments->at,
                 "Lengths to give bytes for; default 1,8k,128k within the model's positions")
      ->type_name("TOKENS");
  app.add_option("--pool", arguments->pool, "Memory of the cache: adds blocks and concurrency")
      ->type_name("SIZE");
  app.add_option("--context", arguments->context,
                 "Length that concurrency is for; default: the model's positions")
      ->type_name("TOKENS");
  app.add_option("--sequences", arguments->sequences, "Bytes of so many sequences together")
      ->type_name("N");
  app.add_option("--step-tokens", arguments->step_tokens,
                 "Most tokens of a sequence written in one step; default 2048")
      ->type_name("N");
  app.add_flag("--per-layer", arguments->per_layer, "List every layer");
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

Result<Deployment> deployment_of(const PlanArguments& arguments) {
  const auto geometry = geometry_options(arguments.model);
  if (!geometry) return propagate(geometry);
  Deployment deployment;
  deployment.kv_dtype = geometry->kv_dtype;
  deployment.indexer_dtype = geometry->indexer_dtype;
  deployment.speculative_mtp = geometry->speculative_mtp;
  deployment.block_tokens = geometry->block_tokens;
  deployment.layers = geometry->layers;
  const auto profile = profile_of(arguments.model);
  if (!profile) return propagate(profile);
  deployment.profile = *profile;
  const CountLimits tokens_limits{1, kSequenceTokensMax};
  if (!arguments.at.empty()) {
    auto lengths = parse_token_list("--at", arguments.at, tokens_limits);
    if (!lengths) return propagate(lengths);
    deployment.at_tokens = std::move(*lengths);
  }
  if (!arguments.context.empty()) {
    const auto tokens = parse_token_count("--context", arguments.context, tokens_limits);
    if (!tokens) return propagate(tokens);
    deployment.context_tokens = *tokens;
  }
  if (!arguments.pool.empty()) {
    const auto bytes = parse_size("--pool", arguments.pool);
    if (!bytes) return propagate(bytes);
    deployment.pool_bytes = *bytes;
  }
  if (!arguments.step_tokens.empty()) {
    const auto tokens = parse_token_count("--step-tokens", arguments.step_tokens, tokens_limits);
    if (!tokens) return propagate(tokens);
    deployment.step_tokens = *tokens;
  }
  if (const auto ok =
          read_count("--sequences", arguments.sequences, {1, kSequencesMax}, &deployment.sequences);
      !ok) {
    return propagate(ok);
  }
  return deployment;
}

// One token, a common prompt, and 128k or all that the model is made for.
std::vector<std::uint64_t> default_lengths(std::uint64_t max_positions) {
  constexpr std::uint64_t kPrompt = 8192;
  constexpr std::uint64_t kLong = 131'072;
  const std::uint64_t longest = max_positions == 0 ? kLong : std::min(kLong, max_positions);
  std::vector<std::uint64_t> lengths = {1};
  if (kPrompt < longest) lengths.push_back(kPrompt);
  if (longest > 1) lengths.push_back(longest);
  return lengths;
}

struct Answer {
  CapacityPlan plan;
  PlanQuestion question;
};

Result<Answer> answer(const std::string& source, const PlanArguments& arguments,
                      Deployment deployment) {
  const auto model = load_model_config(source);
  if (!model) return propagate(model);
  if (deployment.at_tokens.empty()) deployment.at_tokens = default_lengths(model->max_positions);
  if (deployment.context_tokens == 0 && model->max_positions == 0) {
    deployment.context_tokens =
        *std::max_element(deployment.at_tokens.begin(), deployment.at_tokens.end());
  }
  auto plan = plan_capacity(*model, deployment);
  if (!plan) {
    return fail(plan.error().code, fmt::format("{}: {}", model->name, plan.error().message));
  }
  return Answer{std::move(*plan), {std::move(deployment), arguments.per_layer}};
}

Outcome render(const std::vector<Answer>& answers, bool as_json) {
  if (as_json) {
    JsonOutput json;
    if (answers.size() > 1) json.begin_array();
    for (const Answer& one : answers) write_plan(one.plan, one.question.deployment, &json);
    if (answers.size() > 1) json.end_array();
    return {json.text(), {}};
  }
  Outcome outcome;
  for (const Answer& one : answers) {
    if (!outcome.output.empty()) outcome.output += '\n';
    outcome.output += plan_text(one.plan, one.question);
  }
  return outcome;
}

Result<Outcome> plan(const PlanArguments& arguments) {
  const auto deployment = deployment_of(arguments);
  if (!deployment) return propagate(deployment);
  std::vector<Answer> answers;
  for (const std::string& source : arguments.model.models) {
    auto one = answer(source, arguments, *deployment);
    if (!one) return propagate(one);
    answers.push_back(std::move(*one));
  }
  return render(answers, arguments.json);
}

}  // namespace

Command plan_command() {
  return {.name = "plan",
          .summary = "What a model's cache takes, and how much of it fits",
          .examples =
              "  emblema plan deepseek-v3\n"
              "  emblema plan deepseek-v3 llama-3-70b --at 1,8k,128k --json\n"
              "  emblema plan path/to/config.json --kv-dtype fp8_ds_mla --pool 40GiB\n"
              "  emblema plan deepseek-v4-flash --profile v4 --at 128k\n"
              "  emblema plan deepseek-v3 --speculative mtp --pool 80GB --context 32k\n",
          .not_in_release =
              "--tp --pp --pp-layers --dp-attention --dcp --pcp --gpu --gpus --hbm --bandwidth "
              "--flops --weights --engine --compare --sweep --reproduce --explain --html --svg",
          .declare = [](CLI::App& app) -> Action {
            auto arguments = std::make_shared<PlanArguments>();
            add_arguments(app, arguments.get());
            return [arguments] { return plan(*arguments); };
          }};
}

}  // namespace emblema
